"""The agent as one file: the rooms that travel to the nodes, packed so that any Python 3.9+ can run them."""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import muster
from muster.runs.files import temporary_name

ROOMS = ("job", "plan", "runs", "devices", "storage", "agent", "shims")
MODULES = ("__init__.py", "record.py")
LEFT_OUT = {"job/load.py", "job/source.py", "job/describe.py"}
MAIN = "import sys\nfrom muster.agent.main import main\nsys.exit(main(sys.argv[1:]))\n"


def path(home: str) -> str:
    """Where the packed agent lies or will lie: under a name that changes with the sources and the Python."""
    root = Path(muster.__file__).parent
    stamp = hashlib.sha256(sys.version.encode())
    for name in _files(root):
        info = os.stat(root / name)
        stamp.update(f"{name} {info.st_size} {info.st_mtime_ns}\n".encode())
    return f"{home}/agent/{stamp.hexdigest()[:16]}.pyz"


def build(home: str) -> str:
    """Packs the agent, unless it is there."""
    target = Path(path(home))
    if not target.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = Path(temporary_name(str(target)))
        root = Path(muster.__file__).parent
        pack(root, list(_files(root)), temporary)
        temporary.rename(target)
    return str(target)


def pack(root: Path, files: list[str], target: Path) -> None:
    """Writes the zip: each module as source, for any Python, and compiled, for the Python of this process."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__", MAIN.encode())
        for name in files:
            _add(archive, f"muster/{name[:-3]}", (root / name).read_bytes())


def _add(archive: zipfile.ZipFile, name: str, source: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(f"{name}.py"), source)
    code = compile(source, f"{name}.py", "exec", dont_inherit=True)
    # A hash-based header that is never checked: no file time has to match. Another Python falls back to the source.
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    archive.writestr(zipfile.ZipInfo(f"{name}.pyc"), header + marshal.dumps(code))


def _files(root: Path) -> Iterator[str]:
    yield from MODULES
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            name = str(path.relative_to(root))
            if name not in LEFT_OUT:
                yield name
