"""Runs the arrival benchmark: interleaved, medians, ratios. See README.md.

arrival.py BIN_DIR [--streams N] [--rate EVENTS_A_SECOND] [--seconds S] [--repeats N]
                   [--clients ours,sink,aiohttp] [--hog both|without|with]
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
SOURCE_CPU, CLIENT_CPU = 0, 1
DEBIANS_PYTHON = "/usr/bin/python3"  # the one that python3-aiohttp installs for
FIGURES = {
    "CPU µs/event": lambda r: r["cpu_us_per_event"],
    "CPU share": lambda r: r["cpu_share"],
    "kernel P50 µs": lambda r: r["kernel_error_us"]["p50"],
    "kernel P99 µs": lambda r: r["kernel_error_us"]["p99"],
    "user P50 µs": lambda r: r["user_error_us"]["p50"],
    "user P99 µs": lambda r: r["user_error_us"]["p99"],
    "bytes/stream": lambda r: r["resident_bytes_per_stream"] or None,
}


def start(argv, cpu, **more):
    return subprocess.Popen(argv, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}), **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, source):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and source.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    sys.exit("the event source did not start")


def measure(options, client, with_hog):
    port = free_port()
    events = options.rate * options.seconds if options.rate else options.events
    source = start(
        [options.bin_dir / "event_source", str(port), str(events), str(options.rate)], SOURCE_CPU
    )
    hog = None
    try:
        wait_for(port, source)
        if with_hog:
            hog = start([sys.executable, "-c", "while True: pass"], CLIENT_CPU)
        argv = (
            [DEBIANS_PYTHON, HERE / "arrival_aiohttp.py"]
            if client == "aiohttp"
            else [options.bin_dir / "arrival_client", client]
        )
        run = start(
            [*argv, str(port), str(options.streams)], CLIENT_CPU, stdout=subprocess.PIPE, text=True
        )
        out = run.communicate(timeout=options.seconds * 20 + 120)[0]
        if run.returncode != 0:
            sys.exit(f"{client} failed: {out}")
        result = json.loads(out)
        if result["events"] != events * options.streams:
            sys.exit(f"{client} saw {result['events']} of {events * options.streams} events")
        return result
    finally:
        for process in (source, hog):
            if process is not None:
                process.kill()
                process.wait()


def median(results, figure):
    values = [figure(result) for result in results]
    return None if None in values else statistics.median(values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=50, help="events/s of a stream; 0: flat out")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--events", type=int, default=2000, help="of a stream, when flat out")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clients", default="ours,sink,aiohttp")
    parser.add_argument("--hog", choices=["both", "without", "with"], default="both")
    options = parser.parse_args()
    clients = options.clients.split(",")
    hogs = {"both": [False, True], "without": [False], "with": [True]}[options.hog]

    results = {(client, hog): [] for hog in hogs for client in clients}
    for _ in range(options.repeats):  # interleaved: drift of the machine meets all alike
        for client, hog in results:
            results[client, hog].append(measure(options, client, hog))

    print(f"{options.streams} streams, {options.rate or 'unlimited'} events/s each; ", end="")
    print(f"medians of {options.repeats}")
    print("| client | hog | " + " | ".join(FIGURES) + " | × sink |")
    print("|---|---|" + "---|" * (len(FIGURES) + 1))
    for (client, hog), runs in results.items():
        shown = [median(runs, figure) for figure in FIGURES.values()]
        sink = results.get(("sink", hog))
        ratio = median(runs, FIGURES["CPU µs/event"])
        ratio = f"{ratio / median(sink, FIGURES['CPU µs/event']):.2f}" if sink else "–"
        cells = ["–" if value is None else f"{value:,.6g}" for value in shown]
        print(f"| {client} | {'yes' if hog else 'no'} | " + " | ".join(cells) + f" | {ratio} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
