"""SIGKILL of the runner, of ctest's whole tree, of the watchdog: nothing is left.

One of each, or as many as UPGRADE_GATE_KILLS says, at moments that take turns:

    UPGRADE_GATE_KILLS=10 ctest --preset release -R '^docker_kill_test$' --verbose
"""

import json
import os
import signal
import subprocess
import time

import docker_harness
from docker_harness import engine
from ctest_e2e_test import Project

KILLS = int(os.environ.get("UPGRADE_GATE_KILLS", "1"))
SECONDS = 30  # in which nothing may be left
LONG = 100000  # requests that no test waits for


class Kills(docker_harness.Experiment):
    def setUp(self):
        super().setUp()
        self.captures = []
        self.write_plan(requests=LONG)

    def each(self, kill):
        done = 0
        for number in range(KILLS):
            with self.subTest(kill=number + 1):
                try:
                    kill(self.folder / f"run-{number}", number)
                    done += 1
                finally:
                    self.end_captures()
        print(f"{done} of {KILLS}", flush=True)

    def start(self, run, number):
        """A capture and its watchdog, at one of the moments in which it may die."""
        self.run_folder = run
        capture = self.start_capture()
        self.captures.append(capture)
        states = ("created", "running", "loaded")
        self.wait_for(capture, states[number % len(states)])
        [watchdog] = self.watchdogs()
        return capture, watchdog

    def wait_for(self, capture, moment):
        def look():
            if capture.poll() is not None:
                raise AssertionError(f"it ended with {capture.returncode}:\n{self.captured_log()}")
            containers = self.engine.request("GET", "/containers/json?all=1")[1]
            if moment == "created":
                return containers
            if moment == "running":
                return [container for container in containers if container["State"] == "running"]
            return "ready after" in self.captured_log()

        return engine.wait_until(look, 30, lambda: f"{moment}:\n{self.captured_log()}")

    def watchdogs(self):
        """Those of this test's captures."""
        return docker_harness.processes("watchdog", str(self.folder))

    def end_captures(self):
        """What a failed kill left would keep the next one waiting."""
        for capture in self.captures:
            if capture.poll() is None:
                capture.kill()
            capture.wait()
        self.captures.clear()

    def assert_gone(self):
        begin = time.monotonic()
        engine.wait_until(
            lambda: not self.engine.containers() and not self.watchdogs(),
            SECONDS,
            lambda: f"{self.engine.containers()} and watchdogs {self.watchdogs()} gone",
        )
        print(f"gone after {time.monotonic() - begin:.1f} s", flush=True)

    def test_the_runner(self):
        def kill(run, number):
            capture, _ = self.start(run, number)
            capture.kill()
            capture.wait()
            self.assert_gone()

        self.each(kill)

    def test_a_timeout_of_ctest(self):
        environment = {name: self.environment[name] for name in ("DOCKER_HOST", "UPGRADE_GATE_HOST_LOCK")}

        def kill(run, number):
            folder = self.folder / f"project-{number}"
            folder.mkdir()
            seconds = 8 + number % 3  # another moment each time
            project = Project(folder, f"upgrade_gate_add(NAME doomed PLAN [==[{self.plan}]==] TIMEOUT {seconds})")
            ctest = subprocess.Popen(
                project.command("-R", r"^doomed\.capture$"),
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **environment},
            )
            engine.wait_until(self.engine.containers, 30, lambda: "a container of the test")
            output = ctest.communicate(timeout=60)[0]
            self.assertIn("***Timeout", output)
            self.assert_gone()

        self.each(kill)

    def test_the_watchdog_and_then_the_runner(self):
        def kill(run, number):
            capture, watchdog = self.start(run, number)
            os.kill(watchdog, signal.SIGKILL)
            capture.kill()
            capture.wait()
            left = self.engine.containers()
            self.assertTrue(left, "with both dead, nobody could remove it")
            # The next start removes them before it boots anything.
            self.run_folder = self.folder / f"next-{number}"
            small = self.folder / "small.yaml"
            small.write_text(self.plan.read_text().replace(f"requests: {LONG}", "requests: 4"))
            result = self.call("capture", small, "--run", self.run_folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"container {left[0]} of a dead run: removed", result.stderr)
            self.assert_gone()

        self.each(kill)


if __name__ == "__main__":
    docker_harness.main()
