"""Runs load tools against the reference server and holds their reports against its
record. See README.md.

peers.py BUILD_DIR VENVS [--tools a,b] [--parts accuracy,faults] [--repeats N] [--work DIR]
"""

import argparse
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer  # noqa: E402
from tools import MODEL, PEERS, Case, UpgradeGate  # noqa: E402

SERVER_CPU, TOOL_CPU = 0, 1
ALL_CPUS = os.sched_getaffinity(0)
START_TIMEOUT_S = 10
# A tool waits for what never comes when the server has had nothing to do for so long.
# Before the first request it is loading its libraries.
QUIET_S, LOAD_S = 60, 600
PR_SET_CHILD_SUBREAPER = 36

PROFILE = """\
served_name: {model}
version: "1"
max_model_len: 32768
max_num_seqs: 1024
max_num_batched_tokens: 32768
prefill_rate: 1000000tok/s
base_step: {base_step}
per_decode_seq: 1us
precise_wait: 40us
{faults}
"""

ACCURACY = [
    Case("c8", input_tokens=128, output_tokens=64, requests=64, concurrency=8),
    Case("c128", input_tokens=128, output_tokens=64, requests=512, concurrency=128),
    Case("rate-40", input_tokens=128, output_tokens=64, requests=400, rate=40),
]
ACCURACY_STEP = "20ms"
START = Case("start", input_tokens=128, output_tokens=64, requests=1, concurrency=1)

FAULTY = Case("faults", input_tokens=16, output_tokens=16, requests=40, concurrency=4)
FAULTY_STEP = "3ms"
# Every second prompt is struck, by its fingerprint.
STRUCK = 2
FAULTS = {
    "none": ("nothing", ""),
    "empty_output": ("200, `[DONE]`, usage, every text empty", ""),
    "early_end": ("body ends properly after 5 of 16 tokens", "after_tokens: 5"),
    "cut_body": ("connection closed in the middle of a chunk", "after_tokens: 5"),
    "broken_framing": ("a chunk size that is no number", "after_tokens: 5"),
    "missing_done": ("everything but `[DONE]`", ""),
    "error_in_band": ('`data: {"error"…}` after 5 tokens, `[DONE]`', "after_tokens: 5"),
    "error_event": ("`event: error` after 5 tokens", "after_tokens: 5"),
    "http_500": ("status 500", "status: 500"),
    "http_503": ("status 503", "status: 503"),
    "not_a_stream": ("200 with one JSON body", ""),
    "html": ("200 with a page in text/html", ""),
    "short_output": ("8 of 16 tokens, `stop`", "tokens: 8"),
    "wrong_usage": ("usage says 15 of 16 tokens", "off_by: -1"),
    "missing_usage": ("no usage, though asked for", ""),
    "no_finish_reason": ("`finish_reason` stays null", ""),
    "after_done": ("an event after `[DONE]`", ""),
    # Our `--stall-limit` is 1 s.
    "stall": ("silent for 3 s after 5 tokens", "after_tokens: 5, for: 3s"),
    "linger": ("the body never ends after `[DONE]`", ""),
}


class Server:
    """The reference server on a core of its own."""

    def __init__(self, binary, profile, folder):
        path = folder / "profile.yaml"
        path.write_text(profile)
        self.log = open(folder / "server.log", "wb")
        self.process = subprocess.Popen(
            [binary, "--profile", path, "--record-events"],
            stdout=subprocess.PIPE,
            stderr=self.log,
            preexec_fn=lambda: os.sched_setaffinity(0, {SERVER_CPU}),
        )
        if not select.select([self.process.stdout], [], [], START_TIMEOUT_S)[0]:
            self.stop()
            sys.exit("the reference server did not start")
        self.url = self.process.stdout.readline().decode().split()[-1]

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read()

    def record(self):
        return json.loads(self.get("/upgrade_gate/requests"))["requests"]

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


@dataclasses.dataclass
class Run:
    """One run of a tool: what it said, what was so, and how the process ended."""

    ending: str  # "exit 0", "exit 1", "timeout"
    cpu_s: float
    record: list
    report: object = None  # None: it left none
    problem: str = ""


def end_group(leader, number):
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass


def children():
    text = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in text.split()}


def wait_for(process, server):
    """The exit code, or None if the tool only waits. The server's counters show its life."""
    first = last = server.get("/metrics")
    since = time.monotonic()
    while True:
        try:
            return process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        counters = server.get("/metrics")
        if counters != last:
            last, since = counters, time.monotonic()
        if time.monotonic() - since > (LOAD_S if last == first else QUIET_S):
            return None


