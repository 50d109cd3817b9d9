"""`muster import`: makes a job file of an AISBench package, and puts its keys into a profile."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from muster.aisbench.config.mode import MODES
from muster.aisbench.importing import Imported, read
from muster.aisbench.package import Choices
from muster.cli import output
from muster.cli.options import as_json
from muster.config import ConfigError, profiles
from muster.job.kinds import clean_name
from muster.job.source import JobError, Problem
from muster.records.files import write_text
from muster.records.layout import home


@click.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False), metavar="DIR")
@click.option("-o", "--output", "target", default="job.yaml", show_default=True, help="The job file; - prints it.")
@click.option("--profile", help="The profile of config.toml that gets the keys; by default the job's name.")
@click.option("--here", is_flag=True, help="The job will run here: what only the cloud would refuse becomes a note.")
@click.option("--mode", type=click.Choice(MODES), help="How the package runs, whatever RUNTYPE in benchmark.sh says.")
@click.option("--version", type=click.Choice(["V1", "V2"]), help="The section of modelarts_config.py, whatever config.sh says.")
@click.option("--boot", help="The file that starts the training, in mode cluster_offline.")
@click.option("--devices", type=click.IntRange(1), help="Cards per node, where the configuration does not say.")
@click.option("--force", is_flag=True, help="Replace a job file and a profile that are there.")
@as_json
def command(folder: str, target: str, profile: str | None, here: bool, force: bool, json: bool, **chosen: Any) -> None:
    """Make a job file of an AISBench package.

    DIR is an unpacked package, its `code` directory, or one that holds some of modelarts_config.py, config.sh,
    config.json and system.json. They are read and never executed. Keys and passwords go into a profile of config.toml
    that only you can read. All problems are reported at once, and then nothing is written.

    The mode is the RUNTYPE of benchmark.sh: `modelarts` takes modelarts_config.py, `cluster_offline` takes config.sh. Where
    nothing says which, it is modelarts if there is a modelarts_config.py. The command says what it chose and why. The servers
    of NODEINFO_FILE become `hosts` of the job, for `--engine ssh`; passwords in it are not kept.

    \b
    Examples:
      muster import train_huawei_train_mindspore_resnet-Ais-Benchmark-Stubs-aarch64-1.0-r1.3_modelarts
      muster import ./code -o resnet.yaml --profile huawei
      muster import ./code --mode cluster_offline
      muster import ./code --here -o -
    """
    choices = Choices(**{name: value for name, value in chosen.items() if value is not None})
    path = os.path.join(os.getcwd(), "job.yaml") if target == "-" else target
    imported = read(folder, path, choices, here)
    if not json and os.path.isfile(imported.package.file):
        click.echo(f"muster: mode {imported.package.mode}", err=True)
    name = profile or clean_name(imported.name) or "aisbench"
    problems = [*imported.findings.problems, *_existing_targets(target, name, imported, force)]
    if problems:
        if json:
            output.print_json(_json(imported, problems, None, None))
        raise JobError(problems)
    _write(imported, target, name, force)
    if json:
        output.print_json(_json(imported, [], target, name if imported.credentials else None))
    else:
        _print(imported, target, name)


def _existing_targets(target: str, profile: str, imported: Imported, force: bool) -> list[Problem]:
    problems = []
    if target != "-" and os.path.exists(target) and not force:
        problems.append(Problem(target, None, "", "exists already", "choose another name with -o, or replace it with --force"))
    if imported.credentials and not force and profiles.exists(home(), profile):
        config = f"{home()}/config.toml"
        hint = "choose another with --profile, or replace it with --force"
        problems.append(Problem(config, None, f"profiles.{profile}", "exists already", hint))
    return problems


def _write(imported: Imported, target: str, profile: str, force: bool) -> None:
    if imported.credentials:
        try:
            profiles.add(home(), profile, imported.credentials.profile(), force)
        except OSError as error:
            raise ConfigError(f"{home()}/config.toml cannot be written: {(error.strerror or str(error)).lower()}") from None
    if target == "-":
        return
    Path(target).absolute().parent.mkdir(parents=True, exist_ok=True)
    write_text(target, imported.text)


def _json(imported: Imported, problems: list[Problem], target: str | None, profile: str | None) -> dict[str, Any]:
    return {
        "job": target,
        "text": None if problems else imported.text,
        "name": imported.name or None,
        "kind": imported.package.kind,
        "mode": {"name": imported.package.mode.name, "why": imported.package.mode.why},
        "code": imported.package.code or None,
        "engine": imported.engine,
        "hosts": imported.hosts,
        "profile": profile,
        "secrets": sorted(imported.credentials.secrets),
        "problems": [vars(problem) for problem in problems],
        "notes": [vars(note) for note in imported.findings.notes],
        "left": [vars(left) for left in imported.findings.left],
        "test": vars(imported.package.test),
    }


def _print(imported: Imported, target: str, profile: str) -> None:
    if target == "-":
        sys.stdout.write(imported.text)
    for note in imported.findings.notes:
        click.echo(f"muster: note: {output.plain(str(note))}", err=True)
    for left in imported.findings.left:
        click.echo(f"muster: not carried over: {output.plain(str(left))}", err=True)
    prefix = ""
    if imported.credentials:
        click.echo(f"muster: the keys are in profile `{profile}` of {home()}/config.toml, which only you can read", err=True)
        prefix = f"MUSTER_PROFILE={profile} "
    if target != "-":
        job = target + (f" --engine {imported.engine}" if imported.engine else "")
        click.echo(f"{target}: try `{prefix}muster run {job} --check`, then `{prefix}muster bench {job}`")
