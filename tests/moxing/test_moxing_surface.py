"""The whole surface of `moxing.file`, on the disk, in the embedded store and on a real S3 server, from a Python without Muster."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from clients import Served, place_shim, serving

from muster.storage import Settings

SURFACE = Path(__file__).with_name("surface.py")
BEHAVIOURS = [
    node.name
    for node in ast.parse(SURFACE.read_text()).body
    if isinstance(node, ast.FunctionDef) and [word.arg for word in node.args.args] == ["root"] and node.name != "tree"
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(place_shim(folder / "shim"), Settings(str(folder / "home"))) as server:
        yield server


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("store", ["local", "obs", "s3"])
def test_surface(behaviour: str, store: str, served: Served, tmp_path: Path) -> None:
    root = str(tmp_path) if store == "local" else f"{store}://{store}-bucket/data"
    served.run(SURFACE.read_text(), root, behaviour)
