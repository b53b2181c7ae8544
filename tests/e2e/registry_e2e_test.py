"""upgrade-gate pin against a real registry: Debian's docker-registry on loopback.

Images are pushed over its API, document by document; three registries differ in the
login that they want: none, a password (htpasswd), a token of a service of our own.
"""

import base64
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "fixtures/images")]
import container_image  # noqa: E402
from oci_layout import Layout  # noqa: E402

from harness import ACCEPT, COMMAND, INFRASTRUCTURE, NOTHING_RAN, USAGE, wait_until  # noqa: E402

SKIPPED = 77

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"

USER, PASSWORD = "ada", "p4ss"
# bcrypt of the password, the only kind that the registry takes.
HTPASSWD = "ada:$2b$04$w.M7ePBNISGygBhFsa/caeELgxH2pdXQcwjFu/zXHz6OmK6okKNey\n"

PLAN = """\
# Prüfung of two images\t# with a comment
version: 1
name: pinned
model: {{served_name: tiny}}
server: {{launcher: docker, command: [serve, --port, $PORT]}}
arms:
  baseline:
    image:   "{baseline}"   # what runs today
  candidate: {{image: {candidate}}}   # what shall run
workload:
  prompts: {{kind: synthetic-tokens, seed: 7}}
  cases:
    - {{name: c, input_tokens: 8, output_tokens: 8, concurrency: 1, requests: 2}}
gates:
  - provenance: {{}}
"""


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Registry:
    """One docker-registry process with a store of its own."""

    def __init__(self, folder, auth=""):
        folder.mkdir()
        self.folder = folder
        self.store = folder / "store"
        config = folder / "config.yml"
        config.write_text(
            "version: 0.1\n"
            "log: {level: info}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.store}}}}}\n"
            'http: {addr: "127.0.0.1:0", secret: for-this-test}\n' + auth
        )
        self.log = folder / "log"
        program = shutil.which("docker-registry", path=os.environ["PATH"] + ":/usr/bin")
        assert program, "no docker-registry: run ci/install_packages.sh"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program, "serve", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder
            )
        wait_until(self.listening, 60, "the registry listens")
        self.host = self.listening()

    def listening(self):
        assert self.process.poll() is None, self.log.read_text()
        found = re.search(r"listening on (127\.0\.0\.1:\d+)", self.log.read_text())
        return found.group(1) if found else None

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)

    def request(self, method, path, body=b"", headers=None):
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            text = response.read()
            assert response.status < 300, (method, path, response.status, text)
            return response
        finally:
            connection.close()

    def put_blob(self, name, data, headers):
        upload = self.request("POST", f"/v2/{name}/blobs/uploads/", headers=headers).getheader("Location")
        url = urllib.parse.urlsplit(upload)
        query = f"{url.query}&{urllib.parse.urlencode({'digest': digest(data)})}"
        self.request("PUT", f"{url.path}?{query}", data, {**headers, "Content-Type": "application/octet-stream"})

    def put_manifest(self, name, reference, document, headers):
        data = json.dumps(document).encode()
        self.request(
            "PUT", f"/v2/{name}/manifests/{reference}", data, {**headers, "Content-Type": document["mediaType"]}
        )
        return digest(data), len(data)

    def push_manifest(self, name, tag, variant, architecture="amd64", docker=False, headers=None):
        """Returns the manifest's digest, its size and the config's digest."""
        headers = headers or {}
        config = json.dumps(
            {"architecture": architecture, "os": "linux", "config": {"Labels": {"variant": variant}},
             "rootfs": {"type": "layers", "diff_ids": []}}
        ).encode()
        self.put_blob(name, config, headers)
        manifest = {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST if docker else OCI_MANIFEST,
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json" if docker
                else "application/vnd.oci.image.config.v1+json",
                "size": len(config),
                "digest": digest(config),
            },
            "layers": [],
        }
        return *self.put_manifest(name, tag, manifest, headers), digest(config)

    def push_index(self, name, tag, variant, docker=False, headers=None):
        """Of linux/amd64 and linux/arm64: the digests of the index and of both manifests."""
        entries, digests = [], []
        for architecture in ("amd64", "arm64"):
            manifest, size, _ = self.push_manifest(
                name, f"{tag}-{architecture}", variant, architecture, docker, headers
            )
            digests.append(manifest)
            entries.append({
                "mediaType": DOCKER_MANIFEST if docker else OCI_MANIFEST,
                "size": size,
                "digest": manifest,
                "platform": {"architecture": architecture, "os": "linux"},
            })
        index = {
            "schemaVersion": 2,
            "mediaType": DOCKER_INDEX if docker else OCI_INDEX,
            "manifests": entries,
        }
        return self.put_manifest(name, tag, index, headers or {})[0], *digests

    def blob_file(self, blob):
        hex_digits = blob.removeprefix("sha256:")
        return self.store / "docker/registry/v2/blobs/sha256" / hex_digits[:2] / hex_digits / "data"


