"""The whole experiment on images pinned by digest: two boots and a closing one."""

import docker_harness
from docker_harness import server_image
from harness import ACCEPT


class Run(docker_harness.Experiment):
    def test_an_experiment_by_digest_with_a_closing_boot(self):
        images = {"baseline": server_image("1.0"), "candidate": server_image("1.1")}
        references = {arm: self.repository().push(image) for arm, image in images.items()}
        self.write_plan(**references)
        self.plan.write_text(self.plan.read_text() + "order: [baseline, candidate, baseline]\n")
        self.capture()
        self.judge()
        boots = self.boots()
        self.assertEqual([boot["arm"] for boot in boots], ["baseline", "candidate", "baseline"])
        for boot in boots:
            [pin] = boot["pins"]
            self.assertEqual(f"sha256:{pin['found_sha256']}", images[boot["arm"]].digest)
            self.assert_runs(images[boot["arm"]], boot)
            self.assertEqual(boot["server"]["values"]["repository digests"], references[boot["arm"]])
        verified = self.call("verify", self.run_folder)
        self.assertEqual(verified.returncode, ACCEPT, verified.stdout + verified.stderr)

    def test_a_tag_that_moves_during_the_run_changes_nothing(self):
        image = server_image("1.1")
        reference = self.repository().push(image, "stable")
        self.write_plan(candidate=reference.replace("/server@", "/server:stable@"))
        capture = self.start_capture()
        self.addCleanup(capture.wait)
        self.wait_for_container(boot=1)
        self.push("6.6", tag="stable")
        self.engine.request("POST", f"/images/create?fromImage={self.repository().reference}&tag=stable")
        self.assertEqual(capture.wait(timeout=60), ACCEPT, self.captured_log())
        candidate = self.boots()[1]
        self.assertEqual(candidate["version"], "1.1")
        self.assert_runs(image, candidate)

    def assert_runs(self, image, boot):
        """An engine names its config; one with containerd's image store names its manifest."""
        self.assertIn(boot["server"]["values"]["image"], (image.config_digest, image.digest))


if __name__ == "__main__":
    docker_harness.main()
