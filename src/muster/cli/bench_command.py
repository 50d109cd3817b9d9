"""`muster bench`: run a job to measure it, and say whether the numbers hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from muster.cli import errors, exporting, output, places, testers
from muster.cli.following import follow
from muster.cli.interrupts import Interrupts
from muster.cli.options import as_json, overrides, where_to_run
from muster.cli.report_command import show, write_page
from muster.cli.run_command import named_as_typed
from muster.job import Job
from muster.job.load import load
from muster.launch import api
from muster.records.layout import home, run_dir
from muster.records.run_view import RunView, State
from muster.records.untrusted import parse_json

if TYPE_CHECKING:
    from muster.bench.model.result import Result
    from muster.bench.runner import Measurement

HERE = "the one of config.toml"
R = TypeVar("R")


@click.command("bench")
@click.argument("job", type=click.Path())
@overrides
@click.option("--repeats", metavar="N", help="Set how often the job is run.")
@click.option("--scope", help="Set whether nodes train together (cluster) or each alone (server).")
@where_to_run
@places.server_option
@places.project_and_pool
@exporting.options
@click.option("--mllog", type=click.Path(path_type=Path), metavar="FILE", help="Write a log in MLPerf's style for each run.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as a page.")
@click.option("--system", type=click.Path(path_type=Path), metavar="FILE", help="A description of the system (system.json).")
@click.option("--tester", metavar="URL", help=f"Send the result to a tester. [default: {HERE}, if --test-id is given]")
@click.option("--test-id", metavar="ID", help="The tester's plan that this result answers.")
@as_json
def command(
    job: str,
    sets: tuple[str, ...],
    repeats: str | None,
    scope: str | None,
    engine: str | None,
    server: str | None,
    project: str | None,
    pool: str | None,
    mllog: Path | None,
    html: Path | None,
    system: Path | None,
    tester: str | None,
    test_id: str | None,
    json: bool,
    **bundling: Any,
) -> int:
    """Run JOB as often as its `bench` section says, and print what it is worth: complete numbers, or why not.

    \b
    Examples:
      muster bench job.yaml
      muster bench job.yaml --repeats 5 --set bench.combine=olympic
      muster bench job.yaml --scope server --html report.html
      muster bench job.yaml --export result.tar.gz --sign ~/.ssh/id_ed25519
      muster bench job.yaml --tester https://tester.example:9527 --test-id 20210126-ljp0IY
      muster bench job.yaml --server

    \b
    Exit codes: 0 the result holds, 1 it does not (a number is missing, a target or limit is not held, a run failed),
    2 the input is wrong and nothing was started, 3 an engine, a store, the tester or the server cannot be reached,
    130 stopped.
    """
    given = {"bench.repeats": repeats, "bench.scope": scope}
    changes = [*sets, *(f"{name}={value}" for name, value in given.items() if value is not None)]
    with errors.shown_as_json(json), named_as_typed(given):
        if tester is not None and test_id is None:
            raise click.UsageError("--tester needs to know which plan is answered; add --test-id ID")
        bundle = exporting.checked(**bundling, sending=test_id is not None)
        for path in (path for path in (mllog, html) if path is not None):
            exporting.writable(path)
        described = _description(system)
        if chosen := places.chosen(server):
            from muster.cli.remote_bench import prepare

            places.refuse("--engine", engine, "the pools of the server have engines, and --pool chooses one")
            measured: Measured[Any] = prepare(chosen, project, pool, job, changes)
        else:
            places.need_server(project, pool)
            measured = _prepare(job, changes, engine)
        client = testers.opened(tester) if test_id is not None else None
        plan = asdict(client.plan(test_id)) if client is not None and test_id is not None else None
        measurement, result, stopped = _measure(measured, plan, described, json)
    if mllog is not None:
        _log(measurement, result, plan, mllog)
    if html is not None:
        write_page(measurement.dir, html)
    bundle.write(measurement.dir)
    code = 130 if stopped else 0 if result.verdict.passed else 1
    if client is None or stopped:
        return code
    name = f"{measurement.dir.id}.tar.gz"
    return testers.submit(client, lambda target: bundle.pack(measurement.dir, target), name, test_id) or code


@dataclass(frozen=True)
class Measured(Generic[R]):
    """A job that can be measured: how its runs are started, and where their records are, or come to be when one has ended."""

    job: Job
    home: str
    start: Callable[[], R]
    lasting: bool  # whether a run goes on without this command
    collect: Callable[[R], object]


def _prepare(job: str, changes: list[str], engine: str | None) -> Measured[api.Run]:
    from muster.bench import runner

    prepared = runner.prepare(load(job, changes), home(), engine, output.say)
    return Measured(prepared.job, home(), lambda: api.start(prepared), False, lambda run: None)


def _measure(
    measured: Measured[Any], plan: dict[str, Any] | None, described: dict[str, Any] | None, json: bool
) -> tuple[Measurement, Result, bool]:
    """Runs the job as often as it says; returns the record, the result, and whether a user stopped it."""
    from muster.bench import runner

    with Interrupts() as interrupts:
        measurement = runner.create_bench(measured.job, measured.home, ["muster", *sys.argv[1:]], plan, described)

        def showing(run: Any) -> RunView:
            interrupts.go_to(run, measured.lasting)
            view = follow(run, json, interrupts.leaving)
            if not view.state.ended:
                back = f"`muster logs {run.id} --follow{run.option}` comes back to it"
                output.say(f"{run.id} goes on and is not measured; {back}")
                raise click.exceptions.Exit(130)
            measured.collect(run)
            return view

        stopped, repeats = False, measurement.record.repeats
        for number, view in enumerate(runner.run_repeats(measurement, measured.start, showing), 1):
            stopped = view.state is State.STOPPED
            if not json and repeats > 1:
                click.echo(f"muster: {number} of {repeats}: {view.run} {view.state}", err=True)
    result = runner.write_result(measurement)
    _print(measurement, result, json)
    return measurement, result, stopped


def _description(path: Path | None) -> dict[str, Any] | None:
    """The user's own description of the system."""
    if path is None:
        return None
    try:
        found = parse_json(path.read_bytes())
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {str(error.strerror).lower()}; check the path") from None
    except ValueError as error:
        raise click.UsageError(f"{path} is not JSON: {error}; it takes an object, as AISBench's system.json") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{path} holds no JSON object; it takes one, as AISBench's system.json")
    return found


def _print(measurement: Measurement, result: Result, json: bool) -> None:
    """AISBench's lines for programs that read them, then the same in short for people."""
    if json:
        output.print_json(result.to_json())
        return
    from muster.bench.formats import aisbench_lines

    for line in aisbench_lines.lines(result):
        click.echo(line)
    click.echo(aisbench_lines.shown(result))
    show(measurement.dir)


def _log(measurement: Measurement, result: Result, plan: Mapping[str, Any] | None, target: Path) -> None:
    """Writes a log for each run: a parser wants one run in a file."""
    from muster.bench.formats import mllog, script_log

    for number, run in enumerate(result.runs):
        path = target if len(result.runs) == 1 else target.with_stem(f"{target.stem}-{number + 1}")
        logged = script_log.read(run_dir(measurement.dir.home, run.run))
        with path.open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{line}\n" for line in mllog.lines(result, number, plan, logged))
