"""Sentences with places for values: recognised in one language, said in another."""

import re
from collections.abc import Mapping

MOST_LETTERS = 2000  # of a text that is looked at; longer ones are those of programs
MOST_PARTS = 4  # that a text may have within another
KINDS = {"": ".+?", "d": "-?[0-9]+", "w": r"[^\s:;]+", "q": "`[^`]*`"}
PLACE = re.compile(r"\{(\w+)(?::(\w))?\}")


class Templates:
    """Pairs of templates. A place is `{name}`, of digits `{name:d}`, of one word `{name:w}`, between backticks `{name:q}`.

    What stands at a place in capitals is translated in its turn. Of texts that `; ` joins, the first has to be known.
    """

    def __init__(self, texts: Mapping[str, str], joint: str) -> None:
        self._joint = joint
        self._known = [(_pattern(english), PLACE.sub(r"{\1}", chinese)) for english, chinese in texts.items()]

    def translate(self, text: str) -> str:
        """The text in the other language; itself where it is not known."""
        return self._found(text, MOST_PARTS) or text if len(text) <= MOST_LETTERS else text

    def _found(self, text: str, depth: int) -> str | None:
        for pattern, chinese in self._known:
            found = pattern.fullmatch(text)
            if found is not None:
                return chinese.format_map({name: self._value(name, value, depth) for name, value in found.groupdict().items()})
        first, joined, rest = text.partition("; ")
        known = self._found(first, depth - 1) if joined and depth else None
        return known + self._joint + (self._found(rest, depth - 1) or rest) if known is not None else None

    def _value(self, name: str, value: str, depth: int) -> str:
        return (self._found(value, depth - 1) or value) if name.isupper() and depth else value


def _pattern(template: str) -> re.Pattern[str]:
    parts, end = [], 0
    for place in PLACE.finditer(template):
        parts += [re.escape(template[end : place.start()]), f"(?P<{place[1]}>{KINDS[place[2] or '']})"]
        end = place.end()
    return re.compile("".join([*parts, re.escape(template[end:])]), re.DOTALL)
