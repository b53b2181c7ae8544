#!/usr/bin/env python3
"""Takes out the guard against each false green, one at a time, in a copy of the
sources, and expects the test that ci/false-greens.md names to fail.

  tests/mutation/false_greens.py [--jobs N] [--keep DIR] [NUMBER…]
  tests/mutation/false_greens.py --check     only that every change fits the sources

Not a part of ci/test: it builds the project once, and a little of it for each
change. --keep keeps the copy, and a build in it, for the next call. Ends with 0
only if every test passed before the change and failed with it.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "ci/false-greens.md"
NUMBERS = range(1, 14)

# CTest test -> what has to be built for it.
TESTS = {
    "ctest_integration_test": [],
    "false_greens_test": ["upgrade-gate", "upgrade-gate-gates", "upgrade-gate-server",
                          "upgrade_gate_crashing", "upgrade_gate_misused"],
    "gate_binary_test": ["gate_binary_test", "upgrade-gate-gates", "upgrade_gate_misused",
                         "upgrade_gate_native"],
}


@dataclasses.dataclass
class Mutation:
    number: int
    what: str
    changes: list  # (file, text that is there exactly once, text in its place)
    test: str
    part: str  # of the test, as the page names it
    targets: tuple = ()  # what the change is in and the test runs


MUTATIONS = [
    Mutation(1, "CTest reads the skip marker", [(
        "ci/cmake/UpgradeGateAddTests.cmake",
        'FIXTURES_REQUIRED "${evidence}")\n    endforeach()',
        'FIXTURES_REQUIRED "${evidence}" SKIP_REGULAR_EXPRESSION "[[]  SKIPPED []]")\n    endforeach()')],
        "ctest_integration_test", "test_skipped_marker_does_not_hide_a_failure"),
    Mutation(1, "GoogleTest's printer stays", [(
        "framework/gtest/gate_run.cc",
        "  delete listeners.Release(listeners.default_result_printer());\n", "")],
        "gate_binary_test", "MisusedBinaryIsNeverGreen",
        ("upgrade_gate_misused",)),
    Mutation(2, "any number of tests will do", [(
        "framework/gtest/gate_run.cc",
        "  UG_TRY(CheckOneTestRan(run));\n", "  if (run.bodies != 1) std::_Exit(failed);\n")],
        "gate_binary_test", "MisusedBinaryIsNeverGreen",
        ("upgrade_gate_misused",)),
    Mutation(3, "every plan's tests are listed from the first plan", [
        ("ci/cmake/UpgradeGateAddTests.cmake",
         'COMMAND "${ug_gates}" --plan "${ug_plan}" --list\n',
         'COMMAND "${ug_gates}" --plan "${ug_first_plan}" --list\n'),
        ("ci/cmake/UpgradeGateAddTests.cmake", "\n_upgrade_gate_add_tests()\n",
         '\nif(NOT DEFINED ug_first_plan)\n  set(ug_first_plan "${ug_plan}")\nendif()\n'
         "_upgrade_gate_add_tests()\n")],
        "false_greens_test", "test_3_tests_are_listed_from_the_plan_that_they_judge"),
    Mutation(4, "a gate takes any plan's evidence", [(
        "framework/gtest/gate_run.cc",
        "if (plan::WorkloadDigest(run.plan.plan) != run.evidence.summary.capture.workload) {",
        "if (false) {")],
        "false_greens_test", "test_4_without_their_set_ups_gates_believe_no_evidence",
        ("upgrade-gate-gates",)),
    Mutation(5, "no tests are no error", [(
        "CMakePresets.json", '"noTestsAction": "error"', '"noTestsAction": "ignore"')],
        "false_greens_test", "test_5_a_misspelt_label_is_red_through_the_shipped_preset"),
    Mutation(6, "the failing placeholder has no labels", [(
        "ci/cmake/UpgradeGateAddTests.cmake",
        'set_tests_properties("${test}" PROPERTIES LABELS "${labels}" TIMEOUT 60)',
        'set_tests_properties("${test}" PROPERTIES TIMEOUT 60)')],
        "ctest_integration_test", "test_missing_gate_binary_is_a_labelled_failing_test"),
    Mutation(7, "an early exit is an exit", [(
        "framework/gtest/gate_main.cc", "  std::atexit(RefuseEarlyExit);\n", "")],
        "gate_binary_test", "MisusedBinaryIsNeverGreen",
        ("upgrade_gate_misused",)),
    Mutation(7, "the report misses no result", [(
        "framework/cli/fragments.cc",
        '      fragments.problems.emplace(gate.id, path.string() + ": " + result.error().message);\n', "")],
        "false_greens_test", "test_7_a_gate_that_ends_with_0_and_no_verdict_is_red_in_the_report",
        ("upgrade-gate",)),
    Mutation(8, "a skip is no reason", [(
        "framework/gtest/gate_run.cc",
        "  UG_TRY(CheckOneTestRan(run));\n", "  if (run.stray_skip) std::_Exit(failed);\n"
        "  UG_TRY(CheckOneTestRan(run));\n")],
        "gate_binary_test", "MisusedBinaryIsNeverGreen",
        ("upgrade_gate_misused",)),
    Mutation(9, "no failing report where nothing can be judged", [(
        "framework/cli/failing_report.cc",
        "  UG_TRY(base::CreateDirectories(layout.report()));\n", "  if (!why.message.empty()) return {};\n")],
        "false_greens_test", "test_9_ctests_own_junit_says_skipped_and_ours_says_failed",
        ("upgrade-gate",)),
    Mutation(10, "shards are taken", [(
        "framework/gtest/gate_run.cc", '  unsetenv("GTEST_TOTAL_SHARDS");\n', "")],
        "false_greens_test", "test_10_sharding_repeating_and_filtering_variables_change_nothing",
        ("upgrade-gate-gates",)),
    Mutation(10, "filters are taken", [(
        "framework/gtest/gate_run.cc", '  GTEST_FLAG_SET(filter, filter);\n', '  static_cast<void>(filter);\n')],
        "gate_binary_test", "EnvironmentOfGoogleTestCannotDeselectTheGate",
        ("upgrade-gate-gates",)),
    Mutation(11, "the capture leaves yesterday's report", [(
        "framework/cli/capture_command.cc",
        "  UG_TRY(fail_report(base::ErrorKind::kInfrastructure,\n"
        '                     "the capture has started and has not finished"));\n', "")],
        "false_greens_test", "test_11_a_dead_capture_leaves_a_failing_report",
        ("upgrade_gate_crashing",)),
    Mutation(11, "the report misses no result", [(
        "framework/cli/fragments.cc",
        '      fragments.problems.emplace(gate.id, path.string() + ": " + result.error().message);\n', "")],
        "false_greens_test", "test_11_a_gate_that_aborts_is_named_by_the_report",
        ("upgrade-gate",)),
    Mutation(12, "evidence of any key is reused", [(
        "framework/capture/capture.cc", "  if (record->key != key) {\n", "  if (false) {\n")],
        "false_greens_test", "test_12_another_digest_inherits_no_verdict",
        ("upgrade-gate",)),
    Mutation(13, "a reject ends with 1", [(
        "framework/cli/judge_commands.cc", "  return gates::ExitCodeOf(run.judgement.decision);\n",
        "  return static_cast<ExitCode>(run.judgement.decision == gates::Decision::kReject);\n")],
        "false_greens_test", "test_13_no_exit_code_of_ours_is_below_10_but_0",
        ("upgrade-gate",)),
    Mutation(13, "a missing result is no obstacle", [(
        "framework/cli/judge_commands.cc",
        'report / "verdict.env", obstacle ?', 'report / "verdict.env", false ?')],
        "false_greens_test", "test_13_a_crash_that_exits_with_1_is_no_reject",
        ("upgrade-gate",)),
]


def changed(text, mutation, file):
    """`text` of the file with the mutation's changes to it."""
    for path, old, new in mutation.changes:
        if path != file:
            continue
        if text.count(old) != 1:
            raise SystemExit(f"{path}: {mutation.number}, \"{mutation.what}\": the text to change is there "
                             f"{text.count(old)} times, not once:\n{old}")
        text = text.replace(old, new)
    return text


