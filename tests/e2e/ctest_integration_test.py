"""upgrade_gate_add in a consumer's project, through real cmake and ctest.

The command and the gate binary are scripts here, so that each way in which a
gate could go green falsely can be played: what they were called with is in a
log, and files beside them say what they answer. Environment: CMAKE, CTEST.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

CMAKE = os.environ["CMAKE"]
CTEST = os.environ["CTEST"]
ROOT = pathlib.Path(__file__).resolve().parents[2]

COMMAND = """#!/bin/sh
here=$(dirname "$0")
{ printf '%s' "$1"; shift; for a in "$@"; do printf '|%s' "$a"; done; echo; } >> "$here/log"
name=$(tail -n 1 "$here/log" | cut -d'|' -f1)
echo "fake $name"
[ -f "$here/$name.code" ] && exit "$(cat "$here/$name.code")"
exit 0
"""

GATES = """#!/bin/sh
here=$(dirname "$0")
for a in "$@"; do
  case "$a" in
    --list) [ -f "$here/list.errors" ] && cat "$here/list.errors" >&2
            cat "$here/ids"
            [ -f "$here/list.code" ] && exit "$(cat "$here/list.code")"
            exit 0;;
    --gate=*) id=${a#--gate=};;
  esac
done
{ printf 'gate'; for a in "$@"; do printf '|%s' "$a"; done; echo; } >> "$here/log"
[ -f "$here/skip" ] && echo "[  SKIPPED ] $id"
[ -f "$here/gate.$id.code" ] && exit "$(cat "$here/gate.$id.code")"
exit 0
"""


class Project:
    """A consumer's project in a temporary folder; `add` are lines of its CMakeLists.txt."""

    def __init__(self, folder, add, ids=("throughput.8k-256-c8", "provenance")):
        self.source = folder / "source"
        self.build = folder / "build"
        self.tools = folder / "tools"
        self.source.mkdir(parents=True)
        self.tools.mkdir()
        self.script("command", COMMAND)
        self.script("gates", GATES)
        self.ids(*ids)
        (self.source / "gate.yaml").write_text("version: 1\n")
        (self.source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(consumer NONE)\nenable_testing()\n"
            f"set(UPGRADE_GATE_COMMAND [==[{self.tools}/command]==])\n"
            f"set(UPGRADE_GATE_GATES [==[{self.tools}/gates]==])\n"
            f"include([==[{ROOT}/ci/cmake/UpgradeGate.cmake]==])\n"
            "add_test(NAME unrelated COMMAND ${CMAKE_COMMAND} -E true)\n" + add + "\n"
        )

    def script(self, name, text):
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)

    def ids(self, *ids):
        (self.tools / "ids").write_text("".join(f"{i}\n" for i in ids))

    def answer(self, name, code):
        (self.tools / f"{name}.code").write_text(str(code))

    def configure(self, generator="Ninja"):
        return subprocess.run(
            [CMAKE, "-G", generator, "-S", self.source, "-B", self.build],
            capture_output=True, text=True, timeout=120)

    def ctest(self, *args, env=None):
        return subprocess.run(
            [CTEST, "--test-dir", self.build, "-L", "^upgrade-gate$", "--no-tests=error",
             "--output-on-failure", *args],
            capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})

    def tests(self):
        shown = subprocess.run([CTEST, "--test-dir", self.build, "--show-only=json-v1"],
                               capture_output=True, text=True, timeout=120, check=True)
        tests = {}
        for test in json.loads(shown.stdout)["tests"]:
            test["properties"] = {p["name"]: p["value"] for p in test["properties"]}
            tests[test["name"]] = test
        return tests

    def log(self):
        path = self.tools / "log"
        return path.read_text().splitlines() if path.exists() else []


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def project(folder, add, **kwargs):
    made = Project(folder, add, **kwargs)
    configured = made.configure()
    check(configured.returncode == 0, configured.stderr)
    return made


SIMPLE = ("upgrade_gate_add(NAME h20 PLAN gate.yaml LABELS nightly gpu TIMEOUT 77 PROCESSORS 3 "
          "RESOURCE_GROUPS 2,gpus:1 nics:4,disks:1)")