class TokenService:
    """Gives who knows the password a token that the registry checks by our certificate."""

    def __init__(self, folder):
        folder.mkdir()
        self.key, self.certificate = folder / "key.pem", folder / "certificate.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tokens",
             "-keyout", self.key, "-out", self.certificate],
            check=True, capture_output=True,
        )
        pem = self.certificate.read_text()
        self.x5c = "".join(pem.split("-----")[2].split())
        self.asked = []
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
                service.asked.append((query, self.headers.get("Authorization")))
                known = self.headers.get("Authorization") == basic(USER, PASSWORD)
                body = json.dumps({"token": service.token(query)}).encode() if known else b"{}"
                self.send_response(200 if known else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.realm = f"http://127.0.0.1:{self.server.server_address[1]}/token"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def token(self, query, actions=("pull",)):
        def encode(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

        now = int(time.time())
        header = {"typ": "JWT", "alg": "RS256", "x5c": [self.x5c]}
        claims = {
            "iss": "tokens", "sub": USER, "aud": query.get("service", ""), "exp": now + 300, "nbf": now - 60,
            "iat": now, "jti": str(len(self.asked)),
            "access": [{"type": "repository", "name": query["scope"].split(":")[1], "actions": list(actions)}],
        }
        signed = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self.key], input=signed.encode(), check=True, capture_output=True
        ).stdout
        return f"{signed}.{encode(signature)}"

    def push_header(self, name):
        query = {"service": "registry.example", "scope": f"repository:{name}:pull,push"}
        return {"Authorization": "Bearer " + self.token(query, ("pull", "push"))}


class PinTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="upgrade-gate-e2e-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.plan = self.folder / "gate.yaml"
        self.docker_config = self.folder / "docker"
        self.docker_config.mkdir()

    def registry(self, auth="", name="registry"):
        registry = Registry(self.folder / name, auth)
        self.addCleanup(registry.stop)
        return registry

    def write_plan(self, baseline, candidate):
        self.plan.write_bytes(PLAN.format(baseline=baseline, candidate=candidate).encode())
        self.plan.chmod(0o640)

    def login(self, config):
        (self.docker_config / "config.json").write_text(json.dumps(config))

    def call(self, *arguments, expect):
        result = subprocess.run(
            [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=self.folder,
            env={**os.environ, "DOCKER_CONFIG": str(self.docker_config),
                 "PATH": f"{self.docker_config}:{os.environ['PATH']}"},
        )
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        self.assertNotIn(PASSWORD, result.stdout + result.stderr)
        self.assertNotIn(basic(USER, PASSWORD), result.stdout + result.stderr)
        return result

    def pin(self, *arguments, expect=ACCEPT):
        return self.call("pin", "gate.yaml", *arguments, expect=expect)

    def assert_untouched(self, expect, *arguments):
        before = self.plan.read_bytes()
        result = self.pin("--in-place", *arguments, expect=expect)
        self.assertEqual(self.plan.read_bytes(), before)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir() if p.name.startswith("gate.yaml")), ["gate.yaml"])
        return result.stderr


