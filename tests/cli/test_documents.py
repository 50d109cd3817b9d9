"""What documents and messages tell people to type."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = [
    path
    for place in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "docs", "examples", "workloads", "src")
    for path in ([ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*")))
    if path.suffix in (".md", ".py", ".sh", ".yaml")
]


def test_nobody_is_told_to_install_muster_from_an_index_on_which_it_is_not() -> None:
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    told = re.compile(rf"pip3? install [^`\n]*{re.escape(name)}")
    assert len(WRITTEN) > 200
    assert [str(path.relative_to(ROOT)) for path in WRITTEN if told.search(path.read_text())] == []
