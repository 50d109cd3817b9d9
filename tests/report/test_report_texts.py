"""Every text of reports is there in English and Chinese."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

from muster.bench import report
from muster.bench.report.texts import TEXTS

SOURCES = [
    path.read_text("utf-8")
    for path in Path(report.__file__).parent.rglob("*")
    if path.suffix in (".py", ".html") and path.name != "texts.py"
]
CALLS = re.compile(r"""\b(?:say|t)\(\s*(f?)"([^"]+)"((?:\s+if\s[^"]*"[^"]+")?)""")


def placeholders(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_text_is_there_in_both_languages_with_the_same_places_for_values() -> None:
    assert [key for key, texts in TEXTS.items() if not all(text.strip() for text in texts)] == []
    assert [key for key, (english, chinese) in TEXTS.items() if placeholders(english) != placeholders(chinese)] == []


def test_every_text_that_is_asked_for_exists() -> None:
    asked = [(kind, key) for source in SOURCES for kind, key, _ in CALLS.findall(source)]
    assert len(asked) > 100
    exact = {key for kind, key in asked if not kind}
    beginnings = {key.split("{")[0] for kind, key in asked if kind}
    assert exact - set(TEXTS) == set()
    assert [start for start in beginnings if not any(key.startswith(start) for key in TEXTS)] == []


def test_no_text_is_left_over() -> None:
    mentioned = "\n".join(SOURCES)
    beginnings = {key.split("{")[0] for source in SOURCES for kind, key, _ in CALLS.findall(source) if kind}
    named = tuple(beginnings - {""})
    assert [key for key in TEXTS if f'"{key.removesuffix(".one")}"' not in mentioned and not key.startswith(named)] == []
