"""upgrade_gate_add with the real command and gate binary, through real ctest.

ctest_integration_test plays the tools with scripts and each way to be falsely
green; here they are real, on golden evidence and on embedded servers.
Environment: as in harness.py, and CMAKE, CTEST, UPGRADE_GATE_GATES.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import harness

CMAKE, CTEST = os.environ["CMAKE"], os.environ["CTEST"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"

# Captures by copying golden evidence, and logs when; everything else is the real
# command. A second capture has half a second to show up beside the first.
SCRIPTED_CAPTURE = """#!/bin/sh
here=$(dirname "$0")
[ "$1" = capture ] || {{ echo "begin $1" >> "$here/log"; {command} "$@"; code=$?
                         echo "end $1" >> "$here/log"; exit $code; }}
echo "begin capture" >> "$here/log"
for look in 1 2 3 4 5 6 7 8 9 10; do
  [ "$(tail -n 1 "$here/log")" = "begin capture" ] || break
  sleep 0.05
done
rm -rf "$4" && cp -r "$here/evidence/$(basename "$4" .run)" "$4"
echo "end capture" >> "$here/log"
"""


class Project:
    """A project without a language that judges plans; `add` are its upgrade_gate_add lines."""

    def __init__(self, folder, add, command=harness.COMMAND, gates=os.environ["UPGRADE_GATE_GATES"]):
        self.source, self.build = folder / "source", folder / "build"
        self.source.mkdir(exist_ok=True)
        (self.source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES NONE)\nenable_testing()\n"
            f"set(UPGRADE_GATE_COMMAND [==[{command}]==])\n"
            f"set(UPGRADE_GATE_GATES [==[{gates}]==])\n"
            f"include([==[{ROOT}/ci/cmake/UpgradeGate.cmake]==])\n{add}\n")
        subprocess.run([CMAKE, "-G", "Ninja", "-S", self.source, "-B", self.build],
                       check=True, capture_output=True, timeout=120)

    def command(self, *arguments):
        return [CTEST, "--test-dir", self.build, "-L", "^upgrade-gate$", "--no-tests=error", *arguments]

    def ctest(self, *arguments, env=None):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=300,
                              env={**os.environ, **(env or {})})

    def tests(self):
        shown = subprocess.run([CTEST, "--test-dir", self.build, "--show-only=json-v1"],
                               capture_output=True, text=True, timeout=120, check=True)
        return [test["name"] for test in json.loads(shown.stdout)["tests"]]


def outcomes_of(run):
    """Test name -> "Passed", "Failed" or "Not Run", of those that ctest selected."""
    return dict(re.findall(r"Test +#\d+: (\S+) [.\s]*(?:\*\*\*)?(Passed|Failed|Not Run)", run.stdout))


def junit_of(run_folder):
    """What each gate is in a report: "passed", "failure", "error" or "skipped"."""
    root = xml.etree.ElementTree.parse(run_folder / "report/junit.xml").getroot()
    outcomes = {}
    for case in root.iter("testcase"):
        children = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[case.get("name").removeprefix("gate.")] = children[0] if children else "passed"
    return outcomes


def env_of(run_folder):
    return dict(line.split("=", 1) for line in (run_folder / "report/verdict.env").read_text().splitlines())


def fragments_of(run_folder):
    """gate id -> verdict, as each gate's own test left it."""
    found = {}
    for path in (run_folder / "fragments").iterdir():
        found[path.name.removesuffix(".json")] = json.loads(path.read_text())["verdict"]
    return found


