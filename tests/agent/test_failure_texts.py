"""Times, sizes, signals and failures as texts."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from muster.records.run_view import Failure
from muster.records.text.failures import cause, sentence
from muster.records.text.units import duration, signal_name, size


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0s"), (0.25, "250ms"), (1, "1s"), (59.6, "1m"), (60, "1m"), (3661, "1h1m"), (86400, "1d"), (90061, "1d1h")],
)
def test_a_time_in_the_form_that_a_job_file_takes(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.0K"), (200 << 20, "200M"), (96 << 30, "96G")],
)
def test_a_size_in_the_form_that_a_job_file_takes(number: int, expected: str) -> None:
    assert size(number) == expected


def test_signals_have_names_as_far_as_linux_names_them() -> None:
    assert [signal_name(number) for number in (signal.SIGKILL, signal.SIGSEGV, 77)] == ["SIGKILL", "SIGSEGV", "signal 77"]


@pytest.mark.parametrize(
    ("failure", "words", "kind"),
    [
        ({"kind": "exit", "code": 3}, "rank 5 on node 2 exited with code 3", "exit"),
        ({"kind": "exit", "code": 3, "host": "ada@lab3:22"}, "rank 5 on node 2 (ada@lab3:22) exited with code 3", "exit"),
        (
            {"kind": "input", "host": "lab3", "message": "no"},
            "the inputs of node 2 (lab3) could not be fetched: no",
            "input",
        ),
        ({"kind": "exit", "code": 137}, "rank 5 on node 2 exited with code 137 (128 + SIGKILL)", "exit"),
        ({"kind": "signal", "signal": 9}, "rank 5 on node 2 was killed (SIGKILL)", "signal"),
        (
            {"kind": "signal", "signal": 9, "oom": True},
            "rank 5 on node 2 was killed (SIGKILL); the kernel's counters show out of memory",
            "oom",
        ),
        ({"kind": "start", "code": 127, "message": "`x`: no"}, "rank 5 on node 2 could not be started: `x`: no", "exit"),
        ({"kind": "exit", "code": 1, "rank": -1, "process": "setup"}, "setup on node 2 exited with code 1", "setup"),
        ({"kind": "exit", "code": 1, "rank": -1, "process": "ps-0"}, "ps-0 on node 2 exited with code 1", "exit"),
    ],
)
def test_a_failure_is_one_sentence_with_one_cause(failure: dict[str, Any], words: str, kind: str) -> None:
    whole = {"process": "rank-5", "rank": 5, "node": 2, "code": None, "signal": None, "oom": False, **failure}
    found = Failure.from_json(whole)
    assert sentence(found) == words
    assert cause(found) == kind
    assert sentence(found, "ValueError: x") == f"{words}: ValueError: x"
