"""Objects that can be no file here: MoXing copies all others, and then raises what it had to leave out."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_networks import hostile_store
from clients import place_shim, serving
from places import tree

from muster.storage import Access, Settings

COPY = """
    import moxing as mox, sys
    try:
        mox.file.copy_parallel("s3://bucket/p", sys.argv[1])
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("odd", ["odd/../up.txt", "/absolute", "long" * 100])
def test_one_odd_name_keeps_nothing_back(home: Path, tmp_path: Path, odd: str) -> None:
    with hostile_store("p/a", f"p/{odd}", "p/z/fine") as endpoint:
        settings = Settings(str(home), s3=Access.completed(endpoint))
        with serving(place_shim(tmp_path / "shim"), settings) as served:
            said = served.run(COPY, tmp_path / "here")
    assert odd in said and "rename it, or leave it out (all others are copied)" in said
    assert {name: data for name, data in tree(tmp_path / "here").items() if data} == {"a": b"evil", "z/fine": b"evil"}


def test_what_is_a_file_and_a_directory_is_a_duplicate(home: Path, tmp_path: Path) -> None:
    with hostile_store("p/a", "p/a/b", "p/z") as endpoint:
        settings = Settings(str(home), s3=Access.completed(endpoint))
        with serving(place_shim(tmp_path / "shim"), settings) as served:
            said = served.run(COPY, tmp_path / "here")
    assert said.startswith("MoxFileNameDuplicateException") and "rename one of them" in said
    assert (tmp_path / "here/z").read_bytes() == b"evil"
