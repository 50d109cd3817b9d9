"""`muster sync`: make one directory or prefix like another."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from muster.cli import places, stores
from muster.cli.options import as_json


@click.command("sync")
@click.argument("src")
@click.argument("dst")
@stores.include
@stores.exclude
@click.option("--delete", is_flag=True, help="Delete in DST what SRC does not have.")
@stores.threads
@places.server_option
@as_json
def command(src: str, dst: str, server: str | None, json: bool, **chosen: Any) -> int:
    """Make the directory or prefix DST like SRC: what is missing or has changed is copied.

    With --delete, what DST has and SRC has not is deleted, but for what the globs leave out. SRC is never changed.
    The globs are those of `muster cp`.

    \b
    Examples:
      muster sync ./data obs://data/cifar-10
      muster sync obs://out/resnet50 ./resnet50 --delete --exclude '*.tmp'
    """
    with stores.open_storage(server) as storage:
        return stores.run_transfer(partial(storage.copy_tree, src, dst, **chosen), src, dst, json)