def check():
    """Every change fits, every test exists and stands in the page, every number has one."""
    rows = {int(m[1]): m[0] for m in re.finditer(r"^\| (\d+) \|.*$", (ROOT / PAGE).read_text(), re.M)}
    sources = {name: next((ROOT / "tests/e2e").glob(f"{name}.*")).read_text() for name in TESTS}
    if set(rows) != set(NUMBERS) or {m.number for m in MUTATIONS} != set(NUMBERS):
        raise SystemExit(f"{PAGE} and {__file__} must both have the numbers 1 to {NUMBERS[-1]}")
    for mutation in MUTATIONS:
        for file in {path for path, _, _ in mutation.changes}:
            changed((ROOT / file).read_text(), mutation, file)
        if not re.search(rf"\b{mutation.part}\b", sources[mutation.test]):
            raise SystemExit(f"{mutation.test} has no {mutation.part}")
    for number, row in rows.items():
        named = set(re.findall(r"`(test_\w+|[A-Z]\w+)`", row.rsplit("|", 2)[1]))
        for part in named:
            if not any(re.search(rf"\b{part}\b", text) for text in sources.values()):
                raise SystemExit(f"{PAGE}: {number}: no test is called {part}")
        if not {m.part for m in MUTATIONS if m.number == number} <= named:
            raise SystemExit(f"{PAGE}: {number}: does not name the test that {__file__} runs")
    print(f"{len(MUTATIONS)} changes fit")


