"""junit.xml as others read it: libxml2 (xmllint), expat (xml.etree), and junitparser,
which also decides whether a report is green. Runs the real command on the golden
evidence and takes apart the reports of every kind that junit_samples writes.

UPGRADE_GATE_REGENERATE=1 writes tests/golden/*/junit.xml anew; read what changed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import junitparser

COMMAND = os.environ["UPGRADE_GATE"]
SAMPLES = os.environ["UPGRADE_GATE_JUNIT_SAMPLES"]
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
CASES = {"unchanged": 0, "slower_decode": 10, "empty_outputs": 10, "too_few_rounds": 11, "article": 11}
ACCEPT, USAGE, INFRASTRUCTURE, EVIDENCE = 0, 12, 13, 14
OUTCOMES = ("failure", "error", "skipped")


def by_expat(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    cases = root.findall("testsuite/testcase")
    count = lambda outcome: sum(case.find(outcome) is not None for case in cases)
    return {
        "counted": (len(cases), *map(count, OUTCOMES)),
        "declared": {
            tuple(int(element.get(name)) for name in ("tests", "failures", "errors", "skipped"))
            for element in (root, root.find("testsuite"))
        },
        "names": [case.get("name") for case in cases],
    }


def xpath(path, expression):
    result = subprocess.run(["xmllint", "--nonet", "--xpath", expression, path], capture_output=True, timeout=60)
    if result.returncode != 0:
        raise AssertionError(f"xmllint: {path}: {result.stderr.decode(errors='replace')[:2000]}")
    return result.stdout.decode().removesuffix("\n")


def by_libxml2(path):
    one, separator = "/testsuites/testsuite", ", ' ', "
    counts = [f"count({one}/testcase)"] + [f"count({one}/testcase[{name}])" for name in OUTCOMES]
    declared = [f"{place}/@{name}" for place in ("/testsuites", one)
                for name in ("tests", "failures", "errors", "skipped")]
    numbers = [int(word) for word in xpath(path, f"concat({separator.join(counts + declared)})").split()]
    # A name has no line break, whatever it was made of.
    names = ", '\n', ".join(f"{one}/testcase[{i + 1}]/@name" for i in range(numbers[0]))
    return {
        "counted": tuple(numbers[:4]),
        "declared": {tuple(numbers[4:8]), tuple(numbers[8:12])},
        "names": xpath(path, f"concat({names}, '')").split("\n"),
    }


def by_junitparser(path):
    report = junitparser.JUnitXml.fromfile(str(path))
    suites = list(report)
    numbers = lambda of: (of.tests, of.failures, of.errors, of.skipped)
    declared = {numbers(report), *map(numbers, suites)}
    cases = [case for suite in suites for case in suite]
    report.update_statistics()
    return {"counted": numbers(report), "declared": declared, "names": [case.name for case in cases]}


def is_green(path):
    """What a pipeline step of junitparser's would say."""
    result = subprocess.run([sys.executable, "-m", "junitparser", "verify", path], timeout=60)
    return result.returncode == 0


