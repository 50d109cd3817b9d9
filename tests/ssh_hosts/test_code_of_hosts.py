"""Code on hosts: what is unpacked there is what was sent, whatever the host's Python thinks of archives."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from muster.channel.stream import frames
from muster.channel.stream.frames import PIECE, Parser
from muster.engines.ssh.node import handover
from muster.engines.ssh.node.host.code import Code
from muster.engines.ssh.node.host.paths import HostPaths


def test_links_of_code_arrive_as_they_are_also_where_python_refuses_links_out_of_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As 3.14 does unless it is told otherwise."""
    monkeypatch.setattr(tarfile.TarFile, "extraction_filter", staticmethod(tarfile.data_filter))
    code = tmp_path / "code"
    (code / "deep").mkdir(parents=True)
    (code / "deep/train.py").write_text("print('hello')")
    (code / "deep/train.py").chmod(0o755)
    (code / "data").symlink_to("/data/imagenet")
    (code / "deep/beside").symlink_to("../../beside")
    descriptor, digest = handover._archive(str(code))
    paths = HostPaths(str(tmp_path / "host"), "run", 0)
    os.makedirs(paths.blobs)
    os.makedirs(paths.run.path)
    said: list[tuple[str, dict[str, Any]]] = []
    unpacked = Code(paths, lambda say, **data: said.append((say, data)))
    unpacked.unpack(digest)
    assert said == [("need", {"blob": digest})]
    size = os.lseek(descriptor, 0, os.SEEK_END)
    for at in range(0, size, PIECE):
        for frame in Parser().feed(frames.with_number(frames.DATA, 0, os.pread(descriptor, PIECE, at))):
            unpacked.take(frame)
    for frame in Parser().feed(frames.with_number(frames.CLOSE, 0)):
        unpacked.take(frame)
    os.close(descriptor)
    assert said[1:] == [("ready", {})]
    there = Path(paths.code)
    assert (os.readlink(there / "data"), os.readlink(there / "deep/beside")) == ("/data/imagenet", "../../beside")
    assert os.access(there / "deep/train.py", os.X_OK)
