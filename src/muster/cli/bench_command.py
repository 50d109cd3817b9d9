"""`muster bench`: run a job to measure it, and say whether the numbers hold."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli import errors, output, testers
from muster.cli.options import as_json, overrides
from muster.cli.run_command import Interrupts, follow
from muster.engines import NAMES
from muster.launch import api, create

if TYPE_CHECKING:
    from muster.bench.conduct import Measurement

HERE = "the one of config.toml"


@click.command("bench")
@click.argument("job", type=click.Path())
@overrides
@click.option("--repeats", metavar="N", help="Set how often the job is run.")
@click.option("--scope", help="Set whether nodes train together (cluster) or each alone (server).")
@click.option("--engine", type=click.Choice(NAMES), default="local", show_default=True, help="Where to run.")
@click.option("--export", type=click.Path(path_type=Path), metavar="FILE", help="Bundle result, records and logs in a .tar.gz.")
@click.option("--sign", is_flag=False, flag_value="", default=None, metavar="[KEY]", help="Sign the bundle with an ssh key.")
@click.option("--force", is_flag=True, help="Let --export write over a file.")
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
    engine: str,
    export: Path | None,
    sign: str | None,
    force: bool,
    mllog: Path | None,
    html: Path | None,
    system: Path | None,
    tester: str | None,
    test_id: str | None,
    json: bool,
) -> int:
    """Run JOB as often as its `bench` section says, and print what it is worth: complete numbers, or why not.

    \b
    Examples:
      muster bench job.yaml
      muster bench job.yaml --repeats 5 --set bench.combine=olympic
      muster bench job.yaml --scope server --html report.html
      muster bench job.yaml --export result.tar.gz --sign ~/.ssh/id_ed25519
      muster bench job.yaml --tester https://tester.example:9527 --test-id 20210126-ljp0IY

    \b
    Exit codes: 0 the result holds, 1 it does not (a number is missing, a target or limit is not held, a run failed),
    2 the input is wrong and nothing was started, 3 an engine, a store or the tester cannot be reached, 130 stopped.
    """
    from muster.bench import conduct

    given = {"bench.repeats": repeats, "bench.scope": scope}
    changes = [*sets, *(f"{name}={value}" for name, value in given.items() if value is not None)]
    with errors.told_as_json(json):
        if tester is not None and test_id is None:
            raise click.UsageError("--tester needs to know which plan is answered; add --test-id ID")
        after = Afterwards(export, sign, force, mllog, html, test_id)
        described = _description(system)
        prepared = conduct.prepare(api.loader(job, changes), engine, job, lambda text: click.echo(f"muster: {text}", err=True))
        client = testers.opened(tester) if test_id is not None else None
        plan = asdict(client.plan(test_id)) if client is not None and test_id is not None else None
    measurement, result, stopped = _measure(prepared, plan, described, json)
    after.write(measurement, result)
    code = 130 if stopped else 0 if result["verdict"]["passed"] else 1
    if client is None or stopped:
        return code
    name = f"{measurement.dir.id}.tar.gz"
    return testers.submit(client, lambda target: after.bundle(measurement, target), name, test_id) or code


def _measure(
    prepared: create.Prepared, plan: dict[str, Any] | None, described: dict[str, Any] | None, json: bool
) -> tuple[Measurement, dict[str, Any], bool]:
    """Runs the job as often as it says; returns the record, the result, and whether somebody stopped it."""
    from muster.bench import conduct

    with Interrupts() as interrupts:
        measurement = conduct.begin(prepared, ["muster", *sys.argv[1:]], plan, described)

        def show(run: api.Run) -> Mapping[str, Any]:
            interrupts.go_to(run)
            return follow(run, json)

        ends = list(_told(conduct.carry_out(measurement, prepared, show), measurement.record["repeats"], json))
    result = conduct.conclude(measurement)
    _print(result, json)
    return measurement, result, bool(ends) and ends[-1]["state"] == "stopped"


def _told(views: Iterable[Mapping[str, Any]], repeats: int, json: bool) -> Iterator[Mapping[str, Any]]:
    """Tells how each of several runs ended."""
    for number, view in enumerate(views, 1):
        if not json and repeats > 1:
            click.echo(f"muster: {number} of {repeats}: {view['run']} {view['state']}", err=True)
        yield view


def _description(path: Path | None) -> dict[str, Any] | None:
    """The user's own description of the system."""
    if path is None:
        return None
    import json

    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {str(error.strerror).lower()}; check the path") from None
    except ValueError as error:
        raise click.UsageError(f"{path} is not JSON: {error}; it takes an object, as AISBench's system.json") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{path} holds no JSON object; it takes one, as AISBench's system.json")
    return found


def _print(result: dict[str, Any], json: bool) -> None:
    """AISBench's lines for programs that read them, then the same in short for people."""
    if json:
        output.print_json(result)
        return
    from muster.bench import aisbench, report

    for line in aisbench.lines(result):
        click.echo(line)
    click.echo(aisbench.shown(result))
    click.echo(report.text([result], {}), err=True)


class Afterwards:
    """What is asked for beside the result; everything that can be checked is checked before the job starts."""

    def __init__(
        self, export: Path | None, sign: str | None, force: bool, mllog: Path | None, html: Path | None, test_id: str | None
    ) -> None:
        if sign is not None and export is None and test_id is None:
            raise click.UsageError("--sign signs a bundle; add --export FILE, or --tester and --test-id")
        for path in (path for path in (export, mllog, html) if path is not None):
            if path.is_dir() or not path.absolute().parent.is_dir():
                raise click.UsageError(f"{path} cannot be written; name a file in a directory that exists")
        if export is not None and export.exists() and not force:
            raise click.UsageError(f"{export} exists already; name another file, or add --force")
        self.export, self.force, self.mllog, self.html, self.test_id = export, force, mllog, html, test_id
        self.key = self._key(sign)

    def _key(self, sign: str | None) -> Path | None:
        """The key to sign with, where that is asked for."""
        if sign is None:
            return None
        from muster.bench import signature

        key = signature.choose(sign or None)
        click.echo(f"muster: the bundle will be signed with {key.name}", err=True)
        return key.path

    def write(self, measurement: Measurement, result: dict[str, Any]) -> None:
        """Writes what is asked for into files."""
        if self.mllog is not None:
            from muster.bench import mllog

            for number in range(len(result["runs"])):
                lines = mllog.lines(result, number, measurement.record["plan"])
                self._log_of(number, len(result["runs"])).write_text("\n".join(lines) + "\n", encoding="utf-8")
        if self.html is not None:
            from muster.cli.report_command import write_page

            write_page([measurement.dir.id], self.html)
        if self.export is not None:
            self.bundle(measurement, self.export)
            click.echo(f"muster: bundle {self.export}", err=True)

    def _log_of(self, number: int, runs: int) -> Path:
        """The file for the log of one run: a parser wants one run in each."""
        assert self.mllog is not None
        return self.mllog if runs == 1 else self.mllog.with_stem(f"{self.mllog.stem}-{number + 1}")

    def bundle(self, measurement: Measurement, target: Path) -> Path:
        from muster.bench import bundle
        from muster.runs.layout import home

        return bundle.write(Path(measurement.dir.path), Path(home()), target, self.key, self.force)
