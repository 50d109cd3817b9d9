"""How a run shows itself in a notebook: state, reason, numbers, curves, and the last lines of rank 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING

from muster.metrics.numbers import thinned
from muster.records.untrusted import printable

if TYPE_CHECKING:
    from muster.launch.any_run import AnyRun

Curve = Sequence[tuple[float, float]]

LINES = 10
CURVES = 6
POINTS = 300
WIDTH, HEIGHT = 240, 60  # pixels of a curve
COLOURS = {"succeeded": "#1a7f37", "failed": "#cf222e", "lost": "#cf222e", "damaged": "#cf222e", "stopped": "#9a6700"}


def html(run: AnyRun) -> str:
    """The run as it stands, as HTML without scripts."""
    view = run.view
    state = f'<b style="color:{COLOURS.get(view.state.value, "#0969da")}">{escape(view.state.value)}</b>'
    parts = [f"<code>{escape(view.run)}</code> {state} {_text(view.reason)}"]
    numbers = [(name, entry) for name, entry in (view.result or {}).items() if entry["value"] is not None]
    if numbers:
        cells = (f"<td>{_text(name)}</td><td>{entry['value']:.6g} {_text(entry['unit'])}</td>" for name, entry in numbers)
        parts.append("<table>" + "".join(f"<tr>{cell}</tr>" for cell in cells) + "</table>")
    parts += [_drawn(name, curve) for name, curve in list(_curves(run).items())[:CURVES] if len(curve) > 1]
    if lines := _last_lines(run):
        parts.append(f'<pre style="max-height:15em;overflow:auto">{"<br>".join(map(_text, lines))}</pre>')
    return "<div>" + "\n".join(f"<div>{part}</div>" for part in parts) + "</div>"


def _curves(run: AnyRun) -> Mapping[str, Curve]:
    try:
        return run.curves()
    except Exception:  # a cell of a notebook shows what can be shown, whatever a rank has written
        return {}


def _last_lines(run: AnyRun) -> list[str]:
    last = (run.attempt_numbers() or [0])[-1]
    text = b""
    with suppress(Exception):
        name = run.log_name(rank=0)
        wanted = run.follower(lambda attempt, log: (attempt, log) == (last, name), start=lambda log: log.tail_offset(LINES))
        with wanted as follower:
            text = b"".join(chunk.data for chunk in follower.chunks())
    return text.decode("utf-8", "replace").splitlines()[-LINES:]


def _text(text: str) -> str:
    return escape(printable(text))


def _drawn(name: str, curve: Curve) -> str:
    """A curve as a small drawing, with its last value."""
    points = [curve[index] for index in thinned(len(curve), POINTS)]
    (left, right), (low, high) = _range([x for x, _ in points]), _range([y for _, y in points])
    places = (f"{(x - left) / (right - left) * WIDTH:.1f},{(high - y) / (high - low) * HEIGHT:.1f}" for x, y in points)
    line = f'<polyline fill="none" stroke="#0969da" stroke-width="1.5" points="{" ".join(places)}"/>'
    box = f'viewBox="-2 -2 {WIDTH + 4} {HEIGHT + 4}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{line}</svg> {_text(name)} {curve[-1][1]:.6g}'


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, low + 0.5)