class Resolving(PinTest):
    def setUp(self):
        super().setUp()
        self.open = self.registry()
        self.name = f"{self.open.host}/team/server"

    def test_tags_become_digests_and_nothing_else_changes(self):
        index, amd64, arm64 = self.open.push_index("team/server", "1", "old")
        manifest, _, _ = self.open.push_manifest("team/server", "2", "new", docker=True)
        self.write_plan(f"{self.name}:1", f"{self.name}:2")
        before = self.plan.read_bytes()

        # Before: the plan is refused, and says what to do.
        refused = self.call("plan", "check", "gate.yaml", expect=USAGE).stderr
        self.assertIn(f'gate.yaml:8:14: the image "{self.name}:1" is not pinned, and a tag can move: run '
                      f"upgrade-gate pin, or write {self.name}:1@sha256:…", refused)

        shown = self.pin()
        self.assertEqual(self.plan.read_bytes(), before)
        self.assertEqual(
            shown.stdout,
            "--- gate.yaml\n+++ gate.yaml\n@@ -8,2 +8,2 @@\n"
            f'-    image:   "{self.name}:1"   # what runs today\n'
            f"-  candidate: {{image: {self.name}:2}}   # what shall run\n"
            f'+    image:   "{self.name}:1@{index}"   # what runs today\n'
            f"+  candidate: {{image: {self.name}:2@{manifest}}}   # what shall run\n",
        )
        # An index and its platform's manifest are told apart.
        self.assertEqual(
            shown.stderr,
            f"gate.yaml:8:14: baseline: {self.name}:1: {index}, an index; its manifest for linux/amd64 is {amd64}\n"
            f"gate.yaml:9:22: candidate: {self.name}:2: {manifest}, the manifest for linux/amd64\n",
        )

        changed = self.pin("--in-place")
        self.assertEqual(changed.stdout, shown.stdout)
        self.assertEqual(changed.stderr, shown.stderr + "gate.yaml: changed\n")
        expected = before.replace(f"{self.name}:1".encode(), f"{self.name}:1@{index}".encode())
        expected = expected.replace(f"{self.name}:2".encode(), f"{self.name}:2@{manifest}".encode())
        self.assertEqual(self.plan.read_bytes(), expected)
        self.assertEqual(stat.S_IMODE(self.plan.stat().st_mode), 0o640)
        self.call("plan", "check", "gate.yaml", expect=ACCEPT)

        again = self.pin("--in-place")
        self.assertEqual(again.stdout, "")
        self.assertIn(f"left: it is there, an index; its manifest for linux/amd64 is {amd64}\n", again.stderr)
        self.assertTrue(again.stderr.endswith("gate.yaml: nothing to change, 2 images\n"), again.stderr)
        self.assertEqual(self.plan.read_bytes(), expected)

        other = self.pin("--platform", "linux/arm64", expect=USAGE).stderr
        self.assertIn("the image is for linux/amd64, not for linux/arm64: pin one that is", other)
        self.write_plan(f"{self.name}:1", f"{self.name}:1")
        self.assertIn(f"its manifest for linux/arm64 is {arm64}", self.pin("--platform", "linux/arm64").stderr)

    def test_docker_indexes_untagged_names_and_links(self):
        index, amd64, _ = self.open.push_index("team/server", "latest", "old", docker=True)
        self.write_plan(self.name, self.name)
        (self.folder / "link.yaml").symlink_to("gate.yaml")
        result = self.call("pin", "link.yaml", "--in-place", expect=ACCEPT)
        self.assertIn(f"no tag, which means latest: {index}, an index; its manifest for linux/amd64 is {amd64}",
                      result.stderr)
        self.assertTrue((self.folder / "link.yaml").is_symlink())
        self.assertEqual(self.plan.read_text().count(f"{self.name}:latest@{index}"), 2)

    def test_a_moved_tag_is_followed_only_when_asked(self):
        old, _, _ = self.open.push_manifest("team/server", "1", "old")
        self.write_plan(f"{self.name}:1", f"{self.name}@{old}")
        self.pin("--in-place")
        new, _, _ = self.open.push_manifest("team/server", "1", "new")
        self.assertNotEqual(old, new)

        self.assertIn("nothing to change", self.assert_untouched(ACCEPT))
        result = self.pin("--in-place", "--update")
        self.assertIn(f"gate.yaml:8:14: baseline: {self.name}:1@{old}: {old} -> {new}, the manifest for linux/amd64\n",
                      result.stderr)
        self.assertIn("without a tag there is nothing to update it by", result.stderr)
        self.assertIn(f"{self.name}:1@{new}", self.plan.read_text())
        self.assertIn(f"{self.name}@{old}", self.plan.read_text())
        self.assertIn("left: the tag still is " + new, self.assert_untouched(ACCEPT, "--update"))

    def test_one_image_that_fails_leaves_the_plan_as_it_was(self):
        self.open.push_manifest("team/server", "1", "old")
        self.write_plan(f"{self.name}:1", f"{self.name}:3")
        self.assertIn(
            f"gate.yaml:9:22: {self.name}:3: not found: the tag is not at {self.open.host} (HTTP 404): check the "
            "name and the tag\ngate.yaml: not changed\n",
            self.assert_untouched(USAGE),
        )
        missing = digest(b"nothing")
        self.write_plan(f"{self.name}:1", f"{self.name}@{missing}")
        self.assertIn(
            f"gate.yaml:9:22: {self.name}@{missing}: not found: {missing} is not at {self.open.host} (HTTP 404, "
            "MANIFEST_UNKNOWN): check the name and the digest",
            self.assert_untouched(USAGE),
        )
        self.write_plan(f"{self.name}:1", "team/Server:1")
        self.assertIn("gate.yaml:9:22: team/Server:1: ", self.assert_untouched(USAGE))

    def test_a_store_that_rots_is_noticed(self):
        manifest, _, config = self.open.push_manifest("team/server", "1", "old")
        self.write_plan(f"{self.name}:1", f"{self.name}@{manifest}")
        path = self.open.blob_file(config)
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"old", b"new"))
        corrupt = self.assert_untouched(INFRASTRUCTURE)
        self.assertIn(f"corrupt: what has arrived for the config {config} has the sha256 ", corrupt)
        self.assertEqual(corrupt.count("corrupt: "), 2)
        path.write_bytes(whole[:10])
        self.assertIn("corrupt: ", self.assert_untouched(INFRASTRUCTURE))
        path.unlink()
        self.assertIn(f"not found: the config {config} is not at", self.assert_untouched(USAGE))

    def test_a_registry_that_is_gone(self):
        self.write_plan(f"{self.name}:1", f"{self.name}:2")
        self.open.stop()
        self.assertIn(f"{self.name}:1: nobody listens at {self.open.host}, tried 3 times",
                      self.assert_untouched(INFRASTRUCTURE))

    def test_a_plan_that_never_pulls_is_not_looked_up(self):
        self.open.push_manifest("team/server", "1", "old")
        self.write_plan(f"{self.name}:1", f"{self.name}@{digest(b'local')}")
        self.plan.write_text(self.plan.read_text().replace("launcher: docker,", "launcher: docker, pull: never,"))
        self.assertIn("left: the plan never pulls", self.pin("--in-place").stderr)

    def test_nothing_to_pin_is_not_success(self):
        self.plan.write_text("version: 1\narms: {baseline: {executable: {path: x}}}\n")
        self.assertIn("gate.yaml: no arm has an image", self.assert_untouched(NOTHING_RAN))
        self.plan.write_text("arms: {")
        self.assertIn("gate.yaml:", self.assert_untouched(USAGE))
        self.write_plan("x", "x")
        self.assertIn('--platform: "linux" is not a platform', self.assert_untouched(USAGE, "--platform", "linux"))


