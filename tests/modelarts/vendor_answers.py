"""A service that answers as the vendor's documentation says, for what our own server does not do.

Sources at support.huaweicloud.com: the error codes of ModelArts (api-modelarts) and of API Gateway (APIG.0308 throttling,
APIGW.0301 tokens), ShowTrainingJobLogsFromAom, and "Querying Training Job Logs" (modelarts_03_0149: places in logs are
opaque, such as 1551252759254000002).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Mapping[str, str], Any]
THROTTLED = {"error_code": "APIG.0308", "error_msg": "The throttling threshold has been reached: policy user over ratelimit"}
EXPIRED = {"error_code": "APIGW.0301", "error_msg": "Incorrect IAM authentication information: token expires"}
OUTAGE = {"error_code": "APIG.0203", "error_msg": "Backend timeout"}
DUPLICATE = {"error_code": "ModelArts.2751", "error_msg": "The job name already exists"}


@dataclass
class Service:
    """`answer` gets the method, the path without its project, and the body."""

    answer: Callable[[str, str, Any], Answer]
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)  # the access keys of the requests
    tokens: list[str | None] = field(default_factory=list)  # and their security tokens, where these are signed


@contextmanager
def answering(answer: Callable[[str, str, Any], Answer]) -> Iterator[Service]:
    service = Service(answer)

    class Handler(BaseHTTPRequestHandler):
        def _all(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(size)
            path = self.path.replace("/project/", "/", 1)
            service.asked.append((self.command, path))
            signature = self.headers.get("Authorization", "")
            service.keys.append(signature.partition("Access=")[2].partition(",")[0])
            service.tokens.append(self.headers.get("X-Security-Token") if ";x-security-token" in signature else None)
            status, headers, body = service.answer(self.command, path, json.loads(sent) if sent else None)
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = _all

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