def test_one_plan_becomes_labelled_tests_in_order(folder):
    p = project(folder, SIMPLE)
    tests = p.tests()
    names = ["h20.capture", "h20.evidence", "h20.gate.throughput.8k-256-c8", "h20.gate.provenance",
             "h20.report"]
    check(sorted(tests) == sorted(names + ["unrelated"]), list(tests))
    for name in names:
        labels = tests[name]["properties"]["LABELS"]
        check(set(labels) == {"upgrade-gate", "nightly", "gpu"}, (name, labels))
        check(tests[name]["properties"]["TIMEOUT"] > 0, name)
    capture = tests["h20.capture"]["properties"]
    check(capture["RUN_SERIAL"] is True and capture["TIMEOUT"] == 77, capture)
    check(capture["PROCESSORS"] == 3, capture)
    groups = [[(r[".type"], r["slots"]) for r in group["requirements"]]
              for group in capture["RESOURCE_GROUPS"]]
    check(groups == [[("gpus", 1)], [("gpus", 1)], [("nics", 4), ("disks", 1)]], groups)
    for name in names[1:]:
        check("RESOURCE_GROUPS" not in tests[name]["properties"], name)
    run = p.ctest("-j4")
    check(run.returncode == 0, run.stdout)
    plan, out = p.source / "gate.yaml", p.build / "h20.run"
    log = p.log()
    check(log[0] == f"capture|{plan}|--run|{out}", log)
    check(log[1] == f"verify|{out}|--plan|{plan}|--begin-report", log)
    check(sorted(log[2:4]) == [f"gate|--plan|{plan}|--run|{out}|--gate=provenance|--measurements",
                               f"gate|--plan|{plan}|--run|{out}|--gate=throughput.8k-256-c8|--measurements"], log)
    check(log[4:] == [f"report|{out}|--plan|{plan}|--fragments"], log)


def test_failed_capture_is_red_and_the_report_still_runs(folder):
    p = project(folder, SIMPLE)
    p.answer("capture", 13)
    run = p.ctest()
    check(run.returncode == 8, run.stdout)
    check([line.split("|")[0] for line in p.log()] == ["capture", "report"], p.log())


def test_broken_evidence_stops_the_gates_and_the_report_still_runs(folder):
    p = project(folder, SIMPLE)
    p.answer("verify", 14)
    run = p.ctest()
    check(run.returncode == 8, run.stdout)
    check([line.split("|")[0] for line in p.log()] == ["capture", "verify", "report"], p.log())


def test_failed_gate_is_red_and_the_others_still_run(folder):
    p = project(folder, SIMPLE)
    for code in (10, 11, 1, 15):
        p.answer("gate.provenance", code)
        run = p.ctest()
        check(run.returncode == 8, (code, run.stdout))
        check("h20.gate.provenance (Failed)" in run.stdout, run.stdout)
        check("h20.gate.throughput.8k-256-c8" in run.stdout, run.stdout)


def test_skipped_marker_does_not_hide_a_failure(folder):
    p = project(folder, SIMPLE)
    (p.tools / "skip").touch()
    p.answer("gate.provenance", 10)
    run = p.ctest()
    check(run.returncode == 8 and "h20.gate.provenance (Failed)" in run.stdout, run.stdout)


def test_failed_report_is_red(folder):
    p = project(folder, SIMPLE)
    p.answer("report", 15)
    check(p.ctest().returncode == 8, "a report that misses a fragment must be red")


def test_nothing_can_hang_for_ctests_default_of_25_minutes(folder):
    p = project(folder, SIMPLE)
    for name, test in p.tests().items():
        if name not in ("unrelated", "h20.capture"):
            check(0 < test["properties"]["TIMEOUT"] <= 900, name)


