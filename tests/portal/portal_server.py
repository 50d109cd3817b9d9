"""A server with a pool on this machine for tests of its pages, users of it, and a browser that is logged in."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from run_client import RunClient, run_client

from browser import Seen
from muster.server.pages import assets
from muster_server import PASSWORD, Administered, MusterServer, server_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = Path(__file__).parents[2] / "scripts/portal/node_modules/axe-core/axe.min.js"
POOL = '[pools.local]\ntrusted = true\npaths = ["/"]\n'
SAYS = "name: {name}\nframework: command\nper: node\ncommand: [bash, -c, {script}]\nsample: 0\n"


def need_portal() -> None:
    if not assets.complete() or not AXE.exists():
        reason = "the portal is not built; run `make portal`"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@dataclass
class Portal(Administered):
    def job(self, client: RunClient, name: str, script: str, wait: bool = True) -> str:
        """Submits a job that is a script of bash; returns the run's id."""
        run = client.submit(SAYS.format(name=name, script=json.dumps(script)))
        if wait:
            client.wait(run)
        return run


@contextmanager
def served(pools: str) -> Iterator[Portal]:
    """A server with these pools and an administrator."""
    server = MusterServer(server_folder(), [])
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text(pools)
    server.start()
    yield Portal(server, server.make_administrator())
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.folder)


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    """A server for the tests of a file."""
    with served(POOL) as found:
        yield found


@contextmanager
def member(portal: Portal, name: str, project: str) -> Iterator[RunClient]:
    """A new user, who is a member of a project."""
    with run_client(portal.server, portal.administrator, name, project) as client:
        client.http.headers["Connection"] = "close"  # several tests use it, and none may leave a connection open
        yield client


@contextmanager
def logged_in(browser: Browser, portal: Portal, name: str, path: str = "/", **settings: Any) -> Iterator[tuple[Page, Seen]]:
    """A page of the server, in a browser of a user's own, and what it complained about."""
    context = browser.new_context(**{"locale": "en-US", **settings})
    try:
        page, seen = context.new_page(), Seen()
        page.on("console", lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(portal.server.url + "/login")
        page.fill("[name=name]", name)
        page.fill("[name=password]", PASSWORD)
        page.click("main button")
        page.wait_for_url(portal.server.url + "/")
        page.goto(portal.server.url + path)
        yield page, seen
    finally:
        context.close()
