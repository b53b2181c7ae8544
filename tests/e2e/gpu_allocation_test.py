"""The GPUs that CTest allocates reach the server, the evidence and the verdict."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from ctest_e2e_test import Project
from harness import ACCEPT, CRASHING, REJECT, USAGE, Experiment, wait_until

VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def allocation(*ids):
    """What CTest sets for one group of that many GPUs."""
    return {
        "CTEST_RESOURCE_GROUP_COUNT": "1",
        "CTEST_RESOURCE_GROUP_0": "gpus",
        "CTEST_RESOURCE_GROUP_0_GPUS": ";".join(f"id:{i},slots:1" for i in ids),
    }


class GpuAllocation(Experiment):
    def boots(self):
        paths = sorted(self.run_folder.glob("evidence/boots/*/boot.json"))
        return [json.loads(path.read_text()) for path in paths]

    def seen_by_servers(self, runner):
        """The GPU variables of every server that ran while `runner` did."""
        seen = {}
        while runner.poll() is None:
            for pid in self.servers():
                try:
                    text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode()
                except OSError:
                    continue
                variables = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
                if "UPGRADE_GATE_BOOT" in variables:
                    seen[variables["UPGRADE_GATE_BOOT"]] = [variables.get(name) for name in VARIABLES]
        return list(seen.values())

    def test_ctests_allocation_is_what_every_server_sees(self):
        specification = self.folder / "gpus.json"
        gpus = [{"id": str(i), "slots": 1} for i in (10, 3)]
        specification.write_text(json.dumps({"version": {"major": 1, "minor": 0}, "local": [{"gpus": gpus}]}))
        project = Project(self.folder, f"upgrade_gate_add(NAME small PLAN {self.plan} RUN {self.run_folder} "
                                       "RESOURCE_GROUPS 2,gpus:1)")
        with subprocess.Popen(project.command("--resource-spec-file", specification, "--output-on-failure"),
                              stdout=subprocess.PIPE, text=True) as ctest:
            seen = self.seen_by_servers(ctest)
            output = ctest.stdout.read()
            self.assertEqual(ctest.wait(), 0, output)
        self.assertEqual(seen, [["3,10", "3,10"]] * 2)
        self.assertEqual([boot["gpus"] for boot in self.boots()], [["3", "10"]] * 2)
        summary = json.loads((self.run_folder / "evidence/summary.json").read_text())
        self.assertEqual([boot["gpus"] for boot in summary["boots"]], [["3", "10"]] * 2)
        self.assertEqual(self.call("verify", self.run_folder).returncode, ACCEPT)

    def test_without_an_allocation_nothing_is_set_or_said(self):
        with subprocess.Popen([os.environ["UPGRADE_GATE"], "capture", self.plan, "--run", self.run_folder],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as runner:
            seen = self.seen_by_servers(runner)
        self.assertEqual(runner.returncode, ACCEPT)
        self.assertEqual(seen, [[None, None]] * 2)
        for boot in self.boots():
            self.assertNotIn("gpus", boot)

    def test_a_capture_resumed_on_other_gpus_is_not_pooled(self):
        crash = self.call("capture", self.plan, "--run", self.run_folder, binary=CRASHING,
                          env={"UPGRADE_GATE_TEST_CRASH": "between-boots", **allocation(0)})
        self.assertEqual(crash.returncode, -signal.SIGKILL, crash.stderr)
        wait_until(lambda: not self.servers(), 10, "no server left after the runner's death")
        self.capture(binary=CRASHING, env=allocation(1))
        verdict = json.loads(self.judge("--format", "json", expect=REJECT).stdout)
        gates = {gate["id"]: gate for gate in verdict["gates"]}
        self.assertEqual(gates["provenance"]["finding"], "gpus_differ")
        self.assertIn("measured on different GPUs: GPUs 0 in boot 1 and GPUs 1 in boot 2",
                      gates["provenance"]["message"])
        relative = next(gate for id, gate in gates.items() if id.startswith("throughput."))
        self.assertEqual(relative["verdict"], "inconclusive")

    def test_half_an_allocation_is_a_usage_error_that_names_the_variable(self):
        result = self.capture(expect=USAGE, env={**allocation(0), "CTEST_RESOURCE_GROUP_COUNT": "2"})
        self.assertIn("CTEST_RESOURCE_GROUP_1: is not set", result.stderr)
        self.assertNotIn("starting", result.stderr)
        self.assertIn("CTEST_RESOURCE_GROUP_1", (self.run_folder / "report/junit.xml").read_text())

    def test_a_plan_that_names_gpus_itself_is_refused_before_anything_starts(self):
        text = self.plan.read_text()
        arm = "    replace: {--profile: candidate.yaml}\n"
        self.plan.write_text(text.replace(arm, arm + '    env: {CUDA_VISIBLE_DEVICES: "7"}\n'))
        result = self.capture(expect=USAGE, env=allocation(0))
        self.assertIn('arm "candidate": env CUDA_VISIBLE_DEVICES', result.stderr)
        self.assertNotIn("starting", result.stderr)


if __name__ == "__main__":
    unittest.main()
