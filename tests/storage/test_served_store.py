"""The store that a machine serves to the hosts of its runs: what they may see and do, whatever they send."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import served

from muster.storage import NotFound, Storage, StorageError
from muster.storage.errors import AccessDenied
from muster.storage.served.objects import Root


@pytest.fixture
def host(home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Storage]:
    """Storage of a host that may read `in` and write to `out`."""
    for name in ("in", "out", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with served(home, request, Root(str(tmp_path / "out"), True), Root(str(tmp_path / "in"), False)) as storage:
        yield storage


def test_a_host_reads_inputs_and_writes_outputs_and_nothing_else(host: Storage, tmp_path: Path) -> None:
    here = f"submitter://{tmp_path}"
    assert host.read(f"{here}/in/file") == b"in"
    host.write(f"{here}/out/more", b"of the host")
    assert (tmp_path / "out" / "more").read_text() == "of the host"
    for action in (lambda: host.write(f"{here}/in/more", b""), lambda: host.remove(f"{here}/in/file")):
        with pytest.raises(AccessDenied, match="is an input of this run; name an output to write to"):
            action()
    assert host.stat(f"{here}/other/file") is None
    assert host.stat("submitter:///etc/passwd") is None
    with pytest.raises(NotFound, match="is not part of this run"):
        host.write(f"{here}/other/more", b"")
    with pytest.raises(NotFound):
        list(host.list(here))
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file() and "home" not in str(path)) == [
        "file",
        "file",
        "file",
        "more",
    ]


def test_a_neighbour_whose_name_begins_alike_is_not_part_of_it(host: Storage, tmp_path: Path) -> None:
    (tmp_path / "in-side").write_text("a secret")
    assert host.stat(f"submitter://{tmp_path}/in-side") is None


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /../../etc/passwd",
        "GET /_/etc/passwd",
        "GET /_{tmp}/in/../other/file",
        "GET /_{tmp}/in/%2e%2e/other/file",
        "GET /b/%2e%2e/%2e%2e/config.toml",
        "GET /%2e%2e/config.toml",
        "PUT /_{tmp}/out/%2e%2e/other/file",
        "DELETE /_{tmp}/out/%2e%2e/other/file",
        "GET /b/nul%00byte",
        "PUT /b/key?partNumber=1&uploadId=../../x",
        "PUT /b/key?partNumber=x&uploadId=" + 32 * "0",
    ],
)
def test_no_request_leaves_its_place(request_line: str, host: Storage, home: Path, tmp_path: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("a secret")
    answer = raw(
        host,
        f"{request_line.format(tmp=tmp_path)} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode(),
    )
    assert answer.split(b" ", 2)[1][:1] == b"4", answer
    assert b"secret" not in answer and b"root:" not in answer
    assert (tmp_path / "other" / "file").read_text() == "other"


def test_lists_that_could_grow_without_an_end_are_refused(host: Storage) -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><Delete><Object><Key>&a;</Key></Object></Delete>'
    head = f"POST /b?delete HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(bomb)}\r\n\r\n".encode()
    assert b"plain XML" in raw(host, head + bomb)
    huge = b"POST /b?delete HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 999999999999\r\n\r\n"
    assert b"at most" in raw(host, huge)


def test_a_fifo_in_the_store_makes_nobody_wait(host: Storage, home: Path) -> None:
    host.write("obs://b/file", b"")
    os.mkfifo(home / "store" / "b" / "fifo")
    assert host.stat("obs://b/fifo") is None
    assert [entry.name for entry in host.list("obs://b")] == ["file"]
    with pytest.raises(StorageError):
        host.read("obs://b/fifo")


def test_listings_come_in_pages_in_the_order_of_keys(host: Storage, home: Path) -> None:
    names = [f"d{number % 7}/f{number:04}" for number in range(2345)] + ["d0.txt", "d0/", "d00"]
    for name in names:
        path = home / "store" / "b" / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    found = [entry.name for entry in host.list("obs://b", recursive=True) if not entry.is_dir]
    assert sorted(found) == sorted(name for name in names if not name.endswith("/"))
    assert found == sorted(found)


def test_a_directory_that_is_removed_with_all_in_it_is_gone(host: Storage, home: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        host.write(f"obs://b/{name}", b"")
    host.make_dir("obs://b/a/empty")
    assert host.remove("obs://b/a", recursive=True)
    assert sorted(path.name for path in (home / "store" / "b").rglob("*")) == ["e"]


def raw(storage: Storage, data: bytes) -> bytes:
    """Sends bytes to the server as they are; returns its answer."""
    name = storage._settings.submitter.socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(f"\0{name}")
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer
