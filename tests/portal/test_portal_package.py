"""The wheel holds all that pages load, the code of others included."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from muster.server import pages

ROOT = Path(__file__).parents[2]
FOLDER = Path(pages.__file__).parent


def test_a_wheel_holds_templates_style_sheets_scripts_and_what_make_portal_fetched() -> None:
    builder = WheelBuilder(str(ROOT))
    packed = {file.distribution_path for file in builder.recurse_included_files()}
    there = {path for path in FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert len(there) > 80
    assert sorted({str(Path("muster/server/pages", path.relative_to(FOLDER))) for path in there} - packed) == []
    assert [path for path in packed if "node_modules" in path or ".screenshots" in path] == []
