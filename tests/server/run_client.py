"""A program that submits jobs to a server through its API, without Muster's own client."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from muster_server import NUMBERS, Administered, MusterServer


class RunClient:
    def __init__(self, http: httpx.Client, project: str) -> None:
        self.http = http
        self.project = project

    def send_code(self, **files: str) -> str:
        """Sends files as code; returns its digest."""
        contents = {hashlib.sha256(text.encode()).hexdigest(): text.encode() for text in files.values()}
        entries = sorted(
            (["file", hashlib.sha256(text.encode()).hexdigest(), name.replace("__", ".")] for name, text in files.items()),
            key=lambda entry: entry[2],
        )
        found = self.http.post("/api/v1/code", json={"entries": entries}).json()
        if found["missing"]:
            archive = tar({name: contents[name] for name in found["missing"]})
            sent = self.http.put(f"/api/v1/code/{found['code']}", content=archive)
            assert (sent.status_code, sent.json()["missing"]) == (200, []), sent.text
        return str(found["code"])

    def post(self, job: str, key: str | None = None, **fields: Any) -> httpx.Response:
        body = {"job": job, "code": fields.pop("code", None) or self.send_code(), "project": self.project, **fields}
        return self.http.post("/api/v1/runs", json=body, headers={"Idempotency-Key": key} if key else {})

    def submit(self, job: str, key: str | None = None, **fields: Any) -> str:
        answer = self.post(job, key, **fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["run"])

    def get(self, run: str) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/runs/{run}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def wait(self, run: str, seconds: int = 60) -> dict[str, Any]:
        """The run once it has ended; a busy machine may take longer than one request waits."""
        while True:
            answer = self.http.get(f"/api/v1/runs/{run}/wait", params={"seconds": seconds}, timeout=90)
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            if found["phase"] == "ended":
                return found

    def log(self, run: str, process: str = "rank-0", **query: Any) -> str:
        answer = self.http.get(f"/api/v1/runs/{run}/log", params={"process": process, **query})
        assert answer.status_code == 200, answer.text
        return answer.text

    def follow(self, run: str, **fields: Any) -> Iterator[dict[str, Any]]:
        with self.http.stream("POST", f"/api/v1/runs/{run}/follow", json=fields) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                found = json.loads(line)
                if "data" in found:
                    found["data"] = base64.b64decode(found["data"])
                yield found


def tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


@contextmanager
def run_client(
    server: MusterServer, administrator: str, name: str | None = None, project: str | None = None
) -> Iterator[RunClient]:
    """A new member of a project, which is made, too, unless it is named."""
    number = next(NUMBERS)
    name, project = name or f"runner{number}", project or f"jobs{number}"
    with server.http(administrator) as admin:
        server.make_user(administrator, name)
        admin.post("/api/v1/projects", json={"name": project})
        added = admin.put(f"/api/v1/projects/{project}/members/{name}", json={"role": "member"})
        assert added.status_code == 200, added.text
    with server.http(server.token(name)) as http:
        yield RunClient(http, project)


@contextmanager
def any_client(administered: Administered) -> Iterator[RunClient]:
    with run_client(administered.server, administered.administrator) as client:
        yield client
