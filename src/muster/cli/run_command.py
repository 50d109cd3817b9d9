"""`muster run`: check, start and follow a job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli import errors, output, places
from muster.cli.interrupts import Interrupts
from muster.cli.options import HostsName, WithWords, as_json, overrides, where_to_run
from muster.dataclass import replace
from muster.job import FRAMEWORKS, Job
from muster.job.load import Source, load
from muster.job.source import JobError
from muster.launch import api
from muster.launch.start import prepare as preparing
from muster.launch.start import submit
from muster.launch.start.prepare import Prepared
from muster.records.layout import home

if TYPE_CHECKING:
    from muster.launch.any_run import AnyRun


@click.command("run", cls=WithWords)
@click.argument("job", required=False, type=click.Path())
@overrides
@click.option("--name", help="Set the job's name.")
@click.option("--framework", help=f"Set the framework: {', '.join(FRAMEWORKS)}.")
@click.option("--per", help="Start the program once per node or once per device.")
@click.option("--nodes", metavar="N", help="Set the number of nodes.")
@click.option("--devices", metavar="N", help="Set the number of devices per node.")
@click.option("--hosts", type=HostsName(), help="Set the hosts of the engine ssh: a group of config.toml, or hosts by comma.")
@click.option("--device", help="Set the kind of device: auto, cpu, nvidia, ascend.")
@where_to_run
@places.server_option
@places.project_and_pool
@click.option("--template", metavar="NAME", help="On a server: run a template of it in place of a job file.")
@click.option("--detach", is_flag=True, help="Return once the run is started.")
@click.option("--dry-run", is_flag=True, help="Show what would be submitted, and stop there.")
@click.option("--check", is_flag=True, help="Check the job, and the hosts of the engine ssh, and stop there.")
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    /,
    job: str | None,
    sets: tuple[str, ...],
    engine: str | None,
    server: str | None,
    project: str | None,
    pool: str | None,
    template: str | None,
    detach: bool,
    dry_run: bool,
    check: bool,
    json: bool,
    **shortcuts: str | None,
) -> int:
    """Run a job and follow it until it ends.

    JOB is a job file. Without one, the words behind `--` are run in a copy of the current directory, once per device.

    What ranks write is shown; what a scheduler, an ssh server or a sampler writes is only logged, and shown when it fails
    (`muster logs --process scheduler`, or --all).

    \b
    Examples:
      muster run job.yaml
      muster run job.yaml --set devices=4 --set parameters.epochs=3
      muster run --nodes 2 --devices 4 -- python train.py
      muster run job.yaml --check
      muster run job.yaml --engine slurm --detach
      muster run job.yaml --engine ssh --hosts node1,node2
      muster run job.yaml --server
      muster run --template resnet50 --set nodes=2 --server

    \b
    Exit codes: 0 succeeded, 1 failed or lost, 2 the job is wrong and nothing was started,
    3 the engine or the server cannot be reached, 130 stopped. Ctrl-C stops the run, a second one at
    once; a run on Slurm or on a server can be left instead: a terminal is asked which is meant.
    """
    given = partial(_source, job, ctx.meta.get("words"), shortcuts, sets)
    if chosen := places.chosen(server):
        from muster.cli import remote

        places.refuse("--engine", engine, "the pools of the server have engines, and --pool chooses one")
        places.refuse("--dry-run", dry_run, "--check asks it whether the job could run")
        target = remote.Target(chosen, project, pool)
        if template is not None:
            if job is not None or ctx.meta.get("words"):
                raise click.UsageError("--template takes the place of a job file and of a command; keep one of them")
            return remote.run_template(target, template, _changes(shortcuts, sets), shortcuts, detach, check, json)
        return remote.run(target, given, shortcuts, detach, check, json)
    with errors.shown_as_json(json), named_as_typed(shortcuts):
        places.need_server(project, pool, template)
        prepare = preparing.check if check else preparing.preview if dry_run else preparing.prepare
        prepared = prepare(load(*given()), home(), engine, output.say)
    if check:
        return checked(prepared.job, json)
    if dry_run:
        return _dry_run(prepared, json)
    return begin(prepared, detach, json)


def begin(prepared: Prepared, detach: bool, json: bool) -> int:
    """Starts a prepared run and follows it, as the options say."""
    needs_machine = detach and not prepared.engine.lasting and not prepared.engine.shares_files
    code = started(lambda: api.start(prepared, detach), detach, prepared.engine.lasting, json)
    if needs_machine:
        output.say("it goes on without this terminal, and needs this machine to stay up: its supervisor runs here")
    return code


def started(start: Callable[[], AnyRun], detach: bool, lasting: bool, json: bool) -> int:
    """Starts a run and follows it to its end, or until the user leaves one that lasts."""
    with Interrupts() as interrupts:  # from here on Ctrl-C is for the run
        with errors.shown_as_json(json):
            run = start()
        from muster.cli.following import follow  # while the supervisor starts

        if detach:
            output.show(json, output.brief(run.view), run.id)
            return 0
        interrupts.go_to(run, lasting)
        view = follow(run, json, interrupts.leaving)
    if json:
        output.print_json(output.brief(view))
    elif not view.state.ended:
        output.say(f"{run.id} goes on; `muster logs {run.id} --follow{run.option}` comes back to it")
    else:
        from muster.cli.summary import show_end

        show_end(view, sys.stdout.isatty())
    return output.EXIT_CODES.get(view.state, 0)  # one that goes on was left


def _source(
    job: str | None, words: list[str] | None, shortcuts: dict[str, str | None], sets: tuple[str, ...]
) -> tuple[Source, list[str]]:
    """The job file, or the fields of a job without one, and the overrides."""
    given = {name: value for name, value in shortcuts.items() if value is not None}
    changes = _changes(shortcuts, sets)
    if job is not None and words is not None:
        raise click.UsageError(f"both a job file ({job}) and a command behind `--` are given; keep one of them")
    if job is not None and job.endswith((".py", ".sh")):
        program = "python" if job.endswith(".py") else "bash"
        raise click.UsageError(f"{job} is a program and no job file; did you mean `muster run -- {program} {job}`?")
    if job is not None:
        return job, changes
    if not words:
        raise click.UsageError("name a job file, or write the command behind `--`: muster run -- python train.py")
    others = [change for change in changes if change.partition("=")[0].strip() in ("boot", "command")]
    if others:
        raise click.UsageError(f"both --set {others[0]} and a command behind `--` are given; keep one of them")
    data: dict[str, Any] = {"name": _name(words), "command": words}
    if given.get("framework", "command") == "command" and not any(change.startswith("per=") for change in changes):
        data["per"] = "device"
    return data, changes


def _changes(shortcuts: dict[str, str | None], sets: tuple[str, ...]) -> list[str]:
    return [*(f"{name}={value}" for name, value in shortcuts.items() if value is not None), *sets]


@contextmanager
def named_as_typed(shortcuts: dict[str, str | None]) -> Iterator[None]:
    """Shortcuts are overrides; their problems are reported under the option that was typed."""
    typed = {f"--set {name}={value}": f"--{name.rpartition('.')[2]} {value}" for name, value in shortcuts.items()}
    try:
        yield
    except JobError as error:
        raise JobError([replace(found, file=typed.get(found.file, found.file)) for found in error.problems]) from None


def _name(words: list[str]) -> str:
    """A name for a job without one: that of its program, or of the script that it runs."""
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    letters = "".join(letter if letter.isalnum() else "-" for letter in Path(script).stem)
    return letters.strip("-")[:40] or "job"


def checked(job: Job, json: bool) -> int:
    """Says that nothing is wrong with a job."""
    ranks, nodes = job.ranks, job.nodes
    size = f"{ranks} rank{'s' * (ranks != 1)} on {nodes} node{'s' * (nodes != 1)}"
    output.show(json, {"ok": True, "job": job.to_json()}, f"{job.name}: no problems ({size})")
    return 0


def _dry_run(prepared: Prepared, json: bool) -> int:
    request = submit.render(prepared)
    if json:
        shown = {"argv": request.argv, "cwd": request.cwd, "log": request.log, "job": prepared.job.to_json()}
        more = {"script": request.script, "request": request.shown}
        output.print_json({**shown, **{name: text for name, text in more.items() if text}})
        return 0
    import shlex

    click.echo(
        f"# {prepared.job.name}: {prepared.job.ranks} ranks, {len(prepared.code.entries)} code files ({prepared.code.digest})"
    )
    if request.shown:
        click.echo(f"# {shlex.join(request.argv)}\n{request.shown}")
        return 0
    click.echo(f"# {shlex.join(request.argv)}\n{request.script}" if request.script else shlex.join(request.argv))
    return 0
