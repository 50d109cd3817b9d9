"""A service of a job's own: a page, for those alone who come through the server."""

import hmac
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

PAGE = "<!doctype html><title>detector</title><h1>detector-web</h1><p>This page comes from a program of the job.</p>"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = hmac.compare_digest(self.headers.get("X-Muster-Token", ""), os.environ["MUSTER_ENDPOINT_WEB_TOKEN"])
        content = (PAGE if known else "open this endpoint from the page of its job").encode()
        self.send_response(200 if known else 403)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


HTTPServer(("127.0.0.1", int(os.environ["MUSTER_ENDPOINT_WEB_PORT"])), Handler).serve_forever()