def run_process(argv, more_environment, cpus, folder, server):
    """Runs a tool; returns how it ended and the CPU seconds of it and all that it started."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
        **more_environment,
        "HOME": str(folder),  # caches and settings of the tools stay in the run's folder
        "VLLM_NO_USAGE_STATS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": f"{pathlib.Path(argv[0]).parent}:{os.environ['PATH']}",
    }
    others = children()
    before = os.times()
    with open(folder / "output.txt", "wb") as output:
        process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        try:
            code = wait_for(process, server)
            ending = "timeout" if code is None else f"exit {code}"
            if code is None:
                # As a person would: an interrupt, so that a tool can still report.
                end_group(process.pid, signal.SIGINT)
                process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end_group(process.pid, signal.SIGKILL)
            process.wait()
    # Workers that outlived the tool became children of this process (subreaper).
    for orphan in children() - others:
        os.kill(orphan, signal.SIGKILL)
        os.waitpid(orphan, 0)
    after = os.times()
    cpu_s = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return ending, cpu_s


def run_tool(tool, case, profile, binary, tokens, cpus, folder):
    folder.mkdir(parents=True)
    server = Server(binary, profile, folder)
    try:
        argv = tool.argv(case, server.url, tokens, folder)
        ending, cpu_s = run_process(argv, tool.environment, cpus, folder, server)
        run = Run(ending, cpu_s, server.record())
    finally:
        server.stop()
    try:
        run.report = tool.read(folder)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        run.problem = f"{type(error).__name__}: {error}"
    (folder / "run.json").write_text(json.dumps(dataclasses.asdict(run)))
    return run


# What the server's record says.


def percentile(values, percent):
    """Between the two neighbours, as numpy's default and so all the peers."""
    if not values:
        return None
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def true_ttft_ms(record):
    return [
        (request["first_text_ns"] - request["arrival_ns"]) / 1e6
        for request in record
        if request["first_text_ns"] is not None
    ]


def true_inter_chunk_ms(record):
    gaps = []
    for request in record:
        events = request.get("events_ns", [])
        gaps += [(late - early) / 1e6 for early, late in zip(events, events[1:])]
    return gaps


def true_load(record):
    """(requests/s by arrival, mean concurrency) from the first arrival to the last end."""
    arrivals = sorted(request["arrival_ns"] for request in record)
    ends = [request["end_ns"] for request in record]
    wall_s = (max(ends) - arrivals[0]) / 1e9
    busy_s = sum(r["end_ns"] - r["arrival_ns"] for r in record) / 1e9
    rate = (len(arrivals) - 1) * 1e9 / (arrivals[-1] - arrivals[0]) if len(arrivals) > 1 else 0
    return rate, busy_s / wall_s


def is_struck(request):
    return int(request["fingerprint"], 16) % STRUCK == 0


def said_of_faulty(run):
    """What a tool made of the struck requests, from its own counts."""
    sent = len(run.record)
    bad = sum(is_struck(request) for request in run.record)
    if run.report is None:
        return f"no report: {'waited for ever' if run.ending == 'timeout' else run.ending}"
    succeeded, failed = run.report.succeeded, run.report.failed
    if bad == 0:
        return f"{succeeded} succeeded, {failed} failed of {sent}"
    late = ", then waited for ever" if run.ending == "timeout" else ""
    if failed == bad and succeeded == sent - bad:
        return f"failed ({failed}/{sent}){late}"
    if failed == 0 and succeeded == sent:
        return f"SUCCESS ({succeeded}/{sent}){late}"
    return f"{succeeded} succeeded, {failed} failed of {sent}, {bad} of them faulty{late}"


# The tables.


def number(value, digits=2):
    return "–" if value is None else f"{value:,.{digits}f}"


def medians(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def accuracy_row(tool, runs, start_cpu_s):
    reported = [run for run in runs if run.report is not None]
    if not reported:
        return [tool.name, f"no report ({runs[0].ending}: {runs[0].problem})"]
    cells = [tool.name]
    for truth, field in ((true_ttft_ms, "ttft_ms"), (true_inter_chunk_ms, "inter_chunk_ms")):
        for percent in (50, 99):
            said = medians(getattr(run.report, field)[percent] for run in reported)
            so = medians(percentile(truth(run.record), percent) for run in reported)
            cells.append(f"{number(said)} / {number(so)}")
    loads = [true_load(run.record) for run in reported]
    cells.append(number(medians(rate for rate, _ in loads), 1))
    cells.append(number(medians(busy for _, busy in loads), 1))
    cells.append(number(medians(run.report.requests_per_s for run in reported), 1))
    events = medians(sum(r["tokens"] for r in run.record) for run in reported)
    cpu_s = medians(run.cpu_s for run in reported)
    cells.append(number(cpu_s))
    above = cpu_s - start_cpu_s
    cells.append(number(above * 1e6 / events, 0) if above > 0 else "–")
    failed = sum(run.report.failed for run in reported)
    cells.append(str(failed))
    return cells


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row + [""] * (len(head) - len(row))) + " |")
    print(flush=True)


