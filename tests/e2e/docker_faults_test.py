"""What can go wrong with images, registries, engines and servers in containers: each
fault has its own message and exit code, and none leaves anything behind."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import docker_harness
from docker_harness import container_image, engine, server_image
from docker_hostile_registry import HostileRegistry
from harness import ACCEPT, INFRASTRUCTURE, USAGE

SLOW = "  ready: {timeout: 20s}\n  limits: {pull: 3s}"


class Registries(docker_harness.Experiment):
    """The baseline's image comes from where it should; the candidate's does not."""

    def fails(self, fault, *messages, server=SLOW):
        reference = self.push("1.1")
        with HostileRegistry(self.engine.registry, fault) as hostile:
            candidate = reference.replace(self.engine.registry, hostile.address)
            self.write_plan(candidate=candidate, server=server)
            output = self.capture(INFRASTRUCTURE)
        for message in (candidate, *messages):
            self.assertIn(message, output)
        self.assertEqual(list(self.run_folder.glob("evidence/boots/*")), [], "nothing is booted before both are there")

    def test_corrupt_layer(self):
        self.fails("corrupt_layer", "filesystem layer verification failed")

    def test_corrupt_manifest(self):
        self.fails("corrupt_manifest", "manifest verification failed")

    def test_truncated_layer(self):
        self.fails("truncate", "pull")

    def test_hanging_layer(self):
        self.fails("hang", "pull")

    def test_silent(self):
        self.fails("silent", "pull")

    def test_token_refused(self):
        self.fails("unauthorized", "unauthorized")

    def test_password_wanted(self):
        self.fails("basic", "no basic auth credentials")

    def test_rate_limit(self):
        self.fails("rate_limit", "toomanyrequests: you have reached the limit of pulls")

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
        output = self.capture(INFRASTRUCTURE)
        self.assertIn(absent, output)
        self.assertIn("manifest unknown", output)

    def test_never_pulled(self):
        self.write_plan(server=docker_harness.READY + "\n  pull: never")
        output = self.capture(USAGE)
        self.assertIn("pull: never", output)

    def test_a_tag_that_moved_is_harmless(self):
        pinned = self.push("1.0", tag="stable")
        self.write_plan(baseline=pinned.replace("/server@", "/server:stable@"))
        self.push("6.6", tag="stable")
        self.capture()
        self.assertEqual(self.versions(), {"baseline": "1.0", "candidate": "1.1"})

    def test_another_platform(self):
        self.write_plan(candidate=self.repository().push(server_image("1.1", architecture="arm64")))
        output = self.capture(USAGE)
        self.assertIn("arm64", output)

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
        self.assertIn("/nothing", output)


if __name__ == "__main__":
    docker_harness.main()
