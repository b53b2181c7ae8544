"""What can go wrong with images, registries, engines and servers in containers: each
fault has its own message and exit code, and none leaves anything behind."""

import json
import os
import pathlib
import socket
import subprocess
import threading

import docker_harness
from docker_harness import container_image, engine, server_image
from docker_hostile_registry import HostileRegistry
from harness import ACCEPT, INFRASTRUCTURE, USAGE

SLOW = "  ready: {timeout: 20s}\n  deadlines: {pull: 3s}"
PULL_LIMIT = r"the limit is `deadlines: \{pull: …\}`"


class Registries(docker_harness.Experiment):
    """The baseline's image comes from where it should; the candidate's does not."""

    def fails(self, fault, *messages, server=SLOW):
        reference = self.push("1.1")
        with HostileRegistry(self.engine.registry, fault) as hostile:
            candidate = reference.replace(self.engine.registry, hostile.address)
            self.write_plan(candidate=candidate, server=server)
            output = self.capture(INFRASTRUCTURE)
        self.assertIn(candidate, output)
        for message in messages:
            self.assertRegex(output, message)
        self.assertEqual(list(self.run_folder.glob("evidence/boots/*")), [], "nothing is booted before both are there")

    # After the bar: what engines with containerd's image store say.

    def test_corrupt_layer(self):
        self.fails("corrupt_layer", "filesystem layer verification failed|unexpected commit digest")

    def test_corrupt_manifest(self):
        self.fails("corrupt_manifest", "manifest verification failed|failed size validation")

    def test_truncated_layer(self):
        self.fails("truncate", f"{PULL_LIMIT}|short read: expected")

    def test_hanging_layer(self):
        self.fails("hang", PULL_LIMIT)

    def test_silent(self):
        self.fails("silent", PULL_LIMIT)

    def test_token_refused(self):
        self.fails("unauthorized", "unauthorized")

    def test_password_wanted(self):
        self.fails("basic", "no basic auth credentials")

    def test_rate_limit(self):
        self.fails("rate_limit", "toomanyrequests: you have reached the limit of pulls|429 Too Many Requests")

    def test_server_error(self):
        self.fails("server_error", "500 Internal Server Error")

    def test_dead(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
            self.write_plan(candidate=self.push("1.1").replace(self.engine.registry, address), server=SLOW)
            self.assertIn("connection refused", self.capture(INFRASTRUCTURE))


class Images(docker_harness.Experiment):
    def test_digest_that_is_not_there(self):
        absent = f"{self.engine.registry}/server@sha256:{'5' * 64}"
        self.write_plan(candidate=absent)
        output = self.capture(USAGE)
        self.assertIn(absent, output)
        self.assertIn("see that the digest in the plan is one of this repository", output)

    def test_never_pulled(self):
        self.write_plan(server=docker_harness.READY + "\n  pull: never")
        output = self.capture(USAGE)
        self.assertIn("does not have it, and the plan says `pull: never`", output)

    def test_a_tag_that_moved_is_harmless(self):
        pinned = self.push("1.0", tag="stable")
        self.write_plan(baseline=pinned.replace("/server@", "/server:stable@"))
        self.push("6.6", tag="stable")
        self.capture()
        self.assertEqual([boot["version"] for boot in self.boots()], ["1.0", "1.1"])

    def test_another_platform(self):
        self.write_plan(candidate=self.repository().push(server_image("1.1", architecture="arm64")))
        output = self.capture(USAGE)
        self.assertIn("is an image for linux/arm64, and the engine at", output)

    def test_an_index_and_the_manifest_of_it(self):
        image = server_image("1.1")
        images = {container_image.ARCHITECTURES[os.uname().machine]: image, "s390x": server_image("9.9")}
        index = self.repository().push_index(images)
        self.assertNotIn(image.digest, index)
        self.write_plan(baseline=f"{self.repository().reference}@{image.digest}", candidate=index)
        self.capture()

    def test_an_image_without_what_starts(self):
        self.write_plan(candidate=self.push("1.1", Entrypoint=["/nothing"]))
        output = self.capture(INFRASTRUCTURE)
        self.assertIn("exit: exit code 127\n", output)
        self.assertIn("exec /nothing failed: No such file or directory", output)


class Servers(docker_harness.Experiment):
    """The candidate's server is faulty in one way; `extra` are lines of its profile."""

    def fails(self, extra, *messages, expect=INFRASTRUCTURE, server=docker_harness.READY, **plan):
        self.write_plan(candidate=self.push("1.1", extra=extra), server=server, **plan)
        output = self.capture(expect)
        for message in messages:
            self.assertIn(message, output)
        return output

    def test_exit_at_start(self):
        extra = 'exit_at_start: {code: 3, line: "no kernel image"}'
        self.fails(extra, "exited", "before it was ready", "exit: exit code 3\n", "no kernel image\n")

    def test_crash_at_start(self):
        extra = "crash_after_requests: 0"
        self.fails(extra, "exited", "before it was ready", "exit: exit code 134: signal 6 (Aborted)\n")

    def test_never_ready(self):
        self.fails("never_ready: true", "server not ready after 3s", "HTTP 503", server="  ready: {timeout: 3s}")

    def test_another_model(self):
        image = self.push("1.1", extra="", Entrypoint=["/upgrade-gate-server", "--model", "other"])
        self.write_plan(candidate=image)
        output = self.capture(INFRASTRUCTURE)
        self.assertIn('serves other models than the plan names: /health answered 200; /v1/models lists "other", not "tiny"', output)

    def test_term_is_ignored(self):
        self.write_plan(candidate=self.push("1.1", extra="ignore_term: true"))
        self.capture()
        self.assertEqual([boot["exit"] for boot in self.boots()], ["exit code 0", "exit code 137: signal 9 (Killed)"])

    def test_mount_source_that_is_not_there(self):
        source = self.folder / "weights"
        server = docker_harness.READY + f"\n  mounts: [{{source: {source}, target: /model}}]"
        self.write_plan(server=server)
        self.assertIn(f"bind source path does not exist: {source}", self.capture(INFRASTRUCTURE))
        self.assertFalse(source.exists(), "an engine makes missing folders of binds")

    def test_gpu_that_is_not_there(self):
        self.write_plan(server=docker_harness.READY + "\n  gpus: all")
        self.assertRegex(
            self.capture(INFRASTRUCTURE),
            r'(could not select device driver "" with capabilities: \[\[gpu\]\]|failed to discover GPU vendor from CDI: '
            r"no known GPU vendor found) \(HTTP 500\); the engine cannot give GPUs to containers: install the NVIDIA "
            "container toolkit there and restart it",
        )

    def test_port_that_is_taken(self):
        taken = threading.Event()

        def take():
            """Listens on the port of the first container before its server does."""
            connection = engine.UnixConnection(self.engine.socket, timeout=60)
            connection.request("GET", "/events?filters=" + '{"event":{"create":true},"type":{"container":true}}')
            event = json.loads(connection.getresponse().readline())
            connection.close()
            command = self.engine.request("GET", f"/containers/{event['Actor']['ID']}/json")[1]["Config"]["Cmd"]
            self.thief = socket.create_server(("127.0.0.1", int(command[command.index("--port") + 1])))
            taken.set()

        thread = threading.Thread(target=take)
        self.write_plan()
        thread.start()
        output = self.capture(INFRASTRUCTURE)
        thread.join()
        self.thief.close()
        self.assertTrue(taken.is_set())
        self.assertIn("exit: exit code 13\n", output)
        self.assertIn("cannot bind: Address already in use", output)

    def test_out_of_memory(self):
        """Against the limit of the group above all containers."""
        limit = 96 << 20
        groups = [pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")]
        group = next(root for root in groups if (root / "cgroup.procs").exists()) / self.engine.folder.name
        group.mkdir(exist_ok=True)
        names = [group / "memory.limit_in_bytes", group / "memory.max"]
        file = next(name for name in names if name.exists())
        before = file.read_text()
        file.write_text(str(limit))
        self.addCleanup(file.write_text, before)
        tail = docker_harness.container_image.program_image("/usr/bin/tail", {}, ["--lines=1", "/dev/zero", "--"])
        self.write_plan(candidate=self.repository("tail").push(tail))
        output = self.capture(INFRASTRUCTURE)
        self.assertIn("exit code 137: killed by the kernel for memory (OOMKilled)", output)


class Lines(docker_harness.Experiment):
    """Lines of a log: those that end a boot, and those that look like it."""

    FATAL = {
        "engine": "EngineCore encountered a fatal error.",
        "cuda": "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "hip": "torch.AcceleratorError: HIP error: an illegal memory access was encountered",
        "oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "nccl": "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
        "rccl": "RCCL error: unhandled system error",
        "worker": "Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
        "xid": "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
    }
    BENIGN = [
        "NCCL version 2.27.3+cuda12.9",
        "INFO 11-30 10:00:00 [cuda.py:300] Using Flash Attention backend on V1 engine.",
        "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0>",
        "Capturing CUDA graphs (decode, FULL): 100%|##########| 35/35",
        "INFO Maximum concurrency for 4,096 tokens per request: 462.27x; no error, no out of memory",
    ]

    def test_fatal(self):
        for kind, line in self.FATAL.items():
            with self.subTest(kind=kind):
                self.run_folder = self.folder / f"run-{kind}"
                extra = f"faults: [{{kind: log_line, every: 1, line: {json.dumps(line)}}}]"
                self.write_plan(candidate=self.push("1.1", extra=extra))
                output = self.capture(INFRASTRUCTURE)
                self.assertIn(line, output)
                self.assertIn("fatal", output)
                self.assert_nothing_left()

    def test_benign(self):
        extra = "faults: [{kind: log_line, every: 1, line: x}]\nlog_lines:" + "".join(
            f"\n  - {json.dumps(line)}" for line in self.BENIGN
        )
        self.write_plan(candidate=self.push("1.1", extra=extra))
        self.capture()
        self.judge()


class Engines(docker_harness.Experiment):
    """What happens to the engine or the disk during a run; an engine of its own."""

    @classmethod
    def setUpClass(cls):
        cls.engine = engine.Engine()
        cls.addClassCleanup(cls.engine.stop)
        cls.engine.start()

    def interrupted(self, how, expect=INFRASTRUCTURE):
        """Lets something happen while requests are under way; returns what the capture says."""
        self.write_plan(requests=600)
        capture = self.start_capture()
        self.addCleanup(capture.wait)
        self.addCleanup(capture.kill)
        engine.wait_until(
            lambda: "ready after" in self.captured_log() or capture.poll() is not None, 60, self.captured_log
        )
        how()
        self.assertEqual(capture.wait(timeout=120), expect, self.captured_log())
        return self.captured_log()

    def test_stopped(self):
        output = self.interrupted(lambda: self.engine.end("dockerd"))
        self.engine.start_dockerd()
        self.assertIn("the engine cannot be reached", output)
        self.assertRegex(output, r"the container \S+ could not be removed: when the engine is back, run `docker rm -f")
        # Nobody could remove it without an engine; the watchdog, which tries for a while, or
        # the next start does.
        self.run_folder = self.folder / "next"
        self.write_plan()
        self.capture()
        self.assertEqual(self.engine.containers(), [])

    def test_restarted(self):
        def restart():
            self.engine.end("dockerd")
            self.engine.start_dockerd()

        # The engine takes its servers along. What failed by that is nobody's measurement.
        output = self.interrupted(restart)
        self.assertRegex(
            output,
            r"boot 1 \(baseline\), case \S+ \S+ ?\d*: the container engine at \S+ (ended it with signal 15|was "
            r"restarted|stopped or restarted).*; that is not the server's doing and the round is not kept\. "
            r"Finished cases are: run the same command again to resume",
        )
        self.assertEqual([boot["stopped"] for boot in self.boots()], ["infrastructure"])
        self.resume()

    def test_container_killed_by_somebody(self):
        def kill():
            for name in self.engine.containers():
                status, answer = self.engine.request("POST", f"/containers/{name}/kill")
                self.assertEqual(status, 204, answer)

        output = self.interrupted(kill)
        self.assertIn("ended it with signal 9 (Killed), because it stopped or somebody told it to", output)
        self.resume()

    def resume(self):
        """The same command measures again what was lost, and nothing of it counts."""
        self.capture()
        self.assertEqual([boot["stopped"] for boot in self.boots()], ["infrastructure", "none", "none"])
        arms = self.judge(expect=None)["arms"]
        self.assertEqual([arms[arm]["failed"] for arm in ("baseline", "candidate")], [0, 0])
        self.assertEqual(self.engine.containers(), [])

    def test_no_room_at_the_start(self):
        self.mount_run_folder("1m")
        self.write_plan()
        self.assertRegex(self.capture(INFRASTRUCTURE), r"/run: \d+ MiB free, the run may write \d+ MiB; free some or choose")

    def test_disk_full_during_the_run(self):
        self.mount_run_folder("300m")

        def fill():
            with open(self.run_folder / "filler", "wb") as filler:
                try:
                    while filler.write(bytes(1 << 20)):
                        filler.flush()
                except OSError:
                    pass

        self.assertIn("No space left on device", self.interrupted(fill))

    def mount_run_folder(self, size):
        self.run_folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.run_folder], check=True)
        self.addCleanup(subprocess.run, ["umount", self.run_folder], check=True)


if __name__ == "__main__":
    docker_harness.main()
