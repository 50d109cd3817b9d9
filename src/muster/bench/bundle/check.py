"""Verifies a bundle: its checksums, its signature, and every number in it against the records that it holds."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from muster import __version__
from muster.bench.bundle import archive, recompute, signature, strict_json, write
from muster.bench.bundle.contents import MANIFEST, SIGNATURE, FileEntry, belongs
from muster.bench.errors import BundleError
from muster.bench.model.result import Result
from muster.records.files import temporary_name

MOST_PROBLEMS = 1000  # listed of one bundle


@dataclass(frozen=True)
class Verified:
    passed: bool  # nothing differs, and the signature, where there is one, is right
    problems: list[str]
    signature: signature.State
    signed_by: str | None  # the signer, as the reader's list of trusted keys has it
    key: str | None  # the fingerprint of the key that signed
    result: Result | None  # None where it is no valid result
    bench: Mapping[str, Any] | None  # `bench.json` as it is there
    digest: str  # of the manifest: the same for the same content, however it is packed
    files: int
    size: int  # bytes of all files


def verify(path: Path, signers: Path | None = None, most: int | None = None) -> Verified:
    """Checks a bundle against itself, and its signature against the keys in `signers`. Raises BundleError for what is none."""
    trusted = _trusted(signers)
    with tempfile.TemporaryDirectory(prefix="muster-verify-") as scratch:
        folder = archive.unpack(path, Path(scratch), most)
        if MANIFEST not in folder.files:
            raise BundleError(f"{path} holds no {MANIFEST}; `muster bench --export` makes bundles")
        return _verify(folder, trusted)


def export(bench_dir: Path, home: Path, target: Path, key: Path | None, force: bool = False) -> None:
    """Writes the bundle of a bench and verifies it as its reader will; a bundle that does not verify is deleted."""
    write.check_target(target, force)
    temporary = Path(temporary_name(str(target)))
    try:
        write.write(bench_dir, home, temporary, key)
        found = verify(temporary)
        made_by = found.result.provenance.muster if found.result else __version__
        if found.problems and made_by == __version__:  # another version may count differently
            more = f" ({len(found.problems)} problems in all)" if len(found.problems) > 1 else ""
            raise BundleError(f"the records of this bench contradict each other: {found.problems[0]}{more}; measure again")
        write.check_target(target, force)  # packing may have taken a while
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _verify(folder: archive.Folder, trusted: Path | None) -> Verified:
    signed = signature.Signature("none")
    if SIGNATURE in folder.files:
        signed = signature.check(folder.path / MANIFEST, folder.path / SIGNATURE, trusted)
    forged = [f"{SIGNATURE}: is not the signature of this manifest"] if signed.state == "bad" else []
    problems = list(islice(chain(forged, _sums(folder), recompute.problems(folder)), MOST_PROBLEMS))
    return Verified(
        passed=not problems,
        problems=problems,
        signature=signed.state,
        signed_by=signed.signed_by,
        key=signed.key,
        result=recompute.result_of(folder),
        bench=recompute.document(folder.path / "bench.json"),
        digest=folder.files[MANIFEST].sha256,
        files=len(folder.files),
        size=sum(file.size for file in folder.files.values()),
    )


def _trusted(given: Path | None) -> Path | None:
    """The list of trusted keys: the given one, else the reader's own where there is one."""
    path = given or signature.allowed_signers()
    if path.is_file():
        return path
    if given is not None:
        raise BundleError(f"there is no list of signers {given}; each of its lines is a name and a public key")
    return None


def _sums(folder: archive.Folder) -> Iterator[str]:
    """Differences between the manifest and what Muster would write about these files, to the byte."""
    found = {path: file for path, file in folder.files.items() if path not in (MANIFEST, SIGNATURE)}
    yield from (f"{path}: is no part of a record" for path in sorted(found) if not belongs(path))
    written = (folder.path / MANIFEST).read_bytes()
    if written != write.canonical(found.values()):
        differences = list(_differences(written, found))
        yield from differences or [f"{MANIFEST}: is not written as Muster writes it"]


def _differences(written: bytes, found: Mapping[str, FileEntry]) -> Iterator[str]:
    try:
        listed = {entry["path"]: entry for entry in strict_json.loads(written)["files"]}
    except (strict_json.NotExact, TypeError, LookupError) as error:
        yield f"{MANIFEST}: {error if isinstance(error, strict_json.NotExact) else 'is no list of files'}"
        return
    yield from (f"{path}: is not in the manifest" for path in found if path not in listed)
    for path, entry in listed.items():
        if path not in found:
            yield f"{path}: is missing, though the manifest lists it"
        elif entry != asdict(found[path]):
            yield f"{path}: is not the file that the manifest lists, its size or SHA-256 differs"
