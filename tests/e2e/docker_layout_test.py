"""Images of OCI layouts: no registry is there to pull from."""

import dataclasses
import json
import os

import docker_harness
from docker_harness import container_image, engine, server_image
from harness import ACCEPT, INFRASTRUCTURE, USAGE
from oci_layout import Layout

ARCHITECTURE = container_image.ARCHITECTURES[os.uname().machine]


class LayoutExperiment(docker_harness.Experiment):
    """`images` beside the plan; what a test loads is removed."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove_images)
        self.layout = Layout(self.folder / "images")

    def image_ids(self):
        return sorted(image["Id"] for image in self.engine.request("GET", "/images/json?all=1")[1])

    def unpacked_by_nobody(self):
        """The engine's own files of a load that went on or was given up."""
        data = self.engine.folder / "data"
        return [*(data / "tmp").glob("*"), *(data / "image").glob("*/imagedb/content/sha256/*")]


class Run(LayoutExperiment):
    def test_two_arms_become_a_verdict(self):
        old, new = server_image("1.0"), server_image("1.1")
        baseline = self.layout.add(old, "1.0", packing="gzip")
        candidate = self.layout.add_index({ARCHITECTURE: new, "s390x": server_image("9.9")}, "1.1")
        self.write_plan(
            baseline=f"oci:images:1.0@{baseline.digest}", candidate=f"oci:{self.layout.folder}@{candidate.digest}"
        )
        self.assertIn(f"oci:images:1.0@{baseline.digest}: loading", self.capture())
        self.assertEqual(self.image_ids(), sorted([old.config_digest, new.config_digest]))
        for image in self.engine.request("GET", "/images/json?all=1")[1]:
            self.assertEqual(image["RepoTags"] or ["<none>:<none>"], ["<none>:<none>"], "nothing is tagged")

        boots = self.boots()
        self.assertEqual([boot["version"] for boot in boots], ["1.0", "1.1"])
        for boot, image, pinned in zip(boots, (old, new), (baseline, candidate)):
            [pin] = boot["pins"]
            self.assertEqual(f"sha256:{pin['found_sha256']}", pinned.digest)
            self.assertEqual(boot["server"]["values"]["image"], image.config_digest)
            self.assertIn("pull", [stage["name"] for stage in boot["stages"]])
        self.assertEqual(
            [boot["server"]["values"]["pinned by"] for boot in boots],
            ["manifest digest; the documents are of an OCI layout", "index digest; the documents are of an OCI layout"],
        )
        proofs = [json.loads(path.read_text()) for path in sorted(self.run_folder.glob("evidence/boots/*/image/proof.json"))]
        self.assertEqual([proof["strength"] for proof in proofs], ["layout", "layout"])

        # Of the evidence alone: the layout is gone by then.
        self.layout.folder.rename(self.folder / "elsewhere")
        verdict = self.judge()
        self.assertEqual({gate["verdict"] for gate in verdict["gates"]}, {"pass"})
        verified = self.call("verify", self.run_folder)
        self.assertEqual(verified.returncode, ACCEPT, verified.stdout + verified.stderr)

    def test_what_the_engine_has_is_not_loaded_again(self):
        pinned = {arm: self.layout.add(server_image(version)).digest for arm, version in (("baseline", "1.0"), ("candidate", "1.1"))}
        references = {arm: f"oci:images@{digest}" for arm, digest in pinned.items()}
        self.write_plan(**references, server=docker_harness.READY + "\n  pull: never")
        self.assertIn(
            "does not have it, and the plan says `pull: never`: write `pull: missing`, so that it is loaded from the "
            "layout, or load it yourself",
            self.capture(USAGE),
        )
        self.assertEqual(self.image_ids(), [])
        self.write_plan(**references)
        self.capture()
        self.write_plan(**references, server=docker_harness.READY + "\n  pull: never")
        self.run_folder = self.folder / "second"
        self.assertNotIn("loading", self.capture())
        self.assertEqual([[stage["name"] for stage in boot["stages"] if stage["name"] == "pull"] for boot in self.boots()], [[], []])


class Faults(LayoutExperiment):
    """The candidate's layout is not what it should be."""

    def setUp(self):
        super().setUp()
        self.image = server_image("1.1")

    def fails(self, candidate, *messages, expect=USAGE):
        baseline = Layout(self.folder / "baseline").add(server_image("1.0")).digest
        self.write_plan(baseline=f"oci:baseline@{baseline}", candidate=f"oci:images@{candidate.digest}")
        output = self.capture(expect)
        for message in messages:
            self.assertIn(message, output)
        self.assertEqual(list(self.run_folder.glob("evidence/boots/*")), [], "nothing is booted before both are there")
        # The baseline's image is there; of the candidate's nothing is.
        self.assertEqual(self.image_ids(), [server_image("1.0").config_digest])
        engine.wait_until(lambda: len(self.unpacked_by_nobody()) == 1, 20, self.unpacked_by_nobody)

    def test_corrupt_layer(self):
        candidate = self.layout.add(self.image, packing="gzip")
        path = self.layout.path(candidate.layers[-1])
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        found = container_image.digest(bytes(content)).removeprefix("sha256:")
        self.fails(
            candidate,
            f"{path}: corrupt: the manifest names {candidate.layers[-1]}, its sha256 is {found}: copy the layout again",
        )

    def test_truncated_layer(self):
        candidate = self.layout.add(self.image)
        path = self.layout.path(candidate.layers[-1])
        size = path.stat().st_size
        os.truncate(path, size // 2)
        self.fails(candidate, f"{path}: has {size // 2} bytes, and its descriptor says {size}: copy the layout again")

    def test_missing_layer(self):
        candidate = self.layout.add(self.image)
        self.layout.path(candidate.layers[0]).unlink()
        self.fails(candidate, f"images: does not hold {candidate.layers[0]}, a layer of the manifest {candidate.digest}")

    def test_config_of_other_layers(self):
        """Everything is what its digest says; the config was written for another image."""
        other = server_image("1.1", files={"/other": b"other"})
        candidate = self.layout.add(dataclasses.replace(self.image, config=other.config))
        self.fails(candidate, "cannot load it: invalid diffID for layer 1", expect=INFRASTRUCTURE)

    def test_corrupt_config(self):
        candidate = self.layout.add(self.image)
        path = self.layout.path(self.image.config_digest)
        path.write_bytes(path.read_bytes().replace(b"linux", b"Linux"))
        self.fails(candidate, f"{path}: corrupt: its sha256 is ")

    def test_another_platform(self):
        candidate = self.layout.add(server_image("1.1", architecture="s390x"))
        self.fails(candidate, f"images: the image is for linux/s390x, not for linux/{ARCHITECTURE}: pin one that is")

    def test_zstd_in_an_old_engine(self):
        candidate = self.layout.add(self.image, packing="zstd")
        version = self.engine.request("GET", "/version")[1]["Version"]
        if int(version.split(".")[0]) >= 23:
            self.skipTest(f"Docker {version} unpacks zstd")
        self.fails(
            candidate,
            "cannot load it: ",
            "it has layers in zstd, which engines before Docker 23.0 do not unpack",
            expect=INFRASTRUCTURE,
        )


if __name__ == "__main__":
    docker_harness.main()