class Copy:
    """The sources and one build of them, to be changed and put back."""

    def __init__(self, folder, jobs):
        self.root, self.jobs = folder / "sources", jobs
        self.build = self.root / "build/mutation"
        self.stale = set()  # targets that were built of changed sources
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, files):
            source, target = ROOT / name, self.root / name
            if not source.is_file() or (target.exists() and target.read_bytes() == source.read_bytes()):
                continue  # an unchanged file keeps its time, and what was built of it
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        self.run(["cmake", "-G", "Ninja", "-S", self.root, "-B", self.build, "-DCMAKE_BUILD_TYPE=Debug",
                  "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DUPGRADE_GATE_PRECOMPILE=ON", *launcher])
        self.make(sorted({target for targets in TESTS.values() for target in targets}))
        shown = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"],
                               capture_output=True, text=True, check=True)
        self.tests = {test["name"]: test for test in json.loads(shown.stdout)["tests"]}

    def run(self, command):
        result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)
        if result.returncode != 0:
            raise SystemExit(result.stdout)

    def make(self, targets):
        if targets:
            self.run(["cmake", "--build", self.build, "-j", self.jobs, "--target", *targets])

    def passes(self, mutation):
        """Whether the mutation's test passes, and its output."""
        test = self.tests[mutation.test]
        command = list(test["command"])
        if mutation.test == "gate_binary_test":
            command.append(f"--gtest_filter=*.{mutation.part}")
        elif mutation.test == "false_greens_test":
            command.append(f"FalseGreens.{mutation.part}")
        else:
            command.append(mutation.part)
        environment = dict(os.environ)
        for entry in test["properties"]:
            if entry["name"] == "ENVIRONMENT":
                environment.update(pair.split("=", 1) for pair in entry["value"])
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=environment, timeout=600)
        return result.returncode == 0, result.stdout

    def seen_red(self, mutation):
        files = {path for path, _, _ in mutation.changes}
        before = {file: (self.root / file).read_text() for file in files}
        try:
            for file, text in before.items():
                (self.root / file).write_text(changed(text, mutation, file))
            self.make(sorted(self.stale | set(mutation.targets)))
            passed, output = self.passes(mutation)
        finally:
            for file, text in before.items():
                (self.root / file).write_text(text)
            self.stale = set(mutation.targets)  # the next build takes it back
        return ("NOT SEEN" if passed else "red"), output


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="only these of 1 to 13")
    parser.add_argument("--check", action="store_true", help="only that every change fits the sources")
    parser.add_argument("--jobs", default="2", help="of the build")
    parser.add_argument("--keep", type=pathlib.Path, help="make the copy here, and keep it")
    options = parser.parse_args()
    check()
    if options.check:
        return 0
    wanted = [m for m in MUTATIONS if not options.numbers or m.number in options.numbers]
    if not wanted:
        parser.error("no such number")
    with tempfile.TemporaryDirectory(prefix="upgrade-gate-mutation-") as temporary:
        copy = Copy(options.keep or pathlib.Path(temporary), options.jobs)
        for mutation in {(m.test, m.part): m for m in wanted}.values():
            passed, output = copy.passes(mutation)
            if not passed:
                raise SystemExit(f"{output}\n{mutation.test}: {mutation.part}: fails without any change")
        unseen = 0
        print(f"{'#':>2}  {'seen':8}  {'the guard that is out':52}  test", flush=True)
        for mutation in wanted:
            seen, output = copy.seen_red(mutation)
            print(f"{mutation.number:2}  {seen:8}  {mutation.what:52}  {mutation.test}: {mutation.part}",
                  flush=True)
            if seen != "red":
                unseen += 1
                print(output)
        print(f"{len(wanted)} changes, {unseen} not seen")
        return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
