"""The terminal of a page in a real browser: xterm.js under a strict content security policy; and endpoints by a click."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from endpoint_scene import Scene, scene, served

from browser import browser
from muster.server import pages
from muster_server import PASSWORD

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

__all__ = ["browser", "scene", "served"]  # fixtures
STATIC = Path(pages.__file__).parent / "static"
KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css"}
POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'"
OPEN = """async ([run]) => {
  document.body.innerHTML = '<div id="place"></div>';
  document.getElementById('place').style.height = '400px';
  const { openTerminal } = await import('/assets/test/terminal.js');
  window.ended = new Promise((resolve) => {
    openTerminal(document.getElementById('place'), run, 0, { onEnd: (code, reason) => resolve([code, reason]) })
      .then((opened) => { opened.focus(); document.getElementById('place').dataset.open = ''; });
  });
}"""


@pytest.fixture
def page(browser: Browser, scene: Scene) -> Iterator[Page]:
    """A page of the server, logged in, with the modules of the portal."""
    if not (STATIC / "vendor" / "xterm.mjs").exists():
        reason = "there is no xterm.js; `make portal` fetches it"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)

    def asset(route: Route) -> None:
        path = STATIC / urlsplit(route.request.url).path.removeprefix("/assets/test/")
        route.fulfill(body=path.read_bytes(), content_type=KINDS[path.suffix])

    def document(route: Route) -> None:
        route.fulfill(body="<!doctype html><body>", headers={"Content-Security-Policy": POLICY, "Content-Type": "text/html"})

    context = browser.new_context(base_url=scene.server.url)
    # The browser does not count a page that the test itself makes as one of this machine.
    context.grant_permissions(["local-network-access"], origin=scene.server.url)
    opened = context.new_page()
    opened.route("**/assets/test/**", asset)
    opened.route("**/blank", document)
    opened.goto("/blank")
    credentials = {"name": scene.name, "password": PASSWORD}
    answer = context.request.post("/api/v1/login", data=credentials, headers={"Origin": scene.server.url})
    assert answer.ok, answer.text()
    yield opened
    context.close()


def test_a_terminal_opens_types_and_ends_under_the_strict_policy(page: Page, scene: Scene) -> None:
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    page.evaluate(OPEN, [scene.run])
    page.wait_for_selector("#place[data-open]")
    page.keyboard.type("echo 6x$((6*7))\n")
    page.locator(".xterm-rows").get_by_text("6x42").wait_for()
    page.keyboard.type("exit 5\n")
    assert page.evaluate("window.ended") == [5, ""]
    assert refused == []


def test_a_browser_opens_an_endpoint_with_a_click_and_keeps_its_cookies_apart(page: Page, scene: Scene) -> None:
    click = "async ([run]) => (await import('/assets/test/terminal.js')).openEndpoint(run, 'web')"
    with page.context.expect_page() as opened:
        page.evaluate(click, [scene.run])
    other = opened.value
    other.wait_for_url(f"http://{scene.host}/")
    other.wait_for_selector("text=x-muster-token")
    shown = other.content()
    assert (
        "muster-endpoint=" not in shown and other.evaluate("document.cookie") == "" and other.evaluate("window.opener") is None
    )
    names = {(cookie["name"], cookie["domain"]) for cookie in page.context.cookies()}
    assert names == {("muster", "127.0.0.1"), ("muster-endpoint", scene.host.partition(":")[0])}
    stolen = "fetch(location.origin.replace(location.hostname, '127.0.0.1') + '/api/v1/me', {credentials: 'include'})"
    assert other.evaluate(f"{stolen}.then(() => 'read', () => 'refused')") == "refused"
