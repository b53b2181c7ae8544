"""The command on the golden evidence: exit codes and what a person reads."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

COMMAND = os.environ["UPGRADE_GATE"]
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
ACCEPT, REJECT, INCONCLUSIVE, USAGE, EVIDENCE = 0, 10, 11, 12, 14


class Golden(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-golden-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def call(self, *arguments):
        return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60)

    def run_of(self, case):
        run = self.folder / case
        shutil.copytree(GOLDEN / case, run)
        return run

    def judge(self, case, expect):
        run = self.run_of(case)
        result = self.call("judge", run)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        # A page is wrapped for a terminal; what it says does not depend on where.
        return run, re.sub(r"\s+", " ", result.stdout)

    def test_a_report_that_is_begun_fails_until_the_gates_are_judged(self):
        run = self.run_of("unchanged")
        self.assertEqual(self.call("report", run).returncode, ACCEPT)
        self.assertIn("accept", (run / "report/verdict.env").read_text().lower())
        begun = self.call("verify", run, "--begin-report")
        self.assertEqual(begun.returncode, ACCEPT, begun.stdout + begun.stderr)
        self.assertNotIn("accept", (run / "report/verdict.env").read_text().lower())
        self.assertIn("the gates have not been judged yet", (run / "report/junit.xml").read_text())
        # Without sound evidence no gate runs, so that no earlier result may be found.
        (run / "fragments").mkdir()
        (run / "fragments/provenance.json").write_text("an earlier result")
        with (run / "judgement/verdict.json").open("a") as verdict:
            verdict.write("\n")
        self.assertEqual(self.call("verify", run, "--begin-report").returncode, EVIDENCE)
        self.assertFalse((run / "fragments").exists())

    def test_an_unchanged_candidate_is_accepted(self):
        _, page = self.judge("unchanged", ACCEPT)
        self.assertTrue(page.startswith("ACCEPT unchanged"))

    def test_a_slower_decode_is_rejected_with_its_numbers(self):
        _, page = self.judge("slower_decode", REJECT)
        self.assertIn(
            "1k-512-c1: output throughput 115.2 → 86.4 tok/s, candidate/baseline ratio 0.750 [0.733, 0.768] "
            "(90 % interval, 3 rounds, 1 boot an arm, boot noise 1 % assumed; higher is better), "
            "allowed loss 3 %: regression", page)

    def test_empty_outputs_break_the_budget_and_show_a_dagger(self):
        _, page = self.judge("empty_outputs", REJECT)
        self.assertIn("candidate: empty_output 40 of 984 sent requests (4.07 %)", page)
        self.assertIn("budget 2 %: over the budget", page)
        self.assertIn("1k-128-c4 † 500.00 600.00 no gain assigned † 3/3 0/492 40/492", page)

    def test_too_few_rounds_are_inconclusive(self):
        _, page = self.judge("too_few_rounds", INCONCLUSIVE)
        self.assertIn("one round shows no spread", page)

    def test_every_case_verifies_and_its_json_is_what_judge_prints(self):
        cases = sorted(path.parent.name for path in GOLDEN.glob("*/verdict.json"))
        self.assertEqual(len(cases), 5)
        for case in cases:
            with self.subTest(case=case):
                run = self.run_of(case)
                self.assertEqual(self.call("verify", run).returncode, ACCEPT)
                printed = self.call("judge", run, "--format", "json").stdout
                self.assertEqual(printed, (GOLDEN / case / "verdict.json").read_text())
                self.assertEqual(printed, (run / "judgement/verdict.json").read_text())

    def test_explain_gives_the_formula_and_names_gates_it_does_not_know(self):
        run = self.run_of("slower_decode")
        page = self.call("explain", run, "throughput.1k-512-c1.max_loss").stdout
        for wanted in ("115.2", "86.4", "0.750", "0.97", "t(0.95) = 2.920"):
            self.assertIn(wanted, page)
        unknown = self.call("explain", run, "throughput.1k-512-c1.max_los")
        self.assertEqual(unknown.returncode, USAGE)
        self.assertIn('did you mean "throughput.1k-512-c1.max_loss"?', unknown.stderr)

    def test_verify_says_in_json_what_is_wrong(self):
        run = self.run_of("unchanged")
        self.assertTrue(json.loads(self.call("verify", run, "--format", "json").stdout)["ok"])
        (run / "evidence/boots/01-baseline/boot.json").unlink()
        result = self.call("verify", run, "--format", "json")
        self.assertEqual(result.returncode, EVIDENCE)
        findings = json.loads(result.stdout)["findings"]
        self.assertEqual([finding["file"] for finding in findings], ["evidence/boots/01-baseline/boot.json"])

    def test_a_folder_without_evidence_is_no_success(self):
        for command in (["judge"], ["verify"], ["report"]):
            with self.subTest(command=command):
                self.assertEqual(self.call(*command, self.folder / "nothing").returncode, EVIDENCE)

    def test_a_command_line_error_is_a_usage_error(self):
        for arguments in ([], ["judge"], ["jugde", "x"], ["judge", "x", "--format", "xml"], ["verify", "--max-age"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.call(*arguments).returncode, USAGE)
        self.assertEqual(self.call("--help").returncode, ACCEPT)


if __name__ == "__main__":
    unittest.main()