def test_missing_gate_binary_is_a_labelled_failing_test(folder):
    p = project(folder, SIMPLE)
    (p.tools / "gates").unlink()
    earlier = p.build / "h20.run" / "fragments" / "provenance.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("what another binary said")
    run = p.ctest()
    check(run.returncode == 8, run.stdout)
    check("h20.plan (Failed)" in run.stdout and "build it first" in run.stdout, run.stdout)
    check(not earlier.exists(), "the report must not find what an earlier binary left")
    check("the gate binary is not there" in run.stdout, run.stdout)
    check("Warning" not in run.stdout + run.stderr, run.stdout + run.stderr)
    check(set(p.tests()["h20.plan"]["properties"]["LABELS"]) == {"upgrade-gate", "nightly", "gpu"},
          p.tests())


def test_missing_command_is_a_labelled_failing_test(folder):
    p = project(folder, SIMPLE)
    (p.tools / "command").unlink()
    run = p.ctest()
    check(run.returncode == 8 and "h20.plan (Failed)" in run.stdout, run.stdout)
    check("the command upgrade-gate is not there" in run.stdout, run.stdout)


def test_tools_that_nobody_named_are_a_failing_test(folder):
    p = Project(folder, "unset(UPGRADE_GATE_GATES)\n" + SIMPLE)
    check(p.configure().returncode == 0, "configuring works without the tools")
    run = p.ctest()
    check(run.returncode == 8 and "h20.plan (Failed)" in run.stdout, run.stdout)


def test_broken_plan_fails_and_prints_its_errors(folder):
    p = project(folder, SIMPLE)
    (p.tools / "list.errors").write_text(
        'gate.yaml:14:9: unknown key "p9O" (did you mean "p90"?); [x] $y\n')
    (p.tools / "list.code").write_text("12")
    run = p.ctest()
    check(run.returncode == 8, run.stdout)
    check('gate.yaml:14:9: unknown key "p9O" (did you mean "p90"?); [x] $y' in run.stdout, run.stdout)
    check("h20.plan (Failed)" in run.stdout, run.stdout)
    check([line.split("|")[0] for line in p.log()] == ["report"], p.log())


def test_plan_without_gates_fails(folder):
    p = project(folder, SIMPLE, ids=())
    run = p.ctest()
    check(run.returncode == 8 and "h20.plan (Failed)" in run.stdout, run.stdout)


def test_list_that_is_no_list_of_ids_fails(folder):
    for ids in (["a b"], ["x;y"], ["a", "a"], ["-dash"], ["ok", ""]):
        sub = folder / str(abs(hash(tuple(ids))))
        p = project(sub, SIMPLE, ids=ids)
        run = p.ctest()
        check(run.returncode == 8 and "h20.plan (Failed)" in run.stdout, (ids, run.stdout))


def test_edited_plan_shows_without_configuring_again(folder):
    p = project(folder, SIMPLE)
    p.ids("one", "two", "three")
    tests = p.tests()
    check({"h20.gate.one", "h20.gate.two", "h20.gate.three"} <= set(tests), list(tests))
    check("h20.gate.provenance" not in tests, list(tests))


def test_ids_that_a_filter_would_misread_are_passed_exactly(folder):
    p = project(folder, SIMPLE, ids=("ttft-p99", "a.b", "ttft"))
    check(p.ctest().returncode == 0, "green")
    gates = [line.split("|")[-2] for line in p.log() if line.startswith("gate|")]
    check(sorted(gates) == ["--gate=a.b", "--gate=ttft", "--gate=ttft-p99"], gates)


def test_paths_with_special_characters_survive(folder):
    odd = "a b;c [d] $e #f (g) ]==] ${h} \\i 'j' \"k\""
    plan, run = f"{odd}/gate plan.yaml", f"{odd}.run"
    p = project(folder, f"upgrade_gate_add(NAME odd PLAN [===[{plan}]===] RUN [===[{run}]===])")
    check(p.ctest().returncode == 0, "green")
    path = f"{p.source}/{plan}"
    check(p.log()[0] == f"capture|{path}|--run|{p.build}/{run}", p.log())
    check(p.log()[-1] == f"report|{p.build}/{run}|--plan|{path}|--fragments", p.log())
    check(f"gate|--plan|{path}|--run|{p.build}/{run}|--gate=provenance|--measurements" in p.log(), p.log())


