"""`muster show`: one run with everything about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from muster.cli import output, places
from muster.cli.options import as_json, run_argument
from muster.cli.summary import numbers, show_failure, show_warnings
from muster.launch.any_run import AnyRun
from muster.records.ranks import RankView
from muster.records.run_view import RunView, State
from muster.records.text.units import signal_name


@click.command("show")
@run_argument()
@places.server_option
@as_json
def command(run: str, server: str | None, json: bool) -> None:
    """Show one run: its state, why, its attempts, its ranks and what they recorded.

    \b
    Examples:
      muster show last
      muster show resnet50-2026 --json
    """
    found = places.find(run, server)
    if json:
        output.print_json(found.details())
        return
    view = found.view
    click.echo(output.headline(view))
    show_warnings(view, err=False)
    if view.failure:
        show_failure(view.failure, tail=True, err=False)
    if view.state.ended and not view.recorded:
        click.echo(f"  its end is not recorded yet; `muster reconcile {found.id}` does that, and removes what is left of it")
    if view.state is State.DAMAGED:
        return  # the headline says what is known, and what to do
    for name, value in _facts(found, view):
        click.echo(f"  {name.ljust(18)}  {output.plain(value)}")
    click.echo()
    if ranks := found.processes():
        hosts = {node: output.plain(host) for node, host in found.hosts().items()}
        output.table(("PROCESS", "NODE", "STATE", "EXIT", "PID", "TIME"), [_row(rank, hosts) for rank in ranks])


def _facts(run: AnyRun, view: RunView) -> Iterator[tuple[str, str]]:
    """The facts of a run, each with its name."""
    yield "created", f"{output.when(view.created)} by {view.user} on engine {view.engine}"
    yield "time", output.took(view)
    yield from numbers(view.result)
    yield "run directory", view.dir
    if place := run.place():
        yield place
    if origin := run.origin():
        yield origin
    for endpoint in run.endpoints():
        yield f"endpoint {endpoint.name}", ": ".join(filter(None, (endpoint.state, endpoint.reason)))
    for attempt in run.outcomes()[:-1]:
        yield f"attempt {attempt.attempt}", f"{attempt.state}: {attempt.reason}"
    for entry in run.submissions():
        yield "submitted again", f"{output.when(entry['time'])} as {entry['handle']}: {entry['reason']}"
    if warning := run.exposed_keys():
        yield "keys", warning


def _row(rank: RankView, hosts: Mapping[int, str]) -> tuple[str, ...]:
    end = signal_name(rank.signal) if rank.signal else "" if rank.code is None else str(rank.code)
    node = f"{rank.node} {hosts.get(rank.node, '')}".strip()
    return (rank.process, node, rank.state.value, end, str(rank.pid or ""), output.took(rank))