class Layouts(PinTest):
    """Images in folders beside the plan: no registry is asked, and there is none."""

    def setUp(self):
        super().setUp()
        self.layout = Layout(self.folder / "images")
        self.old, self.new = (container_image.build([{"/version": text}], "amd64") for text in (b"old", b"new"))

    def test_names_become_digests_and_nothing_else_changes(self):
        old = self.layout.add(self.old, "1").digest
        index = self.layout.add_index({"amd64": self.new, "arm64": self.old}, "registry.example:5000/server:2").digest
        names = ["oci:images:1", f"oci:{self.layout.folder}:registry.example:5000/server:2"]
        self.write_plan(*names)
        before = self.plan.read_text()
        refused = self.call("plan", "check", "gate.yaml", expect=USAGE).stderr
        self.assertIn('gate.yaml:8:14: the image "oci:images:1" is not pinned, and a layout can be written anew: run '
                      "upgrade-gate pin, or write oci:images:1@sha256:…", refused)

        changed = self.pin("--in-place", "--platform", "linux/amd64")
        self.assertEqual(
            changed.stderr,
            f"gate.yaml:8:14: baseline: {names[0]}: {old}, the manifest for linux/amd64\n"
            f"gate.yaml:9:22: candidate: {names[1]}: {index}, an index; its manifest for linux/amd64 is "
            f"{self.layout.add(self.new).digest}\n"
            "gate.yaml: changed\n",
        )
        expected = before.replace(names[0], f"{names[0]}@{old}").replace(names[1], f"{names[1]}@{index}")
        self.assertEqual(self.plan.read_text(), expected)
        self.call("plan", "check", "gate.yaml", expect=ACCEPT)
        shown = self.call("plan", "show", "gate.yaml", expect=ACCEPT).stdout
        self.assertIn(f'"image": "{names[0]}@{old}"', shown)
        self.assertIn("left: it is there, the manifest for linux/amd64\n", self.assert_untouched(ACCEPT))

    def test_a_layout_that_was_written_anew_is_followed_only_when_asked(self):
        old = self.layout.add(self.old).digest
        self.write_plan("oci:images", f"oci:images@{old}")
        self.pin("--in-place")
        shutil.rmtree(self.layout.folder)
        self.layout = Layout(self.folder / "images")
        new = self.layout.add(self.new).digest
        self.assertIn(f"images: does not hold {old}; index.json lists {new}", self.assert_untouched(USAGE))
        self.layout.add(self.old, "old")
        self.assertIn("nothing to change", self.assert_untouched(ACCEPT))
        # Two by now, and nobody says which.
        self.assertIn("images: holds 2 images: say which", self.assert_untouched(USAGE, "--update"))
        self.layout.forget("old")
        result = self.pin("--in-place", "--update")
        self.assertIn(f"gate.yaml:8:14: baseline: oci:images@{old}: {old} -> {new}, the manifest", result.stderr)
        self.assertEqual(self.plan.read_text().count(f"oci:images@{new}"), 2)
        self.assertIn("left: the layout still has " + new, self.assert_untouched(ACCEPT, "--update"))

    def test_what_is_wrong_with_one_names_its_line(self):
        self.layout.add(self.old, "1")
        added = self.layout.add(self.new, "2")
        for candidate, message in (
            ("oci:images", "images: holds 2 images: say which, as oci:PATH:NAME; index.json lists 1 ("),
            ("oci:images:3", "images: holds no image of the name 3; index.json lists 1 ("),
            ("oci:nothing", "nothing: cannot be opened as the folder of an OCI layout: No such file or directory"),
            ("oci:images:2@0", 'the image oci:images:2@0 must have behind its "@" a digest'),
        ):
            self.write_plan("oci:images:1", candidate)
            output = self.assert_untouched(USAGE)
            self.assertIn("gate.yaml:9:22: ", output)
            self.assertIn(message, output)
        self.write_plan("oci:images:1", "oci:images:2")
        self.assertIn("the image is for linux/amd64, not for linux/s390x",
                      self.assert_untouched(USAGE, "--platform", "linux/s390x"))
        self.layout.path(added.layers[0]).unlink()
        self.assertIn(f"images: does not hold {added.layers[0]}, a layer of the manifest {added.digest}",
                      self.assert_untouched(USAGE))