def profile_of(step, faults=""):
    return PROFILE.format(model=MODEL, base_step=step, faults=faults)


def fault_profile(kind, more):
    if kind == "none":
        return profile_of(FAULTY_STEP)
    kind = "http_status" if kind.startswith("http_") else kind
    keys = f"kind: {kind}, every: {STRUCK}" + (f", {more}" if more else "")
    return profile_of(FAULTY_STEP, f"faults: [{{{keys}}}]")


def measure_accuracy(tools, options, run):
    print("## Accuracy\n")
    print(
        f"Medians of {options.repeats}. Latencies in ms, said by the tool / true by the server's"
        " record; load and CPU as measured here.\n"
    )
    profile = profile_of(ACCURACY_STEP)
    starts = {tool: run(tool, START, profile, "start").cpu_s for tool in tools}
    results = {(case, tool): [] for case in ACCURACY for tool in tools}
    for repeat in range(options.repeats):  # interleaved: drift of the machine meets all alike
        for case, tool in results:
            results[case, tool].append(run(tool, case, profile, f"{case.name}-{repeat}"))
    for case in ACCURACY:
        asked = f"{case.rate} requests/s" if case.rate else f"{case.concurrency} in flight"
        print(
            f"### {case.name}: {asked}, {case.requests} requests, {case.input_tokens} tokens in,"
            f" {case.output_tokens} out, a step of {ACCURACY_STEP}\n"
        )
        head = [
            "tool", "TTFT P50", "TTFT P99", "inter-chunk P50", "inter-chunk P99",
            "true requests/s (arrivals)", "true mean in flight", "requests/s said",
            "CPU s", "µs/event above start", "failed",
        ]  # fmt: skip
        print_table(head, [accuracy_row(t, results[case, t], starts[t]) for t in tools])
    print_table(["tool", "CPU s of one request"], [[t.name, number(starts[t])] for t in tools])


def measure_faults(tools, options, run):
    print("## Faulty requests\n")
    print(f"{FAULTY.requests} requests, half of them struck, {FAULTY.concurrency} in flight.\n")
    rows = []
    kinds = options.kinds.split(",") if options.kinds else list(FAULTS)
    for kind in kinds:
        meaning, more = FAULTS[kind]
        said = []
        for tool in tools:
            result = run(tool, FAULTY, fault_profile(kind, more), f"fault-{kind}", ALL_CPUS)
            said.append(said_of_faulty(result))
        rows.append([f"`{kind}`: {meaning}", *said])
        print(f"{kind}: {said}", file=sys.stderr, flush=True)
    print_table(["a struck request", *(tool.name for tool in tools)], rows)


def find_tools(options):
    tools = [UpgradeGate(options.build / "framework/cli/upgrade-gate")]
    for executable, peer in PEERS.items():
        found = sorted(options.venvs.glob(f"*/bin/{executable}"))
        if found:
            tools.append(peer(found[0]))
        else:
            print(f"{peer.name}: not found in {options.venvs}/*/bin")
    if options.tools:
        wanted = options.tools.split(",")
        tools = [tool for tool in tools if any(name in tool.name for name in wanted)]
    return tools


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path, help="with upgrade-gate and its server")
    parser.add_argument("venvs", type=pathlib.Path, help="a folder of virtual environments")
    parser.add_argument("--tools", help="parts of their names, separated by commas")
    parser.add_argument("--parts", default="accuracy,faults")
    parser.add_argument("--kinds", help="of faults, separated by commas")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path, help="keep everything that was written here")
    options = parser.parse_args()
    # Tools run in folders of their own. Not resolved: a virtual environment is known
    # by the path that it is called by.
    options.build = options.build.absolute()
    options.venvs = options.venvs.absolute()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="peers-"))
    work = work.absolute()
    tokens = work / "tokenizer"
    tokenizer.write(tokens)
    binary = options.build / "fixtures/reference_server/upgrade-gate-server"
    tools = find_tools(options)
    print_table(["tool", "version"], [[tool.name, tool.version()] for tool in tools])

    def run(tool, case, profile, name, cpus=frozenset({TOOL_CPU})):
        folder = work / f"{name}-{tool.name.replace(' ', '-')}"
        shutil.rmtree(folder, ignore_errors=True)
        return run_tool(tool, case, profile, binary, tokens, cpus, folder)

    try:
        if "accuracy" in options.parts:
            measure_accuracy(tools, options, run)
        if "faults" in options.parts:
            measure_faults(tools, options, run)
    finally:
        if not options.work:
            shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
