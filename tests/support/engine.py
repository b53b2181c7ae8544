#!/usr/bin/env python3
"""A container engine and a registry of our own, for tests and the demo.

Debian's containerd, dockerd and docker-registry run below one temporary folder,
on sockets and a loopback port of their own: nothing of an engine that the machine
has is used or changed, and nothing is left after stop().

    with engine.Engine() as own:            # in a test
        own.docker_host, own.registry       # unix:///tmp/…/docker.sock, 127.0.0.1:41234

    engine.py start STATE                   # shared: STATE names it until `stop STATE`
    engine.py stop STATE

An engine belongs to the process that made it (`start`: to the caller's). Whoever
starts the next one removes those of owners that are dead.

Debian's programs, unless others stand before them in PATH: so the same tests hold newer
engines (PATH=FOLDER:$PATH ctest --preset release -R "^docker_"); docker_layout_test names
the ids of Debian's, which one with containerd's image store does not give.

UPGRADE_GATE_ENGINE_TESTS=off turns tests with an engine off: they end with code 77,
which CTest shows as skipped. Whatever else is missing is a failure.
"""

import hashlib
import http.client
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77  # SKIP_RETURN_CODE of the CTest tests
PREFIX = "upgrade-gate-engine-"
START_SECONDS = 60
STOP_SECONDS = 20
# What runs below the folder, by the name of the program. The shims are started by
# containerd and live on when it dies.
PROGRAMS = {"containerd", "containerd-shim", "containerd-shim-runc-v2", "dockerd", "docker-registry", "runc"}
SHIM_SOCKETS = pathlib.Path("/run/containerd/s")  # no option of containerd changes it
CGROUPS = pathlib.Path("/sys/fs/cgroup")

CONTAINERD_CONFIG = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/containerd.sock"
[ttrpc]
  address = "{folder}/containerd.sock.ttrpc"
