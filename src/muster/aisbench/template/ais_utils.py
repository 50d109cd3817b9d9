"""The module that training scripts of AISBench import to report results. The values go to Muster, where it runs them."""

from __future__ import annotations

import math
import sys
import time

NAMES = {"throughput_ratio": ("throughput", "samples/s"), "accuracy": ("accuracy", "1")}


def set_result(mode: str, key: str, value: str | float) -> None:
    """Reports one value of the "training" or "inference" mode; ("training", "result", "OK") says only that all is done."""
    if mode not in ("training", "inference"):
        raise ValueError(f"the mode is training or inference, not {mode!r}")
    if key == "result":
        return
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{key} is not finite: {value!r}")
    try:
        from muster import record
    except ImportError:  # outside of a run
        print(f"{mode} {key}: {number!r}")
        return
    name, unit = NAMES.get(key, (key, ""))
    record.metric(name, number, unit=unit)


def calc_throughput_rate(count: float, start: float, end: float) -> float:
    """Samples per second; no time at all is an error, not a rate of 0."""
    if end <= start:
        raise ValueError(f"a rate needs time to pass: it started at {start!r} and ended at {end!r}")
    return count / (end - start)


def calc_lantency(elapsed: float, count: int) -> float:
    """Seconds per sample, spelt as AISBench spells it."""
    if count <= 0:
        raise ValueError(f"a latency needs at least one sample, not {count!r}")
    return elapsed / count


def get_datatime() -> float:
    return time.time()


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[1] != "set_result":
        sys.exit("usage: ais_utils.py set_result MODE KEY VALUE")
    try:
        set_result(*sys.argv[2:])
    except ValueError as error:
        sys.exit(f"ais_utils.py: {error}")
