"""A real browser for tests: Debian's Chromium without a window, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Seen:
    """What a page did beside being shown."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")  # no longer: other tests look at all children of their process
def browser() -> Iterator[Browser]:
    """One browser for the tests of a file; each test opens pages of its own. Without one, a failure in CI."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        reason = "there is no Chromium; `make browser` installs it"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])  # root has no sandbox
        try:
            yield started
        finally:
            started.close()


@contextmanager
def open_page(browser: Browser, url: str, **settings: Any) -> Iterator[tuple[Page, Seen]]:
    """A page in a context of its own, and what its scripts complained about and what it asked the network for."""
    context = browser.new_context(**settings)
    try:
        page, seen = context.new_page(), Seen()
        page.on("console", lambda message: seen.errors.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(url)
        yield page, seen
    finally:
        context.close()
