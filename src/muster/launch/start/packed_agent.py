"""The agent as one file: the rooms that travel to the nodes, packed so that any Python 3.9+ can run them."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from typing import TYPE_CHECKING

import muster
from muster.records.files import temporary_name, write_bytes
from muster.records.untrusted import LARGEST, is_regular, open_regular, read_if_regular

if TYPE_CHECKING:
    import zipfile

ROOMS = ("job", "plan", "linux", "records", "metrics", "channel", "devices", "storage", "agent", "shims")
ADDRESSES = ("addresses/__init__.py", "addresses/requests_adapter.py")
MODULES = ("__init__.py", "dataclass.py", "record.py", *ADDRESSES, "engines/__init__.py")
NODE_SIDES = ("__init__.py", "options.py", "node/")  # of the engines
LEFT_OUT = {f"job/{name}.py" for name in ("load", "paths", "rules", "source", "describe")}
_known: dict[str, str] = {}  # packed agents that were just found to be unchanged, by home
PIECE = 1 << 18  # bytes that are compared at once
MAIN = "import sys\nfrom muster.agent.main import main\nsys.exit(main(sys.argv[1:]))\n"


def path(home: str) -> str:
    """Where the packed agent lies or will lie: under a name that changes with the sources and the Python."""
    root = os.path.dirname(muster.__file__)
    infos = ((name, os.stat(f"{root}/{name}")) for name in _files(root))
    lines = [sys.version, *(f"{name} {info.st_size} {info.st_mtime_ns}" for name, info in infos)]
    whole, reversed_lines = ("\n".join(found).encode() for found in (lines, lines[::-1]))
    return f"{home}/agent/{zlib.crc32(whole):08x}{zlib.crc32(reversed_lines):08x}.pyz"  # hashlib takes long to import


def unchanged(home: str) -> str | None:
    """The packed agent, if it is there unchanged; then the next call of `build` does not look again."""
    if is_unchanged(target := path(home)):
        _known[home] = target
    return _known.get(home)


def build(home: str) -> str:
    """Packs the agent, unless it is there unchanged: ranks of earlier runs could write to it."""
    if known := _known.pop(home, None):
        return known
    target = path(home)
    if not is_unchanged(target):
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        archive = _archive(reference(target))
        if os.path.isdir(target) and not os.path.islink(target):
            os.rename(target, temporary_name(target))
        write_bytes(target, archive)
    return target


def content(home: str) -> bytes:
    """The bytes of the packed agent, for machines that are asked before there is a run: nothing is made in the home."""
    return _archive(reference(path(home)))


def is_unchanged(target: str) -> bool:
    """Returns whether a packed agent is there and as it was packed."""
    try:
        with open_regular(target) as first, open_regular(reference(target)) as second:
            if os.fstat(first.fileno()).st_size != os.fstat(second.fileno()).st_size:
                return False
            return all(piece == second.read(PIECE) for piece in iter(lambda: first.read(PIECE), b""))
    except OSError:
        return False


def reference(target: str) -> str:
    """Where a second copy of the packed agent lies, by which changes are noticed.

    That is beside Muster's own bytecode: who can write there can change Muster itself. Where that directory cannot be
    written, it is beside the first.
    """
    cache = os.path.dirname(cache_from_source(muster.__file__))
    trusted = f"{cache}/{_family()}{os.path.basename(target)}"
    with suppress(OSError):
        os.makedirs(cache, exist_ok=True)
        if os.access(trusted, os.R_OK) or os.access(cache, os.W_OK):
            return trusted
    return f"{target}.copy"


def _family() -> str:
    return f"agent.{sys.implementation.cache_tag}."


def _archive(kept: str) -> bytes:
    """The bytes of the packed agent: as they were packed first, for two processes may pack the same code differently."""
    if known := read_if_regular(kept, LARGEST):
        return known
    root = os.path.dirname(muster.__file__)
    packed = pack(root, list(_files(root)))
    with suppress(OSError):  # such as a full disk: then it is packed again
        _write_first(kept, packed)
    cache, name = os.path.split(kept)
    for older in os.listdir(cache) if os.path.isdir(cache) else ():
        if older.startswith(_family()) and older.endswith(".pyz") and older != name:
            with suppress(FileNotFoundError):
                os.unlink(f"{cache}/{older}")
    return read_if_regular(kept, LARGEST) or packed


def _write_first(path: str, data: bytes) -> None:
    """Writes a file that is no regular one yet, unless another process is faster."""
    temporary = temporary_name(path)
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        if os.path.lexists(path) and not is_regular(path):
            os.rename(path, temporary_name(path))
        os.link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def pack(root: str, files: list[str]) -> bytes:
    """Makes the zip: each module as source, for any Python, and compiled, for the Python of this process."""
    import io
    import zipfile  # only here: every run asks for the path, few pack

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__", MAIN.encode())
        for name in files:
            with open(f"{root}/{name}", "rb") as file:
                _add(archive, f"muster/{name[:-3]}", file.read())
    return packed.getvalue()


def _add(archive: zipfile.ZipFile, name: str, source: bytes) -> None:
    import marshal
    import zipfile

    archive.writestr(zipfile.ZipInfo(f"{name}.py"), source)
    code = compile(source, f"{name}.py", "exec", dont_inherit=True)
    # A hash-based header that is never checked: no file time has to match. Another Python falls back to the source.
    header = MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(source)
    archive.writestr(zipfile.ZipInfo(f"{name}.pyc"), header + marshal.dumps(code))


def _files(root: str) -> Iterator[str]:
    """The modules of the agent, as paths below the package. Each run asks for them, and pathlib takes three times as long."""
    yield from MODULES
    for room in ROOMS:
        yield from (name for name in _modules(root, room) if name not in LEFT_OUT)
    for name in _modules(root, "engines"):
        _, _, inner = name[len("engines/") :].partition("/")
        if inner.startswith(NODE_SIDES):
            yield name


def _modules(root: str, folder: str) -> list[str]:
    found = os.walk(f"{root}/{folder}")
    return sorted(f"{path[len(root) + 1 :]}/{name}" for path, _, names in found for name in names if name.endswith(".py"))
