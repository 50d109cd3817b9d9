"""The options of commands that write bundles, checked before anything else happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.records.layout import BenchDir, home

F = TypeVar("F", bound=Callable[..., Any])


def options(command: F) -> F:
    """Adds the options of commands that can write a bundle."""
    path = click.Path(path_type=Path)
    for option in (
        click.option("--force", is_flag=True, help="Let --export write over a file."),
        click.option("--sign", is_flag=False, flag_value="", metavar="[KEY]", help="Sign the bundle with an ssh key."),
        click.option("--export", type=path, metavar="FILE", help="Bundle result, records and logs in a .tar.gz."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Export:
    target: Path | None
    key: Path | None
    force: bool

    def write(self, bench: BenchDir) -> None:
        """Writes the bundle of a measurement, where one is asked for."""
        if self.target is not None:
            self.pack(bench, self.target)
            click.echo(f"muster: bundle {self.target}", err=True)

    def pack(self, bench: BenchDir, target: Path) -> None:
        from muster.bench.bundle.check import export

        export(Path(bench.path), Path(bench.home), target, self.key, self.force)


def checked(export: Path | None, sign: str | None, force: bool, sending: bool = False) -> Export:
    """Checks the options of an export; `sending` bundles are written without --export."""
    if sign is not None and export is None and not sending:
        raise click.UsageError("--sign signs a bundle; add --export FILE, or --tester and --test-id")
    from muster.bench.bundle import signature, write

    if export is not None:
        write.check_target(export, force)
    if sign is None:
        return Export(export, None, force)
    key = signature.choose(sign or None, home())
    click.echo(f"muster: the bundle will be signed with {key.name}", err=True)
    return Export(export, key.path, force)


def writable(path: Path) -> None:
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise click.UsageError(f"{path} cannot be written; name a file in a directory that exists")
