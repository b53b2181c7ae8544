"""Ways in which a gate goes green falsely, played with real ctest, command and
gate binary; ci/false-greens.md has the whole list and says which test plays which.

Further environment: UPGRADE_GATE_MISUSED, a gate binary that misbehaves.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from ctest_e2e_test import CMAKE, CTEST, ROOT, Project, env_of, junit_of
from harness import (ACCEPT, COMMAND, CRASHING, EVIDENCE, INCONCLUSIVE, INFRASTRUCTURE, NOTHING_RAN, REJECT,
                     USAGE, Experiment, sha256, wait_until)

GATES, MISUSED = os.environ["UPGRADE_GATE_GATES"], os.environ["UPGRADE_GATE_MISUSED"]

FAILED = 8  # ctest's exit code for failed tests and, with --no-tests=error, for none
IDS = ("throughput.long-c4.max_loss", "failures.any.candidate", "provenance")
GATE_TESTS = tuple(f"small.gate.{i}" for i in IDS)
# Without the set-ups and clean-ups that CTest would add.
GATES_ALONE = ("-R", "[.]gate[.]", "-FA", ".*")
CAPTURE_ALONE = ("-R", "[.]capture$", "-FA", ".*")

IMPOSSIBLE = "  - throughput: {name: impossible, case: long-c4, min: 1000000tok/s}\n"


class FalseGreens(Experiment):
    @classmethod
    def setUpClass(cls):
        cls.sealed = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-sealed-")) / "run"
        cls.addClassCleanup(shutil.rmtree, cls.sealed.parent)

    def measured(self):
        """Puts sealed evidence of the plan into the run folder; measures once for all tests."""
        if not self.sealed.exists():
            self.capture()
            shutil.copytree(self.run_folder, self.sealed)
        elif not self.run_folder.exists():
            shutil.copytree(self.sealed, self.run_folder)

    def project(self, more="", **tools):
        add = f"upgrade_gate_add(NAME small PLAN {self.plan} RUN {self.run_folder})\n{more}"
        return Project(self.folder, add, **tools)

    def ctest(self, project, *arguments, expect, env=None):
        """What each test did: run (and passed), fail or notrun."""
        results = project.build / "ctest.xml"
        results.unlink(missing_ok=True)
        run = project.ctest(*arguments, "--output-on-failure", "--output-junit", results, env=env)
        self.output = run.stdout
        self.assertEqual(run.returncode, expect, run.stdout)
        cases = xml.etree.ElementTree.parse(results).getroot().iter("testcase")
        return {case.get("name"): case.get("status") for case in cases}

    def assert_no_verdict(self, code):
        """The next stage is told nothing to go on by, and no gate passed in our JUnit."""
        self.assertEqual(env_of(self.run_folder)["UPGRADE_GATE_DECISION"], "inconclusive")
        self.assertEqual(env_of(self.run_folder)["UPGRADE_GATE_EXIT_CODE"], str(code))
        self.assertTrue({"failure", "error"} & set(junit_of(self.run_folder).values()))
        self.assertNotIn("passed", [junit_of(self.run_folder).get(id) for id in IDS])

    def assert_each_gate_is_red_in_our_junit(self):
        junit = junit_of(self.run_folder)
        self.assertLessEqual({junit[id] for id in IDS}, {"failure", "error"})

    def test_3_tests_are_listed_from_the_plan_that_they_judge(self):
        self.measured()
        strict = self.folder / "strict.yaml"
        self.write_plan(gates=IMPOSSIBLE, path=strict)
        theirs = shutil.copytree(self.run_folder, self.folder / "theirs")
        project = self.project(more=f"upgrade_gate_add(NAME strict PLAN {strict} EVIDENCE {theirs})")
        ran = self.ctest(project, expect=FAILED)
        gates = {name: status for name, status in ran.items() if ".gate." in name}
        self.assertEqual(gates, {**dict.fromkeys(GATE_TESTS, "run"), "strict.gate.impossible": "fail"})
        # An edited plan shows at once, without configuring again.
        self.write_plan(gates=IMPOSSIBLE.replace("impossible", "renamed"), path=strict)
        ran = self.ctest(project, "-R", "strict.gate", expect=FAILED)
        self.assertEqual([name for name in ran if ".gate." in name], ["strict.gate.renamed"])

    def test_4_without_their_set_ups_gates_believe_no_evidence(self):
        project = self.project()
        ran = self.ctest(project, *GATES_ALONE, expect=FAILED)
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"fail"}, "there is no evidence")
        self.measured()
        ran = self.ctest(project, *GATES_ALONE, expect=0)
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"run"}, "evidence of this plan serves")
        self.write_plan(seed=8)
        ran = self.ctest(project, *GATES_ALONE, expect=FAILED)
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"fail"}, "it is another plan's evidence")
        self.assertIn("is evidence of another workload", self.output)

    def test_5_a_misspelt_label_is_red_through_the_shipped_preset(self):
        project = self.project()
        shutil.copy(ROOT / "CMakePresets.json", project.source)

        def run(*command):
            return subprocess.run(command, cwd=project.source, capture_output=True, text=True, timeout=120)

        configured = run(CMAKE, "--preset", "release")
        self.assertEqual(configured.returncode, 0, configured.stderr)
        build = project.source / "build/release"
        self.assertEqual(run(CTEST, "--test-dir", build, "-L", "typo").returncode, 0, "so does ctest itself")
        misspelt = run(CTEST, "--preset", "upgrade-gate", "-L", "typo")
        self.assertEqual(misspelt.returncode, FAILED, misspelt.stdout + misspelt.stderr)
        self.assertIn("No tests were found", misspelt.stdout + misspelt.stderr)

    def test_7_a_gate_that_ends_with_0_and_no_verdict_is_red_in_the_report(self):
        self.measured()
        project = self.project(gates=MISUSED)
        ran = self.ctest(project, expect=FAILED, env={"UPGRADE_GATE_TEST_MISUSE": "hard-exit"})
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"run"}, "CTest sees nothing but 0")
        self.assertEqual(ran["small.report"], "fail")
        self.assert_each_gate_is_red_in_our_junit()
        self.assert_no_verdict(NOTHING_RAN)

    def test_9_ctests_own_junit_says_skipped_and_ours_says_failed(self):
        self.write_profiles(candidate_extra='exit_at_start: {code: 3, after: 0s, line: "no such device"}')
        self.write_plan()
        project = self.project()
        ran = self.ctest(project, expect=FAILED)
        self.assertEqual(ran["small.capture"], "fail")
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"notrun"})
        self.assertIn("<skipped", (project.build / "ctest.xml").read_text())
        self.assert_no_verdict(EVIDENCE)

    def test_10_sharding_repeating_and_filtering_variables_change_nothing(self):
        self.measured()
        self.write_plan(gates=IMPOSSIBLE)
        project = self.project()
        for variables in ({"GTEST_TOTAL_SHARDS": "2", "GTEST_SHARD_INDEX": "1"}, {"GTEST_REPEAT": "0"},
                          {"GTEST_FILTER": "-*"}):
            with self.subTest(**variables):
                shutil.rmtree(self.run_folder / "fragments", ignore_errors=True)
                ran = self.ctest(project, expect=FAILED, env=variables)
                self.assertEqual(ran["small.gate.impossible"], "fail")
                self.assertIn("FAIL impossible: ", self.output)
                self.assertEqual(ran["small.report"], "run", "the gate has left its result")

    def test_11_a_dead_capture_leaves_a_failing_report(self):
        project = self.project(command=CRASHING)
        self.ctest(project, expect=0)
        self.assertEqual(env_of(self.run_folder)["UPGRADE_GATE_DECISION"], "accept")
        self.write_plan(seed=8)
        # As after an interrupted ctest: nothing runs after the capture.
        ran = self.ctest(project, *CAPTURE_ALONE, expect=FAILED,
                         env={"UPGRADE_GATE_TEST_CRASH": "mid-round"})
        self.assertEqual(ran["small.capture"], "fail")
        self.assert_no_verdict(INFRASTRUCTURE)
        self.assertIn("the capture has started and has not finished",
                      (self.run_folder / "report/junit.xml").read_text())
        wait_until(lambda: not self.servers(), 10, "no server left after the runner's death")

    def test_11_a_gate_that_aborts_is_named_by_the_report(self):
        self.measured()
        project = self.project(gates=MISUSED)
        ran = self.ctest(project, expect=FAILED, env={"UPGRADE_GATE_TEST_MISUSE": "abort"})
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"fail"})
        self.assert_each_gate_is_red_in_our_junit()
        self.assert_no_verdict(NOTHING_RAN)

    def test_12_another_digest_inherits_no_verdict(self):
        self.measured()
        project = self.project()
        self.ctest(project, expect=0)
        candidate = self.folder / "candidate.yaml"
        candidate.write_text(candidate.read_text().replace("base_step: 2ms", "base_step: 20ms"))
        self.write_plan()
        ran = self.ctest(project, *GATES_ALONE, expect=FAILED)
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"fail"})
        ran = self.ctest(project, "-V", expect=FAILED)
        self.assertIn("belongs to another workload: moved aside to evidence.1", self.output)
        self.assertEqual({name for name, status in ran.items() if status != "run"},
                         {"small.gate.throughput.long-c4.max_loss"}, "the slow candidate was measured")
        self.assertEqual(env_of(self.run_folder)["UPGRADE_GATE_DECISION"], "reject")
        plan = json.loads((self.run_folder / "evidence/plan.resolved.json").read_text())
        self.assertIn(sha256(candidate), json.dumps(plan))

    def test_13_a_crash_that_exits_with_1_is_no_reject(self):
        self.measured()
        project = self.project(gates=MISUSED)
        ran = self.ctest(project, expect=FAILED, env={"UPGRADE_GATE_TEST_MISUSE": "sanitizer"})
        self.assertEqual({ran[name] for name in GATE_TESTS}, {"fail"})
        self.assert_each_gate_is_red_in_our_junit()
        self.assert_no_verdict(NOTHING_RAN)

    def test_13_no_exit_code_of_ours_is_below_10_but_0(self):
        self.measured()
        run, plan = self.run_folder, self.plan
        strict = self.folder / "strict.yaml"
        # A gain that was not reached, and one that the few rounds cannot show.
        self.write_plan(gates=IMPOSSIBLE, path=strict)
        undecided = self.folder / "undecided.yaml"
        self.write_plan(gates="  - failures: {name: rare, kind: any, arm: candidate, max_rate: 1%}\n",
                        path=undecided)
        broken = self.folder / "broken.yaml"
        broken.write_text("version: 1\nnmae: x\n")
        blocked = self.folder / "blocked"
        blocked.write_text("a file where a folder must be")
        nowhere = self.folder / "nowhere"
        table = [
            (COMMAND, ("--version",), ACCEPT),
            (COMMAND, (), USAGE),
            (COMMAND, ("juge", run), USAGE),
            (COMMAND, ("judge",), USAGE),
            (COMMAND, ("judge", run, "--format", "xml"), USAGE),
            (COMMAND, ("plan", "check", broken), USAGE),
            (COMMAND, ("capture", plan, "--run", run, "--host-lock", "maybe"), USAGE),
            (COMMAND, ("capture", plan, "--run", blocked), INFRASTRUCTURE),
            (COMMAND, ("judge", run), ACCEPT),
            (COMMAND, ("judge", run, "--plan", strict), REJECT),
            (COMMAND, ("judge", run, "--plan", undecided), INCONCLUSIVE),
            (COMMAND, ("judge", nowhere), EVIDENCE),
            (COMMAND, ("report", run, "--fragments"), NOTHING_RAN),
            (GATES, ("--plan", plan, "--list"), ACCEPT),
            (GATES, ("--plan", plan, "--run", run, "--gate=provenance"), ACCEPT),
            (GATES, ("--plan", strict, "--run", run, "--gate=impossible"), REJECT),
            (GATES, ("--plan", undecided, "--run", run, "--gate=rare"), INCONCLUSIVE),
            (GATES, ("--help",), USAGE),
            (GATES, ("--plan", broken, "--list"), USAGE),
            (GATES, ("--plan", plan, "--run", nowhere, "--gate=provenance"), EVIDENCE),
            (GATES, ("--plan", plan, "--run", run, "--gate=provenanc"), NOTHING_RAN),
        ]
        for binary, arguments, code in table:
            result = self.call(*arguments, binary=binary)
            self.assertEqual(result.returncode, code, (arguments, result.stdout, result.stderr))
        self.assertEqual({code for _, _, code in table}, {0, *range(10, 16)})


if __name__ == "__main__":
    unittest.main()
