"""Records metrics, phases and the throughput of steps from within a training script.

    from muster import record

    with record.phase("dataload"):
        data = load()
    timer = record.timer(samples_per_step=256)
    for batch in data:
        train(batch)
        timer.step()
    timer.done()
    record.metric("accuracy", evaluate())

This is the one module of Muster that jobs import. It needs only the standard library and runs in any Python from 3.7 on.
Outside of a run everything works and nothing is written.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import math
import operator
import os
import sys
import time
from array import array
from typing import Any, Iterator, Mapping, Sequence

__all__ = ["Timer", "active", "end", "metric", "mllog", "phase", "start", "timer"]

# Variables with the rank, each with the one for the number of ranks; those of launchers that start ranks come first.
RANKS = {
    "HOROVOD_RANK": "HOROVOD_SIZE",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
    "RANK": "WORLD_SIZE",
    "MUSTER_RANK": "",
}
EVENTS = ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END")
PAUSE = 1.0  # seconds between two values that a timer records while it runs

_folder = os.environ.get("MUSTER_RESULTS", "")
active = bool(_folder)  # whether this process is part of a run

_started: set[str] = set()  # phases that the script itself records
_warned: set[str] = set()


def metric(name: str, value: Any, unit: str = "", step: int | None = None) -> None:
    """Records one value of a metric such as "throughput" or "accuracy": anything that `float` converts to a finite number."""
    number = _finite(_text("name of a metric", name), value)
    step = None if step is None else _whole("step", step)
    _write("metric", name=name, value=number, unit=unit and _text("unit", unit), step=step, final=False, ranks=_ranks())


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Records when a phase begins and ends: `with record.phase("dataload"):`."""
    start(name)
    try:
        yield
    finally:
        end(name)


def start(name: str) -> None:
    """Records that a phase begins now."""
    _started.add(_text("name of a phase", name))
    _write("phase", name=name, edge="start")


def end(name: str) -> None:
    """Records that a phase ends now."""
    _write("phase", name=_text("name of a phase", name), edge="end")


def timer(samples_per_step: float, warmup: int | None = None) -> Timer:
    """Returns a timer of training steps; `warmup` is the number of steps in the job file unless it is given here."""
    return Timer(samples_per_step, int(os.environ.get("MUSTER_WARMUP") or 0) if warmup is None else warmup)


class Timer:
    """Measures throughput: the samples of all timed steps, divided by the time that these steps took.

    A step lasts from the end of the step before it, or from `start()`, until its own `step()`. The first `warmup` steps are
    left out, and so is a first step without a `start()`, whose start is not known: with a warm-up of 0 its end only starts the
    clock. Time between a `step()` and a `start()`, in which a script evaluates or saves, belongs to no step.

    While it runs, a timer records the throughput about once a second; `done()`, or else the end of the program, records the
    final one with its spread, and the phase `proc` from the first timed step to the last, unless the script itself records it.
    """

    def __init__(self, samples_per_step: float, warmup: int = 0) -> None:
        self.samples_per_step = _positive("samples_per_step", samples_per_step)
        self.warmup = _whole("warmup", warmup)
        self.steps = 0  # all of them, the warm-up included
        self.samples = 0.0
        self.seconds = 0.0
        self._rates = array("d")
        self._mark: float | None = None  # when the step under way began
        self._ended = 0.0  # the time of day when the last timed step did
        self._reported = (0.0, 0.0)  # samples and seconds up to the last value that was recorded
        self._process = os.getpid()
        self._over = False
        atexit.register(self._exit)

    def start(self) -> None:
        """Marks the start of a step: before the first one, and after a pause that is not to be measured."""
        self._mark = time.perf_counter()

    def step(self, samples: float | None = None) -> None:
        """Marks the end of a step; `samples` is its number of samples if that differs."""
        if self._over:
            raise RuntimeError("This timer is done. Make another one with record.timer().")
        count = self.samples_per_step if samples is None else _positive("samples", samples)
        began, self._mark = self._mark, time.perf_counter()
        self.steps += 1
        if began is not None and self.steps > self.warmup:
            self._add(count, began, self._mark)

    def done(self) -> float | None:
        """Records the final throughput and returns it; None when no step was timed. Only the first call counts."""
        if self._over:
            return None
        self._over = True
        atexit.unregister(self._exit)
        if not self._rates:
            _warn(f"no step was timed, of {self.steps} with a warm-up of {self.warmup}, so there is no throughput")
            return None
        rate = self.samples / self.seconds
        _write("metric", t=self._ended, **_throughput(rate, self.steps, final=True, spread=self._spread()))
        if "proc" not in _started:
            _write("phase", t=self._ended, name="proc", edge="end")
        return rate

    def __enter__(self) -> Timer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.done()

    def _add(self, samples: float, began: float, ended: float) -> None:
        seconds = max(ended - began, 1e-9)  # clocks may stand still for an empty step
        self._rates.append(samples / seconds)
        self.samples += samples
        self.seconds += seconds
        self._ended = time.time()
        if len(self._rates) == 1 and "proc" not in _started:
            _write("phase", t=self._ended - seconds, name="proc", edge="start")
        samples, seconds = self.samples - self._reported[0], self.seconds - self._reported[1]
        if seconds >= PAUSE:
            self._reported = (self.samples, self.seconds)
            _write("metric", t=self._ended, **_throughput(samples / seconds, self.steps))

    def _spread(self) -> dict[str, Any]:
        rates = sorted(self._rates)
        mean = math.fsum(rates) / len(rates)
        squares = math.fsum((rate - mean) ** 2 for rate in rates)
        return {
            "steps": len(rates),
            "warmup": self.steps - len(rates),
            "samples": self.samples,
            "seconds": self.seconds,
            "mean": mean,
            "stdev": math.sqrt(squares / (len(rates) - 1)) if len(rates) > 1 else None,
            "min": rates[0],
            "max": rates[-1],
            "p50": _quantile(rates, 0.50),
            "p95": _quantile(rates, 0.95),
        }

    def _exit(self) -> None:
        """Calls `done()` if the script did not, but not in a forked process, which timed nothing itself."""
        if self._rates and os.getpid() == self._process:
            self.done()


