"""A consumer's project around an Experiment: its plan through upgrade_gate_add,
real cmake and ctest, by default the real command and gate binary.

Further environment: CMAKE, CTEST, UPGRADE_GATE_GATES.
"""

import os
import pathlib
import subprocess

from harness import COMMAND

CMAKE = os.environ["CMAKE"]
CTEST = os.environ["CTEST"]
GATES = os.environ["UPGRADE_GATE_GATES"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Consumer:
    """Tests `small.capture` … `small.report` on the experiment's plan and run folder."""

    def __init__(self, experiment, arguments="", command=COMMAND, gates=GATES, more=""):
        self.build = experiment.folder / "build"
        source = experiment.folder / "source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(consumer NONE)\nenable_testing()\n"
            f"set(UPGRADE_GATE_COMMAND [==[{command}]==])\n"
            f"set(UPGRADE_GATE_GATES [==[{gates}]==])\n"
            f"include([==[{ROOT}/ci/cmake/UpgradeGate.cmake]==])\n"
            f"upgrade_gate_add(NAME small PLAN [==[{experiment.plan}]==]\n"
            f"                 RUN [==[{experiment.run_folder}]==] {arguments})\n{more}\n")
        self.source = source
        configured = subprocess.run([CMAKE, "-G", "Ninja", "-S", source, "-B", self.build],
                                    capture_output=True, text=True, timeout=120)
        experiment.assertEqual(configured.returncode, 0, configured.stderr)

    def command(self, *arguments):
        return [CTEST, "--test-dir", self.build, "-L", "^upgrade-gate$", "--no-tests=error",
                "--output-on-failure", *map(str, arguments)]

    def start_ctest(self, *arguments):
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def ctest(self, *arguments, env=None):
        return subprocess.run(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=300, env={**os.environ, **(env or {})})
