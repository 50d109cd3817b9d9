"""Figures as people read them: thousands separators, units and a sensible number of digits. JSON keeps all of them."""

import math
import time

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = (("G", 1e9), ("M", 1e6), ("k", 1e3))
NONE = "–"
LAST = 253_402_300_800  # the end of the year 9999


def figure(value: float | None) -> str:
    """A number with about five significant digits."""
    if value is None or math.isinf(value):
        return NONE
    size = abs(value)
    if value == int(value) and size < 1e12:
        return f"{value:,.0f}"
    if size >= 1e12 or size < 1e-4:
        return f"{value:.4g}"
    if size >= 100_000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:,.2f}"
    return f"{value:,.3f}" if size >= 1 else f"{value:.5g}"


def with_unit(value: float | None, unit: str) -> str:
    """A number and its unit; the unit 1 of a plain number is left out."""
    return figure(value) if value is None or unit in ("", "1") else f"{figure(value)} {unit}"


def percent(fraction: float | None, sign: bool = False) -> str:
    """A fraction in percent, with a sign where it is a difference."""
    if fraction is None:
        return NONE
    digits = 1 if abs(fraction) >= 0.0995 else 2
    return f"{fraction * 100:{'+' if sign else ''},.{digits}f} %"


def duration(seconds: float | None) -> str:
    """A length of time with its two largest units."""
    if seconds is None or math.isinf(seconds):
        return NONE
    if seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02d} min"


def size(count: float | None) -> str:
    """Bytes in the unit that suits them."""
    if count is None:
        return NONE
    for unit in _BINARY:
        if abs(count) < 1024 or unit == _BINARY[-1]:
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def scaled(value: float | None, unit: str) -> str:
    """A quantity such as joules or bytes per second with the prefix that suits it."""
    if value is None:
        return NONE
    for prefix, factor in _DECIMAL:
        if abs(value) >= factor:
            return f"{value / factor:,.2f} {prefix}{unit}"
    return f"{figure(value)} {unit}"


def moment(seconds: float | None) -> str:
    """A point in time, in UTC; a dash for one that no clock shows."""
    if seconds is None or not 0 < seconds < LAST:
        return NONE
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
