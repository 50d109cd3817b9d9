"""Writes a bundle: a bench with the records of its runs in one file that anybody can verify.

The same bench always gives the same bytes, unless a key is used that signs differently each time.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from muster.bench.bundle import signature
from muster.bench.bundle.contents import BENCH_FILES, FORMAT, MANIFEST, SIGNATURE, FileEntry, record
from muster.bench.errors import BundleError, ResultError
from muster.bench.model.result import BenchRecord
from muster.records.files import read_object
from muster.records.layout import RunDir, run_dir
from muster.records.state import recorded
from muster.records.untrusted import open_regular, plain

LEVEL = 6


def write(bench_dir: Path, home: Path, target: Path, key: Path | None) -> Path:
    """Writes the bundle of a bench that has ended to a new file; signed where a key is given."""
    bench = _bench(bench_dir)
    runs = [_ended(run_dir(str(home), run)) for run in bench.runs]
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _pack(file, bench, _files(bench_dir, runs), key)
    except BaseException:
        target.unlink()
        raise
    return target


def canonical(files: Iterable[FileEntry]) -> bytes:
    """The manifest of these files as Muster writes it, the same for the same files."""
    ordered = [asdict(entry) for entry in sorted(files, key=lambda entry: entry.path)]
    return (json.dumps({"format": FORMAT, "files": ordered}, ensure_ascii=False, indent=1) + "\n").encode()


def check_target(target: Path, force: bool) -> None:
    """Raises BundleError for a path that no bundle can be written to; an existing file only with force."""
    if target.is_dir():
        raise BundleError(f"{target} is a directory; name a file such as {target / 'result.tar.gz'}")
    if not target.parent.is_dir():
        raise BundleError(f"{target.parent} is not a directory; make it first, or name another place")
    if target.exists() and not force:
        raise BundleError(f"{target} exists already; name another file, or write over it with --force")


def _bench(folder: Path) -> BenchRecord:
    try:
        if (folder / "result.json").is_file():
            return BenchRecord.from_json(plain(read_object(str(folder / "bench.json"))))
    except ResultError as error:
        raise BundleError(f"{folder}/bench.json is damaged: {error}; measure again") from None
    raise BundleError(f"{folder} holds no bench that has ended; `muster bench` makes one")


def _ended(run: RunDir) -> RunDir:
    if not os.path.exists(run.run):
        raise BundleError(f"the record of run {run.id} is gone, and a bundle needs it; measure again")
    if recorded(run) is None:
        raise BundleError(f"run {run.id} has not ended; `muster wait {run.id}` waits for it")
    return run


def _files(bench_dir: Path, runs: Iterable[RunDir]) -> list[tuple[str, Path]]:
    """Every file of the bundle with its name there, sorted."""
    found = [(name, bench_dir / name) for name in BENCH_FILES]
    for run in runs:
        found += [(f"runs/{run.id}/{name}", Path(run.path, name)) for name in record(run)]
    return sorted(found)


def _pack(file: BinaryIO, bench: BenchRecord, files: Iterable[tuple[str, Path]], key: Path | None) -> None:
    with (
        gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8") as tar,
    ):
        manifest = canonical([_add(tar, bench, name, path) for name, path in files])
        _put(tar, bench, MANIFEST, len(manifest), io.BytesIO(manifest))
        if key is not None:
            signed = signature.sign(manifest, key)
            _put(tar, bench, SIGNATURE, len(signed), io.BytesIO(signed))


def _add(tar: tarfile.TarFile, bench: BenchRecord, name: str, path: Path) -> FileEntry:
    """Adds a file and returns its entry in the manifest."""
    with open_regular(str(path)) as file:
        size = os.fstat(file.fileno()).st_size
        hashed = _Hashed(file)
        try:
            _put(tar, bench, name, size, hashed)
        except OSError as error:
            if error.args[:1] == ("unexpected end of data",):
                raise BundleError(f"{path} became shorter while it was read; something still writes to it") from None
            raise
    return FileEntry(name, size, hashed.digest.hexdigest())


def _put(tar: tarfile.TarFile, bench: BenchRecord, name: str, size: int, content: Any) -> None:
    """Adds a file below the one folder of a bundle, each with the same owner, mode and time."""
    info = tarfile.TarInfo(f"{bench.id}/{name}")
    info.size, info.mtime, info.mode = size, int(bench.created or 0), 0o644
    tar.addfile(info, content)


class _Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        chunk = self.file.read(size)
        self.digest.update(chunk)
        return chunk
