"""The yaml files of MindSpore's model zoo, as far as they are settings: `name: value`, also in sections of one level."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

LINE = re.compile(r"""(\s*)([A-Za-z_]\w*):(?:\s+("[^"]*"|'[^']*'|[^#]*?))?\s*(?:\#.*)?$""")
NOTHING = ("", "None", "null", "~")


def settings(path: str, choosing: Mapping[str, str]) -> dict[str, str]:
    """The settings of a file, whose sections and names such as `large_batch_size` count for a network or optimizer alone.

    `choosing` are the settings that choose, as far as they are given elsewhere, which wins over the file: a section counts
    when one of them has its name as a value, and `large_batch_size` is the batch_size of what is called large.
    """
    found = list(_lines(path))
    out = {name: text for section, name, text in found if not section}
    words = {choosing[name] or out.get(name, "") for name in choosing}
    words = {word.lower() for word in words if word}
    for section, name, text in found:
        if section.lower() in words:
            out[name] = text
        for word in words if not section else ():
            if name.startswith(f"{word}_"):
                out[name[len(word) + 1 :]] = text
    return out


def _lines(path: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of every line that has one; help texts, which follow a line of dashes, are left out."""
    section = ""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("---"):
                return
            found = LINE.match(line)
            if not found:
                continue
            indented, name, text = found[1], found[2], (found[3] or "").strip("'\"")
            if not indented:
                section = "" if text else name
            if text not in NOTHING:
                yield section if indented else "", name, text
