"""An engine over ssh: a real sshd and the user's ssh between the capture and the engine."""

import json
import os
import pathlib
import re
import signal
import tempfile

import docker_harness
from docker_harness import engine
from harness import ACCEPT, INFRASTRUCTURE, USAGE

import sshd

LONG = 100000  # requests that no test waits for
SECONDS = 30  # in which nothing may be left


class Ssh(docker_harness.Experiment):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(sshd.Sshd(self.folder / "ssh"))
        # A socket's path is short.
        self.sockets = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ug-")))
        self.environment |= self.server.environment() | {
            "DOCKER_HOST": self.docker_host(),
            "TMPDIR": str(self.sockets),
        }

    def docker_host(self, user="root@", host="127.0.0.1", path=None):
        port = "" if host == "build-7" else f":{self.server.port}"
        return f"ssh://{user}{host}{port}{path or self.engine.socket}"

    def start(self, requests=LONG):
        """A capture under load, over ssh."""
        self.write_plan(requests=requests)
        capture = self.start_capture()
        self.addCleanup(lambda: (capture.kill(), capture.wait()))

        def measuring():
            if capture.poll() is not None:
                raise AssertionError(f"it ended with {capture.returncode}:\n{self.captured_log()}")
            return "ready after" in self.captured_log()

        engine.wait_until(measuring, 60, lambda: f"load:\n{self.captured_log()}")
        return capture

    def processes(self, word):
        return docker_harness.processes(word, f"TMPDIR={self.sockets}\0")

    def left(self):
        return {
            "containers": self.engine.containers(),
            "ssh": self.processes("ssh"),
            "watchdogs": self.processes("watchdog"),
            "folders": os.listdir(self.sockets),
        }

    def assert_gone(self):
        engine.wait_until(lambda: not any(self.left().values()), SECONDS, lambda: f"gone: {self.left()}")

    def cleanup(self, expect):
        result = self.call("cleanup", "--all")
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result.stderr.rstrip("\n")

    # What works.

    def test_a_whole_experiment_and_nothing_is_left(self):
        pinned = {"baseline": self.push("1.0"), "candidate": self.push("1.1")}
        self.write_plan(**pinned)
        self.capture()
        self.judge(expect=None)
        self.assertEqual([boot["arm"] for boot in self.boots()], ["baseline", "candidate"])
        for boot in self.boots():
            [pin] = boot["pins"]
            self.assertEqual(pin["found_sha256"], pinned[boot["arm"]].rpartition(":")[2])
        self.assert_gone()

    def test_an_alias_of_the_configuration_is_another_machine_until_it_is_said(self):
        self.environment["DOCKER_HOST"] = self.docker_host(user="", host="build-7")
        self.write_plan()
        self.assertIn("whose free ports are not known here: write `network: bridge`", self.capture(expect=USAGE))
        self.assert_gone()

    # What ends.

    def assert_end(self, how):
        capture = self.start()
        capture.send_signal(how)
        capture.wait()
        self.assert_gone()

    def test_the_runner_is_killed(self):
        self.assert_end(signal.SIGKILL)

    def test_the_runner_is_told_to_end(self):
        self.assert_end(signal.SIGTERM)

    def test_the_runner_is_killed_and_its_ssh_is_a_script(self):
        self.server.write_client("")
        self.assert_end(signal.SIGKILL)

    def test_the_watchdog_is_killed_too_and_cleanup_is_called(self):
        capture = self.start()
        [watchdog] = self.processes("watchdog")
        os.kill(watchdog, signal.SIGKILL)
        capture.kill()
        capture.wait()
        [container] = self.engine.containers()
        result = self.call("cleanup", "--all")
        self.assertEqual(result.returncode, ACCEPT, result.stderr)
        self.assertIn(f"container {container} of a dead run: removed", result.stdout)
        self.assert_gone()

    def test_a_tunnel_that_is_lost_is_said_and_the_watchdog_makes_its_own(self):
        capture = self.start()
        for pid in self.processes("ssh"):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(capture.wait(timeout=120), INFRASTRUCTURE, self.captured_log())
        self.assertIn(f"{self.docker_host()}: ", self.captured_log())
        self.assertIn("the ssh connection was lost", self.captured_log())
        self.assertIn(f"; run again when `ssh -p {self.server.port} root@127.0.0.1 true` works", self.captured_log())
        self.assert_gone()

    # What does not begin.

    def assert_refused(self, pattern):
        hint = f"see that `ssh -p {self.server.port} root@127.0.0.1 true` works without a question"
        said = self.cleanup(expect=INFRASTRUCTURE)
        expected = (
            re.escape(self.docker_host())
            + ": ssh cannot connect: "
            + pattern
            + re.escape(f"; nobody is asked for anything here: {hint}")
        )
        self.assertRegex(said, f"^{expected}$")
        self.assert_gone()

    def test_an_unknown_host_key(self):
        (self.server.folder / "known_hosts").write_text("")
        self.assert_refused(r"No ED25519 host key is known for .*Host key verification failed\.")

    def test_a_key_that_is_not_let_in(self):
        self.server.make_key("stranger")
        (self.server.folder / "stranger").replace(self.server.folder / "user_key")
        self.assert_refused(r".*Permission denied \(publickey\)\.")

    def test_nobody_listens_there(self):
        self.server.process.kill()
        self.server.process.wait()
        self.assert_refused(r"ssh: connect to host 127\.0\.0\.1 port \d+: Connection refused")

    def test_no_engine_there(self):
        self.environment["DOCKER_HOST"] = self.docker_host(path="/run/no-such-engine.sock")
        said = self.cleanup(expect=INFRASTRUCTURE)
        self.assertRegex(said, r": version: the engine .*; ssh says: .*open failed.*; see that the engine listens at /run/no-such")
        self.assert_gone()

    def test_no_forwarding_there(self):
        with sshd.Sshd(self.folder / "closed", forwarding="no") as self.server:
            self.environment |= {"PATH": f"{self.server.bin}:/usr/bin", "DOCKER_HOST": self.docker_host()}
            said = self.cleanup(expect=INFRASTRUCTURE)
        self.assertRegex(said, r"ssh says: .*open failed.* \(AllowStreamLocalForwarding\)$")
        self.assert_gone()

    def test_no_ssh_here(self):
        self.environment["PATH"] = str(self.sockets)
        self.assertIn(": ssh: there is no such program in PATH", self.cleanup(expect=INFRASTRUCTURE))

    def test_an_option_in_the_place_of_a_host(self):
        self.environment["DOCKER_HOST"] = f"ssh://-oProxyCommand=touch{self.sockets}/x"
        self.assertIn("must be ssh://[USER@]HOST", self.cleanup(expect=USAGE))


if __name__ == "__main__":
    docker_harness.main()
