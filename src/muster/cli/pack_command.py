"""`muster pack`: makes an AISBench package of a workload; and runs a step of a package, for the scripts in it."""

from __future__ import annotations

import json as json_format
import os
import platform
import shlex
from pathlib import Path
from typing import Any

import click

from muster.aisbench.packing import VENDORS, PackageName, check, pack, shipped_workloads
from muster.cli import errors, output
from muster.cli.options import as_json
from muster.job.source import JobError
from muster.records.layout import home

ARCHITECTURES = ("aarch64", "x86_64")
HERE = platform.machine() if platform.machine() in ARCHITECTURES else ARCHITECTURES[0]


class Workload(click.Path):
    """A directory, or the name of a workload that comes with Muster."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        known = shipped_workloads()
        if not os.path.isdir(value) and os.sep not in value and value in known:
            return str(known[value])
        if not os.path.exists(value):
            self.fail(f"`{value}` is neither a directory nor a workload of Muster ({', '.join(known)})", param, ctx)
        return super().convert(value, param, ctx)


@click.command("pack")
@click.argument("folder", default=".", type=Workload(exists=True, file_okay=False), metavar="[WORKLOAD]")
@click.option(
    "--arch", type=click.Choice(ARCHITECTURES), default=HERE, show_default="this machine's", help="For which machines."
)
@click.option("--version", default="", help="The version of the workload, such as r1.3.")
@click.option("--type", "type", type=click.Choice(["modelarts", ""]), default="", help="modelarts, or offline.")
@click.option("--mode", type=click.Choice(list(VENDORS)), default="train", show_default=True, help="What is measured.")
@click.option("--vendor", default="huawei", show_default=True, help="The second part of the name.")
@click.option("--workload", default="", help="The third part of the name; by default that of the directory.")
@click.option("-o", "--output", "target", default="output", show_default=True, help="The directory for the package.")
@click.option("--start", hidden=True, help="One step of a package, for the scripts in it.")
@as_json
def command(folder: str, workload: str, target: str, start: str | None, json: bool, **parts: str) -> int:
    """Make an AISBench package of a workload.

    WORKLOAD is the name of one that comes with Muster, or a directory with `code/` (the training code) and, where it has
    its own, `config/config.sh`, `config/modelarts_config.py`, `config.json`, `system.json` and `README.md`. The package runs
    wherever Muster is installed: `./ais-bench-stubs test`.

    \b
    Examples:
      muster pack resnet50
      muster pack examples/aisbench-package --version r1.3 --type modelarts
      muster pack resnet --workload train_mindspore_resnet --arch aarch64 --version r1.5 -o dist
    """
    if start is not None:
        return _start(folder, shlex.split(start))
    naming = PackageName(workload or Path(folder).resolve().name.replace("-", "_"), **parts)
    findings = check(Path(folder), naming)
    if findings.problems:
        raise JobError(findings.problems)
    made = str(pack(Path(folder), naming, Path(target)))
    output.show(json, {"package": made, "name": naming.name}, made)
    return 0


def _start(base: str, words: list[str]) -> int:
    """Runs one step of a package; every failure is 1, because the scripts there map it to AISBench's exit codes."""
    from muster.aisbench.package import Choices
    from muster.aisbench.run import steps, stubs
    from muster.cli.interrupts import Interrupts
    from muster.launch.run_store import RunStore

    base, step, rest = os.path.abspath(base), words[0] if words else "", words[1:]
    if step == "stubs":
        return stubs.main(base, rest, Path(home()), errors.show)
    choices, store = Choices(**json_format.loads(rest[0])) if rest else Choices(), RunStore(home())
    try:
        if step == "stop":
            return steps.stop(base, choices, store, rest[1] if len(rest) > 1 else "")
        if step in ("init", "run_eval", "get_result"):
            return steps.init(base, choices, store) if step == "init" else getattr(steps, step)(base)
        if step in ("run", "run_train"):
            with Interrupts() as interrupts:
                return (steps.run if step == "run" else steps.run_train)(base, choices, store, interrupts.go_to)
    except Exception as error:
        errors.show(error)
        return 1
    raise click.UsageError("--start is for the scripts of a package: init, run_train, run_eval, get_result, run, stop or stubs")
