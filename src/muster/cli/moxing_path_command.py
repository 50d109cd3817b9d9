"""`muster moxing-path`: the directory that lets a script of one's own import `moxing` and `modelarts`."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import click

from muster.cli import output
from muster.cli.options import as_json

PACKAGES = ("modelarts", "moxing")
PYTHON = "muster-python"  # the file by which the package finds its way back to Muster


@click.command("moxing-path")
@as_json
def command(json: bool) -> None:
    """Print a directory for PYTHONPATH, so that `import moxing` works in a shell of your own.

    So does `import modelarts`, as scripts do that submit training jobs.
    Jobs that Muster runs have both in any case. Any Python from 3.7 on can
    import them; Muster need not be installed there.

    \b
    Examples:
      muster moxing-path
      PYTHONPATH=$(muster moxing-path) python train.py --data_url obs://bucket/data
    """
    from muster.records.layout import make_home

    place = str(placed(Path(make_home()), sys.executable))
    output.show(json, {"path": place}, place)


def placed(home: Path, python: str) -> Path:
    """A directory with the packages and the name of Muster's Python; another one when either has changed."""
    import muster

    source = Path(muster.__file__).parent / "shims"
    files = sorted(file for package in PACKAGES for file in (source / package).rglob("*.py"))
    stamp = hashlib.sha256(python.encode())
    for file in files:
        stamp.update(str(file.relative_to(source)).encode() + b"\0" + file.read_bytes())
    target = home / "shims" / stamp.hexdigest()[:16]
    if not target.exists():
        _make(target, source, files, python)
    return target


def _make(target: Path, source: Path, files: list[Path], python: str) -> None:
    target.parent.mkdir(mode=0o700, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    partial.mkdir(mode=0o700)
    (partial / PYTHON).write_text(python + "\n")
    for file in files:
        copy = partial / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    try:
        partial.rename(target)
    except OSError:  # somebody else was faster
        shutil.rmtree(partial)
