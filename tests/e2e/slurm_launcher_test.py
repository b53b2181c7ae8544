"""The launcher command through a real srun, on a Slurm of the test's own."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_launcher_test import CommandExperiment
from harness import ACCEPT, COMMAND, SERVER, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from slurm import query, slurm  # noqa: E402


class Srun(CommandExperiment):
    def setUp(self):
        super().setUp()
        folder = tempfile.mkdtemp(prefix="upgrade-gate-slurm-")
        self.addCleanup(shutil.rmtree, folder)
        self.configuration = self.enterContext(slurm(folder)) if hasattr(self, "enterContext") else self.enter(folder)
        launchers = pathlib.Path(__file__).resolve().parents[2] / "suites/plans/launchers"
        shutil.copy(launchers / "slurm-address", self.folder)
        self.script("identity", '#!/bin/sh\nprintf \'{"host": "%s"}\' '
                                '"$(squeue --noheader --states=RUNNING --name="$1" --format=%N)"\n')
        self.write_plan(
            launch=("    start: [srun, --quiet, --job-name=$RUN-$BOOT, --ntasks=1, $IMAGE_FILE, $COMMAND]\n"
                    "    stop: [scancel, --signal=TERM, --name=$RUN-$BOOT]\n"
                    "    cleanup: [scancel, --name=$RUN-$BOOT]\n"
                    "    address: [./slurm-loopback, $RUN-$BOOT, $PORT]\n"
                    "    identity: [./identity, $RUN-$BOOT]\n"
                    f"  env: {{SLURM_CONF: {self.configuration}}}"))
        # The node's name need not resolve on a machine that is a cluster for a test.
        self.script("slurm-loopback", '#!/bin/sh\n./slurm-address "$@" >/dev/null && echo "http://127.0.0.1:$2"\n')

    def enter(self, folder):
        context = slurm(folder)
        configuration = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return configuration

    def jobs(self):
        return query(self.configuration, "squeue", "--noheader", "--format=%j %T").stdout.splitlines()

    def test_a_plan_becomes_a_verdict(self):
        self.capture()
        self.assert_every_round_once()
        self.judge(expect=ACCEPT)
        boots = self.boots()
        self.assertEqual(len(boots), 2)
        self.assertTrue(all(boot["server_host"] for boot in boots))
        wait_until(lambda: not self.jobs(), 30, "no job is left")

    def test_a_killed_runner_leaves_no_job(self):
        with subprocess.Popen([COMMAND, "capture", self.plan, "--run", self.run_folder], stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) as runner:
            for line in runner.stderr:
                if line.startswith("["):
                    break
            self.assertEqual(len(self.jobs()), 1)
            runner.kill()
            runner.wait()
        wait_until(lambda: not self.jobs() and not self.servers(), 30, "no job and no server is left")


if __name__ == "__main__":
    unittest.main()
