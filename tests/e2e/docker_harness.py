"""What the tests of the docker launcher share: a tiny plan on two images of the
reference server, in the engine and the registry that UPGRADE_GATE_ENGINE names."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "fixtures/images")]
import container_image  # noqa: E402
import engine  # noqa: E402

from harness import ACCEPT, COMMAND, PROFILE, SERVER  # noqa: E402

PLAN = """\
version: 1
name: docker-small
model: {{served_name: tiny}}
server:
  launcher: docker
  command: [--profile, /profile.yaml, --port, $PORT]
  stop: {{timeout: 2s}}
{server}
arms:
  baseline:
    image: {baseline}
  candidate:
    image: {candidate}
boot_noise: {{value: 0%, reason: simulated}}
workload:
  prompts: {{kind: synthetic-tokens, seed: 7}}
  rounds: 1
  request_timeout: {request_timeout}
  stall_limit: 5s
  cases:
    - {{name: only, input_tokens: 64, output_tokens: 8, concurrency: 2, requests: {requests}}}
gates:
  - failures: {{kind: any, arm: candidate, max_rate: 99%}}
  - provenance: {{}}
"""
READY = "  ready: {timeout: 20s}"


@functools.cache
def libraries():
    return container_image.program_files(SERVER)


def server_image(version="1.0", extra="", files=None, **config):
    """The reference server with a profile; `extra` are more lines of it."""
    profile = PROFILE.format(version=version, prefill_rate="20000tok/s", extra=extra).encode()
    program = {"/upgrade-gate-server": pathlib.Path(SERVER).read_bytes(), "/profile.yaml": profile, **(files or {})}
    return container_image.build([libraries(), program], **{"Entrypoint": ["/upgrade-gate-server"], **config})


def processes(word, environment):
    """Ids of those with the word in their program's path or first argument, and the text in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            variables = (entry / "environ").read_bytes()
        except OSError:
            continue
        if any(word.encode() in argument for argument in argv[:2]) and environment.encode() in variables:
            found.append(int(entry.name))
    return found


class Experiment(unittest.TestCase):
    """A folder with a plan, an engine without images; no container is left afterwards."""

    @classmethod
    def setUpClass(cls):
        cls.engine = engine.shared(os.environ["UPGRADE_GATE_ENGINE"])

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-e2e-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.assert_nothing_left)
        self.run_folder = self.folder / "run"
        self.plan = self.folder / "plan.yaml"
        self.environment = {
            **os.environ,
            "DOCKER_HOST": self.engine.docker_host,
            # Captures of other builds on this machine are none of these tests' business.
            "UPGRADE_GATE_HOST_LOCK": str(self.folder / "host.lock"),
        }
        self.remove_images()

    def remove_images(self):
        for image in self.engine.request("GET", "/images/json?all=1")[1]:
            self.engine.request("DELETE", f"/images/{image['Id']}?force=1")

    def repository(self, name="server", registry=None):
        return container_image.Repository(f"{registry or self.engine.registry}/{name}")

    def push(self, *arguments, tag=None, **options):
        return self.repository().push(server_image(*arguments, **options), tag)

    def write_plan(self, baseline=None, candidate=None, server=READY, requests=4, request_timeout="20s"):
        baseline = baseline or self.push("1.0")
        candidate = candidate or self.push("1.1")
        self.plan.write_text(PLAN.format(**{name: value for name, value in locals().items() if name != "self"}))

    def call(self, *arguments, timeout=120):
        return subprocess.run(
            [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, env=self.environment
        )

    def capture(self, expect=ACCEPT):
        """What it wrote to stderr."""
        result = self.call("capture", self.plan, "--run", self.run_folder)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result.stderr

    def judge(self, expect=ACCEPT):
        """`expect` None: whatever it says of a client on a busy machine."""
        result = self.call("judge", self.run_folder, "--format", "json")
        if expect is not None:
            self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def boots(self):
        """The records of all boots, in order."""
        paths = sorted(self.run_folder.glob("evidence/boots/*/boot.json"))
        return [json.loads(path.read_text()) for path in paths]

    def start_capture(self):
        """One that runs beside the test; its output goes to capture.log."""
        with open(self.folder / "capture.log", "wb") as log:
            return subprocess.Popen(
                [COMMAND, "capture", str(self.plan), "--run", str(self.run_folder)],
                stdout=log,
                stderr=log,
                env=self.environment,
            )

    def captured_log(self):
        return (self.folder / "capture.log").read_text()

    def wait_for_container(self, boot=1):
        """The id of the container of a boot, once it runs."""

        def look():
            for container in self.engine.request("GET", "/containers/json")[1]:
                if container["Labels"]["org.upgrade-gate.boot"] == str(boot):
                    return container["Id"]
            return None

        return engine.wait_until(look, 30, lambda: f"a running container of boot {boot}")

    def assert_nothing_left(self):
        self.assertEqual(self.engine.containers(), [])
        self.assertEqual(self.engine.request("GET", "/volumes")[1]["Volumes"] or [], [])


def main():
    if engine.turned_off():
        sys.exit(engine.SKIPPED)
    unittest.main(verbosity=2)
