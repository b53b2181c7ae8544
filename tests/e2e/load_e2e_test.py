"""`upgrade-gate load` against a real server: what it reports, and how it ends."""

import http.server
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from harness import (ACCEPT, COMMAND, INCONCLUSIVE, INFRASTRUCTURE, NOTHING_RAN, REJECT, SERVER,
                     USAGE, wait_until)

PROFILE = """\
served_name: tiny
version: "1.0"
max_model_len: 4096
max_num_seqs: 8
max_num_batched_tokens: 512
prefill_rate: 20000tok/s
base_step: 20ms
per_decode_seq: 0.1ms
time_scale: 1
"""

SECRET = "s3cret-token-of-the-test"

# What `vllm bench serve --save-result --save-detailed` writes, but for the texts.
VLLM_FIELDS = """
    date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness
    max_concurrency duration completed failed total_input_tokens total_output_tokens
    request_throughput request_goodput output_throughput total_token_throughput input_lens
    output_lens ttfts itls latencies start_times queue_times errors max_output_tokens_per_s
    max_concurrent_requests mean_ttft_ms median_ttft_ms std_ttft_ms p99_ttft_ms mean_tpot_ms
    median_tpot_ms std_tpot_ms p99_tpot_ms mean_itl_ms median_itl_ms std_itl_ms p99_itl_ms
    mean_e2el_ms median_e2el_ms std_e2el_ms p99_e2el_ms
""".split()


class EchoingServer(http.server.BaseHTTPRequestHandler):
    """Refuses every request and repeats its Authorization, as careless gateways do."""

    seen = []

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append(dict(self.headers))
        body = f"denied: {self.headers.get('Authorization')}".encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class ChatWithoutTokenizer(EchoingServer):
    """Speaks the chat interface and nothing else, as hosted models do."""

    prompts = []

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        request = json.loads(body)
        self.prompts.append(request["messages"][0]["content"])
        events = [{"choices": [{"index": 0, "delta": {"content": "word "}}]}
                  for _ in range(request["max_tokens"])]
        events[-1]["choices"][0]["finish_reason"] = "length"
        events.append({"choices": [], "usage": {"prompt_tokens": 77,
                                                "completion_tokens": request["max_tokens"]}})
        data = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    do_GET = do_POST = answer


