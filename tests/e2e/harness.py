"""What the end-to-end tests share: a small plan on two real embedded servers.

The binaries come from the environment that CMake sets: UPGRADE_GATE (the
command), UPGRADE_GATE_CRASHING (the same, killing itself at named moments),
UPGRADE_GATE_SERVER.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

COMMAND = os.environ["UPGRADE_GATE"]
CRASHING = os.environ["UPGRADE_GATE_CRASHING"]
SERVER = os.environ["UPGRADE_GATE_SERVER"]

ACCEPT, REJECT, INCONCLUSIVE, USAGE, INFRASTRUCTURE, EVIDENCE, NOTHING_RAN = 0, 10, 11, 12, 13, 14, 15

PROFILE = """\
served_name: tiny
version: "{version}"
max_model_len: 4096
max_num_seqs: 8
max_num_batched_tokens: 512
prefill_rate: {prefill_rate}
base_step: 2ms
per_decode_seq: 0.1ms
time_scale: 1
{extra}
"""

PLAN = """\
version: 1
name: small
model: {{served_name: tiny}}
server:
  launcher: process
  command: [--profile, baseline.yaml, --port, $PORT]
  ready: {{timeout: 30s}}
  stop: {{timeout: 5s}}
arms:
  baseline:
    executable: {{path: "{server}", sha256: "{server_sha256}"}}
    files: [{{path: baseline.yaml, sha256: "{baseline_sha256}"}}]
  candidate:
    like: baseline
    replace: {{--profile: candidate.yaml}}
    files: [{{path: candidate.yaml, sha256: "{candidate_sha256}"}}]
boot_noise: {{value: 0%, reason: simulated}}
workload:
  prompts: {{kind: synthetic-tokens, seed: {seed}}}
  rounds: 2
  guard: {{consecutive_failures: 4}}
  request_timeout: 20s
  stall_limit: 5s
  cases:
{cases}
gates:
{gates}
"""

CASES = """\
    - {name: short-c2, input_tokens: 128, output_tokens: 16, concurrency: 2, requests: 6}
    - {name: long-c4, input_tokens: 512, output_tokens: 24, concurrency: 4, requests: 8}
"""

GATES = """\
  - throughput: {case: long-c4, max_loss: 60%}
  - failures: {kind: any, arm: candidate, max_rate: 20%}
  - provenance: {}
"""


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def server_processes(marker):
    """Processes whose command line names this test's folder: its servers."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            folder = os.readlink(entry / "cwd")
        except OSError:
            continue
        if folder == marker and "--profile" in command:
            found.append(int(entry.name))
    return found


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)  # between two looks; the condition decides


class Experiment(unittest.TestCase):
    """A folder with two profiles and a plan; everything is gone afterwards."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-e2e-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.assert_no_server_left)
        self.run_folder = self.folder / "run"
        # Captures of other builds on this machine are none of these tests' business.
        os.environ["UPGRADE_GATE_HOST_LOCK"] = str(self.folder / "host.lock")
        self.plan = self.folder / "plan.yaml"
        self.write_profiles()
        self.write_plan()

    def write_profiles(self, baseline_extra="", candidate_extra=""):
        for name, version, rate, extra in (
            ("baseline", "1.0", "20000tok/s", baseline_extra),
            ("candidate", "1.1", "40000tok/s", candidate_extra),
        ):
            text = PROFILE.format(version=version, prefill_rate=rate, extra=extra)
            (self.folder / f"{name}.yaml").write_text(text)

    def write_plan(self, gates=GATES, seed=7, path=None, **changes):
        values = {
            "server": SERVER,
            "server_sha256": sha256(SERVER),
            "baseline_sha256": sha256(self.folder / "baseline.yaml"),
            "candidate_sha256": sha256(self.folder / "candidate.yaml"),
            "seed": seed,
            "cases": CASES,
            "gates": gates,
        }
        values.update(changes)
        (path or self.plan).write_text(PLAN.format(**values))

    def call(self, *arguments, binary=COMMAND, env=None, timeout=120):
        return subprocess.run(
            [binary, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(env or {})},
        )

    def capture(self, expect=ACCEPT, **options):
        result = self.call("capture", self.plan, "--run", self.run_folder, **options)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def judge(self, *arguments, expect):
        result = self.call("judge", self.run_folder, *arguments)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def servers(self):
        return server_processes(str(self.folder))

    def assert_no_server_left(self):
        self.assertEqual(self.servers(), [])

    def rounds(self):
        """(case, arm, round) -> number of rounds that count, and how many are superseded."""
        counted, superseded = {}, 0
        for path in self.run_folder.glob("evidence/rounds/*/*/round.json"):
            if ".superseded" in path.parent.name:
                superseded += 1
                continue
            record = json.loads(path.read_text())
            key = (record["case"], record["arm"], record["round"])
            counted[key] = counted.get(key, 0) + 1
        return counted, superseded

    def assert_every_round_once(self):
        counted, superseded = self.rounds()
        expected = {
            (case, arm, number): 1
            for case in ("short-c2", "long-c4")
            for arm in ("baseline", "candidate")
            for number in (1, 2)
        }
        self.assertEqual(counted, expected)
        return superseded
