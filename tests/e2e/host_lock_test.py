"""Two captures on one machine take turns, whoever started them."""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import unittest

from harness import ACCEPT, COMMAND, INFRASTRUCTURE, USAGE, Experiment, wait_until


def holders(lock):
    """Processes that have the file open."""
    found = set()
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == str(lock):
                found.add(int(link.parts[2]))
    return found


class HostLock(Experiment):
    def setUp(self):
        super().setUp()
        self.lock = self.folder / "host.lock"
        self.other = self.folder / "other"

    @contextlib.contextmanager
    def capturing(self, run, *arguments):
        """A capture that runs beside the test; killed if the test leaves it behind."""
        with open(f"{run}.err", "w") as stderr, subprocess.Popen(
            [COMMAND, "capture", self.plan, "--run", run, *arguments],
            stderr=stderr, stdout=subprocess.DEVNULL) as runner:
            try:
                yield runner
            finally:
                runner.kill()
                runner.wait()

    def said(self, run):
        return pathlib.Path(f"{run}.err").read_text()

    @contextlib.contextmanager
    def holding(self):
        """A capture that has servers running, so that it has the lock."""
        with self.capturing(self.run_folder) as holder:
            wait_until(self.servers, 20, "the first capture boots")
            yield holder
        wait_until(lambda: not self.servers(), 20, "its servers are gone")

    def wait_for_wait(self, holder):
        line = f"host lock {self.lock}: held by pid {holder.pid}, run folder {self.run_folder}: waiting"
        wait_until(lambda: line in self.said(self.other), 20, line)

    def measured(self, run):
        """From the first boot to the seal."""
        boots = [json.loads(p.read_text())["started_at"] for p in run.glob("evidence/boots/*/boot.json")]
        self.assertEqual(len(boots), 2)
        return min(boots), json.loads((run / "evidence/capture.json").read_text())["sealed_at"]

    def test_two_that_start_together_measure_one_after_the_other(self):
        with self.capturing(self.run_folder) as one, self.capturing(self.other) as two:
            self.assertEqual(one.wait(timeout=120), ACCEPT, self.said(self.run_folder))
            self.assertEqual(two.wait(timeout=120), ACCEPT, self.said(self.other))
        first, second = sorted([self.measured(self.run_folder), self.measured(self.other)])
        self.assertLessEqual(first[1], second[0])
        waited = [run for run in (self.run_folder, self.other) if "waiting" in self.said(run)]
        self.assertEqual(len(waited), 1)
        self.assertIn("free, going on", self.said(waited[0]))

    def test_a_killed_holder_frees_it(self):
        with self.holding() as holder, self.capturing(self.other) as waiter:
            self.wait_for_wait(holder)
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            self.assertEqual(waiter.wait(timeout=120), ACCEPT, self.said(self.other))

    def test_the_watchdog_has_it_too_and_no_server(self):
        with self.holding() as holder:
            others = holders(self.lock) - {holder.pid}
            self.assertEqual(len(others), 1, "no server, but the watchdog")
            command = pathlib.Path(f"/proc/{others.pop()}/cmdline").read_bytes().split(b"\0")
            self.assertEqual(command[1], b"watchdog")

    def test_fail_ends_at_once_and_names_the_holder(self):
        with self.holding() as holder:
            result = self.call("capture", self.plan, "--run", self.other, "--host-lock", "fail")
            self.assertEqual(result.returncode, INFRASTRUCTURE, result.stderr)
            self.assertIn(f"held by pid {holder.pid}, run folder {self.run_folder}; captures on one "
                          "machine take turns", result.stderr)
            self.assertNotIn("starting", result.stderr)
            self.assertIn("take turns", (self.other / "report/junit.xml").read_text())

    def test_a_wait_is_interrupted_like_a_capture(self):
        for ask in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=ask.name), self.holding() as holder:
                with self.capturing(self.other) as waiter:
                    self.wait_for_wait(holder)
                    self.assertIn("small: waiting", self.call("status", self.other).stdout)
                    waiter.send_signal(ask)
                    self.assertEqual(waiter.wait(timeout=20), INFRASTRUCTURE)
                self.assertIn("interrupted while waiting", self.said(self.other))
                self.assertIn("nothing was booted", self.said(self.other))
                self.assertIn("small: interrupted", self.call("status", self.other).stdout)
                self.assertFalse((self.other / "evidence").exists())

    def test_sealed_evidence_needs_no_lock(self):
        self.capture()
        with open(self.lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            again = self.call("capture", self.plan, "--run", self.run_folder, "--host-lock", "fail")
        self.assertEqual(again.returncode, ACCEPT, again.stderr)
        self.assertIn("nothing is booted", again.stderr)

    def test_a_link_in_its_place_is_refused_and_not_followed(self):
        victim = self.folder / "victim"
        victim.write_text("precious")
        self.lock.symlink_to(victim)
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn("is a symbolic link, which is not followed", result.stderr)
        self.assertNotIn("starting", result.stderr)
        self.assertEqual(victim.read_text(), "precious")

    def test_a_variable_that_is_no_absolute_path_is_a_usage_error(self):
        for wrong in ("", "host.lock"):
            result = self.capture(expect=USAGE, env={"UPGRADE_GATE_HOST_LOCK": wrong})
            self.assertIn("UPGRADE_GATE_HOST_LOCK: must be the absolute path", result.stderr)
            self.assertIn("must be the absolute path", (self.run_folder / "report/junit.xml").read_text())


if __name__ == "__main__":
    unittest.main()
