"""A registry that fails in one chosen way, in front of a real one."""

import contextlib
import http.client
import http.server
import threading

REQUESTS_THAT_HANG_SECONDS = 300  # longer than any test


class HostileRegistry(contextlib.AbstractContextManager):
    """Hands out what `upstream` (host:port) has, except for `fault`:

    corrupt_layer      a byte of every layer is another, the length is right
    corrupt_manifest   a manifest's bytes are not those of its digest
    truncate           a layer ends in the middle, with the connection
    hang               a layer stops in the middle, the connection stays
    silent             accepts connections and never answers
    unauthorized       wants a token, and gives none to anybody
    basic              wants a name and a password
    rate_limit         429 for every manifest
    server_error       500 for every manifest
    """

    def __init__(self, upstream, fault):
        registry = self
        self.upstream = upstream
        self.fault = fault
        self.requests = []  # method and path, as they came
        self.over = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Engines that try TLS first know by an answer in HTTP that this is none.
            default_request_version = "HTTP/1.0"

            def do_GET(self):
                registry.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a client that gave up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, request):
        self.requests.append(f"{request.command} {request.path}")
        if self.fault == "silent":
            self.hold(request)
            return
        if self.refuse(request):
            return
        status, headers, body = self.fetch(request)
        is_layer = "/blobs/" in request.path and body[:1] != b"{"
        is_manifest = "/manifests/" in request.path
        if self.fault == "corrupt_layer" and is_layer:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if self.fault == "corrupt_manifest" and is_manifest and body:
            body += b"\n"
            headers["Content-Length"] = str(len(body))
        half = len(body) // 2 if is_layer and self.fault in ("truncate", "hang") else len(body)
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "HEAD":
            return
        request.wfile.write(body[:half])
        if half < len(body):
            request.wfile.flush()
            if self.fault == "hang":
                self.hold(request)
            request.close_connection = True

    def hold(self, request):
        self.over.wait(REQUESTS_THAT_HANG_SECONDS)
        request.close_connection = True

    def refuse(self, request):
        realm = f"http://{self.address}/token"
        challenge = {
            "unauthorized": f'Bearer realm="{realm}",service="test",scope="repository:server:pull"',
            "basic": 'Basic realm="test"',
        }.get(self.fault)
        if challenge:
            self.send_error(request, 401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": challenge})
        elif self.fault == "rate_limit" and "/manifests/" in request.path:
            self.send_error(request, 429, "TOOMANYREQUESTS", "you have reached the limit of pulls")
        elif self.fault == "server_error" and "/manifests/" in request.path:
            self.send_error(request, 500, "UNKNOWN", "the store is broken")
        else:
            return False
        return True

    def send_error(self, request, status, code, message, headers=None):
        body = f'{{"errors":[{{"code":"{code}","message":"{message}"}}]}}'.encode()
        request.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json"}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def fetch(self, request):
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        try:
            headers = {name: value for name, value in request.headers.items() if name.lower() == "accept"}
            connection.request(request.command, request.path, headers=headers)
            response = connection.getresponse()
            kept = ("content-type", "content-length", "docker-content-digest", "docker-distribution-api-version")
            answer = {name: value for name, value in response.getheaders() if name.lower() in kept}
            return response.status, answer, response.read()
        finally:
            connection.close()
