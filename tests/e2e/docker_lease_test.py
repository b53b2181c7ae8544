"""The watchdog of a second node, by the run's lease as a file and as a URL: here a second
process of this machine, on the engine that the containers are in."""

import functools
import http.server
import json
import os
import pathlib
import signal
import subprocess
import threading

import docker_harness
from docker_harness import engine
from harness import ACCEPT, COMMAND, INFRASTRUCTURE, USAGE

LONG = 100000  # requests that no test waits for


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Lease(docker_harness.Experiment):
    def setUp(self):
        super().setUp()
        self.watchers = 0

    def start(self, requests=LONG, extra=""):
        """A capture with a container under load; its run's id."""
        self.write_plan(requests=requests)
        self.plan.write_text(self.plan.read_text() + extra)
        capture = self.start_capture()

        def end():
            capture.kill()
            capture.wait()
            # Its own watchdog's work, where the test is about something else.
            engine.wait_until(lambda: not self.engine.containers(), 30, lambda: str(self.engine.containers()))

        self.addCleanup(end)

        def measuring():
            if capture.poll() is not None:
                raise AssertionError(f"it ended with {capture.returncode}:\n{self.captured_log()}")
            return "ready after" in self.captured_log()

        engine.wait_until(measuring, 60, lambda: f"load:\n{self.captured_log()}")
        return capture, self.lease()["run_id"]

    def lease(self):
        return json.loads((self.run_folder / "lease.json").read_text())

    def serve(self):
        """The run's folder on a loopback port."""
        handler = functools.partial(QuietHandler, directory=str(self.run_folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}/lease.json", server

    def watch(self, lease, run_id, *options, seen=True):
        self.watchers += 1
        log = self.folder / f"watchdog-{self.watchers}.log"
        with open(log, "wb") as output:
            watchdog = subprocess.Popen(
                [COMMAND, "watchdog", "--lease", str(lease), "--run-id", run_id, "--heartbeat", "1s", *options],
                stdout=output,
                stderr=output,
                env=self.environment,
            )
        self.addCleanup(lambda: (watchdog.kill(), watchdog.wait()))
        watchdog.log = log.read_text
        if seen:
            self.says(watchdog, "seen, and renewed")
        return watchdog

    def says(self, watchdog, text, seconds=60):
        engine.wait_until(lambda: text in watchdog.log(), seconds, lambda: f"{text!r} in:\n{watchdog.log()}")

    def own_watchdog(self, run_id):
        """The one that the capture started."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argv[1:4] == [b"watchdog", b"--run-id", run_id.encode()]:
                return int(entry.name)
        raise AssertionError("no watchdog")

    def kill_both(self, capture, run_id):
        os.kill(self.own_watchdog(run_id), signal.SIGKILL)
        capture.kill()
        capture.wait()
        self.assertNotEqual(self.engine.containers(), [], "with both dead, it is there")

    def assert_cleaned(self, watchdog, run_id, why):
        self.assertEqual(watchdog.wait(timeout=90), ACCEPT, watchdog.log())
        self.assertIn(f"run {run_id}: {why}", watchdog.log())
        self.assertIn(f"run {run_id}: nothing of it is left here", watchdog.log())
        self.assertEqual(self.engine.containers(), [])

    def test_a_dead_runner_by_the_file(self):
        capture, run_id = self.start()
        watchdog = self.watch(self.run_folder / "lease.json", run_id, "--grace", "9s")
        self.kill_both(capture, run_id)
        self.assert_cleaned(watchdog, run_id, "the lease was not renewed for 9 s: ending what is left of it here")

    def test_a_dead_runner_by_the_url(self):
        capture, run_id = self.start()
        url, _ = self.serve()
        watchdog = self.watch(url, run_id, "--grace", "9s")
        self.kill_both(capture, run_id)
        self.assert_cleaned(watchdog, run_id, "the lease was not renewed for 9 s: ending what is left of it here")

    def test_a_frozen_runner_and_a_server_that_is_away_for_less_than_the_grace(self):
        capture, run_id = self.start()
        url, server = self.serve()
        by_file = self.watch(self.run_folder / "lease.json", run_id)
        by_url = self.watch(url, run_id)
        containers = self.engine.containers()
        capture.send_signal(signal.SIGSTOP)
        self.says(by_file, "lease.json: not renewed for")
        self.says(by_url, "lease.json: not renewed for")
        self.assertEqual(self.engine.containers(), containers)
        capture.send_signal(signal.SIGCONT)
        self.says(by_file, "renewed again")
        self.says(by_url, "renewed again")
        self.assertIsNone(by_file.poll())
        # It ends in order, and says so.
        capture.send_signal(signal.SIGTERM)
        capture.wait()
        self.assertTrue(self.lease()["over"])
        for watchdog in by_file, by_url:
            self.assert_cleaned(watchdog, run_id, "it is over: ending what is left of it here")

    def test_told_to_end_it_cleans_first(self):
        _, run_id = self.start()
        watchdog = self.watch(self.run_folder / "lease.json", run_id)
        watchdog.terminate()
        self.assert_cleaned(watchdog, run_id, "the watchdog was told to end: ending what is left of it here")

    def test_a_run_that_is_none_ends_nothing(self):
        _, run_id = self.start()
        containers = self.engine.containers()
        foreign = self.watch(self.run_folder / "lease.json", "other-1-2-3", seen=False)
        self.assertEqual(foreign.wait(timeout=30), INFRASTRUCTURE)
        self.assertIn(f"lease.json: is of run {run_id}, and not of run other-1-2-3; nothing was ended", foreign.log())
        absent = self.watch(self.folder / "nowhere/lease.json", run_id, "--wait", "1s", seen=False)
        self.assertEqual(absent.wait(timeout=30), INFRASTRUCTURE)
        self.assertIn(f"nowhere/lease.json: no lease of run {run_id} within 1 s: ", absent.log())
        short = self.watch(self.run_folder / "lease.json", run_id, "--grace", "5s", seen=False)
        self.assertEqual(short.wait(timeout=30), USAGE)
        self.assertIn("is renewed every 3 s; write --grace 9s or more, three renewals", short.log())
        # As a capture starts its own; by hand it would take every run for dead.
        result = self.call("watchdog", "--run-id", run_id)
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("watchdog: write --lease FILE|URL", result.stderr)
        self.assertEqual(self.engine.containers(), containers)

    def test_an_engine_that_is_named_must_answer_before_it_matters(self):
        self.environment["DOCKER_HOST"] = f"unix://{self.folder}/no.sock"
        watchdog = self.watch(self.folder / "lease.json", "some-1-2-3", seen=False)
        self.assertEqual(watchdog.wait(timeout=30), INFRASTRUCTURE)
        self.assertIn("the engine cannot be reached", watchdog.log())


if __name__ == "__main__":
    docker_harness.main()