class BuiltFrom(PinTest):
    """Of image files: where they were built from is pinned as images are."""

    PLAN = """\
arms:
  baseline:
    image_file: {{path: old.sif, sha256: {hex}}}
    built_from: {baseline}  # the vendor's
  candidate: {{image_file: {{path: new.sif, sha256: {hex}}}, built_from: '{candidate}'}}
"""

    def write_plan(self, baseline, candidate):
        self.plan.write_text(self.PLAN.format(hex="1" * 64, baseline=baseline, candidate=candidate))

    def test_tags_become_digests(self):
        registry = self.registry()
        name = f"{registry.host}/team/server"
        index, _, _ = registry.push_index("team/server", "1", "old")
        layout = Layout(self.folder / "images").add(container_image.build([{"/version": b"new"}], "amd64")).digest
        self.write_plan(f"{name}:1", "oci:images")
        before = self.plan.read_text()
        self.assertIn(f"gate.yaml:4:17: baseline: {name}:1: {index}, an index; ", self.pin("--in-place").stderr)
        self.assertEqual(
            self.plan.read_text(),
            before.replace(f"{name}:1", f"{name}:1@{index}").replace("oci:images", f"oci:images@{layout}"),
        )
        new, _, _ = registry.push_manifest("team/server", "1", "new")
        self.assertIn("nothing to change", self.assert_untouched(ACCEPT))
        self.assertIn(f"{index} -> {new}, the manifest", self.pin("--in-place", "--update").stderr)
        self.assertIn(f"built_from: {name}:1@{new}  # the vendor's\n", self.plan.read_text())

    def test_a_registry_that_is_gone_names_the_line(self):
        registry = self.registry()
        registry.stop()
        name = f"{registry.host}/team/server"
        self.write_plan(f"{name}:1", f"{name}:2")
        output = self.assert_untouched(INFRASTRUCTURE)
        for place, tag in (("4:17", 1), ("5:", 2)):
            self.assertIn(f"gate.yaml:{place}", output)
            self.assertIn(f"{name}:{tag}: nobody listens at {registry.host}", output)