def mllog(key: str, value: Any = None, metadata: Mapping[str, Any] | None = None, event: str = "POINT_IN_TIME") -> None:
    """Prints one `:::MLLOG` line as MLPerf defines it, with the place it was called from."""
    if event not in EVENTS:
        raise ValueError("{!r} is no kind of MLLOG event. Use one of {}.".format(event, ", ".join(EVENTS)))
    caller = sys._getframe(1)
    line = {
        "namespace": "",
        "time_ms": int(time.time() * 1000),
        "event_type": event,
        "key": _text("key of an MLLOG event", key),
        "value": value,
        "metadata": dict({"file": caller.f_code.co_filename, "lineno": caller.f_lineno}, **(metadata or {})),
    }
    try:
        text = json.dumps(line, default=_plain, allow_nan=False)
    except ValueError:
        raise ValueError(f"The MLLOG event {key} holds a number that is not finite. Give finite numbers.") from None
    sys.stdout.write(f":::MLLOG {text}\n")
    sys.stdout.flush()


def _write(kind: str, t: float | None = None, **fields: Any) -> None:
    """Appends a line with one system call, so that those of threads and forked processes never mix."""
    rank = _rank()
    if not active or rank is None:
        return
    data = dict({"t": time.time() if t is None else t, "kind": kind, "rank": rank}, **fields)
    line = json.dumps(data, allow_nan=False).encode() + b"\n"
    try:
        file = os.open(f"{_folder}/record-{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            if os.write(file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)
    except OSError as error:  # hours of training are worth more than a number
        _warn(f"the records of this rank cannot be written: {error}")


def _rank() -> int | None:
    """The number of this rank; None for a helper such as a scheduler, which Muster numbers -1."""
    text = os.environ.get(_rank_variable(), "0")
    return int(text) if text.isdigit() else None


def _ranks() -> int | None:
    """The number of ranks according to a launcher, which may have started more than Muster knows of."""
    text = os.environ.get(RANKS[_rank_variable()], "")
    return int(text) if text.isdigit() else None


def _rank_variable() -> str:
    """The variable with the number of this rank; Muster's own where none has one."""
    return next((name for name in RANKS if os.environ.get(name, "").isdigit()), "MUSTER_RANK")


def _throughput(value: float, step: int, final: bool = False, **more: Any) -> dict[str, Any]:
    fields = {"name": "throughput", "value": value, "unit": "samples/s", "step": step, "final": final, "ranks": _ranks()}
    return dict(fields, **more)


def _finite(name: str, value: Any) -> float:
    number = _float(name, value)
    if not math.isfinite(number):
        raise ValueError(f"The value of {name} is {number!r}. Only finite numbers can be recorded.")
    return number


def _float(name: str, value: Any) -> float:
    """Converts a value to a float, also a NumPy scalar or a tensor with one element."""
    try:
        plain = value.item() if hasattr(value, "item") else value
        if not isinstance(plain, (bool, str, bytes, bytearray)):
            return float(plain)
    except OverflowError:
        return math.inf
    except Exception:  # each library has its own for a value that is no single number
        pass
    raise TypeError(f"The value of {name} is of type {type(value).__name__}. Give one number.")


def _positive(name: str, value: Any) -> float:
    number = _finite(name, value)
    if number <= 0:
        raise ValueError(f"The value of {name} is {number!r}. Give a number above 0.")
    return number


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"The value of {name} is {value!r}. Give a whole number.") from None
    if number < 0:
        raise ValueError(f"The value of {name} is {number}. Give 0 or more.")
    return number


def _text(what: str, text: Any) -> str:
    if not isinstance(text, str) or not text:
        raise TypeError(f"The {what} is {text!r}. Give a text.")
    return text


def _plain(value: Any) -> Any:
    """Converts NumPy's numbers and arrays, and tensors, for JSON."""
    if not hasattr(value, "tolist"):
        kind = type(value).__name__
        raise TypeError(f"An MLLOG line cannot hold a value of type {kind}. Give numbers, texts, lists or dictionaries.")
    return value.tolist()


def _quantile(ordered: Sequence[float], part: float) -> float:
    """The quantile of sorted values, interpolated linearly."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _warn(text: str) -> None:
    """Writes a warning to stderr, each once."""
    if text not in _warned:
        _warned.add(text)
        sys.stderr.write(f"muster.record: {text}\n")
