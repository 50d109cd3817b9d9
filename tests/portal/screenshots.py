"""Pictures of the portal's pages, and what is wrong with the texts on them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from muster.server.pages.texts import TEXTS

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(os.environ.get("MUSTER_SCREENSHOTS") or Path(__file__).parents[2] / ".screenshots")
UNFILLED = re.compile(r"\bundefined\b|\bNaN\b|\[object \w+\]|\{\w+\}|\bInvalid Date\b")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
FIXED = "nav a, main h2, main th, main label:not(:has(select))"
VISIBLE = "elements => elements.filter(one => one.checkVisibility()).map(one => one.innerText)"
ENGLISH = {english for english, chinese in TEXTS.values() if english != chinese}


def links(page: Page, navigation: str) -> list[str]:
    """Paths of a navigation of the page."""
    found: list[str] = page.locator(f"nav.{navigation} a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    return found


def take(page: Page, name: str, language: str) -> Path:
    """Writes a picture of the whole page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.{language}.png"
    page.screenshot(path=path, full_page=True)
    return path


def wrong_texts(page: Page, language: str) -> list[str]:
    """Names of texts in place of texts, values that are missing in them, and texts of the other language."""
    shown = page.inner_text("body")
    wrong = [key for key in TEXTS if re.search(rf"(?<![\w./-]){re.escape(key)}(?![\w./-])", shown)]
    wrong += [found[0] for line in shown.splitlines() if (found := UNFILLED.search(line))]
    fixed = {text.strip() for text in page.locator(FIXED).evaluate_all(VISIBLE)}
    other = fixed & ENGLISH if language == "zh-CN" else {text for text in fixed if CHINESE.search(text)}
    return wrong + sorted(other)
