"""From a plan to a verdict on real processes, and what interrupts it."""

import json
import os
import signal
import subprocess
import unittest

from harness import (ACCEPT, COMMAND, CRASHING, EVIDENCE, INCONCLUSIVE, INFRASTRUCTURE, NOTHING_RAN,
                     REJECT, USAGE, Experiment, sha256, wait_until)


class Capture(Experiment):
    def test_a_plan_becomes_a_verdict(self):
        first = self.capture()
        self.assertIn("evidence:", first.stdout)
        self.assertEqual(self.assert_every_round_once(), 0)
        result = self.judge("--format", "json", expect=ACCEPT)
        verdict = json.loads(result.stdout)
        self.assertEqual(verdict["decision"], "accept")
        self.assertEqual(verdict["orchestration"], "complete")
        for arm in ("baseline", "candidate"):
            self.assertEqual(verdict["arms"][arm]["requests"], 28)
            self.assertEqual(verdict["arms"][arm]["failed"], 0)
        self.assertEqual([boot["arm"] for boot in verdict["boots"]], ["baseline", "candidate"])
        self.assertEqual(self.call("verify", self.run_folder, "--plan", self.plan).returncode, ACCEPT)

    def test_every_kind_of_request_and_load_is_measured_and_paired(self):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(f'{{"prompt": "Tell me of number {i}."}}\n' for i in range(9)))
        self.write_plan(
            cases=f"""\
    - {{name: chat, api: chat, prompts: {{kind: text, seed: 3}}, input_tokens: 60, output_tokens: 12,
       concurrency: 2, requests: 4}}
    - {{name: images, api: chat, prompts: {{kind: text, seed: 3, images: 1}}, input_tokens: 40,
       output_tokens: 8, concurrency: 2, requests: 4}}
    - {{name: text, prompts: {{kind: text, seed: 4}}, input_tokens: 70, concurrency: 2, requests: 4,
       output_tokens: {{max: 16, stop: natural}}}}
    - {{name: turns, prompts: {{kind: synthetic-tokens, seed: 5, turns: 2, shared_prefix: 16}},
       input_tokens: 64, output_tokens: 8, concurrency: 2, requests: 4}}
    - {{name: again, prompts: {{kind: synthetic-tokens, seed: 6, fresh: false}}, input_tokens: 64,
       output_tokens: 8, concurrency: 1, requests: 2}}
    - {{name: open, input_tokens: 64, output_tokens: 8, rate: 40/s, arrivals: poisson, requests: 10}}
    - {{name: file, prompts: {{kind: file, path: prompts.jsonl, sha256: "{sha256(prompts)}",
       format: jsonl}}, output_tokens: 8, concurrency: 2, requests: 4}}
""",
            gates="""\
  - failures: {kind: any, arm: baseline, max_rate: 60%}
  - failures: {kind: any, arm: candidate, max_rate: 60%}
  - provenance: {}
""",
        )
        # A prompt is missing: said before anything is booted.
        result = self.call("capture", self.plan, "--run", self.run_folder)
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn(
            f"{prompts}: holds 9 prompts, but case file takes 10 (2 rounds of 4 requests and 2 for "
            "the warm-up): add prompts, or write fresh: false",
            result.stderr,
        )
        self.assertNotIn("starting", result.stderr)
        digest = sha256(prompts)
        with prompts.open("a") as file:
            file.write('{"prompt": "And of the last one."}\n')
        self.plan.write_text(self.plan.read_text().replace(digest, sha256(prompts)))

        self.capture()
        # On a busy machine a request of the open loop is sent late, and not judged.
        judged = self.call("judge", self.run_folder, "--format", "json")
        self.assertIn(judged.returncode, (ACCEPT, INCONCLUSIVE), judged.stdout)
        verdict = json.loads(judged.stdout)
        for arm in ("baseline", "candidate"):
            self.assertEqual(verdict["arms"][arm]["requests"], 64)
            self.assertEqual(verdict["arms"][arm]["failed"], 0, verdict["arms"][arm])
        # That both arms got the same bytes is the provenance gate's to say.
        passed = {gate["kind"]: gate["verdict"] for gate in verdict["gates"]}
        self.assertEqual(passed["provenance"], "pass")
        self.assertEqual(self.call("verify", self.run_folder, "--plan", self.plan).returncode, ACCEPT)

    def test_matching_evidence_is_reused_without_booting(self):
        self.capture()
        before = sha256(self.run_folder / "evidence/SHA256SUMS")
        # With a profile gone nothing could boot, and other gates are no other workload.
        (self.folder / "baseline.yaml").unlink()
        text = self.plan.read_text().replace("max_loss: 60%", "max_loss: 59%")
        self.plan.write_text(text)
        again = self.capture()
        self.assertIn("nothing is booted", again.stderr)
        self.assertEqual(sha256(self.run_folder / "evidence/SHA256SUMS"), before)

    def test_another_digest_does_not_inherit_evidence(self):
        self.capture()
        self.write_profiles(candidate_extra="kv_cache_tokens: 500000")
        self.write_plan()
        again = self.capture()
        self.assertIn("belongs to another workload: moved aside to evidence.1", again.stderr)
        self.assertTrue((self.run_folder / "evidence.1/SHA256SUMS").exists())
        self.assert_every_round_once()

    def test_a_digest_mismatch_is_refused_before_anything_starts(self):
        wrong = "0" * 64
        self.write_plan(candidate_sha256=wrong)
        result = self.capture(expect=USAGE)
        self.assertIn("candidate.yaml", result.stderr)
        self.assertIn(wrong, result.stderr)
        self.assertIn(sha256(self.folder / "candidate.yaml"), result.stderr)
        self.assertNotIn("starting", result.stderr)
        self.assertFalse(list(self.run_folder.glob("evidence/boots/*")))
        junit = (self.run_folder / "report/junit.xml").read_text()
        self.assertRegex(junit, "<(error|failure)")
        self.assertIn(wrong, junit)

    def test_a_server_that_exits_at_start_is_told_with_its_last_words(self):
        self.write_profiles(candidate_extra='exit_at_start: {code: 3, after: 0s, line: "no such device"}')
        self.write_plan()
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn("boot 2 (candidate)", result.stderr)
        self.assertIn("exit code 3", result.stderr)
        self.assertIn("no such device", result.stderr)
        # The baseline's rounds are kept: only the candidate is measured after the repair.
        self.write_profiles()
        self.write_plan()
        self.capture()

    def test_a_candidate_that_dies_under_load_is_sealed_and_never_accepted(self):
        self.write_profiles(candidate_extra="crash_after_requests: 12")
        self.write_plan()
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn("signal 6", result.stderr)
        verdict = self.call("judge", self.run_folder, "--format", "json")
        self.assertNotEqual(verdict.returncode, ACCEPT)
        parsed = json.loads(verdict.stdout)
        self.assertEqual(parsed["orchestration"], "incomplete")
        self.assertNotEqual(parsed["decision"], "accept")

    def test_while_it_runs_it_has_a_status_and_refuses_a_second_one(self):
        with subprocess.Popen([COMMAND, "capture", self.plan, "--run", self.run_folder],
                              stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as first:
            wait_until(self.servers, 20, "the first capture boots")
            status = self.call("status", self.run_folder)
            self.assertEqual(status.returncode, ACCEPT)
            self.assertRegex(status.stdout, r"small: (booting|measuring)\n(.|\n)*rounds \d/8")
            second = self.capture(expect=INFRASTRUCTURE)
            self.assertIn(f"pid {first.pid}", second.stderr)
            self.assertEqual(first.wait(timeout=60), ACCEPT)


class Judgement(Experiment):
    def test_other_thresholds_give_the_other_verdict_with_no_server_running(self):
        self.capture()
        self.judge(expect=ACCEPT)
        strict = self.folder / "strict.yaml"
        self.write_plan(gates="  - throughput: {case: long-c4, min: 1000000tok/s}\n", path=strict)
        copy = self.folder / "copy"
        subprocess.run(["cp", "-a", self.run_folder, copy], check=True)
        result = self.call("judge", copy, "--plan", strict, "--format", "json")
        self.assertEqual(result.returncode, REJECT, result.stderr)
        self.assertTrue(json.loads(result.stdout)["rejudged"])

    def test_a_plan_with_another_workload_is_refused(self):
        self.capture()
        other = self.folder / "other.yaml"
        self.write_plan(seed=8, path=other)
        result = self.judge("--plan", other, expect=EVIDENCE)
        self.assertIn("its workload is not the one that was measured", result.stderr)
        self.assertIn("seed", result.stderr)

    def test_tampering_is_named(self):
        self.capture()
        evidence = self.run_folder / "evidence"
        files = sorted(p for p in evidence.rglob("*") if p.is_file())
        self.assertGreater(len(files), 20)

        def expect_finding(name):
            result = self.call("verify", self.run_folder)
            self.assertEqual(result.returncode, EVIDENCE, result.stdout)
            self.assertIn(name, result.stdout)
            self.judge(expect=EVIDENCE)

        for path in files:
            name = str(path.relative_to(evidence))
            original = path.read_bytes()
            with self.subTest(flipped=name):
                flipped = bytearray(original)
                flipped[len(flipped) // 2] ^= 1
                path.write_bytes(bytes(flipped))
                # A flipped digit of SHA256SUMS shows at the file it speaks of.
                expect_finding("" if name == "SHA256SUMS" else name)
                path.write_bytes(original)
            with self.subTest(removed=name):
                path.unlink()
                expect_finding(name)
                path.write_bytes(original)
            with self.subTest(linked=name):
                elsewhere = self.folder / "elsewhere"
                elsewhere.write_bytes(original)
                path.unlink()
                path.symlink_to(elsewhere)
                expect_finding(name)
                path.unlink()
                path.write_bytes(original)
        extra = evidence / "boots/extra.txt"
        extra.write_text("x")
        expect_finding("boots/extra.txt")
        extra.unlink()
        self.assertEqual(self.call("verify", self.run_folder).returncode, ACCEPT)


class Reports(Experiment):
    def env(self):
        lines = (self.run_folder / "report/verdict.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def report(self, *arguments, expect):
        result = self.call("report", self.run_folder, "--plan", self.plan, *arguments)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def test_before_there_is_a_verdict_there_is_a_failing_report(self):
        self.call("capture", self.plan, "--run", self.run_folder, binary=CRASHING,
                  env={"UPGRADE_GATE_TEST_CRASH": "mid-round"})
        self.assertEqual(self.env()["UPGRADE_GATE_DECISION"], "inconclusive")
        self.assertIn("has not finished", (self.run_folder / "report/junit.xml").read_text())
        wait_until(lambda: not self.servers(), 10, "no server left")

    def test_a_report_that_cannot_be_made_replaces_an_earlier_accept(self):
        self.capture()
        self.report(expect=ACCEPT)
        self.assertEqual(self.env()["UPGRADE_GATE_DECISION"], "accept")
        self.assertEqual(self.env()["UPGRADE_GATE_EXIT_CODE"], "0")
        with open(self.run_folder / "evidence/summary.json", "a") as summary:
            summary.write(" ")
        self.report(expect=EVIDENCE)
        self.assertEqual(self.env(), {"UPGRADE_GATE_DECISION": "inconclusive", "UPGRADE_GATE_EXIT_CODE": "14"})
        self.assertIn("summary.json", (self.run_folder / "report/junit.xml").read_text())
        self.assertIn("NO VERDICT", (self.run_folder / "report/summary.txt").read_text())

    def test_a_gate_without_a_result_of_its_own_keeps_the_decision_from_counting(self):
        self.capture()
        self.report("--fragments", expect=NOTHING_RAN)
        self.assertEqual(self.env()["UPGRADE_GATE_DECISION"], "inconclusive")
        self.assertIn("DOES NOT COUNT", (self.run_folder / "report/summary.txt").read_text())
        self.assertIn("<failure", (self.run_folder / "report/junit.xml").read_text())

    def test_old_evidence_keeps_the_decision_from_counting(self):
        self.capture()
        self.report("--max-age", "1h", expect=ACCEPT)
        sealed_at = json.loads((self.run_folder / "evidence/capture.json").read_text())["sealed_at"]
        self.assertIn("T", sealed_at)
        wait_until(lambda: self.call("verify", self.run_folder, "--max-age", "1s").returncode == EVIDENCE, 10,
                   "the evidence is older than a second")
        self.report("--max-age", "1s", expect=EVIDENCE)
        self.assertEqual(self.env()["UPGRADE_GATE_EXIT_CODE"], "14")


class Interruption(Experiment):
    def crash_and_resume(self, moment):
        crash = self.call("capture", self.plan, "--run", self.run_folder, binary=CRASHING,
                          env={"UPGRADE_GATE_TEST_CRASH": moment})
        self.assertEqual(crash.returncode, -signal.SIGKILL, crash.stderr)
        wait_until(lambda: not self.servers(), 10, "no server left after the runner's death")
        status = self.call("status", self.run_folder)
        self.assertIn("dead", status.stdout)
        # Unsealed evidence is never judged.
        self.judge(expect=EVIDENCE)
        resumed = self.capture(binary=CRASHING)
        self.assertIn("resuming", resumed.stderr)
        superseded = self.assert_every_round_once()
        self.judge(expect=ACCEPT)
        return superseded

    def test_killed_mid_round(self):
        # The third round to start is round 1 of the second case: nothing to supersede.
        self.assertEqual(self.crash_and_resume("mid-round:3"), 0)

    def test_killed_mid_round_after_a_finished_round_of_the_case(self):
        self.assertEqual(self.crash_and_resume("mid-round:4"), 1)

    def test_killed_before_the_rename(self):
        self.assertEqual(self.crash_and_resume("before-rename:2"), 1)

    def test_killed_between_boots(self):
        self.assertEqual(self.crash_and_resume("between-boots"), 0)

    def test_killed_before_the_seal(self):
        self.assertEqual(self.crash_and_resume("before-seal"), 0)

    def test_killed_twice(self):
        for moment in ("mid-round:2", "mid-round:3"):
            crash = self.call("capture", self.plan, "--run", self.run_folder, binary=CRASHING,
                              env={"UPGRADE_GATE_TEST_CRASH": moment})
            self.assertEqual(crash.returncode, -signal.SIGKILL, crash.stderr)
        wait_until(lambda: not self.servers(), 10, "no server left")
        self.capture(binary=CRASHING)
        self.assert_every_round_once()
        self.judge(expect=ACCEPT)

    def test_terminated_it_ends_cleanly_and_resumes(self):
        for ask in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=ask.name):
                with subprocess.Popen([COMMAND, "capture", self.plan, "--run", self.run_folder],
                                      stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as runner:
                    for line in runner.stderr:
                        if line.startswith("["):  # a round is done
                            break
                    os.kill(runner.pid, ask)
                    rest = runner.stderr.read()
                    self.assertEqual(runner.wait(timeout=20), INFRASTRUCTURE, rest)
                self.assertEqual(self.servers(), [])
                self.assertIn("resume", rest)
        status = self.call("status", self.run_folder)
        self.assertIn("interrupted", status.stdout)
        self.capture()
        self.assert_every_round_once()
        self.judge(expect=ACCEPT)

    def test_the_watchdog_is_gone_after_a_run(self):
        self.capture()

        def watchdogs():
            found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
            return [line for line in found.splitlines() if f"watchdog --run-id small-" in line]

        wait_until(lambda: not watchdogs(), 10, "the watchdog ends with its run")


if __name__ == "__main__":
    unittest.main()
