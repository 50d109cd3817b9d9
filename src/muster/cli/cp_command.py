"""`muster cp`: copy files and directories to and from stores."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import places, stores
from muster.cli.options import as_json
from muster.storage import NotFound, Progress, Report, StorageError
from muster.storage.urls import join


@click.command("cp")
@click.argument("src")
@click.argument("dst")
@stores.include
@stores.exclude
@stores.threads
@places.server_option
@as_json
def command(src: str, dst: str, server: str | None, json: bool, **chosen: Any) -> int:
    """Copy a file, or what is in a directory or prefix, from SRC to DST.

    SRC and DST are paths or URLs: obs://bucket/name, s3://bucket/name, file:///path. A file becomes the file DST, or a file in
    DST where that is a directory or ends with a slash. Of a directory the contents become the contents of DST. What is already
    there and has not changed is not copied again. Nothing is ever deleted.

    \b
    Globs: * and ? stay within one part of a name, ** crosses slashes; without a
    slash they are tried on every part, with one on the name below SRC. A
    directory that matches stands for all that is in it.

    \b
    Examples:
      muster cp train.tar obs://data/cifar-10/
      muster cp ./cifar-10 obs://data/cifar-10
      muster cp obs://out/resnet50 ./resnet50 --include '*.ckpt'
      muster cp ./cifar-10 obs://data/cifar-10 --server
    """
    with stores.open_storage(server) as storage:

        def copy(progress: Progress, left: list[StorageError]) -> Report:
            found = storage.stat(src)
            if found is None or found.is_dir:
                return storage.copy_tree(src, dst, progress=progress, left=left, **chosen)
            if src.endswith("/"):
                raise NotFound(f"{src} is not a directory; leave the slash out to copy the file")
            if chosen["include"] or chosen["exclude"]:
                raise click.UsageError("--include and --exclude choose from a directory; SRC is a single file")
            there = storage.stat(dst)
            target = join(dst, found.name) if dst.endswith("/") or (there and there.is_dir) else dst
            return storage.copy_file(src, target, changed=True, progress=progress)

        return stores.run_transfer(copy, src, dst, json)
