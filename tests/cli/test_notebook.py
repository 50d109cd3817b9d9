"""A run in a notebook shows its state, its reason, the curves of its metrics and its last lines."""

from __future__ import annotations

import muster
from conftest import WriteJob

TRAINS = """
from muster import record
for step in range(5):
    record.metric("loss", 5 - step, step=step)
    print(f"step {step} of <5>")
"""


def test_a_run_shows_state_reason_numbers_curves_and_last_lines(write_job: WriteJob) -> None:
    run = muster.run(write_job(**{"train.py": TRAINS}))
    assert run.wait() == "succeeded"
    shown = run._repr_html_()
    assert f"<code>{run.id}</code>" in shown
    assert f">succeeded</b> {run.reason}" in shown
    assert "<polyline" in shown and "loss 1" in shown
    assert "step 4 of &lt;5&gt;" in shown and "<5>" not in shown


def test_a_failed_run_shows_why(write_job: WriteJob) -> None:
    run = muster.run(write_job({"command": "echo no luck; exit 3"}))
    assert run.wait() == "failed"
    shown = run._repr_html_()
    assert "failed</b>" in shown and "code 3" in shown and "no luck" in shown and "<svg" not in shown


def test_a_run_that_waits_has_neither_lines_nor_curves_yet(write_job: WriteJob) -> None:
    run = muster.run(write_job({"command": "sleep 1000"}))
    try:
        assert f"<code>{run.id}</code>" in run._repr_html_()
        assert "<pre" not in run._repr_html_()
    finally:
        run.stop(now=True)


def test_curves_are_steps_and_values(write_job: WriteJob) -> None:
    run = muster.run(write_job(**{"train.py": TRAINS}))
    run.wait()
    assert run.curves() == {"loss": [(0.0, 5.0), (1.0, 4.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0)]}
