"""The whole experiment on images pinned by digest: two boots and a closing one."""

import json

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
        boots = [json.loads(path.read_text()) for path in sorted(self.run_folder.glob("evidence/boots/*/boot.json"))]
        self.assertEqual([boot["arm"] for boot in boots], ["baseline", "candidate", "baseline"])
        for boot in boots:
            self.assertIn(references[boot["arm"]], json.dumps(boot))
            self.assertIn(images[boot["arm"]].config_digest, json.dumps(boot))
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
        self.assertIn(image.config_digest, self.boot("candidate"))

    def boot(self, arm):
        [path] = self.run_folder.glob(f"evidence/boots/*-{arm}/boot.json")
        return path.read_text()


if __name__ == "__main__":
    docker_harness.main()