class OnGoldenEvidence(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-ctest-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def copy(self, case, where):
        target = self.folder / where
        shutil.copytree(GOLDEN / case, target)
        return target

    def two_plans(self, arguments="", **options):
        lines = []
        for case in ("unchanged", "slower_decode"):
            self.copy(case, f"evidence/{case}")
            plan = self.folder / "evidence" / case / "plan.yaml"
            lines.append(f"upgrade_gate_add(NAME {case} PLAN {plan} {arguments.format(case=case)})")
        return Project(self.folder, "\n".join(lines), **options)

    def assert_both_reports_are_whole(self, run, folders):
        self.assertEqual(run.returncode, 8, run.stdout)
        outcomes = outcomes_of(run)
        self.assertEqual(set(outcomes.values()), {"Passed", "Failed"}, run.stdout)
        self.assertEqual(outcomes["slower_decode.gate.throughput.1k-512-c1.max_loss"], "Failed")
        self.assertEqual({outcomes[name] for name in outcomes if name.startswith("unchanged.")}, {"Passed"},
                         run.stdout)
        decisions = {"unchanged": ("accept", "0"), "slower_decode": ("reject", "10")}
        for case, folder in folders.items():
            prefix = f"{case}.gate."
            gates = {name.removeprefix(prefix) for name in outcomes if name.startswith(prefix)}
            self.assertGreater(len(gates), 4)
            self.assertEqual(set(fragments_of(folder)), gates)
            junit = junit_of(folder)
            self.assertLessEqual(gates, set(junit))
            for gate in gates:
                red = outcomes[prefix + gate] == "Failed"
                self.assertEqual(junit[gate] in ("failure", "error"), red, (case, gate, junit[gate]))
            decision, code = decisions[case]
            self.assertEqual(env_of(folder)["UPGRADE_GATE_DECISION"], decision)
            self.assertEqual(env_of(folder)["UPGRADE_GATE_EXIT_CODE"], code)
            self.assertTrue((folder / "report/summary.txt").read_text())

    def test_two_plans_at_once_leave_whole_fragments_and_reports(self):
        project = self.two_plans("EVIDENCE ../evidence/{case} ATTACHMENTS absolute")
        folders = {case: self.folder / "evidence" / case for case in ("unchanged", "slower_decode")}
        for _ in range(3):
            self.assert_both_reports_are_whole(project.ctest("-j8"), folders)

    def test_captures_of_two_plans_never_overlap_anything(self):
        script = self.folder / "command"
        script.write_text(SCRIPTED_CAPTURE.format(command=harness.COMMAND))
        script.chmod(0o755)
        project = self.two_plans(command=script)
        run = project.ctest("-j8")
        folders = {case: project.build / f"{case}.run" for case in ("unchanged", "slower_decode")}
        self.assert_both_reports_are_whole(run, folders)
        log = (self.folder / "log").read_text().splitlines()
        self.assertEqual(log.count("begin capture"), 2)
        for at, line in enumerate(log):
            if line == "begin capture":
                self.assertEqual(log[at + 1], "end capture", log)

    def test_a_failed_capture_gives_a_report_that_says_so(self):
        # The golden plans pin servers that are not there, so nothing can boot.
        project = self.two_plans()
        run = project.ctest("-j8")
        self.assertEqual(run.returncode, 8, run.stdout)
        outcomes = outcomes_of(run)
        for case in ("unchanged", "slower_decode"):
            folder = project.build / f"{case}.run"
            self.assertEqual(outcomes.pop(f"{case}.capture"), "Failed")
            self.assertEqual(outcomes.pop(f"{case}.report"), "Failed")
            self.assertEqual(env_of(folder)["UPGRADE_GATE_DECISION"], "inconclusive")
            self.assertNotEqual(env_of(folder)["UPGRADE_GATE_EXIT_CODE"], "0")
            self.assertIn("NO VERDICT", (folder / "report/summary.txt").read_text())
            self.assertNotIn("passed", junit_of(folder).values())
            self.assertTrue(junit_of(folder))
        self.assertEqual(set(outcomes.values()), {"Not Run"}, run.stdout)

    def test_the_numbers_of_a_gate_reach_the_file_for_a_dashboard(self):
        project = self.two_plans("EVIDENCE ../evidence/{case}")
        project.ctest("-M", "Experimental", "-T", "Test")
        (results,) = project.build.glob("Testing/*/Test.xml")
        for test in xml.etree.ElementTree.parse(results).getroot().iter("Test"):
            if test.findtext("Name") != "slower_decode.gate.throughput.1k-512-c1.max_loss":
                continue
            numbers = {each.get("name"): each.findtext("Value") for each in test.iter("NamedMeasurement")}
            self.assertAlmostEqual(float(numbers["estimate"]), 0.75, places=2)
            self.assertEqual(float(numbers["threshold"]), 0.97)
            return
        self.fail("the gate is not in Test.xml")

    def test_every_allowed_name_selects_exactly_its_gate(self):
        letters = "abcdefghijklmnopqrstuvwxyz"
        ids = [
            letters.upper() + "0123456789._-",
            letters + "-_.9876543210",
            # Prefixes and look-alikes of each other, to a regular expression and to a gtest filter.
            "ttft", "ttft-p99", "ttft.p99", "ttft_p99", "ttftXp99", "ttft-", "ttft.", "ttft..",
            "a", "a.", "a.b", "axb", "a.b.c", "a-b", "a--", "0", "00", "0-", "own.gate.a", "x" * 64,
        ]
        text = (GOLDEN / "unchanged/plan.yaml").read_text()
        workload = text[:text.index("\ngates:\n")]
        gates = "".join(f'  - failures: {{kind: any, max_rate: 5%, name: "{name}"}}\n' for name in ids)
        run_folder = self.copy("unchanged", "run")
        plan = self.folder / "plan.yaml"
        plan.write_text(f"{workload}\ngates:\n{gates}")
        project = Project(self.folder, f"upgrade_gate_add(NAME own PLAN {plan} EVIDENCE {run_folder})")
        self.assertEqual(project.tests(), ["own.evidence", *(f"own.gate.{name}" for name in ids), "own.report"])
        for name in ids:
            with self.subTest(name=name):
                shutil.rmtree(run_folder / "fragments", ignore_errors=True)
                escaped = re.sub(r"([.\\+])", r"\\\1", f"own.gate.{name}")
                run = project.ctest("-V", "-R", f"^{escaped}$", "-FC", ".*")
                self.assertEqual(run.returncode, 0, run.stdout)
                self.assertEqual(outcomes_of(run), {"own.evidence": "Passed", f"own.gate.{name}": "Passed"})
                self.assertEqual(re.findall(r"PASS (\S+): ", run.stdout), [name])
                self.assertEqual(list(fragments_of(run_folder)), [name])


class OnEmbeddedServers(harness.Experiment):
    def test_running_one_gate_or_the_failed_ones_again_boots_nothing(self):
        self.write_plan(gates=harness.GATES + "  - throughput: {name: strict, case: long-c4, min: 1000000tok/s}\n")
        project = Project(self.folder, f"upgrade_gate_add(NAME small PLAN {self.plan} RUN {self.run_folder})")
        first = project.ctest("-V")
        self.assertEqual(first.returncode, 8, first.stdout)
        red = {name for name, outcome in outcomes_of(first).items() if outcome != "Passed"}
        self.assertEqual(red, {"small.gate.strict"}, first.stdout)
        self.assertNotIn("nothing is booted", first.stdout)
        seal = harness.sha256(self.run_folder / "evidence/SHA256SUMS")

        (self.folder / "baseline.yaml").unlink()  # now nothing could boot
        for arguments, gate, outcome in (
            (["--rerun-failed"], "small.gate.strict", "Failed"),
            (["-R", r"^small\.gate\.strict$"], "small.gate.strict", "Failed"),
            (["-R", r"^small\.gate\.provenance$"], "small.gate.provenance", "Passed"),
        ):
            with self.subTest(arguments=arguments):
                again = project.ctest("-V", *arguments)
                expected = dict.fromkeys(("small.capture", "small.evidence", "small.report"), "Passed")
                self.assertEqual(outcomes_of(again), {**expected, gate: outcome}, again.stdout)
                self.assertIn("nothing is booted", again.stdout)
                self.assertEqual(harness.sha256(self.run_folder / "evidence/SHA256SUMS"), seal)


if __name__ == "__main__":
    unittest.main()
