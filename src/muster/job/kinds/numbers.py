"""Kinds of values that are numbers: counts, times, sizes and shares."""

from __future__ import annotations

import math
import re
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds.item import Item, Wrong, scalar
from muster.job.kinds.texts import Kind


@dataclass(frozen=True)
class Count(Kind):
    least: int
    most: int
    why: str = ""

    @property
    def words(self) -> str:  # type: ignore[override]
        return f"a whole number from {self.least} to {self.most}"

    def read(self, item: Item) -> int:
        text = scalar(item, self.words)
        is_whole = isinstance(item.value, int) and not isinstance(item.value, bool)
        if is_whole and self.least <= item.value <= self.most:
            return int(item.value)
        if is_whole:
            small = item.value < self.least
            hint = self.why if self.why and not small else "it takes " + self.words
            raise Wrong(f"{item.shown} is too {'small' if small else 'many'}", hint)
        if re.fullmatch(r"[0-9]{1,9}", text):
            raise Wrong(f"{item.shown} is not {self.words}", "write it without quotes and leading zeros")
        raise Wrong(f"{item.shown} is not {self.words}", f"write it in plain digits, such as `{max(self.least, 2)}`")

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Number(Kind):
    """A number such as `0.76`."""

    words = "a number such as `0.76`"

    def read(self, item: Item) -> float:
        text = scalar(item, self.words)
        try:
            value = float(text)
        except ValueError:
            raise Wrong(f"{item.shown} is not {self.words}", "write it in plain digits") from None
        if not math.isfinite(value):
            raise Wrong(f"{item.shown} is not finite", "it takes " + self.words)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "number"}


UNIT_HINT = "write a number and its unit without a space"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

LONGEST = 10 * 365 * UNITS["d"]


@dataclass(frozen=True)
class Duration(Kind):
    """A time such as `30s`, `10m`, `1h30m` or `2h`; seconds in the Job."""

    zero: bool = False
    most: float = LONGEST
    words = "a time such as `30s`, `10m` or `2h`"
    types = "string"

    @property
    def pattern(self) -> str:  # type: ignore[override]
        times = r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"
        return "^0$|^" + times if self.zero else r"^(?=.*[1-9])" + times

    def read(self, item: Item) -> float:
        text = scalar(item, self.words)
        seconds = item.number
        if seconds is None:
            if not re.fullmatch(Duration(zero=True).pattern, text):
                meant = self._meant(text)
                raise Wrong(f"{item.shown} is not {self.words}", f"did you mean `{meant}`?" if meant else UNIT_HINT)
            seconds = sum(float(n) * UNITS[u] for n, u in re.findall(r"([0-9.]+)(ms|s|m|h|d)", text))
        if not seconds and not self.zero:
            raise Wrong(f"{item.shown} is no time at all", "it takes " + self.words)
        if not seconds >= 0:
            raise Wrong(f"{item.shown} is not {self.words}", "leave the field out for no limit")
        if seconds > LONGEST:
            raise Wrong(f"{item.shown} is more than ten years", "leave the field out for no limit")
        if seconds > self.most:
            raise Wrong(f"{item.shown} is too long", f"it takes at most `{self.most / UNITS['h']:g}h`")
        return float(seconds)

    def _meant(self, text: str) -> str:
        """The time that `90`, `10 min` or `2H` most likely means."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|[smhd]?)[a-z]*", text.strip().lower())
        return found.group(1) + (found.group(2) or "s") if found else ""

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [super().schema(), {"const": 0}]} if self.zero else super().schema()


class Size(Kind):
    """An amount of memory such as `512M` or `96G` (powers of 1024); bytes in the Job."""

    words = "a size such as `512M` or `96G`"
    types = "string"
    pattern = r"^[0-9]+(\.[0-9]+)?[KMGT](i?B|i)?$"

    def read(self, item: Item) -> int:
        text = scalar(item, self.words)
        size = item.number
        if size is None:
            found = re.match(r"([0-9.]+)([KMGT])", text)
            if not found or not re.fullmatch(self.pattern, text):
                meant = self._meant(text)
                raise Wrong(f"{item.shown} is not {self.words}", f"did you mean `{meant}`?" if meant else UNIT_HINT)
            size = float(found.group(1)) * 1024 ** ("KMGT".index(found.group(2)) + 1)
        if not size >= 1 << 20:
            raise Wrong(f"{item.shown} is less than `1M`, which no process can start in", "it takes " + self.words)
        if size > 1 << 60:
            raise Wrong(f"{item.shown} is more than any machine has", "leave the field out for all of the machine")
        return int(size)

    def _meant(self, text: str) -> str:
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)I?B?", text.strip().upper())
        return found.group(1) + (found.group(2) or "G") if found else ""


class Share(Kind):
    """A share such as `5%`; a fraction in the Job."""

    words = "a share such as `5%`"
    types = "string"
    pattern = r"^[0-9]+(\.[0-9]+)?%$"

    def read(self, item: Item) -> float:
        text = scalar(item, self.words)
        if item.number is not None and item.number >= 0:
            return float(item.number)
        if not re.fullmatch(self.pattern, text):
            found = re.fullmatch(r"0?\.[0-9]+", text)
            hint = f"did you mean `{float(text) * 100:g}%`?" if found else "write a number and `%` without a space"
            raise Wrong(f"{item.shown} is not {self.words}", hint)
        return float(text[:-1]) / 100
