"""Every kind of place that storage has, for tests that must hold for all of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.storage import Access, FileInfo, Storage, resolve
from muster.storage.served import process
from muster.storage.served.objects import Root
from s3_server import S3

KINDS = ("path", "file", "obs", "s3", "served", "submitter")  # the last two are those of nodes on other machines
# Names that must survive a round trip anywhere.
ODD = (
    "plain.txt",
    "sp ace/in a name.txt",
    "..foo",
    "...",
    "-x",
    "--delete",
    "中文/数据.txt",
    "ü\u0301mlaut",
    "a%20b+c&d=e#f?g",
    "quo'te\"s",
    "back\\slash",
    "new\nline",
    "tab\there",
    "trailing. ",
    "~tilde",
    "$HOME",
    ".hidden/.deep",
    "empty.bin",
)


@dataclass(frozen=True)
class Place:
    """A directory to work in, and the storage that reaches it."""

    kind: str
    url: str
    storage: Storage

    def at(self, name: str) -> str:
        return f"{self.url}/{name}"

    def names(self, url: str = "", recursive: bool = True) -> list[str]:
        return sorted(shown(entry) for entry in self.storage.list(url or self.url, recursive))


def shown(entry: FileInfo) -> str:
    return entry.name + "/" if entry.is_dir else entry.name


def write_tree(folder: Path, names: tuple[str, ...] = ODD) -> None:
    """Files whose content is their name; `empty.bin` is empty, and there are empty directories."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name.startswith("empty") else name.encode())
    (folder / "no files/here at all").mkdir(parents=True, exist_ok=True)


def tree(folder: Path) -> dict[str, bytes | None]:
    """What is in a local directory: content by name, None for a directory."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def remote(s3: S3, home: Path) -> Storage:
    """Storage that goes to the server, with little patience."""
    return Storage(resolve(str(home), {}, {**s3.env, "MUSTER_STORAGE_TIMEOUT": "5"}))


def served(home: Path, request: pytest.FixtureRequest, *roots: Root) -> Storage:
    """Storage as a node on another machine has it: it reaches this one, and its embedded store, over a socket alone."""
    name, pid = process.start(str(home), roots, lambda: None)
    request.addfinalizer(lambda: os.waitpid(pid, 0))
    request.addfinalizer(lambda: os.kill(pid, signal.SIGKILL))
    node = resolve(f"{home}/node", {}, {})
    return Storage(node.through(Access(endpoint="http://submitter", region="us-east-1", socket=name, timeout=5)))


@pytest.fixture
def opened(home: Path) -> Iterator[Callable[[Storage], Storage]]:
    """Closes storage at the end of a test."""
    made: list[Storage] = []

    def keep(storage: Storage) -> Storage:
        made.append(storage)
        return storage

    yield keep
    for storage in made:
        storage.close()


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, s3: S3, home: Path, tmp_path: Path, opened: Callable[[Storage], Storage]) -> Place:
    kind = str(request.param)
    if kind == "s3":
        return Place(kind, f"s3://{s3.bucket()}/work", opened(remote(s3, home)))
    if kind in ("served", "submitter"):
        url = {"served": "obs://bucket/work", "submitter": f"submitter://{tmp_path}/work"}[kind]
        return Place(kind, url, opened(served(home, request, Root(str(tmp_path), True))))
    url = {"path": str(tmp_path / "work"), "file": f"file://{tmp_path}/work", "obs": "obs://bucket/work"}[kind]
    return Place(kind, url, Storage(resolve(str(home), {}, {})))
