"""What the launch benchmark says: figures of each contender, ratios, and whether the aims hold. It runs nothing."""

import json
import os
import platform
from dataclasses import dataclass
from statistics import median
from typing import Literal

from timing import Timing

AIM_RATIO = 0.25
AIM_TOTAL_S = 0.35
HEADINGS = ("", "processes", "median", "min", "max", "first line", "all shown", "muster/this")

Kind = Literal["muster", "peer", "extra"]


@dataclass(frozen=True)
class Row:
    """One contender's timings; none where there is a reason why it has no figures."""

    name: str
    kind: Kind
    processes: int
    timings: tuple[Timing, ...]
    reason: str | None

    @property
    def totals(self) -> list[float]:
        return [timing.total_s for timing in self.timings]

    @property
    def median_s(self) -> float | None:
        return median(self.totals) if self.timings else None

    @property
    def first_line_s(self) -> float | None:
        """Over the runs that showed a line at all; all_shown says how many did."""
        firsts = [timing.first_line_s for timing in self.timings if timing.first_line_s is not None]
        return median(firsts) if firsts else None

    @property
    def all_shown(self) -> int | None:
        if not self.timings or not self.processes:
            return None
        return sum(timing.shown == self.processes for timing in self.timings)


@dataclass(frozen=True)
class Report:
    rounds: int
    rows: list[Row]
    versions: dict[str, str]

    @property
    def muster(self) -> Row:
        return next(row for row in self.rows if row.kind == "muster")

    @property
    def peers(self) -> list[Row]:
        return [row for row in self.rows if row.kind == "peer"]

    def ratio(self, row: Row) -> float | None:
        """Muster's median total over this peer's."""
        if row.kind != "peer" or row.median_s is None or self.muster.median_s is None:
            return None
        return self.muster.median_s / row.median_s

    @property
    def fastest_peer(self) -> Row | None:
        measured = [row for row in self.peers if row.timings]
        return min(measured, key=lambda row: median(row.totals), default=None)

    @property
    def beats_peers(self) -> bool | None:
        """None when it cannot be known: a peer that was not measured might have been the fastest."""
        ratio = self.ratio(self.fastest_peer) if self.fastest_peer else None
        if ratio is None:
            return None
        if ratio >= AIM_RATIO:
            return False
        return None if any(row.reason for row in self.peers) else True

    @property
    def is_quick(self) -> bool | None:
        return None if self.muster.median_s is None else self.muster.median_s < AIM_TOTAL_S

    @property
    def aims_hold(self) -> bool | None:
        """False when one aim is missed, None when none is missed but one is unknown."""
        aims = (self.beats_peers, self.is_quick)
        if False in aims:
            return False
        return None if None in aims else True


def as_json(report: Report) -> str:
    fastest = report.fastest_peer
    figures = {
        "rounds": report.rounds,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": report.versions,
        "rows": [_row_figures(report, row) for row in report.rows],
        "aims": {
            "fastest_peer": fastest.name if fastest else None,
            "ratio_to_fastest": report.ratio(fastest) if fastest else None,
            "ratio_aim": AIM_RATIO,
            "ratio_holds": report.beats_peers,
            "total_s": report.muster.median_s,
            "total_s_aim": AIM_TOTAL_S,
            "total_holds": report.is_quick,
            "hold": report.aims_hold,
        },
    }
    return json.dumps(figures)


def _row_figures(report: Report, row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "processes": row.processes or None,
        "median_s": row.median_s,
        "min_s": min(row.totals, default=None),
        "max_s": max(row.totals, default=None),
        "first_line_s": row.first_line_s,
        "runs": len(row.timings),
        "runs_all_shown": row.all_shown,
        "totals_s": row.totals,
        "muster_ratio": report.ratio(row),
        "reason": row.reason,
    }


def as_table(report: Report) -> str:
    cells = [HEADINGS, *(_row_cells(report, row) for row in report.rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    lines = [
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in cells)
    ]
    reasons = [f"{row.name}: {row.reason}" for row in report.rows if row.reason]
    return "\n".join([_describe_setting(report), "", *lines, *reasons, "", _verdict(report)])


def _row_cells(report: Report, row: Row) -> tuple[str, ...]:
    ratio = report.ratio(row)
    return (
        row.name,
        str(row.processes or "-"),
        _seconds(row.median_s),
        _seconds(min(row.totals, default=None)),
        _seconds(max(row.totals, default=None)),
        _seconds(row.first_line_s),
        "-" if row.all_shown is None else f"{row.all_shown}/{len(row.timings)}",
        "-" if ratio is None else f"{ratio:.3f}",
    )


def _describe_setting(report: Report) -> str:
    versions = [f"{name} {version}" for name, version in report.versions.items()]
    setting = [f"{report.rounds} rounds", f"{os.cpu_count()} CPUs", f"Python {platform.python_version()}"]
    return ", ".join([*setting, *(versions or ["no peers"])])


def _verdict(report: Report) -> str:
    answer = {True: "yes", False: "no", None: "unknown"}
    fastest = report.fastest_peer
    ratio = report.ratio(fastest) if fastest else None
    against = "no ratio" if fastest is None or ratio is None else f"{ratio:.3f} of {fastest.name}"
    return (
        f"aims hold: {answer[report.aims_hold]} "
        f"(under {AIM_RATIO} of the fastest peer: {answer[report.beats_peers]}, {against}; "
        f"under {AIM_TOTAL_S} s: {answer[report.is_quick]}, {_seconds(report.muster.median_s)})"
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"
