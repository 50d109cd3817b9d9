"""`muster reconcile`: do what is left to do for runs whose supervisors cannot."""

from __future__ import annotations

import click

from muster.cli import errors, output
from muster.cli.options import as_json, run_argument
from muster.engines.base import EngineError
from muster.launch import api
from muster.launch.names import RunNotFound
from muster.launch.reconcile import RECORD, RESUBMIT, SWEEP, WITHDRAW, Reconciled
from muster.records.state import recorded

DONE = {
    WITHDRAW: "taken out of the queue",
    RESUBMIT: "submitted again",
    SWEEP: "leftovers removed",
    RECORD: "end recorded",
}
UNRECORDED = "the run directory cannot be written, or another process is at work on it; try again later"


@click.command("reconcile")
@run_argument(nargs=-1, metavar="[RUN...]")
@as_json
def command(runs: tuple[str, ...], json: bool) -> int:
    """Do what is left to do for runs: without names, for all that have not ended.

    A run whose supervisor was killed is cleaned up and its end is recorded; one that a failed node or a preemption has
    interrupted is submitted again; one that was stopped while it waited is taken out of the queue. A run that goes on by
    itself is left alone. `muster run`, `wait` and `stop` do the same for the run that they wait for.

    \b
    Examples:
      muster reconcile
      muster reconcile last
      muster reconcile --json | jq '.[] | select(.did != [])'
    """
    found = list(map(api.get, runs)) if runs else [run for run in api.list_runs() if recorded(run.dir) is None]
    done, code = _reconcile(found)
    if json:
        facts = [(one.view, list(one.did)) for one in done]
        output.print_json([{"run": v.run, "state": v.state.value, "reason": v.reason, "did": did} for v, did in facts])
    elif done:
        output.table(("RUN", "STATE", "DONE", "REASON"), [_row(one) for one in done])
    elif not code:
        click.echo("nothing to do: all runs have ended", err=True)
    if left := sum(1 for one in done if one.view.state.ended and not one.view.recorded):
        click.echo(f"the end of {left} of them could not be recorded: {UNRECORDED}", err=True)
    return code


def _reconcile(runs: list[api.Run]) -> tuple[list[Reconciled], int]:
    """Reconciles each run, and returns the exit code, too: an engine that cannot be reached does not keep others waiting."""
    done: list[Reconciled] = []
    trouble: dict[str, EngineError] = {}
    for run in runs:
        try:
            done.append(run.reconcile())
        except RunNotFound:
            continue  # another process removed it
        except EngineError as error:
            trouble[str(error)] = error
    return done, max(map(errors.show, trouble.values()), default=0)


def _row(done: Reconciled) -> tuple[str, ...]:
    words = ", ".join(DONE[name] for name in done.did) or "nothing to do"
    return (done.view.run, done.view.state.value, words, output.fit(done.view.reason, 70))
