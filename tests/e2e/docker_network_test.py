"""Servers on networks of the engine's own, which publishes their port.

The test, its engine and its registry are in a network namespace of their own: bridges
come and go with it, and nothing of the machine's network is changed.
"""

import ctypes
import fcntl
import os
import socket
import struct

import docker_harness
import engine
from docker_harness import READY
from harness import ACCEPT, INFRASTRUCTURE

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def enter_own_network():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: a network namespace of one's own")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack("16sh22x", request)[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


class Networks(docker_harness.Experiment):
    @classmethod
    def setUpClass(cls):
        enter_own_network()
        cls.engine = engine.Engine(bridge="")
        cls.addClassCleanup(cls.engine.stop)
        cls.engine.start()

    def push(self, version, **options):
        """A server that listens for others than itself, as it has to in a network of its own."""
        return super().push(version, Entrypoint=["/upgrade-gate-server", "--host", "0.0.0.0"], **options)

    def measure(self, network):
        self.write_plan(server=f"{READY}\n  network: {network}")
        self.capture()
        self.assertEqual(self.judge()["orchestration"], "complete")
        verified = self.call("verify", self.run_folder)
        self.assertEqual(verified.returncode, ACCEPT, verified.stdout + verified.stderr)

    def test_bridge(self):
        self.measure("bridge")

    def test_network_of_a_name(self):
        status, answer = self.engine.request("POST", "/networks/create", {"Name": "models"})
        self.assertEqual(status, 201, answer)
        self.addCleanup(self.engine.request, "DELETE", "/networks/models")
        self.measure("models")

    def test_network_that_is_not_there(self):
        self.write_plan(server=f"{READY}\n  network: nowhere")
        self.assertIn("network nowhere not found", self.capture(INFRASTRUCTURE))

    def test_the_port_is_for_this_machine_only(self):
        self.write_plan(server=f"{READY}\n  network: bridge", requests=2000)
        capture = self.start_capture()
        self.addCleanup(capture.wait)
        self.addCleanup(capture.kill)
        container = self.wait_for_container()
        seen = self.engine.request("GET", f"/containers/{container}/json")[1]
        [published] = seen["NetworkSettings"]["Ports"]["8000/tcp"]
        self.assertEqual(published["HostIp"], "127.0.0.1")
        self.assertNotEqual(int(published["HostPort"]), 0)
        self.assertEqual(seen["HostConfig"]["NetworkMode"], "bridge")
        capture.terminate()
        self.assertEqual(capture.wait(timeout=60), INFRASTRUCTURE, self.captured_log())


if __name__ == "__main__":
    docker_harness.main()
