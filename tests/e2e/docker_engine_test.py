"""The engine and the images that other tests stand on: that they are what they say
they are, and that nothing is left of them."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "fixtures/images")]
import container_image  # noqa: E402
import engine  # noqa: E402

SERVER = os.environ["UPGRADE_GATE_SERVER"]
PROFILES = ROOT / "suites/plans/profiles"
SCRIPT = ROOT / "tests/support/engine.py"


def server_image(profile):
    content = (PROFILES / f"{profile}.yaml").read_bytes()
    return container_image.program_image(SERVER, {"/profile.yaml": content})


def run_container(own, reference, command, name):
    """Pulls and starts as the engine's interface has it, without a client of its maker."""
    name_part, _, pin = reference.partition("@")
    status, text = own.request("POST", f"/images/create?fromImage={name_part}&tag={pin}")
    assert status == 200 and "errorDetail" not in text, text
    body = {"Image": reference, "Cmd": command, "HostConfig": {"NetworkMode": "host", "Init": True}}
    status, created = own.request("POST", f"/containers/create?name={name}", body)
    assert status == 201, created
    status, started = own.request("POST", f"/containers/{name}/start")
    assert status == 204, started


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def traces(own):
    """Everything on this machine that belongs to an engine."""
    name = own.folder.name
    found = [f"process {pid}" for pid in own.processes()] + own.mounts()
    found += map(str, pathlib.Path("/sys/fs/cgroup").glob(f"*/{name}"))
    found += map(str, pathlib.Path("/sys/fs/cgroup").glob(name))
    found += [str(own.folder)] if own.folder.exists() else []
    return found


class Images(unittest.TestCase):
    def test_same_input_gives_same_digests(self):
        first, again, other = server_image("baseline"), server_image("baseline"), server_image("candidate")
        self.assertEqual((first.digest, first.config_digest), (again.digest, again.config_digest))
        self.assertNotEqual(first.digest, other.digest)
        self.assertNotEqual(first.config_digest, other.config_digest)
        self.assertEqual(first.layers[0], other.layers[0], "the libraries are one layer of both")

    def test_a_server_of_each_image_answers(self):
        with engine.Engine() as own:
            repository = container_image.Repository(f"{own.registry}/reference-server")
            for profile, version in (("baseline", "0.31.0+article"), ("candidate", "0.32.0")):
                reference = repository.push(server_image(profile), profile)
                port = free_port()
                run_container(own, reference, ["--profile", "/profile.yaml", "--port", str(port)], profile)
                self.assertEqual(self.version(port), version)
            self.assertCountEqual(own.containers(), ["baseline", "candidate"])

    def version(self, port):
        def answer():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            try:
                connection.request("GET", "/version")
                return json.loads(connection.getresponse().read())["version"]
            except ConnectionRefusedError:
                return None
            finally:
                connection.close()

        return engine.wait_until(answer, 20, lambda: f"a server on port {port}")


class Traces(unittest.TestCase):
    def start_with_container(self):
        own = engine.Engine()
        self.addCleanup(own.stop)
        own.start()
        sleep = container_image.program_image("/usr/bin/sleep", {})
        run_container(own, container_image.Repository(f"{own.registry}/sleep").push(sleep), ["600"], "sleeper")
        self.assertTrue(own.processes("container"))
        return own

    def test_nothing_is_left_after_stop(self):
        own = self.start_with_container()
        own.stop()
        self.assertEqual(traces(own), [])

    def test_nothing_is_left_of_a_killed_engine(self):
        own = self.start_with_container()
        for program in ("dockerd", "containerd", "docker-registry"):
            own.end(program, signal.SIGKILL)
        self.assertTrue(own.processes("container"), "containers live on")
        self.assertTrue(own.mounts())
        own.stop()
        self.assertEqual(traces(own), [])

    def test_a_restarted_engine_knows_its_containers_and_images(self):
        own = self.start_with_container()
        own.end("dockerd", signal.SIGKILL)
        own.start_dockerd()
        self.assertEqual(own.containers(), ["sleeper"])
        own.end("docker-registry")
        before = own.registry
        own.start_registry()
        self.assertEqual(own.registry, before)

    def test_the_next_start_removes_the_engine_of_a_dead_owner(self):
        with tempfile.TemporaryDirectory(prefix="upgrade-gate-e2e-") as folder:
            states = [pathlib.Path(folder) / f"{name}.json" for name in ("first", "second")]
            for state in states:
                # The owner is the shell, which ends after it.
                command = f'"{sys.executable}" -B "{SCRIPT}" start "{state}"; exit $?'
                result = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120)
                self.assertEqual(result.returncode, 0, result.stderr)
            first, second = (engine.Engine.of_folder(json.loads(state.read_text())["folder"]) for state in states)
            self.addCleanup(second.stop)
            self.assertIn(f"removing what is left of a container engine: {first.folder}", result.stderr)
            self.assertEqual(traces(first), [])
            self.assertTrue(second.processes("dockerd"))
            engine.stop_shared(states[1])
            self.assertEqual(traces(second), [])
            self.assertFalse(states[1].exists())


class Refusals(unittest.TestCase):
    def start(self, **options):
        with tempfile.TemporaryDirectory(prefix="upgrade-gate-e2e-") as folder:
            state = pathlib.Path(folder) / "state.json"
            return subprocess.run(
                [sys.executable, "-B", SCRIPT, "start", state], capture_output=True, text=True, timeout=60, **options
            )

    def test_turned_off_is_said_and_is_no_success(self):
        result = self.start(env={**os.environ, "UPGRADE_GATE_ENGINE_TESTS": "off"})
        self.assertEqual(result.returncode, 77)
        self.assertEqual(
            result.stderr,
            "UPGRADE_GATE_ENGINE_TESTS=off: tests with a container engine are OFF; nothing was tested\n",
        )

    def test_other_values_are_errors(self):
        result = self.start(env={**os.environ, "UPGRADE_GATE_ENGINE_TESTS": "0"})
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "engine: UPGRADE_GATE_ENGINE_TESTS is '0': set it to on or off\n")

    def test_what_is_missing_is_named_with_its_package(self):
        find = engine.find_program
        self.addCleanup(setattr, engine, "find_program", find)
        engine.find_program = lambda name: None if name in ("dockerd", "docker-registry") else find(name)
        with self.assertRaises(engine.EngineError) as raised:
            engine.Engine().start()
        self.assertEqual(
            str(raised.exception),
            "no docker.io docker-registry: apt-get install docker.io docker-registry, or run ci/install_packages.sh",
        )

    def test_a_user_is_told_to_be_root(self):
        find = os.geteuid
        self.addCleanup(setattr, os, "geteuid", find)
        os.geteuid = lambda: 1000
        with self.assertRaises(engine.EngineError) as raised:
            engine.Engine().start()
        self.assertEqual(str(raised.exception), "a container engine is started by root only: run as root")


if __name__ == "__main__":
    if engine.turned_off():
        sys.exit(engine.SKIPPED)
    unittest.main(verbosity=2)