def test_evidence_from_elsewhere_is_judged_without_a_capture(folder):
    p = project(folder, "upgrade_gate_add(NAME far PLAN gate.yaml EVIDENCE their/run MAX_AGE 36h)")
    check("far.capture" not in p.tests(), list(p.tests()))
    check(p.ctest().returncode == 0, "green")
    check(p.log()[0] ==
          f"verify|{p.source}/their/run|--plan|{p.source}/gate.yaml|--begin-report|--max-age|36h", p.log())
    check([line.split("|")[0] for line in p.log()] == ["verify", "gate", "gate", "report"], p.log())
    p.answer("verify", 14)
    (p.tools / "log").unlink()
    check(p.ctest().returncode == 8, "old evidence is red")
    check([line.split("|")[0] for line in p.log()] == ["verify", "report"], p.log())


def test_attachments_reach_the_report_alone(folder):
    for kind in ("absolute", "relative"):
        p = project(folder / kind, f"upgrade_gate_add(NAME a PLAN gate.yaml ATTACHMENTS {kind})")
        check(p.ctest().returncode == 0, "green")
        reports = [line for line in p.log() if "--attachments" in line]
        check(reports == [f"report|{p.build}/a.run|--plan|{p.source}/gate.yaml|--fragments"
                          f"|--attachments|{kind}|--project|{p.source}"], p.log())


# What the package brings, as far as upgrade_gate_add looks at it.
LIBRARIES = """enable_language(CXX)
set_property(GLOBAL PROPERTY UPGRADE_GATE_SUITES throughput latency)
foreach(name gtest throughput_suite latency_suite)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cc "extern const char ${name}[] = \\"linked ${name}\\";\\n")
  add_library(${name} INTERFACE)
  target_sources(${name} INTERFACE ${CMAKE_BINARY_DIR}/${name}.cc)
  add_library(UpgradeGate::${name} ALIAS ${name})
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/main.cc [[
#include <cstdio>
#include <cstring>
int main(int argc, char** argv) {
  std::puts(argc > 3 && !std::strcmp(argv[3], "--list") ? "built" : "judged by the built one");
}
]])
"""


def test_sources_and_suites_become_the_plans_own_gate_binary(folder):
    p = project(folder, LIBRARIES + "upgrade_gate_add(NAME h20.a PLAN gate.yaml SOURCES ${CMAKE_BINARY_DIR}/main.cc "
                "SUITES throughput)\nupgrade_gate_add(NAME plain PLAN gate.yaml)")
    run = p.ctest("-R", "^h20.a")
    check(run.returncode == 8 and "h20.a.plan (Failed)" in run.stdout, run.stdout)
    built = subprocess.run([CMAKE, "--build", p.build], capture_output=True, text=True, timeout=300)
    check(built.returncode == 0, built.stdout)
    run = p.ctest("-V")
    check(run.returncode == 0, run.stdout)
    check(run.stdout.count("judged by the built one") == 1, run.stdout)
    check({"h20.a.gate.built", "plain.gate.provenance"} <= set(p.tests()), list(p.tests()))
    # The other plan keeps the shipped binary.
    gates = [line for line in p.log() if line.startswith("gate|")]
    check(len(gates) == 2 and all("plain.run" in line for line in gates), gates)
    binary = (p.build / "h20.a-gates").read_bytes()
    check(b"linked gtest" in binary and b"linked throughput_suite" in binary, "sources of the libraries")
    check(b"linked latency_suite" not in binary, "only the suites that were named")


def test_each_configuration_judges_with_its_own_gate_binary(folder):
    p = Project(folder, LIBRARIES + "upgrade_gate_add(NAME h20 PLAN gate.yaml SOURCES ${CMAKE_BINARY_DIR}/main.cc)")
    configured = p.configure("Ninja Multi-Config")
    check(configured.returncode == 0, configured.stderr)
    built = subprocess.run([CMAKE, "--build", p.build, "--config", "Release"],
                           capture_output=True, text=True, timeout=300)
    check(built.returncode == 0, built.stdout)
    check(p.ctest("-C", "Release").returncode == 0, "built")
    run = p.ctest("-C", "Debug")
    check(run.returncode == 8 and "h20.plan (Failed)" in run.stdout, run.stdout)
    check(f"{p.build}/Debug/h20-gates" in run.stdout, run.stdout)