class LoggingIn(PinTest):
    def assert_needs_login(self, registry, name, wrong_status):
        """With the right login in each of docker's ways it works, and otherwise says what to do."""
        self.write_plan(f"{registry.host}/{name}:1", f"{registry.host}/{name}:1")
        self.assertIn(
            f"and {self.docker_config}/config.json has no login for {registry.host}: docker login {registry.host}",
            self.assert_untouched(INFRASTRUCTURE),
        )
        self.login({"auths": {registry.host: {"auth": base64.b64encode(b"ada:wrong").decode()}}})
        self.assertIn(
            f"unauthorized (HTTP 401{wrong_status}) with the login of {self.docker_config}/config.json: auths of "
            f"{registry.host}: docker login {registry.host}",
            self.assert_untouched(INFRASTRUCTURE),
        )
        self.login({"auths": {registry.host: {"auth": basic(USER, PASSWORD).split()[1]}}})
        self.assertIn("the manifest for linux/amd64", self.pin().stderr)
        helper = self.docker_config / "docker-credential-for-this-test"
        helper.write_text("#!/bin/sh\n"
                          '[ "$1" = get ] || exit 2\n'
                          'host=$(cat)\n'
                          f'[ "$host" = {registry.host} ] || exit 3\n'
                          f"echo '{{\"Username\":\"{USER}\",\"Secret\":\"{PASSWORD}\"}}'\n")
        helper.chmod(0o700)
        self.login({"credsStore": "for-this-test"})
        self.assertIn("the manifest for linux/amd64", self.pin().stderr)

    def test_with_a_password(self):
        passwords = self.folder / "htpasswd"
        passwords.write_text(HTPASSWD)
        registry = self.registry(f"auth: {{htpasswd: {{realm: this test, path: {passwords}}}}}\n")
        registry.push_manifest("server", "1", "old", headers={"Authorization": basic(USER, PASSWORD)})
        self.assert_needs_login(registry, "server", "")

    def test_with_a_token(self):
        service = TokenService(self.folder / "tokens")
        self.addCleanup(service.stop)
        registry = self.registry(
            f"auth: {{token: {{realm: '{service.realm}', service: registry.example, issuer: tokens, "
            f"rootcertbundle: {service.certificate}}}}}\n"
        )
        registry.push_manifest("team/server", "1", "old", headers=service.push_header("team/server"))
        self.assert_needs_login(registry, "team/server", "")
        # Nobody asked for the right to write.
        self.assertEqual({query["scope"] for query, _ in service.asked}, {"repository:team/server:pull"})
        self.assertEqual({query["service"] for query, _ in service.asked}, {"registry.example"})


if __name__ == "__main__":
    if os.environ.get("UPGRADE_GATE_ENGINE_TESTS") == "off":
        print("UPGRADE_GATE_ENGINE_TESTS=off: tests with a registry are OFF; nothing was tested", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
