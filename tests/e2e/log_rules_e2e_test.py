"""What servers write into their logs: facts, faults, stalls, and what comes of them."""

import json
import os
import unittest

from harness import (ACCEPT, CRASHING, INCONCLUSIVE, INFRASTRUCTURE, REJECT, SERVER, USAGE,
                     Experiment, sha256, wait_until)

# Writes the lines of <profile>.log, then becomes the server; writes those of
# <profile>.late once the first round of the candidate is there.
WRAPPER = """\
#!/bin/sh
cat "$2.log"
if [ -e "$2.late" ]; then
  ( until [ -e run/evidence/rounds/short-c2/02-candidate-r1 ]; do sleep 0.02; done; cat "$2.late" ) &
fi
exec {server} "$@"
"""

RULES = """\
version: 1
facts:
  - {fact: kernel, log: 'Using (\\w+) kernel'}
  - {fact: replay, log: 'Replay is (\\w+)', absent: 'Engine is up'}
  - {fact: server_version, endpoint: /version, member: /version, compare: false}
faults:
  - {class: other, log: 'The matrix is upside down', means: nothing helps}
stalls:
  - {log: 'no answer for \\d+ s', means: a worker hangs}
"""

PROVENANCE = "  - provenance: {}\n"


class LogRules(Experiment):
    def setUp(self):
        super().setUp()
        self.wrapper = self.folder / "server.sh"
        self.wrapper.write_text(WRAPPER.format(server=SERVER))
        self.wrapper.chmod(0o755)
        (self.folder / "rules.yaml").write_text(RULES)
        self.lines("baseline", "Engine is up", "Using A kernel")
        self.lines("candidate", "Engine is up", "Using A kernel")
        self.write()

    def lines(self, profile, *lines, late=False):
        path = self.folder / f"{profile}.yaml.{'late' if late else 'log'}"
        path.write_text("".join(line + "\n" for line in lines))

    def write(self, changes="", path=None, rules="  log_rules: {file: rules.yaml}\n"):
        path = path or self.plan
        self.write_plan(gates=PROVENANCE, path=path, server=str(self.wrapper),
                        server_sha256=sha256(self.wrapper))
        text = path.read_text().replace("  stop: {timeout: 5s}\n", "  stop: {timeout: 5s}\n" + rules)
        path.write_text(text.replace("gates:\n", changes + "gates:\n"))

    def boot(self, name, file="boot.json"):
        return json.loads((self.run_folder / "evidence/boots" / name / file).read_text())

    def facts(self, name):
        return {fact["name"]: fact for fact in self.boot(name, "facts.json")["facts"]}

    def judge_with(self, changes, expect):
        other = self.folder / "other.yaml"
        self.write(changes, path=other)
        result = self.judge("--plan", other, "--format", "json", expect=expect)
        verdict = json.loads(result.stdout)
        return verdict["gates"][0], "\n".join(verdict["conditions"])

    def test_the_same_path_is_accepted_and_recorded(self):
        self.capture()
        gate, conditions = self.judge_with("", ACCEPT)
        self.assertRegex(gate["message"], r"\d+ facts\): pass$")
        self.assertNotIn("declared", conditions)
        facts = self.facts("01-baseline")
        self.assertEqual((facts["kernel"]["state"], facts["kernel"]["value"], facts["kernel"]["source"]),
                         ("present", "A", "log line 2"))
        self.assertEqual(facts["replay"]["state"], "absent")
        self.assertEqual(facts["server_version"]["value"], "1.0")
        self.assertIn("rules.yaml sha256:" + sha256(self.folder / "rules.yaml"),
                      facts["log_rules"]["value"])
        self.assertEqual((self.run_folder / "evidence/boots/01-baseline/log_rules.yaml").read_text(), RULES)
        host = {fact["name"]: fact for fact in self.boot("02-candidate", "host.json")["facts"]}
        self.assertEqual(host["kernel"]["value"], os.uname().release)
        self.assertEqual([stage["name"] for stage in self.boot("01-baseline")["stages"]],
                         ["boot", "load", "ready"])
        self.assertEqual(self.call("verify", self.run_folder, "--plan", self.plan).returncode, ACCEPT)

    def test_an_undeclared_path_is_rejected_and_a_declared_one_is_a_condition(self):
        self.lines("candidate", "Engine is up", "Using B kernel", "Replay is enabled")
        self.capture()
        gate, _ = self.judge_with("", REJECT)
        self.assertEqual(gate["finding"], "path_differs")
        self.assertIn("kernel: A in baseline, B in candidate, which expected_changes does not declare",
                      gate["message"])
        self.assertIn("replay: absent in baseline, enabled in candidate", gate["message"])
        changes = ("expected_changes:\n"
                   "  - {fact: kernel, from: A, to: B, reason: faster}\n"
                   "  - {fact: replay, from: absent, to: enabled, reason: new}\n")
        gate, conditions = self.judge_with(changes, ACCEPT)
        self.assertIn("declared change: replay: absent → enabled: new (found so)", conditions)
        gate, _ = self.judge_with(changes.replace("to: B", "to: C"), REJECT)
        self.assertEqual(gate["finding"], "change_missed")
        self.assertIn("kernel: declared A → C, found A → B", gate["message"])
        gate, _ = self.judge_with(
            changes + "  - {fact: unheard_of, from: a, to: b, reason: none}\n", INCONCLUSIVE)
        self.assertEqual(gate["finding"], "change_unproved")
        text = self.call("judge", self.run_folder).stdout
        self.assertIn("kernel: A in baseline, B in candidate", text)

    def test_what_one_arm_does_not_tell_is_open_and_never_the_same(self):
        self.lines("candidate", "Engine is up")
        self.capture()
        _, conditions = self.judge_with("", ACCEPT)
        self.assertIn("kernel is A in baseline and not known of candidate", conditions)

    def test_what_a_command_prints_is_a_fact(self):
        probes = ("  facts:\n"
                  "    - {fact: packages, argv: [/bin/echo, engine 1.0]}\n"
                  "    - {fact: which, argv: [/bin/echo, $ARM, $BOOT, $URL], compare: false}\n"
                  "    - {fact: a_failure, argv: [/bin/false]}\n")
        self.write(rules=probes)
        self.capture()
        facts = self.facts("02-candidate")
        self.assertEqual(facts["packages"]["value"], "engine 1.0")
        self.assertRegex(facts["which"]["value"], r"^candidate 2 http://127\.0\.0\.1:\d+$")
        self.assertEqual(facts["a_failure"]["state"], "unknown")
        self.assertIn("exit code 1", facts["a_failure"]["source"])
        verdict = json.loads(self.judge("--format", "json", expect=ACCEPT).stdout)
        [unknown] = [c for c in verdict["conditions"] if c.startswith("not known of either arm, so not compared: ")]
        self.assertRegex(unknown, r"\ba_failure\b")
        self.assertNotIn("packages", unknown)

    def test_a_fatal_line_ends_a_boot_before_it_is_ready(self):
        for line, kind in (
            ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda"),
            ("RuntimeError: HIP error: unspecified launch failure", "hip"),
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "oom"),
            ("RuntimeError: NCCL error: unhandled system error", "nccl"),
            ("RuntimeError: RCCL error: unhandled system error", "rccl"),
            ("(EngineCore pid=7) ERROR 11-29 11:02:10 [core.py:1512] EngineCore failed to start.", "engine"),
            ("Worker proc VllmWorker-1 died unexpectedly (exit code: -9)", "worker"),
            ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "xid"),
            ("The matrix is upside down", "other"),
        ):
            with self.subTest(kind=kind):
                self.lines("baseline", "Engine is up", line)
                result = self.capture(expect=INFRASTRUCTURE)
                self.assertRegex(result.stderr,
                                 rf"boot \d \(baseline\): server gave up .* a fatal line \({kind}, line 2\): ")
                self.assertEqual(self.servers(), [])

    def test_a_fatal_line_under_load_ends_the_boot_and_keeps_what_was_measured(self):
        self.lines("candidate", "The matrix is upside down", late=True)
        result = self.capture(expect=INFRASTRUCTURE)
        boot = self.boot("02-candidate")
        self.assertEqual(boot["stopped"], "service_lost")
        self.assertRegex(boot["stop_detail"],
                         r'a fatal line \(other, line \d+\): "The matrix is upside down": nothing helps')
        self.assertIn("nothing helps", result.stderr)
        self.assertTrue((self.run_folder / "evidence/rounds/short-c2/02-candidate-r1").exists())
        verdict = json.loads(self.call("judge", self.run_folder, "--format", "json").stdout)
        self.assertEqual(verdict["orchestration"], "incomplete")
        self.assertNotEqual(verdict["decision"], "accept")

    def test_benign_lines_are_none_and_a_stall_is_a_condition(self):
        benign = ("NCCL version 2.29.7+cuda13.0", "[0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so",
                  "Automatically detected platform cuda.", "[0] NCCL WARN NET/IB : No device found.",
                  "Received request 7: prompt: 'CUDA error: x'")
        self.lines("candidate", "Engine is up", "Using A kernel", *benign, "no answer for 60 s")
        self.capture()
        _, conditions = self.judge_with("", ACCEPT)
        self.assertIn("the log of boot 2 (candidate) warns of a stall (once, the first at line 8): a "
                      "worker hangs", conditions)
        self.assertEqual(self.boot("02-candidate")["warnings"][0]["text"], "no answer for 60 s")

    def test_rules_that_are_wrong_start_nothing(self):
        (self.folder / "rules.yaml").write_text("version: 1\nfaults:\n  - {class: cuda, log: '(', means: x}\n")
        for command in (("capture", self.plan, "--run", self.run_folder), ("plan", "check", self.plan)):
            result = self.call(*command)
            self.assertEqual(result.returncode, USAGE, result.stdout + result.stderr)
            self.assertIn("rules.yaml:3:24: \"(\" is no pattern that RE2 can read", result.stderr)
        self.assertFalse(list(self.run_folder.glob("evidence/boots/*")))
        (self.folder / "rules.yaml").unlink()
        self.assertEqual(self.call("plan", "check", self.plan).returncode, USAGE)

    def test_the_log_of_a_killed_runner_is_in_the_evidence(self):
        self.call("capture", self.plan, "--run", self.run_folder, binary=CRASHING,
                  env={"UPGRADE_GATE_TEST_CRASH": "mid-round:2"})
        wait_until(lambda: not self.servers(), 10, "no server left")
        self.assertTrue((self.run_folder / "logs/01-baseline.log").exists())
        self.capture(binary=CRASHING)
        self.assertFalse(list((self.run_folder / "logs").glob("*.log")))
        self.assertTrue((self.run_folder / "evidence/boots/01-baseline/server.log.zst").exists())
        self.assertGreater(self.boot("01-baseline")["log"]["kept_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
