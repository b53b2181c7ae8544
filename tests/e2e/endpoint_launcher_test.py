"""The launcher endpoint: servers that the test runs, behind a gateway with TLS."""

import http.client
import http.server
import json
import socket
import ssl
import subprocess
import threading
import unittest

from harness import ACCEPT, INCONCLUSIVE, INFRASTRUCTURE, REJECT, SERVER, USAGE, Experiment

PLAN = """\
version: 1
name: small
model: {{served_name: tiny}}
server:
  launcher: endpoint
  ready: {{timeout: 10s}}
{endpoint}
arms:
  baseline:
    url: {baseline_url}
{baseline}
  candidate:
    url: {candidate_url}
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
TOKEN = "correct-horse-battery"


class Gateway(http.server.ThreadingHTTPServer):
    """Sends what comes over TLS, with the token, to the server that the route file names."""

    def __init__(self, folder, routes):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.routes, self.answers, self.stray = folder, routes, 0, None
        key, certificate = folder / "key.pem", folder / "ca.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                        certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"

    def route(self):
        return (self.folder / "route").read_text().strip()

    def handle_error(self, request, client_address):
        pass  # a client that goes away


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def relay(self):
        gateway = self.server
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        revision = gateway.route()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection("127.0.0.1", gateway.routes[revision])
        upstream.request(self.command, self.path, body, {"Content-Type": "application/json"})
        answer = upstream.getresponse()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        if self.path.endswith("/completions"):
            gateway.answers += 1
            stray = gateway.stray is not None and gateway.answers == gateway.stray
            self.send_header("X-Revision", "r-stray" if stray else f"r-{revision}")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := answer.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        upstream.close()

    do_GET = do_POST = relay

    def log_message(self, *arguments):
        pass


class Endpoint(Experiment):
    def setUp(self):
        super().setUp()
        self.ports = {arm: self.start(arm) for arm in ("baseline", "candidate")}
        self.direct = {arm: f"http://127.0.0.1:{port}" for arm, port in self.ports.items()}

    def start(self, arm):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen([SERVER, "--profile", f"{arm}.yaml", "--port", str(port)], cwd=self.folder,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return port

    def write_endpoint_plan(self, endpoint="", baseline="", candidate="", urls=None):
        urls = urls or self.direct
        self.plan.write_text(PLAN.format(endpoint=endpoint, baseline=baseline, candidate=candidate,
                                         baseline_url=urls["baseline"], candidate_url=urls["candidate"]))

    def boots(self):
        return [json.loads(p.read_text()) for p in sorted(self.run_folder.glob("evidence/boots/*/boot.json"))]

    def provenance(self, expect):
        verdict = json.loads(self.judge("--format", "json", expect=expect).stdout)
        return verdict, next(gate for gate in verdict["gates"] if gate["kind"] == "provenance")

    def gateway(self):
        (self.folder / "route").write_text("baseline")
        gateway = Gateway(self.folder, self.ports)
        thread = threading.Thread(target=gateway.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(gateway.server_close)
        self.addCleanup(gateway.shutdown)
        switch = self.folder / "switch"
        switch.write_text('#!/bin/sh\necho "$1" >route.new && mv route.new route\necho "$1 of $RUN" >>switched\n')
        switch.chmod(0o755)
        self.write_endpoint_plan(
            urls={"baseline": gateway.url, "candidate": gateway.url},
            endpoint="  endpoint: {identity_header: X-Revision, ca: ca.pem, token: {from_env: GATEWAY_TOKEN}}",
            baseline='    before: [./switch, baseline]\n'
                     '    identity: {version: "1.0", models: tiny, header X-Revision: r-baseline}',
            candidate='    before: [./switch, candidate]\n'
                      '    identity: {version: "1.1", models: tiny, header X-Revision: r-candidate}')
        return gateway

    def test_what_the_servers_declare_is_a_condition(self):
        self.write_endpoint_plan(baseline='    identity: {version: "1.0"}', candidate='    identity: {version: "1.1"}')
        self.capture()
        self.assert_every_round_once()
        verdict, provenance = self.provenance(ACCEPT)
        self.assertIn("boot 1 (baseline): identity: claimed by the server, not proved", provenance["message"])
        self.assertIn("identity of baseline: claimed by the server, not proved (version 1.0)", verdict["conditions"])
        self.assertEqual(verdict["boots"][0]["identity_strength"], "claimed")
        self.assertIsNone(verdict["boots"][0]["identity"])
        boot = self.boots()[1]
        self.assertEqual(boot["server"]["values"], {"models": "tiny", "version": "1.1"})
        self.assertEqual((boot["argv"], boot["exit"]), ([], "left running, as it was found"))
        self.assertEqual(self.call("verify", self.run_folder, "--plan", self.plan).returncode, ACCEPT)
        self.assertEqual(len(self.servers()), 2, "they are somebody else's")
        self.call("report", self.run_folder, "--plan", self.plan)
        for name in ("summary.txt", "junit.xml"):
            text = " ".join((self.run_folder / "report" / name).read_text().split())
            self.assertIn("claimed by the server, not proved", text, name)

    def test_without_a_declared_identity_nothing_was_proved(self):
        self.write_endpoint_plan()
        self.capture()
        _, provenance = self.provenance(INCONCLUSIVE)
        self.assertEqual(provenance["finding"], "identity_unproved")

    def test_another_version_than_declared_is_not_measured(self):
        self.write_endpoint_plan(baseline='    identity: {version: "0.9", image: x}')
        result = self.capture(expect=INFRASTRUCTURE)
        self.assertIn('boot 1 (baseline): image: the server says nothing, the plan declares "x"; version: the server '
                      'says "1.0", the plan declares "0.9"', result.stderr)

    def test_a_gateway_with_tls_a_token_a_route_and_a_header(self):
        self.gateway()
        env = {"GATEWAY_TOKEN": TOKEN}
        self.capture(env=env)
        self.assert_every_round_once()
        self.provenance(ACCEPT)
        self.assertEqual(self.boots()[1]["server"]["values"]["header X-Revision"], "r-candidate")
        self.assertEqual([line.split()[0] for line in (self.folder / "switched").read_text().splitlines()],
                         ["baseline", "candidate"])
        for path in self.run_folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(TOKEN.encode(), path.read_bytes(), path)

    def test_one_answer_of_another_revision_loses_the_boot(self):
        gateway = self.gateway()
        gateway.stray = 12
        result = self.capture(expect=INFRASTRUCTURE, env={"GATEWAY_TOKEN": TOKEN})
        self.assertIn('header X-Revision: was "r-baseline", is "r-baseline and r-stray" in case', result.stderr)
        self.assertIn("which is not kept", result.stderr)

    def test_a_route_that_cannot_be_switched_and_a_token_that_is_not_there(self):
        self.gateway()
        result = self.capture(expect=USAGE)
        self.assertIn("environment variable GATEWAY_TOKEN: is not set", result.stderr)
        result = self.capture(expect=INFRASTRUCTURE, env={"GATEWAY_TOKEN": "wrong"})
        self.assertIn("/health answered 401", result.stderr)
        (self.folder / "switch").write_text("#!/bin/sh\necho no permission >&2\nexit 1\n")
        result = self.capture(expect=INFRASTRUCTURE, env={"GATEWAY_TOKEN": TOKEN})
        self.assertIn('arm "baseline": before: ./switch: exit code 1: no permission', result.stderr)

    def test_replicas_that_a_command_names_and_two_hosts(self):
        script = self.folder / "replicas"
        script.write_text('#!/bin/sh\nprintf \'{"host": "node-%s", "replica 1": "sha256:a"}\' "$1"\n')
        script.chmod(0o755)
        identity = '    identity: {"replica 1": "sha256:a"}'
        self.write_endpoint_plan(endpoint="  endpoint: {identity: [./replicas, $ARM]}", baseline=identity,
                                 candidate=identity)
        self.capture()
        self.assertEqual([boot["server_host"] for boot in self.boots()], ["node-baseline", "node-candidate"])
        _, provenance = self.provenance(REJECT)
        self.assertEqual(provenance["finding"], "hosts_differ")
        self.assertIn("served by different hosts: node-baseline in boot 1 and node-candidate in boot 2",
                      provenance["message"])


if __name__ == "__main__":
    unittest.main()