class Load(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-e2e-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.json = self.folder / "load.json"

    def serve(self, extra=""):
        profile = self.folder / "profile.yaml"
        profile.write_text(PROFILE + extra)
        server = subprocess.Popen([SERVER, "--profile", profile, "--port", "0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return re.fullmatch(r"listening on (\S+)\n", server.stdout.readline())[1]

    def command(self, url, *more, **options):
        values = {"model": "tiny", "input-tokens": 64, "output-tokens": 8, "concurrency": 2,
                  "requests": 10, "seed": 7, **options}
        words = [COMMAND, "load", url]
        for name, value in values.items():
            if value is not None:
                words += [f"--{name}", str(value)]
        return words + [str(word) for word in more]

    def load(self, url, *more, expect, env=None, **options):
        result = subprocess.run(self.command(url, *more, **options), capture_output=True,
                                text=True, timeout=120, env={**os.environ, **(env or {})})
        self.assert_ended(result.returncode, expect, result.stdout + result.stderr)
        return result

    def assert_ended(self, code, expect, said):
        # On a busy machine the client may hurt what it measures; then it says so.
        if expect == ACCEPT and "INVALID (client_bound)" in said:
            expect = INCONCLUSIVE
        self.assertEqual(code, expect, said)

    def read(self):
        return json.loads(self.json.read_text())

    def test_a_closed_loop(self):
        vllm = self.folder / "vllm.json"
        url = self.serve()
        result = self.load(url, "--json", self.json, "--save-vllm", vllm, "--fail-if", "failures > 0",
                           rounds=2, expect=ACCEPT)
        out = self.read()
        self.assertEqual((out["schema"], out["complete"], out["planned"], out["succeeded"]),
                         (1, True, 20, 20))
        self.assertEqual(out["failures"], {})
        self.assertEqual(out["client"]["valid"], "OK  none of 1 condition holds" in result.stdout)
        self.assertEqual(out["fail_if"][0]["holds"], False)
        self.assertEqual(out["warmup"]["requests"], 2)
        self.assertEqual([each["requests"] for each in out["rounds"]], [10, 10])
        # A step of the server's model lasts 20.2 ms with two decoding: seven of them a request.
        self.assertGreater(out["tpot_ms"]["p50"], 18)
        self.assertLess(out["tpot_ms"]["p50"], 60)
        self.assertGreater(out["e2e_ms"]["p50"], out["ttft_ms"]["p50"] + 7 * 18)
        self.assertEqual(out["rounds"][0]["inter_chunk_ms"]["count"], 70)
        self.assertGreater(out["output_tokens_per_s"], 0)
        self.assertIn("warm-up: 2 of 2 ended, 0 failed, 0 in flight", result.stderr)
        self.assertIn("round 2/2: 10 of 10 ended, 0 failed, 0 in flight", result.stderr)

        saved = json.loads(vllm.read_text())
        self.assertEqual([key for key in VLLM_FIELDS if key not in saved], [])
        self.assertEqual((saved["completed"], saved["failed"], saved["num_prompts"]), (20, 0, 20))
        self.assertEqual((saved["total_input_tokens"], saved["total_output_tokens"]), (1280, 160))
        self.assertEqual(saved["request_rate"], "inf")
        self.assertEqual([len(gaps) for gaps in saved["itls"]], [7] * 20)
        for ttft, gaps, latency in zip(saved["ttfts"], saved["itls"], saved["latencies"]):
            self.assertAlmostEqual(ttft + sum(gaps), latency, delta=1e-5)

    def test_a_duration_and_the_api_s_own_address(self):
        url = self.serve()
        self.load(url + "/v1/", "--json", self.json, requests=None, duration="1s", expect=ACCEPT)
        out = self.read()
        self.assertEqual((out["complete"], out["planned"]), (True, None))
        self.assertEqual(out["succeeded"], out["sent"])
        self.assertGreater(out["sent"], 3)
        self.assertGreaterEqual(out["duration_s"], 1)
        self.assertLess(out["duration_s"], 5)

    def test_an_open_loop(self):
        self.load(self.serve(), "--json", self.json, concurrency=None, requests=None, rate="40/s",
                  duration="1s", expect=ACCEPT)
        out = self.read()
        self.assertEqual((out["rate_per_s"], out["arrivals"]), (40, "poisson"))
        self.assertEqual(out["planned"], out["succeeded"])
        self.assertGreater(out["planned"], 15)  # 40 are expected of the seed's arrivals
        self.assertLess(out["planned"], 80)

    def test_a_chat_s_texts_are_counted_by_the_server(self):
        url = self.serve("reasoning: {field: reasoning_content, tokens: 3}")
        self.load(url, "--json", self.json, "--fail-if", "failures > 0", api="chat", expect=ACCEPT)
        out = self.read()
        self.assertEqual((out["api"], out["succeeded"]), ("chat", 10))
        self.assertIn("/tokenize", out["input"])
        # The text comes after three tokens of reasoning, each of 20 ms.
        self.assertGreater(out["e2e_ms"]["p50"], out["ttft_ms"]["p50"] + 4 * 18)
        self.assertEqual(out["rounds"][0]["inter_chunk_ms"]["count"], 70)

    def test_a_duration_in_which_nothing_arrives_is_no_success(self):
        result = self.load(self.serve(), "--json", self.json, concurrency=None, requests=None,
                           warmup=0, rate="0.01/s", duration="1ms", expect=NOTHING_RAN)
        self.assertIn("nothing was sent", result.stderr)
        self.assertFalse(self.json.exists())

    def test_faults_are_counted_and_make_conditions_hold(self):
        url = self.serve("faults: [{kind: empty_output, every: 3}]")
        result = self.load(url, "--json", self.json, "--fail-if", "empty_output > 0",
                           "--fail-if", "failures > 99%", requests=40, expect=REJECT)
        out = self.read()
        empty = out["failures"]["empty_output"]
        self.assertEqual(out["failures"], {"empty_output": empty})
        self.assertEqual(out["succeeded"], 40 - empty)
        self.assertGreater(empty, 2)
        self.assertLess(empty, 38)
        self.assertEqual([each["holds"] for each in out["fail_if"]], [True, False])
        self.assertIn(f"empty_output (HTTP 200, [DONE] and usage, but no text): {empty}/40",
                      re.sub(r"\s+", " ", result.stdout))
        self.assertIn("FAILED  1 of 2 conditions holds: empty_output > 0", result.stdout)

    def test_a_model_that_is_not_there_measures_nothing(self):
        url = self.serve()
        result = self.load(url, "--json", self.json, model="other", expect=INCONCLUSIVE)
        out = self.read()
        self.assertEqual((out["failures"], out["succeeded"]), ({"http_status": 10}, 0))
        self.assertIsNone(out["ttft_ms"]["p95"])
        self.assertIn("no request succeeded", result.stdout)
        self.assertIn("404", result.stdout)
        result = self.load(url, "--fail-if", "ttft.p95 > 1h", model="other", expect=REJECT)
        self.assertIn("there is no value", re.sub(r"\s+", " ", result.stdout))

    def test_a_server_that_is_not_there_is_an_error_with_its_cause(self):
        self.json.write_text("of an earlier run")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
            result = self.load(url, "--json", self.json, expect=INFRASTRUCTURE)
            self.assertIn(f"{url}/v1/completions: none of 2 requests was answered", result.stderr)
            self.assertRegex(result.stderr, "(?i)connect")
            self.load(url, warmup=0, expect=INFRASTRUCTURE)
        self.assertFalse(self.json.exists())

    def test_wrong_arguments_are_told_all_at_once(self):
        result = self.load("localhost:8000", "--fail-if", "ttft.p95 > 1", expect=USAGE)
        self.assertIn("URL: ", result.stderr)
        self.assertIn("--fail-if: ttft.p95 is compared with a duration", result.stderr)

    def test_json_on_standard_output_is_alone_there(self):
        result = self.load(self.serve(), "--json", "-", expect=ACCEPT)
        self.assertEqual(json.loads(result.stdout)["succeeded"], 10)
        self.assertIn("LOAD  http://", result.stderr)

    def test_a_reader_that_has_gone_is_no_success(self):
        load = subprocess.Popen(self.command(self.serve(), "--json", "-"), stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
        load.stdout.close()
        self.assertEqual(load.wait(timeout=60), INFRASTRUCTURE)

    def serve_with(self, handler):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}"

    def test_a_chat_whose_server_cannot_count_gets_texts_of_about_the_length(self):
        vllm = self.folder / "vllm.json"
        ChatWithoutTokenizer.prompts.clear()
        result = self.load(self.serve_with(ChatWithoutTokenizer), "--json", self.json, "--save-vllm",
                           vllm, api="chat", expect=ACCEPT)
        out = self.read()
        self.assertEqual(out["succeeded"], 10)
        self.assertIn("about as many, English text of 4.5 bytes a token", out["input"])
        self.assertIn("404", re.sub(r"\s+", " ", result.stdout))
        prompts = ChatWithoutTokenizer.prompts
        self.assertEqual(len(set(text[:16] for text in prompts)), 12)  # warm-up and round
        self.assertEqual({len(text) for text in prompts}, {288})
        # What the server counted, since nobody else could.
        self.assertEqual(json.loads(vllm.read_text())["input_lens"], [77] * 10)

    def test_the_token_is_sent_and_seen_nowhere(self):
        url = self.serve_with(EchoingServer)
        vllm = self.folder / "vllm.json"
        token = self.folder / "token"
        token.write_text(SECRET + "\n")
        EchoingServer.seen.clear()
        for source in (["--token-env", "UG_TEST_TOKEN"], ["--token-file", token]):
            result = self.load(url, *source, "--header", "X-Team: canary", "--json", self.json,
                               "--save-vllm", vllm, env={"UG_TEST_TOKEN": SECRET},
                               expect=INCONCLUSIVE)
            for text in (result.stdout, result.stderr, self.json.read_text(), vllm.read_text()):
                self.assertNotIn(SECRET, text)
            self.assertIn("denied: Bearer ****", result.stdout)
        posts = [headers for headers in EchoingServer.seen if "Content-Type" in headers]
        self.assertEqual({headers["Authorization"] for headers in posts}, {f"Bearer {SECRET}"})
        self.assertEqual({headers["X-Team"] for headers in posts}, {"canary"})
        self.load(url, "--token-env", "UG_TEST_ABSENT", expect=USAGE)

    def start(self, *words, **options):
        process = subprocess.Popen(words, text=True, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_an_interrupt_keeps_what_was_measured_and_is_no_success(self):
        url = self.serve("faults: [{kind: stall, after_tokens: 2, for: 60s, every: 4}]")
        stderr = self.folder / "stderr"
        with open(stderr, "w") as out:
            load = self.start(*self.command(url, "--json", self.json, requests=500, warmup=0,
                                            concurrency=4), stdout=subprocess.PIPE, stderr=out)
        # All four come to stand in the end; ten seconds later a line says so.
        wait_until(lambda: "4 in flight" in stderr.read_text(), 60, "a line of progress")
        load.send_signal(signal.SIGINT)
        page = load.communicate(timeout=20)[0]
        self.assertEqual(load.returncode, INFRASTRUCTURE)
        out = self.read()
        self.assertFalse(out["complete"])
        self.assertGreater(out["sent"], 0)
        self.assertEqual(out["succeeded"], out["sent"])
        self.assertEqual(out["planned"], 500)
        self.assertIn("INCOMPLETE  interrupted in round 1 of 1", page)

    def test_a_second_interrupt_ends_at_once(self):
        stderr = self.folder / "stderr"
        with open(stderr, "w") as out:
            load = self.start(*self.command(self.serve(), "--json", "-", requests=2, rounds=200, **{"output-tokens": 1}),
                              stdout=subprocess.PIPE, stderr=out)
        self.addCleanup(load.stdout.close)
        # Nobody reads its 150 KB: it waits in the midst of writing them.
        wait_until(lambda: "LOAD  http" in stderr.read_text(), 120, "the page")
        load.send_signal(signal.SIGINT)

        def caught():
            status = pathlib.Path(f"/proc/{load.pid}/status").read_text()
            return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (signal.SIGINT - 1) & 1

        wait_until(lambda: not caught(), 20, "the first interrupt")
        self.assertIsNone(load.poll())
        load.send_signal(signal.SIGINT)
        self.assertEqual(load.wait(timeout=20), -signal.SIGINT)

    def on_a_terminal(self, url, **env):
        ours, theirs = pty.openpty()
        surroundings = {**os.environ, "TERM": "xterm", **env}
        for name in ("CI", "NO_COLOR"):
            if name not in env:
                surroundings.pop(name, None)
        load = self.start(*self.command(url, requests=30), stdout=theirs, stderr=theirs,
                          env=surroundings)
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the terminal is gone with its last user
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        self.assert_ended(load.wait(timeout=60), ACCEPT, shown.decode())
        return shown.decode()

    def test_a_terminal_has_a_line_that_is_drawn_over(self):
        url = self.serve()
        shown = self.on_a_terminal(url)
        drawn = re.findall(r"\rround 1/1: \d+ of 30 ended, 0 failed, 2 in flight[^\r\n]*\x1b\[K", shown)
        self.assertGreater(len(drawn), 3)
        self.assertRegex(shown, r"\d+ s left")
        self.assertRegex(shown, "\x1b\\[1;3[23]m(OK|INCONCLUSIVE)\x1b\\[0m")
        shown = self.on_a_terminal(url, NO_COLOR="1")
        self.assertNotRegex(shown, "\x1b\\[[0-9;]*m")
        shown = self.on_a_terminal(url, CI="true")
        self.assertNotIn("\x1b[K", shown)


if __name__ == "__main__":
    unittest.main()