"""

REGISTRY_CONFIG = """\
version: 0.1
log: {{level: info}}
storage:
  filesystem: {{rootdirectory: {folder}/registry}}
  delete: {{enabled: true}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class EngineError(Exception):
    pass


def turned_off():
    """Says so where tests with an engine are not wanted."""
    value = os.environ.get("UPGRADE_GATE_ENGINE_TESTS", "on")
    if value == "on":
        return False
    if value != "off":
        raise EngineError(f"UPGRADE_GATE_ENGINE_TESTS is {value!r}: set it to on or off")
    print("UPGRADE_GATE_ENGINE_TESTS=off: tests with a container engine are OFF; nothing was tested", file=sys.stderr)
    return True


def check_requirements():
    missing = [
        package
        for program, package in (
            ("dockerd", "docker.io"),
            ("containerd", "containerd"),
            ("runc", "runc"),
            ("docker-registry", "docker-registry"),
        )
        if find_program(program) is None
    ]
    if missing:
        raise EngineError(f"no {' '.join(missing)}: apt-get install {' '.join(missing)}, or run ci/install_packages.sh")
    if os.geteuid() != 0:
        raise EngineError("a container engine is started by root only: run as root")


def find_program(name):
    # A user's PATH need not have the folders of daemons.
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin")


def start_time(pid):
    """Of a process, in ticks since the boot; None: there is none, or a dead one."""
    try:
        after_name = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in "ZX" else int(after_name[19])


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise EngineError(f"not within {seconds} s: {what()}")
        time.sleep(0.02)  # between two looks; the condition decides
    return result


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Engine:
    """One engine and one registry below `folder`, running between start() and stop()."""

    def __init__(self, owner=None, bridge="none"):
        """`bridge` as dockerd takes it: "" makes one, for a network namespace of one's own."""
        owner = owner or os.getpid()
        self.bridge = bridge
        # The owner is in the name, so that there is no moment without it.
        name = f"{PREFIX}{owner}-{start_time(owner)}-{secrets.token_hex(4)}"
        self._use(pathlib.Path(tempfile.gettempdir()).resolve() / name)

    def _use(self, folder):
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.docker_host = f"unix://{self.socket}"
        self.registry = None  # host:port, once it listens
        self.children = []

    @classmethod
    def of_folder(cls, folder, registry=None):
        engine = cls.__new__(cls)
        engine.bridge = "none"
        engine._use(pathlib.Path(folder))
        engine.registry = registry
        return engine

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        check_requirements()
        sweep()
        # A socket's address has 108 bytes, and the longest of them is libnetwork's.
        longest = self.folder / "exec/libnetwork/0123456789ab.sock"
        if len(str(longest)) > 100:
            raise EngineError(f"{self.folder}: too long a path for sockets; set TMPDIR to a shorter one")
        self.folder.mkdir(mode=0o700)
        (self.folder / "containerd.toml").write_text(CONTAINERD_CONFIG.format(folder=self.folder))
        # Docker's own key would go to /etc/docker.
        daemon = {"deprecated-key-path": f"{self.folder}/key.json", "exec-opts": ["native.cgroupdriver=cgroupfs"]}
        (self.folder / "daemon.json").write_text(json.dumps(daemon))
        self.start_containerd()
        self.start_registry()
        self.start_dockerd()

    def start_containerd(self):
        self._spawn("containerd", "--config", self.folder / "containerd.toml")

    def start_dockerd(self, *options):
        """Returns when it answers."""
        # One that was killed left it, and dockerd believes it while its parent has not waited.
        (self.folder / "dockerd.pid").unlink(missing_ok=True)
        process = self._spawn(
            "dockerd",
            *("--config-file", self.folder / "daemon.json"),
            *("-H", self.docker_host),
            *("--data-root", self.folder / "data"),
            *("--exec-root", self.folder / "exec"),
            *("-p", self.folder / "dockerd.pid"),
            *("--containerd", self.folder / "containerd.sock"),
            *("--cgroup-parent", f"/{self.folder.name}"),
            # Containers use the host's network; the machine's own is left as it is.
            *(f"--bridge={self.bridge}", "--iptables=false", "--ip-forward=false", "--ip-masq=false"),
            *("--shutdown-timeout", "5"),
            *options,
        )
        self._wait_for(process, "dockerd", self._engine_answers)

    def start_registry(self, port=0):
        config = self.folder / "registry.yaml"
        if self.registry:
            port = self.registry.rpartition(":")[2]
        config.write_text(REGISTRY_CONFIG.format(folder=self.folder, port=port))
        log = self.folder / "docker-registry.log"
        log.unlink(missing_ok=True)
        process = self._spawn("docker-registry", "serve", config)
        # The kernel chose the port.
        listening = re.compile(r"listening on (127\.0\.0\.1:[0-9]+)")
        found = self._wait_for(process, "docker-registry", lambda: listening.search(log.read_text(errors="replace")))
        self.registry = found[1]
        self._wait_for(process, "docker-registry", self._registry_answers)

    def request(self, method, path, body=None, timeout=60):
        """Of the Engine API: status and the body, decoded where it is JSON."""
        connection = UnixConnection(self.socket, timeout)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            content = response.read()
            is_json = response.headers.get("Content-Type", "").startswith("application/json")
            # A pull answers with a stream of JSON texts.
            return response.status, json.loads(content) if is_json and content.count(b"\n") <= 1 else content.decode()
        finally:
            connection.close()

    def containers(self):
        """Names of all there are, running or not."""
        status, found = self.request("GET", "/containers/json?all=1")
        if status != 200:
            raise EngineError(f"GET /containers/json: {status} {found}")
        return [container["Names"][0].lstrip("/") for container in found]

    def processes(self, of=None):
        """Ids of what runs below the folder: of one program, of the containers ("container"), or of all."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                cgroup = (entry / "cgroup").read_text()
            except OSError:
                continue
            kind = None
            if f"/{self.folder.name}/" in cgroup:
                kind = "container"
            elif os.path.basename(argv[0]) in PROGRAMS and any(str(self.folder) in argument for argument in argv):
                kind = os.path.basename(argv[0])
            if kind and of in (None, kind) and start_time(entry.name) is not None:
                found.append(int(entry.name))
        return found

    def end(self, program, how=signal.SIGTERM, seconds=STOP_SECONDS):
        """Ends one of the programs and waits until it is gone."""
        for pid in self.processes(program):
            _signal(pid, how)
        wait_until(lambda: not self.processes(program), seconds, lambda: f"end of {program}")

    def stop(self):
        """Ends everything and removes every trace, or says what is left."""
        # Containers first: dockerd would wait for those that ignore TERM.
        self._kill(self.processes("container"))
        try:
            self.end("dockerd")
        except EngineError:
            pass  # killed below, with all the others
        self._kill(self.processes())
        for child in self.children:
            child.wait()  # dead, and so no longer in the process table
        self.children.clear()
        self._remove_shim_sockets()
        for mount in reversed(self.mounts()):
            subprocess.run(["umount", "--lazy", mount], check=False)
        if self.mounts():
            raise EngineError(f"still mounted: {' '.join(self.mounts())}")
        wait_until(self._remove_cgroups, STOP_SECONDS, lambda: f"removal of the cgroups {self.folder.name}")
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _kill(self, pids):
        def ended():
            for pid in (left := [pid for pid in pids if start_time(pid) is not None]):
                _signal(pid, signal.SIGKILL)
            return not left

        wait_until(ended, STOP_SECONDS, lambda: f"end of the processes {pids} below {self.folder}")

    def mounts(self):
        found = []
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4])
            if pathlib.Path(point).is_relative_to(self.folder):
                found.append(point)
        return found

    def _spawn(self, program, *arguments):
        check_requirements()
        log = open(self.folder / f"{program}.log", "ab")
        with log:
            # In a session of its own: a key pressed at the terminal is not for it.
            child = subprocess.Popen(
                [find_program(program), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
            )
        self.children.append(child)
        return child

    def _wait_for(self, process, program, answers):
        def look():
            if process.poll() is not None:
                raise EngineError(f"{program} ended with {process.returncode}:\n{self.log_tail(program)}")
            return answers()

        return wait_until(look, START_SECONDS, lambda: f"{program} answers:\n{self.log_tail(program)}")

    def log_tail(self, program, lines=15):
        text = (self.folder / f"{program}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _engine_answers(self):
        try:
            return self.request("GET", "/_ping", timeout=5)[0] == 200
        except OSError:
            return False

    def _registry_answers(self):
        connection = http.client.HTTPConnection(self.registry, timeout=5)
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _remove_shim_sockets(self):
        # A shim that was killed leaves its socket, named by what it belongs to. The
        # folder stays: other engines' shims are made in it at any moment.
        for container in (self.folder / "data/containers").glob("*"):
            name = f"{self.folder}/containerd.sock/moby/{container.name}"
            (SHIM_SOCKETS / hashlib.sha256(name.encode()).hexdigest()).unlink(missing_ok=True)

    def _remove_cgroups(self):
        """Whether none is left; a group is busy for a moment after its last process."""
        busy = False
        for root in [CGROUPS, *CGROUPS.iterdir()]:
            for folder, _, _ in os.walk(root / self.folder.name, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    busy = True
        return not busy


def _signal(pid, how):
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        pass


def sweep():
    """Removes the engines whose owner is dead."""
    for folder in pathlib.Path(tempfile.gettempdir()).resolve().glob(f"{PREFIX}*"):
        match = re.fullmatch(PREFIX + r"(\d+)-(\d+)-[0-9a-f]{8}", folder.name)
        if match and start_time(match[1]) != int(match[2]):
            print(f"removing what is left of a container engine: {folder}", file=sys.stderr)
            Engine.of_folder(folder).stop()


def start_shared(state):
    state = pathlib.Path(state)
    stop_shared(state)
    engine = Engine(owner=os.getppid())
    state.parent.mkdir(parents=True, exist_ok=True)
    # Before anything runs: the clean-up after a failure needs it.
    state.write_text(json.dumps({"folder": str(engine.folder)}))
    engine.start()
    state.write_text(
        json.dumps({"folder": str(engine.folder), "docker_host": engine.docker_host, "registry": engine.registry})
    )
    print(f"DOCKER_HOST={engine.docker_host}\nREGISTRY={engine.registry}")


def stop_shared(state):
    state = pathlib.Path(state)
    if state.exists():
        Engine.of_folder(json.loads(state.read_text())["folder"]).stop()
        state.unlink()


def shared(state):
    """The running engine that `start STATE` made."""
    try:
        found = json.loads(pathlib.Path(state).read_text())
        return Engine.of_folder(found["folder"], found["registry"])
    except (OSError, KeyError, ValueError):
        raise EngineError(f"{state}: no engine was started: see the test that starts it") from None


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("start", "stop"):
        print("usage: engine.py start STATE | stop STATE", file=sys.stderr)
        return 12
    try:
        if turned_off():
            return SKIPPED
        {"start": start_shared, "stop": stop_shared}[arguments[0]](arguments[1])
    except EngineError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
