"""`muster verify`: check a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli import output, places
from muster.cli.options import as_json

if TYPE_CHECKING:
    from muster.bench.bundle.check import Verified

SHOWN = 20  # problems; `--json` has them all


@click.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--signers", type=click.Path(path_type=Path), metavar="FILE", help="The keys that you trust.")
@click.option("--signed", is_flag=True, help="Fail unless a key that you trust has signed it.")
@places.server_option
@as_json
def command(file: Path, signers: Path | None, signed: bool, server: str | None, json: bool) -> int:
    """Check a bundle: its sums, its signature, and every number against the raw records in it.

    FILE is a bundle; with a server it may be the number of a result there, whose bundle is fetched and checked here.

    The keys you trust stand in an allowed-signers file, each line a name and a public key; without --signers it is
    ~/.config/muster/allowed_signers. Exit codes: 0 verified, 1 something differs or a signature that --signed asks for
    is not there, 2 the file is not a bundle.

    \b
    Examples:
      muster verify resnet50.tar.gz
      muster verify resnet50.tar.gz --signers colleagues --signed
      muster verify 17 --server
    """
    from muster.bench.bundle.check import verify

    with _bundle(file, server) as bundle:
        found = verify(bundle, signers)
    passed = found.passed and (found.signature == "good" or not signed)
    if json:
        output.print_json({**vars(found), "passed": passed, "result": found.result and found.result.to_json()})
    else:
        _show(found, passed, signed)
    return 0 if passed else 1


@contextmanager
def _bundle(file: Path, server: str | None) -> Iterator[Path]:
    """The bundle of a file, or of a result of the server that is chosen."""
    if file.exists() or not str(file).isdigit() or (chosen := places.chosen(server)) is None:
        yield file
        return
    from muster.client.bundles import fetched

    with places.opened(chosen) as place, fetched(place, str(file)) as bundle:
        yield bundle


def _show(found: Verified, passed: bool, signed: bool) -> None:
    name = output.plain(str((found.bench or {}).get("id", "-")))
    word = output.style("✓ verified", fg="green", bold=True) if passed else output.style("✗ not verified", fg="red", bold=True)
    click.echo(f"{word}: {output.plain(str(name))}")
    count = len(found.problems)
    rows = [
        ("files", f"{found.files:,} files, {found.size:,} bytes"),
        ("records", f"{count:,} problem{'s' * (count > 1)}" if count else "every sum is right, every number follows"),
        ("signature", _signature(found) + (", and a good one is required" if signed and found.signature != "good" else "")),
        *_result_row(found),
    ]
    for title, text in rows:
        click.echo(f"  {title.ljust(10)}  {output.plain(text)}")
    for problem in found.problems[:SHOWN]:
        click.echo(f"  - {output.plain(problem)}")
    if count > SHOWN:
        click.echo(f"  - and {count - SHOWN:,} more; `--json` has them all")


def _signature(found: Verified) -> str:
    if found.signature == "good":
        return f"good: {found.signed_by} ({found.key})"
    if found.signature == "untrusted":
        return f"by a key that you do not trust: {found.key}"
    return "bad: it does not fit" if found.signature == "bad" else "none"


def _result_row(found: Verified) -> list[tuple[str, str]]:
    """The result of the bench, once every number of it is verified."""
    if found.problems or not found.result:
        return []
    name, metric = found.result.metric, found.result.metrics.get(found.result.metric)
    verdict = "passed" if found.result.verdict.passed else "failed"
    if metric is None or metric.value is None:
        return [("result", f"{verdict}: no {name}, {metric.reason if metric else 'there was no run'}")]
    return [("result", f"{verdict}: {name} {output.number(metric.value)} {metric.unit}")]