def test_a_wrong_suite_is_refused_with_those_that_exist(folder):
    for suites in ("througput", "latency througput"):
        add = LIBRARIES + f"upgrade_gate_add(NAME h20 PLAN gate.yaml SUITES {suites})"
        configured = Project(folder / suites.replace(" ", "-"), add).configure()
        check(configured.returncode != 0, "refused")
        check('upgrade_gate_add(h20): no suite is called "througput"; there are: throughput, latency'
              in " ".join(configured.stderr.split()), configured.stderr)


def test_one_gate_pulls_in_capture_evidence_and_report(folder):
    p = project(folder, SIMPLE)
    check(p.ctest("-R", "h20.gate.provenance").returncode == 0, "green")
    check([line.split("|")[0] for line in p.log()] == ["capture", "verify", "gate", "report"], p.log())


def test_wrong_arguments_are_refused_when_configuring(folder):
    wrong = {
        "unknown arguments": "upgrade_gate_add(NAME a PLAN p.yaml FILTER x)",
        "NAME and PLAN are required": "upgrade_gate_add(NAME a)",
        "without a value": "upgrade_gate_add(NAME a PLAN p.yaml RUN)",
        "NAME may hold": "upgrade_gate_add(NAME a:b PLAN p.yaml)",
        "give one of them": "upgrade_gate_add(NAME a PLAN p.yaml RUN r EVIDENCE e)",
        "is for the capture": "upgrade_gate_add(NAME a PLAN p.yaml EVIDENCE e TIMEOUT 5)",
        "not a whole number": "upgrade_gate_add(NAME a PLAN p.yaml TIMEOUT 0)",
        "ATTACHMENTS is \"both\"; write absolute or relative":
            "upgrade_gate_add(NAME a PLAN p.yaml ATTACHMENTS both)",
        "SOURCES and SUITES are C++": "upgrade_gate_add(NAME a PLAN p.yaml SOURCES a.cc)",
        "without a value: SUITES": "upgrade_gate_add(NAME a PLAN p.yaml SUITES)",
        "MAX_AGE is": "upgrade_gate_add(NAME a PLAN p.yaml MAX_AGE 36)",
        "an argument is empty": 'upgrade_gate_add(NAME a PLAN p.yaml MAX_AGE "")',
        "has the same NAME:a":
            "upgrade_gate_add(NAME a PLAN p.yaml)\nupgrade_gate_add(NAME a PLAN q.yaml RUN r)",
        "has the same RUN:":
            "upgrade_gate_add(NAME a PLAN p.yaml RUN r)\nupgrade_gate_add(NAME b PLAN p.yaml RUN r)",
    }
    for index, (message, add) in enumerate(wrong.items()):
        configured = Project(folder / str(index), add).configure()
        check(configured.returncode != 0, add)
        check(message in " ".join(configured.stderr.split()), (message, configured.stderr))


def test_every_configuration_of_a_multi_configuration_build_has_the_tests(folder):
    p = Project(folder, SIMPLE)
    configured = p.configure("Ninja Multi-Config")
    check(configured.returncode == 0, configured.stderr)
    for config in ("Debug", "Release"):
        (p.tools / "log").unlink(missing_ok=True)
        check(p.ctest("-C", config).returncode == 0, config)
        check(len(p.log()) == 5, p.log())
    run = p.ctest()
    check(run.returncode == 8 and "ctest -C" in run.stdout, run.stdout)


def test_misspelt_label_is_an_error_in_the_shipped_presets(folder):
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]
    base = next(p for p in presets if p["name"] == "base")
    check(base["execution"]["noTestsAction"] == "error", base)
    gate = next(p for p in presets if p["name"] == "upgrade-gate")
    check(gate["inherits"] == "base", gate)


def main():
    tests = {n: f for n, f in globals().items() if n.startswith("test_") and callable(f)}
    wanted = sys.argv[1:] or list(tests)
    failed = 0
    for name in wanted:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-ctest-"))
        try:
            tests[name](folder)
            print(f"ok      {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(wanted)} tests, {failed} failed")
    # No test is no success.
    return 1 if failed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
