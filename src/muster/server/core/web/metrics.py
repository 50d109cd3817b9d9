"""Numbers about requests in the text format of Prometheus, which is a few lines: no library is needed to write it."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from sqlalchemy import Connection

from muster import __version__

Labelled = dict[str, tuple[str, Mapping[tuple[tuple[str, str], ...], float]]]
"""Gauges by name: what each means, and its values by labels, whose values hold no quotes."""

BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)  # seconds


class Metrics:
    """Counts requests by route template and status; neither users nor addresses are labels, so that there are few."""

    def __init__(self) -> None:
        self.sources: list[Callable[[Connection], Labelled]] = []  # of gauges with labels, read from the database
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self._durations: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._sums: dict[str, float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method, route, status] += 1
            self._sums[route] += seconds
            at = next((index for index, most in enumerate(BUCKETS) if seconds <= most), len(BUCKETS))
            self._durations[route][at] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]], labelled: Labelled | None = None) -> str:
        """Returns all numbers, with gauges given by name, each with what it means."""
        lines = ["# HELP muster_info The version of the server.", "# TYPE muster_info gauge"]
        lines.append(f'muster_info{{version="{__version__}"}} 1')
        for name, (meaning, value) in gauges.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        for name, (meaning, values) in (labelled or {}).items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            for labels, value in values.items():
                shown = ",".join(f'{label}="{text}"' for label, text in labels)
                lines.append(f"{name}{{{shown}}} {value:g}")
        with self._lock:
            lines += ["# HELP muster_requests_total Requests that were answered.", "# TYPE muster_requests_total counter"]
            for (method, route, status), number in sorted(self._requests.items()):
                lines.append(f'muster_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}')
            lines += ["# HELP muster_request_seconds How long answers took.", "# TYPE muster_request_seconds histogram"]
            for route, counts in sorted(self._durations.items()):
                lines += _histogram(route, counts, self._sums[route])
        return "\n".join(lines) + "\n"


def _histogram(route: str, counts: list[int], total: float) -> Iterable[str]:
    seen = 0
    for most, number in zip((*BUCKETS, "+Inf"), counts, strict=True):
        seen += number
        yield f'muster_request_seconds_bucket{{route="{route}",le="{most}"}} {seen}'
    yield f'muster_request_seconds_sum{{route="{route}"}} {total:.6f}'
    yield f'muster_request_seconds_count{{route="{route}"}} {seen}'
