"""Bundles to send, and a program that speaks the tester's protocol without Muster's client."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import httpx
from bundles import make_bundle, measured
from sqlalchemy import func, select

from muster.server.results.plans import Plans
from muster.server.results.tables import results
from muster.tester.protocol import Plan
from tester_server import NUMBERS, Served


def bundle(folder: Path, name: str = "resnet", noise: int = 0, key: Path | None = None, **fields: Any) -> Path:
    """A bundle that verifies, of a benchmark that nobody has sent yet; `noise` bytes of its log cannot be compressed."""
    number = next(NUMBERS)
    run = measured(folder / "measured", f"{name}-20261115-000000-{os.getpid()}.{number}abcd")
    if noise:
        with open(run.node(0).log("rank-0"), "ab") as log:
            log.write(os.urandom(noise))
    return make_bundle(folder / "measured", folder / f"{name}-{number}.tar.gz", run, key=key, **fields)


def planned(tester: Served, **fields: str) -> Plan:
    """A plan that the tester has."""
    plan = Plan(**{"test_id": f"20261115-plan{next(NUMBERS)}", "model": "resnet50_v1.5", **fields})
    with tester.database() as database:
        Plans(database).add(plan)
    return plan


def program(tester: Served, token: str | None = None, **settings: Any) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=tester.url, headers=headers, trust_env=False, timeout=30, **settings)


def announced(path: Path, test_id: str | None = None) -> dict[str, Any]:
    """What the protocol wants to know of a file first."""
    content = path.read_bytes()
    return {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "test_id": test_id}


def sent(http: httpx.Client, path: Path, test_id: str | None = None) -> httpx.Response:
    """Sends a file step by step; returns the last answer, or the first that says no."""
    opened = http.post("/api/uploads", json=announced(path, test_id))
    if opened.status_code != 200 or opened.json()["verdict"]:
        return opened
    upload, offset, chunk = opened.json()["id"], opened.json()["offset"], opened.json()["chunk"]
    content = path.read_bytes()
    while offset < len(content):
        piece = content[offset : offset + chunk]
        answer = http.patch(f"/api/uploads/{upload}", content=piece, headers={"Upload-Offset": str(offset)})
        if answer.status_code != 200:
            return answer
        offset = answer.json()["offset"]
    return http.post(f"/api/uploads/{upload}/finish")


def result_count(tester: Served) -> int:
    with tester.database() as database, database.read() as connection:
        return int(connection.scalar(select(func.count()).select_from(results)) or 0)