class Readers(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-junit-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def assert_all_agree(self, path):
        expat = by_expat(path)
        self.assertEqual(expat["declared"], {expat["counted"]})
        self.assertEqual(len(set(expat["names"])), len(expat["names"]))
        self.assertEqual(by_libxml2(path), expat)
        self.assertEqual(by_junitparser(path), expat)
        return expat

    def report(self, run, *arguments, expect=ACCEPT, cwd=None):
        result = subprocess.run([COMMAND, "report", run, *arguments], capture_output=True, timeout=60,
                                cwd=cwd or self.folder)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result.stderr.decode()

    def run_of(self, case, name=None):
        run = self.folder / (name or case)
        shutil.copytree(GOLDEN / case, run)
        return run

    def attached(self, run):
        """testcase -> the path that its system-out, alone, attaches."""
        root = xml.etree.ElementTree.parse(run / "report/junit.xml").getroot()
        found = {}
        for case in root.iter("testcase"):
            text = case.findtext("system-out") or ""
            if "[[ATTACHMENT" in text:
                found[case.get("name")] = re.fullmatch(r"\[\[ATTACHMENT\|(.+)\]\]", text).group(1)
        return found

    def test_every_kind_of_report_reads_the_same_to_all(self):
        subprocess.run([SAMPLES, self.folder], check=True, timeout=60)
        files = sorted(self.folder.glob("*.xml"))
        self.assertGreater(len(files), 40)
        for path in files:
            with self.subTest(path.name):
                tests, failures, errors, _ = self.assert_all_agree(path)["counted"]
                self.assertGreaterEqual(tests, 1)
                green = path.name.startswith("accept")
                self.assertEqual(failures + errors == 0, green)
                self.assertEqual(is_green(path), green)

    def test_golden_reports_are_the_same_byte_for_byte(self):
        self.assertEqual(sorted(path.parent.name for path in GOLDEN.glob("*/verdict.json")), sorted(CASES))
        for case, decision in CASES.items():
            with self.subTest(case):
                run = self.run_of(case)
                self.report(case)
                path = run / "report/junit.xml"
                self.assert_all_agree(path)
                self.assertEqual(is_green(path), decision == ACCEPT)
                if os.environ.get("UPGRADE_GATE_REGENERATE"):
                    shutil.copyfile(path, GOLDEN / case / "junit.xml")
                self.assertEqual(path.read_text(), (GOLDEN / case / "junit.xml").read_text())

    def test_attachments_are_the_explanations_and_are_found_from_the_project(self):
        run = self.run_of("article", "build/article")
        for arguments, cwd, base in (
            (["--attachments", "relative"], self.folder, self.folder),
            (["--attachments", "relative", "--project", self.folder / "build"], None, self.folder / "build"),
            (["--attachments", "relative", "--project", run / "report"], None, run / "report"),
            (["--attachments", "absolute"], None, pathlib.Path("/")),
        ):
            with self.subTest(arguments=arguments):
                self.report(run, *arguments, cwd=cwd)
                self.assert_all_agree(run / "report/junit.xml")
                attached = self.attached(run)
                gates = {path.stem for path in run.glob("judgement/gates/*.json")}
                self.assertEqual(len(gates), 7)
                self.assertEqual(set(attached), {"run.orchestration", *(f"gate.{gate}" for gate in gates)})
                for name, path in attached.items():
                    self.assertEqual(os.path.isabs(path), "absolute" in arguments)
                    text = (base / path).read_text()
                    if name == "run.orchestration":
                        self.assertEqual(text, (run / "report/summary.txt").read_text())
                        continue
                    explained = subprocess.run([COMMAND, "explain", run, name.removeprefix("gate.")],
                                               capture_output=True, text=True, check=True, timeout=60)
                    self.assertEqual(text, explained.stdout)

    def test_without_the_switch_nothing_is_attached_and_the_explanations_are_there(self):
        run = self.run_of("article")
        for arguments in ([], ["--attachments", "none"]):
            self.report(run, *arguments)
            self.assertEqual(self.attached(run), {})
            self.assertEqual(len(list((run / "report/gates").iterdir())), 7)

    def test_a_link_to_the_project_is_the_project(self):
        run = self.run_of("unchanged")
        link = self.folder / "link"
        link.symlink_to(self.folder)
        self.report(link / "unchanged", "--attachments", "relative", "--project", self.folder)
        self.assertEqual(self.attached(run)["run.orchestration"], "unchanged/report/summary.txt")

    def test_the_plan_is_named_from_a_given_project(self):
        run = self.run_of("unchanged")
        for project, name in ((self.folder, "unchanged/plan.yaml"), (run / "evidence", str(run / "plan.yaml"))):
            self.report(run, "--plan", run / "plan.yaml", "--project", project)
            cases = xml.etree.ElementTree.parse(run / "report/junit.xml").getroot().iter("testcase")
            self.assertEqual({case.get("file") for case in cases}, {name})

    def assert_refused(self, run, message):
        """Nothing green is left, and the report says why."""
        path = run / "report/junit.xml"
        self.assertEqual(self.assert_all_agree(path)["names"], ["run.broken"])
        self.assertIn(message, xml.etree.ElementTree.parse(path).getroot().findtext(".//failure"))
        self.assertIn("UPGRADE_GATE_DECISION=inconclusive", (run / "report/verdict.env").read_text())
        self.assertFalse((run / "report/gates").exists())

    def test_an_attachment_that_ci_would_not_find_is_an_error(self):
        run = self.run_of("unchanged")
        odd = self.run_of("unchanged", "a]]b")
        project = self.folder / "project"
        project.mkdir()
        for where, arguments, message in (
            (run, ["--attachments", "relative", "--project", project],
             f"--attachments relative: {run}/report is outside the project {project}, where CI would not "
             "look; put the run into the project, or name its folder by --project"),
            (run, ["--attachments", "relative", "--project", "nowhere"],
             "--project nowhere: cannot resolve: No such file or directory"),
            (odd, ["--attachments", "absolute"],
             f"--attachments: {odd}/report cannot be named in junit.xml: control characters, broken UTF-8 "
             "and \"]]\" have no place there; put the run into another folder"),
        ):
            with self.subTest(arguments=arguments):
                self.report(where)
                self.assertTrue(is_green(where / "report/junit.xml"))
                self.assertEqual(self.report(where, *arguments, expect=USAGE), message + "\n")
                self.assert_refused(where, message)

    def test_the_switch_takes_three_words(self):
        self.report(self.folder, "--attachments", "relativ", expect=USAGE)
        self.assertFalse((self.folder / "report").exists())

    def test_explanations_of_gates_that_are_gone_do_not_stay(self):
        run = self.run_of("unchanged")
        self.report(run)
        expected = sorted((run / "report/gates").iterdir())
        (run / "report/gates/gone.txt").write_text("of yesterday's plan")
        (run / "report/gates/folder").mkdir()
        self.report(run)
        self.assertEqual(sorted((run / "report/gates").iterdir()), expected)
        (run / "evidence/summary.json").write_text("{}")
        self.report(run, expect=EVIDENCE)
        self.assert_refused(run, "summary.json")

    def test_a_report_that_is_not_finished_leaves_no_earlier_accept(self):
        run = self.run_of("unchanged")
        self.report(run)
        (run / "report/summary.txt").unlink()
        (run / "report/summary.txt/in-the-way").mkdir(parents=True)
        self.report(run, expect=INFRASTRUCTURE)
        path = run / "report/junit.xml"
        self.assertFalse(is_green(path))
        self.assertIn("the report was begun and has not been finished", path.read_text())
        self.assertNotIn("accept", (run / "report/verdict.env").read_text())

    def test_evidence_that_is_too_old_is_red_beside_its_gates(self):
        run = self.run_of("unchanged")
        self.report(run)
        names = self.assert_all_agree(run / "report/junit.xml")["names"]
        self.report(run, "--max-age", "1s", "--plan", run / "plan.yaml", expect=EVIDENCE)
        read = self.assert_all_agree(run / "report/junit.xml")
        self.assertEqual(read["names"], ["run.broken", *names])
        self.assertEqual(read["counted"][1:], (1, 0, 0))
        decision = "//testsuite/properties/property[@name='decision']/@value"
        self.assertEqual(xpath(run / "report/junit.xml", f"string({decision})"), "inconclusive")

    def test_hostile_names_of_folders_and_texts_of_plans_stay_readable(self):
        run = self.run_of("unchanged")
        hostile = os.fsencode(self.folder) + b"/run \x01\x1b[31m\xff\xed\xa0\x80]]>&<\n[[ATTACHMENT|x]]"
        os.rename(run, hostile)
        plan = pathlib.Path(self.folder / "plan.yaml")
        text = (GOLDEN / "unchanged/plan.yaml").read_text()
        named = 'not_covered: ["1M context"'
        self.assertIn(named, text)
        attack = r'not_covered: ["\x1b[2J \u0001 \uFFFE ]]> <b> \" & [[ATTACHMENT|/etc/passwd]]"'
        plan.write_text(text.replace(named, attack))
        self.report(hostile, "--plan", plan)
        with open(hostile + b"/report/junit.xml", "rb") as file:
            (self.folder / "with-plan.xml").write_bytes(file.read())
        self.report(hostile)  # the plan's file is in the hostile folder
        with open(hostile + b"/report/junit.xml", "rb") as file:
            (self.folder / "without.xml").write_bytes(file.read())
        for name in ("with-plan.xml", "without.xml"):
            self.assert_all_agree(self.folder / name)
            self.assertTrue(is_green(self.folder / name))


if __name__ == "__main__":
    unittest.main()
