"""What documents and messages tell people to type."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from muster.cli.main import cli

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


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_commands_for_many_users_are_as_they_are_written(page: str) -> None:
    blocks = (ROOT / page).read_text(encoding="utf-8").split("```")
    [block] = [block for block in blocks if block.startswith("bash\nmuster serve ")]
    lines = [line.partition("#")[0] for line in block.splitlines()[1:]]
    assert len(lines) == 3, "from nothing to a job of a second user"
    for text in " && ".join(lines).split("&&"):
        _, *words = shlex.split(text)
        found: click.Command = cli
        while isinstance(found, click.Group) and words:
            command = found.get_command(click.Context(found), words.pop(0))
            assert command is not None, text
            found = command
        found.make_context(str(found.name), words)  # raises for words that it does not take
