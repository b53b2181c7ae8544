"""Upgrade Gate in other people's projects: installed and moved, or as a subdirectory.

tests/consumer is built against the installed package and judges golden evidence.
With GOOGLETEST_SOURCE_DIR in the environment against that GoogleTest, else
against the one that is installed:

    GOOGLETEST_SOURCE_DIR=~/googletest ctest --preset release -R consumer_e2e_test

Environment: CMAKE, CTEST, UPGRADE_GATE_BUILD (the build folder to install),
UPGRADE_GATE_CONFIG, UPGRADE_GATE_CXX and UPGRADE_GATE_CXX_FLAGS (how it was compiled).
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

CMAKE, CTEST = os.environ["CMAKE"], os.environ["CTEST"]
BUILD = pathlib.Path(os.environ["UPGRADE_GATE_BUILD"]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
DEBUG = os.environ["UPGRADE_GATE_CONFIG"] == "Debug"  # a debugger wants the folders
GOOGLETEST = os.environ.get("GOOGLETEST_SOURCE_DIR")


def call(*arguments):
    return subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, timeout=500)


class Consumers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-consumer-")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        first, cls.prefix = cls.folder / "first", cls.folder / "moved here"
        installed = call(CMAKE, "--install", BUILD, "--prefix", first)
        if installed.returncode != 0:
            raise AssertionError(installed.stdout + installed.stderr)
        first.rename(cls.prefix)

    def configure(self, source, build, *arguments):
        result = call(CMAKE, "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                      f"-DCMAKE_CXX_COMPILER={os.environ['UPGRADE_GATE_CXX']}",
                      f"-DCMAKE_CXX_FLAGS={os.environ['UPGRADE_GATE_CXX_FLAGS']}",
                      "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "--no-warn-unused-cli", *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def ctest(self, build, *arguments):
        return call(CTEST, "--test-dir", build, "-L", "^upgrade-gate$", "--no-tests=error", *arguments)

    def outcomes(self, run):
        return dict(re.findall(r"Test +#\d+: (\S+) [.\s]*(?:\*\*\*)?(Passed|Failed|Not Run)", run.stdout))

    def evidence(self, case, where):
        target = self.folder / where
        shutil.copytree(GOLDEN / case, target)
        return target

    def project(self, name, lines):
        source = self.folder / name
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n" + "".join(f"{line}\n" for line in lines))
        return source, source / "build"

    def test_what_is_installed_names_no_folder_of_its_making(self):
        files = sorted(path for path in self.prefix.rglob("*") if path.is_file())
        texts = [path for path in files if path.suffix in (".cmake", ".h", ".cc")]
        names = {str(path.relative_to(self.prefix)) for path in files}
        self.assertIn("include/upgrade_gate/framework/base/result.h", names)
        self.assertIn("share/upgrade_gate/source/framework/gtest/gate_main.cc", names)
        for path in texts if DEBUG else files:
            content = path.read_bytes()
            for folder in (ROOT, BUILD, self.folder):
                self.assertNotIn(str(folder).encode(), content, path)
        # And nothing else that is linked or run: nobody could use it.
        programs = {name for name in names if name.startswith(("bin/", "lib/")) and not name.endswith(".cmake")}
        self.assertEqual(
            programs,
            {"bin/upgrade-gate", "bin/upgrade-gate-server", "bin/upgrade_gate_gates",
             *(f"lib/libupgrade_gate_{name}.a" for name in ("base", "evidence", "gates", "plan", "stats"))})

    def test_native_gates_stand_beside_those_in_yaml(self):
        run_folder, build = self.evidence("unchanged", "native"), self.folder / "native-build"
        own = [f"-DGOOGLETEST_SOURCE_DIR={pathlib.Path(GOOGLETEST).resolve()}"] if GOOGLETEST else []
        self.configure(ROOT / "tests/consumer", build, f"-DEVIDENCE={run_folder}", *own)
        built = call(CMAKE, "--build", build)
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)

        run = self.ctest(build, "-j4", "--output-on-failure")
        self.assertEqual(run.returncode, 8, run.stdout + run.stderr)
        gates = {"throughput.long_input.max_loss": "Passed", "provenance": "Passed",
                 "UpgradeTest.FewEmptyAnswers": "Passed", "UpgradeTest.LongInputsGain": "Failed",
                 "ProvenanceSuite.EveryCaseHadTheSameInputs": "Passed"}
        expected = {f"own.gate.{name}": outcome for name, outcome in gates.items()}
        self.assertEqual(self.outcomes(run), {"own.evidence": "Passed", **expected, "own.report": "Passed"},
                         run.stdout)
        root = xml.etree.ElementTree.parse(run_folder / "report/junit.xml").getroot()
        for gate, outcome in gates.items():
            cases = [case for case in root.iter("testcase") if case.get("name").removeprefix("gate.") == gate]
            self.assertEqual(len(cases), 1, gate)
            failures = [child for child in cases[0] if child.tag in ("failure", "error", "skipped")]
            self.assertEqual(bool(failures), outcome == "Failed", gate)
        verdict = (run_folder / "report/verdict.env").read_text()
        self.assertIn("UPGRADE_GATE_DECISION=reject\n", verdict)

        compiled = [each["command"] for each in json.loads((build / "compile_commands.json").read_text())
                    if "own-gates.dir" in each["command"]]
        self.assertGreater(len(compiled), 2)
        for command in compiled:
            self.assertNotIn(" -W", command, "a warning of this project leaked")

    def test_a_project_without_a_language_judges_a_plan(self):
        for case, code in (("unchanged", 0), ("slower_decode", 8)):
            with self.subTest(case=case):
                run_folder = self.evidence(case, f"plain-{case}")
                source, build = self.project(f"plain {case}", [
                    "project(plain LANGUAGES NONE)", "find_package(UpgradeGate 0.1 CONFIG REQUIRED)",
                    "enable_testing()",
                    f"upgrade_gate_add(NAME own PLAN {run_folder}/plan.yaml EVIDENCE {run_folder})"])
                self.configure(source, build)
                run = self.ctest(build, "-j4")
                self.assertEqual(run.returncode, code, run.stdout + run.stderr)
                self.assertEqual(len(self.outcomes(run)), 7, run.stdout)

    def test_a_package_that_moved_after_configuring_is_red(self):
        shutil.copytree(self.prefix, self.folder / "leaving")
        source, build = self.project("left", [
            "project(left LANGUAGES NONE)", "find_package(UpgradeGate CONFIG REQUIRED)", "enable_testing()",
            f"upgrade_gate_add(NAME own PLAN {GOLDEN}/unchanged/plan.yaml LABELS nightly)"])
        self.configure(source, build, f"-DUpgradeGate_DIR={self.folder}/leaving/lib/cmake/UpgradeGate")
        (self.folder / "leaving").rename(self.folder / "left elsewhere")
        for label in ("^upgrade-gate$", "^nightly$"):
            run = call(CTEST, "--test-dir", build, "-L", label, "--output-on-failure")
            self.assertEqual(run.returncode, 8, run.stdout + run.stderr)
            self.assertEqual(self.outcomes(run), {"own.plan": "Failed"})
            self.assertIn("is not there", run.stdout)

    def test_gates_in_cxx_are_refused_without_the_language(self):
        source, build = self.project("no-language", [
            "project(no_language LANGUAGES NONE)", "find_package(UpgradeGate CONFIG REQUIRED)",
            "upgrade_gate_add(NAME own PLAN gate.yaml SOURCES own_gates.cc)"])
        result = call(CMAKE, "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("SOURCES and SUITES are C++: name CXX in project() before UpgradeGate is found",
                      " ".join(result.stderr.split()))

    def test_another_minor_version_is_not_taken(self):
        source, build = self.project("version", [
            "project(version LANGUAGES NONE)", "find_package(UpgradeGate 0.2 CONFIG REQUIRED)"])
        result = call(CMAKE, "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("0.1.0", result.stderr)

    def test_as_a_subdirectory_it_brings_its_targets_and_nothing_else(self):
        source, build = self.project("sub", [
            "project(sub LANGUAGES CXX)", "include(FetchContent)",
            f"FetchContent_Declare(UpgradeGate SOURCE_DIR [==[{ROOT}]==])",
            "FetchContent_MakeAvailable(UpgradeGate)", "enable_testing()",
            "upgrade_gate_add(NAME own PLAN gate.yaml SOURCES own_gates.cc)",
            # Each name that the installed package has.
            "foreach(name base stats evidence plan gates gtest failures_suite functional_suite latency_suite",
            "             provenance_suite throughput_suite upgrade-gate upgrade-gate-gates upgrade-gate-server)",
            "  if(NOT TARGET UpgradeGate::${name})", '    message(FATAL_ERROR "no target ${name}")',
            "  endif()", "endforeach()"])
        (source / "own_gates.cc").touch()
        # Configuring resolves what is linked; building it all again would prove no more.
        self.configure(source, build)
        shown = call(CTEST, "--test-dir", build, "--show-only=json-v1")
        self.assertEqual([test["name"] for test in json.loads(shown.stdout)["tests"]], ["own.plan"])
        installed = call(CMAKE, "--install", build, "--prefix", self.folder / "sub-prefix")
        self.assertEqual(installed.returncode, 0, installed.stderr)
        self.assertFalse((self.folder / "sub-prefix").exists())


if __name__ == "__main__":
    unittest.main()
