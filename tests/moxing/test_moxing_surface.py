"""The whole surface of `moxing.file` on the disk, in the embedded store and on a real S3 server, in a Python without Muster."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from clients import Served, access, place_shim, serving

from muster.storage import Settings
from s3_server import S3

SURFACE = Path(__file__).with_name("surface.py")
BEHAVIOURS = [
    node.name
    for node in ast.parse(SURFACE.read_text()).body
    if isinstance(node, ast.FunctionDef) and [word.arg for word in node.args.args] == ["root"] and node.name != "tree"
]


@pytest.fixture(scope="module")
def served(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """obs:// lives in the embedded store here, s3:// at the real server."""
    folder = tmp_path_factory.mktemp("served")
    with serving(place_shim(folder / "shim"), Settings(str(folder / "home"), s3=access(s3))) as server:
        yield server


@pytest.fixture(scope="module")
def bucket(s3: S3) -> str:
    return s3.bucket()


@pytest.mark.parametrize("store", ["local", "obs", "s3"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_surface(behaviour: str, store: str, served: Served, bucket: str, tmp_path: Path) -> None:
    root = str(tmp_path) if store == "local" else f"{store}://{bucket}"
    served.run(SURFACE.read_text(), root, behaviour)
