"""The launcher command: servers that scripts of the user start, stop and name."""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import unittest

from harness import ACCEPT, COMMAND, INCONCLUSIVE, INFRASTRUCTURE, SERVER, USAGE, Experiment, sha256, wait_until

PLAN = """\
version: 1
name: small
model: {{served_name: tiny}}
{top}
server:
  launcher: command
  command: [--profile, baseline.yaml, --port, $PORT]
  launch:
{launch}
  ready: {{timeout: 30s}}
  stop: {{timeout: 5s}}
arms:
  baseline:
{baseline}
  candidate:
    like: baseline
    replace: {{--profile: candidate.yaml}}
{candidate}
boot_noise: {{value: 0%, reason: simulated}}
workload:
  prompts: {{kind: synthetic-tokens, seed: 7}}
  rounds: 2
  request_timeout: 20s
  stall_limit: 5s
  cases:
    - {{name: short-c2, input_tokens: 128, output_tokens: 16, concurrency: 2, requests: 6}}
    - {{name: long-c4, input_tokens: 512, output_tokens: 24, concurrency: 4, requests: 8}}
gates:
  - throughput: {{case: long-c4, max_loss: 60%, severity: advisory}}
  - failures: {{kind: any, arm: candidate, max_rate: 20%, severity: advisory}}
  - provenance: {{}}
"""

# A server that leaves its starter's group, session and environment, as one does that a
# daemon or another machine starts: no child of it, no marker. The starter stays as long as it is there.
DETACHED = """\
#!/bin/sh
# start PIDFILE SERVER ARGUMENT…
pidfile=$1; shift
(env -i setsid sh -c 'echo $$ >"$0"; exec "$@"' "$pidfile" "$@" &)
trap 'exit 0' TERM
while ! test -s "$pidfile"; do sleep 0.02; done
echo "started $(cat "$pidfile")"
while kill -0 "$(cat "$pidfile")" 2>/dev/null; do sleep 0.05; done
"""
STOP_DETACHED = """\
#!/bin/sh
# stop PIDFILE SIGNAL: succeeds where nothing is left
test -s "$1" || exit 0
kill -"$2" "$(cat "$1")" 2>/dev/null
while kill -0 "$(cat "$1")" 2>/dev/null; do sleep 0.02; done
echo "cleaned $1 by $2" >>cleaned
"""


