"""What a job of the tests serves: HTTP that shows what it is asked, and a WebSocket that sends back what it gets."""

import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.headers.get("Upgrade") == "websocket":
            self.echo()
            return
        if path == "/endless":
            self.begin({"Transfer-Encoding": "chunked"})
            self.wfile.write(b"5\r\nfirst\r\n")
            self.wfile.flush()
            self.rfile.read(1)  # nothing comes until the connection ends
            return
        if path == "/large":
            self.begin({"Content-Length": str(64 << 20)})
            for _ in range(1024):
                self.wfile.write(b"x" * (64 << 10))
            return
        if path == "/cookies":
            self.answer(
                {},
                [
                    ("Set-Cookie", "mine=1; Domain=localhost; Path=/"),
                    ("Set-Cookie", "__Host-muster=stolen; Path=/; Secure"),
                    ("Set-Cookie", "muster=stolen"),
                    ("Set-Cookie", "muster-endpoint=stolen"),
                    ("Clear-Site-Data", '"*"'),
                    ("Connection", "X-Private"),
                    ("X-Private", "for the next machine alone"),
                ],
            )
            return
        shown = {
            "path": self.path,
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "token": os.environ.get("MUSTER_ENDPOINT_WEB_TOKEN"),
            "port": os.environ.get("MUSTER_ENDPOINT_WEB_PORT"),
        }
        self.answer(shown)

    def do_POST(self) -> None:
        digest, count = hashlib.sha256(), 0
        for piece in self.pieces():
            digest.update(piece)
            count += len(piece)
        self.answer({"bytes": count, "sha256": digest.hexdigest()})

    def pieces(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            left -= len(piece)
            yield piece

    def echo(self) -> None:
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        names = ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)
        for name, value in (*names, ("Set-Cookie", "muster=stolen"), ("Set-Cookie", "ws=1; Domain=localhost")):
            self.send_header(name, value)
        self.end_headers()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            size = head[1] & 127
            size = int.from_bytes(self.rfile.read({126: 2, 127: 8}[size]), "big") if size > 125 else size
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.rfile.read(size)))
            length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
            self.wfile.write(bytes([head[0]]) + length + data)
            self.wfile.flush()

    def begin(self, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def answer(self, data: object, headers: Sequence[tuple[str, str]] = ()) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
