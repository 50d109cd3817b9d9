"""`muster ls`: list what is in a directory, a prefix or a store."""

from __future__ import annotations

import json as texts
from collections.abc import Iterable

import click

from muster.cli import places, stores
from muster.cli.options import as_json
from muster.cli.output import plain, when
from muster.storage import FileInfo, Storage


@click.command("ls")
@click.argument("url", required=False)
@click.option("-r", "--recursive", is_flag=True, help="Also what is in directories, and in those.")
@places.server_option
@as_json
def command(url: str | None, recursive: bool, server: str | None, json: bool) -> None:
    """List a directory or prefix, with times and sizes; without URL the buckets of the store.

    \b
    Examples:
      muster ls
      muster ls obs://data/cifar-10
      muster ls -r s3://out/resnet50
    """
    with stores.open_storage(server) as storage:
        entries = _entries(storage, url, recursive)
        _print_json(entries) if json else _print(entries)


def _entries(storage: Storage, url: str | None, recursive: bool) -> Iterable[FileInfo]:
    if url is None or url in ("obs://", "s3://"):
        return storage.buckets((url or "obs").removesuffix("://"))
    found = storage.stat(url)
    return [found] if found and not found.is_dir else storage.list(url, recursive)


def _print(entries: Iterable[FileInfo]) -> None:
    """Lines as they come: a listing may be longer than memory."""
    for entry in entries:
        size = "" if entry.is_dir else stores.format_size(entry.size)
        click.echo(f"{when(entry.mtime):19}  {size:>7}  {plain(entry.name)}{'/' if entry.is_dir else ''}")


def _print_json(entries: Iterable[FileInfo]) -> None:
    """One JSON list, written as its parts come."""
    before = "[\n"
    for entry in entries:
        facts = {"url": entry.url, "name": entry.name, "directory": entry.is_dir, "size": entry.size}
        text = texts.dumps({**facts, "modified": entry.mtime or None}, ensure_ascii=False)
        click.echo((before + text).encode("utf-8", "backslashreplace"), nl=False)
        before = ",\n"
    click.echo("[\n]" if before == "[\n" else "\n]")