class CommandExperiment(Experiment):
    def write_plan(self, launch="", baseline="", candidate="", top=""):
        text = PLAN.format(launch=launch or f"    start: [{SERVER}, $COMMAND]", top=top,
                           baseline=baseline or self.image_file(), candidate=candidate)
        self.plan.write_text(text)

    def image_file(self):
        return f'    image_file: {{path: "{SERVER}", sha256: "{sha256(SERVER)}"}}'

    def script(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def provenance(self, expect):
        verdict = json.loads(self.judge("--format", "json", expect=expect).stdout)
        return verdict, next(gate for gate in verdict["gates"] if gate["kind"] == "provenance")

    def boots(self):
        return [json.loads(p.read_text()) for p in sorted(self.run_folder.glob("evidence/boots/*/boot.json"))]

    def log(self, boot):
        path = next(self.run_folder.glob(f"evidence/boots/{boot:02}-*/server.log.zst"))
        return subprocess.run(["zstd", "-dc", path], check=True, capture_output=True, text=True).stdout


class Demo(CommandExperiment):
    def test_a_wrapper_script_an_address_files_of_log_and_a_pinned_file(self):
        self.script("start", '#!/bin/sh\necho "wrapper of $1"; shift\n'
                             '(echo "in a file of $2" >>"$1") &\nshift 2\nexec "$@"\n')
        self.script("address", '#!/bin/sh\ntest -e asked || { touch asked; echo later >&2; exit 1; }\n'
                               'echo "http://127.0.0.1:$1"\n')
        self.write_plan(launch=(
            "    start: [./start, $ARM, logs-$BOOT.txt, $BOOT of $RUN, $IMAGE_FILE, $COMMAND]\n"
            "    address: [./address, $PORT]\n"
            "    logs: [logs-$BOOT.txt, never-there.txt]\n"))
        self.capture()
        self.assert_every_round_once()
        verdict, provenance = self.provenance(ACCEPT)
        self.assertIn("identity: its image's file was hashed, what a program started from it was not",
                      provenance["message"])
        self.assertEqual(provenance["finding"], "identity_of_file")
        boots = self.boots()
        self.assertEqual([boot["identity_strength"] for boot in boots], ["file", "file"])
        self.assertEqual(boots[0]["pins"][0]["name"], "image_file")
        self.assertEqual(boots[1]["argv"], ["./start", "$ARM", "logs-$BOOT.txt", "$BOOT of $RUN", "$IMAGE_FILE",
                                            "--profile", "candidate.yaml", "--port", "$PORT"])
        for number, arm in ((1, "baseline"), (2, "candidate")):
            self.assertIn(f"wrapper of {arm}\n", self.log(number))
            self.assertRegex(self.log(number), f"(?m)^in a file of {number} of small-")
        self.assertEqual(self.call("verify", self.run_folder, "--plan", self.plan).returncode, ACCEPT)
        text = self.judge(expect=ACCEPT).stdout
        self.assertIn("(the image's file)", text)
        self.assertIn("identity of candidate: its image's file was hashed", " ".join(text.split()))

    def test_a_changed_image_file_is_refused_before_anything_starts(self):
        (self.folder / "image").write_bytes(b"other")
        self.write_plan(baseline=f'    image_file: {{path: image, sha256: "{"1" * 64}"}}')
        result = self.capture(expect=USAGE)
        self.assertIn(f"image: is not the pinned file: sha256 is {sha256(self.folder / 'image')}", result.stderr)
        self.assertFalse((self.run_folder / "evidence/boots/01-baseline").exists())

    def test_a_start_that_ends_and_an_address_that_never_comes(self):
        self.script("start", '#!/bin/sh\necho "no licence" >&2\nexit 3\n')
        self.write_plan(launch="    start: [./start, $COMMAND]\n    address: [./none, $PORT]")
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn("the start command ended before the server had an address: exit code 3", result.stderr)
        self.assertIn("no licence", result.stderr)
        self.script("start", "#!/bin/sh\nexec sleep 1000\n")
        self.script("none", "#!/bin/sh\necho not-an-address\n")
        self.plan.write_text(self.plan.read_text().replace("timeout: 30s", "timeout: 1s"))
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn('no address within 1 s; last: address command ./none: printed "not-an-address": it is no '
                      "address: write http://HOST:PORT or https://HOST", result.stderr)
        self.write_plan(launch="    start: [no-such-launcher, $COMMAND]")
        self.assertIn("no-such-launcher: there is no such program in PATH", self.capture(expect=INFRASTRUCTURE).stderr)


class Identity(CommandExperiment):
    LAUNCH = f"    start: [{SERVER}, $COMMAND]\n    identity: [./identity, $ARM]"

    def setUp(self):
        super().setUp()
        self.script("identity", '#!/bin/sh\nprintf \'{"image": "%s"}\' "$(cat "image-$1")"\n')
        for arm in ("baseline", "candidate"):
            (self.folder / f"image-{arm}").write_text(f"sha256:{arm}")

    def declare(self, baseline, candidate):
        self.write_plan(launch=self.LAUNCH, baseline=f'    identity: {{image: "{baseline}"}}',
                        candidate=f'    identity: {{image: "{candidate}"}}')

    def test_a_claim_that_was_declared_passes_with_a_condition(self):
        self.declare("sha256:baseline", "sha256:candidate")
        self.capture()
        verdict, provenance = self.provenance(ACCEPT)
        self.assertIn("boot 2 (candidate): identity: claimed by the server, not proved", provenance["message"])
        self.assertEqual(provenance["verdict"], "pass")
        self.assertIn("identity of candidate: claimed by the server, not proved (image sha256:candidate)",
                      verdict["conditions"])
        self.assertIn("identity: claimed by the server, not proved", self.judge(expect=ACCEPT).stdout)

    def test_a_claim_that_was_not_declared_is_undecided(self):
        image = "registry.example:5000/vllm@sha256:" + "1" * 64
        self.write_plan(launch=self.LAUNCH, baseline=f"    image: {image}")
        self.capture()
        _, provenance = self.provenance(INCONCLUSIVE)
        self.assertEqual(provenance["finding"], "identity_unproved")
        self.assertIn("nothing was proved of what answered, and the plan declares no identity for it",
                      provenance["message"])

    def test_another_server_than_declared_is_not_measured(self):
        self.declare("sha256:baseline", "sha256:new")
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn('boot 2 (candidate): image: the server says "sha256:candidate", the plan declares "sha256:new"',
                      result.stderr)
        self.assertEqual(self.boots()[1]["stopped"], "identity")

    def test_a_server_that_changes_during_a_boot_loses_it(self):
        self.declare("sha256:baseline", "sha256:candidate")
        with subprocess.Popen([COMMAND, "capture", self.plan, "--run", self.run_folder], stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) as runner:
            said = []
            for line in runner.stderr:
                said.append(line)
                if line.startswith("[5/8] candidate"):
                    (self.folder / "image-candidate").write_text("sha256:rolled")
            self.assertEqual(runner.wait(timeout=60), INFRASTRUCTURE, "".join(said))
        self.assertRegex("".join(said), r'image: was "sha256:candidate", is "sha256:rolled" in case \S+ round \d, '
                                        "which is not kept")
        counted, _ = self.rounds()
        self.assertLess(len(counted), 8)
        verdict, provenance = self.provenance(INCONCLUSIVE)
        self.assertEqual(verdict["orchestration"], "incomplete")


class Detached(CommandExperiment):
    """A server that only the commands of its plan can find."""

    def setUp(self):
        super().setUp()
        self.script("start", DETACHED)
        self.script("stop", STOP_DETACHED)
        self.write_plan(launch=(
            "    start: [./start, $RUN-$BOOT.pid, $IMAGE_FILE, $COMMAND]\n"
            "    stop: [./stop, $RUN-$BOOT.pid, TERM]\n"
            "    cleanup: [./stop, $RUN-$BOOT.pid, KILL]\n"))


class Death(Detached):
    def starting(self):
        return subprocess.Popen([COMMAND, "capture", self.plan, "--run", self.run_folder], stderr=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, text=True)

    def wait_for_a_round(self, runner):
        for line in runner.stderr:
            if line.startswith("["):
                return
        self.fail("no round was measured")

    def test_in_order_it_is_stopped_and_then_cleaned(self):
        self.capture()
        self.judge(expect=ACCEPT)
        cleaned = (self.folder / "cleaned").read_text().splitlines()
        self.assertEqual([line.rsplit(" ", 1)[1] for line in cleaned], ["TERM", "KILL", "TERM", "KILL"])

    def test_after_sigkill_the_watchdog_cleans_and_keeps_the_host_until_then(self):
        with self.starting() as runner:
            self.wait_for_a_round(runner)
            self.assertEqual(len(self.servers()), 2, "the starter and the server")
            server = int(next(self.folder.glob("small-*.pid")).read_text())
            self.assertNotIn(b"UPGRADE_GATE", pathlib.Path(f"/proc/{server}/environ").read_bytes())
            runner.kill()
            runner.wait()
        with open(self.folder / "host.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # waits for the watchdog
            self.assertEqual(self.servers(), [])
        self.assertRegex((self.folder / "cleaned").read_text(), "by KILL\n$")

    def test_after_sigterm_it_is_gone_and_resumes(self):
        with self.starting() as runner:
            self.wait_for_a_round(runner)
            runner.terminate()
            rest = runner.stderr.read()
            self.assertEqual(runner.wait(timeout=30), INFRASTRUCTURE, rest)
        self.assertEqual(self.servers(), [])
        self.capture()
        self.assert_every_round_once()

    def test_a_cleanup_that_fails_is_told_and_tried_again_by_the_watchdog(self):
        self.script("stop", STOP_DETACHED + "\n" + 'test "$2" = TERM && exit 0\n'
                    'echo x >>tries; test "$(wc -l <tries)" -gt 3 || { echo "busy" >&2; exit 1; }\n')
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn("cleanup command ./stop: exit code 1: busy; what it was to remove may still be there",
                      result.stderr)
        tries = self.folder / "tries"
        wait_until(lambda: len(tries.read_text().splitlines()) > 3, 30, "the watchdog tries again")

    def test_the_plans_deadline_ends_a_capture(self):
        text = self.plan.read_text().replace("requests: 8}", "requests: 8000}")
        self.plan.write_text(text.replace("version: 1\n", "version: 1\ndeadline: 10s\n", 1))
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn("the plan's deadline has passed: interrupted in case", result.stderr)
        self.assertEqual(self.servers(), [])


class Killed:
    """A capture that is killed after its watchdog was: nobody ends its servers."""

    def leave_a_server(self, left=1):
        """Kills a capture's watchdog and then the capture; the server lives on."""
        runner = subprocess.Popen([COMMAND, "capture", self.plan, "--run", self.run_folder], stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, text=True)
        with runner:
            for line in runner.stderr:
                if line.startswith("["):
                    break
            run_id = json.loads((self.run_folder / "status.json").read_text())["run_id"]
            os.kill(self.watchdog_of(run_id), signal.SIGKILL)
            alive = self.call("cleanup", "--run", self.run_folder)
            self.assertEqual(alive.returncode, USAGE)
            self.assertIn(f"its runner (pid {runner.pid}) is alive; nothing was ended", alive.stderr)
            runner.kill()
            runner.wait()
        self.assertEqual(len(self.servers()), left)
        return run_id

    def watchdog_of(self, run_id):
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:4] == [b"watchdog", b"--run-id", run_id.encode()]:
                return int(entry.parts[2])
        self.fail("no watchdog")


class Leftovers(Killed, Experiment):
    """Of the launcher process, whose servers are known by their marker."""

    def test_cleanup_shows_and_ends_what_a_dead_run_left(self):
        run_id = self.leave_a_server()
        shown = self.call("cleanup", "--run", self.run_folder, "--dry-run")
        self.assertEqual(shown.returncode, ACCEPT, shown.stderr)
        self.assertIn(f"run {run_id} (dead)\n  pid {self.servers()[0]} (", shown.stdout)
        self.assertEqual(len(self.servers()), 1, "only shown")
        ended = self.call("cleanup", "--run", self.run_folder)
        self.assertEqual(ended.returncode, ACCEPT, ended.stderr)
        self.assertIn("  1 ended\n", ended.stdout)
        self.assertEqual(self.servers(), [])
        again = self.call("cleanup", "--run", self.run_folder)
        self.assertEqual(again.returncode, ACCEPT)
        # Nobody named an engine, and none need be there.
        unseen = " but, maybe, containers" if "containers were not looked for" in again.stderr else ""
        self.assertEqual(again.stdout, f"no dead run has left anything{unseen}\n")

    def test_the_next_start_sweeps(self):
        run_id = self.leave_a_server()
        result = self.capture()
        self.assertIn(f"run {run_id} is dead and had left processes: 1 ended", result.stderr)
        self.assert_every_round_once()

    def test_it_wants_to_know_of_which_run(self):
        result = self.call("cleanup")
        self.assertEqual(result.returncode, USAGE)
        self.assertEqual(result.stderr, "cleanup: say of which run: --run DIR, or --all\n")


class DetachedLeftovers(Killed, Detached):
    def setUp(self):
        super().setUp()
        self.plan.write_text(self.plan.read_text().replace(
            "  launch:", "  env: {OWN: own, SECRET: {from_env: UG_TEST_SECRET}}\n  launch:"))
        self.script("stop", STOP_DETACHED.replace("#!/bin/sh\n", '#!/bin/sh\necho "$OWN $SECRET" >seen\n', 1))
        os.environ["UG_TEST_SECRET"] = "hidden-value"
        self.addCleanup(os.environ.pop, "UG_TEST_SECRET", None)

    def marked(self, run_id):
        found = []
        for environment in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"UPGRADE_GATE_RUN={run_id}".encode() in environment.read_bytes().split(b"\0"):
                    found.append(environment)
            except OSError:
                continue
        return found

    def leave_the_server_alone(self):
        run_id = self.leave_a_server(left=2)
        record, = self.run_folder.glob("logs/*.cleanup.json")
        self.assertNotIn("hidden-value", record.read_text())
        for pid in self.servers():
            if b"/start\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        # The starter's own child, which has the marker, ends within a moment.
        wait_until(lambda: len(self.servers()) == 1 and not self.marked(run_id), 10,
                   "the server alone, which has no marker")
        return run_id

    def test_cleanup_shows_and_ends_what_a_dead_run_left(self):
        run_id = self.leave_the_server_alone()
        shown = self.call("cleanup", "--run", self.run_folder, "--dry-run")
        self.assertIn(f"cleanup that was not done: ./stop {run_id}-1.pid KILL\n", shown.stdout)
        self.assertEqual(len(self.servers()), 1, "only shown")
        del os.environ["UG_TEST_SECRET"]
        without = self.call("cleanup", "--run", self.run_folder)
        os.environ["UG_TEST_SECRET"] = "hidden-value"
        self.assertEqual(without.returncode, USAGE)
        self.assertIn("its command needs the variable UG_TEST_SECRET, which is not set here", without.stderr)
        ended = self.call("cleanup", "--run", self.run_folder)
        self.assertEqual(ended.returncode, ACCEPT, ended.stderr)
        self.assertEqual(self.servers(), [])
        self.assertEqual((self.folder / "seen").read_text(), "own hidden-value\n")
        again = self.call("cleanup", "--run", self.run_folder)
        self.assertEqual(again.returncode, ACCEPT)
        # Nobody named an engine, and none need be there.
        unseen = " but, maybe, containers" if "containers were not looked for" in again.stderr else ""
        self.assertEqual(again.stdout, f"no dead run has left anything{unseen}\n")

    def test_the_next_start_sweeps(self):
        self.leave_the_server_alone()
        result = self.capture()
        self.assertIn("the cleanup command of a boot whose run is dead was run", result.stderr)
        self.assertEqual(list(self.run_folder.glob("logs/*.cleanup.json")), [])
        self.assert_every_round_once()


if __name__ == "__main__":
    unittest.main()
