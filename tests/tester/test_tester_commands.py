"""`muster tester plan`, the help of all commands, and the written protocol."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from conftest import Muster
from muster.cli.tester_command import command
from muster.server.results.web.app import protocol

PLAN = {
    "test_id": "20210126-ljp0IY",
    "model": "resnet50_v1.5",
    "mode": "training",
    "division": "close",
    "scenario": "generic",
    "object_type": "single",
}


def test_plans_come_and_go(muster: Muster) -> None:
    made = muster("tester", "plan", "add", "20210126-ljp0IY", "--model", "resnet50_v1.5")
    assert (made.returncode, made.stdout) == (0, "20210126-ljp0IY\n")
    assert json.loads(muster("tester", "plan", "show", "20210126-ljp0IY", "--json").stdout) == PLAN
    assert "resnet50_v1.5" in muster("tester", "plan", "show", "20210126-ljp0IY").stdout
    again = muster("tester", "plan", "add", "20210126-ljp0IY", "--model", "bert")
    assert (again.returncode, "already" in again.stderr) == (2, True)
    new = muster("tester", "plan", "add", "--model", "bert", "--mode", "inference", "--division", "open").stdout.strip()
    assert re.fullmatch(r"20[0-9]{6}-[A-Za-z0-9]{6}", new)
    listed = json.loads(muster("tester", "plan", "list", "--json").stdout)
    assert [plan["model"] for plan in listed] == ["bert", "resnet50_v1.5"]
    assert muster("tester", "plan", "rm", new).returncode == 0
    assert muster("tester", "plan", "rm", new).returncode == 2
    assert "resnet50_v1.5" in muster("tester", "plan", "list").stdout


@pytest.mark.parametrize(("test_id", "model"), [("../x", "m"), ("x", "a b"), ("x", ""), ("x" * 65, "m")])
def test_a_plan_has_names_that_fit_everywhere(muster: Muster, test_id: str, model: str) -> None:
    done = muster("tester", "plan", "add", test_id, "--model", model)
    assert (done.returncode, "letters, digits" in done.stderr) == (2, True)


def test_every_command_below_has_an_example_and_json() -> None:
    def below(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
        found = []
        for name, inner in group.commands.items():
            found += below(inner, f"{path} {name}") if isinstance(inner, click.Group) else [(f"{path} {name}", inner)]
        return found

    assert isinstance(command, click.Group)
    commands = below(command, "muster tester")
    assert len(commands) == 10
    for path, one in commands:
        assert f"  {path}" in (one.help or ""), path
        assert "--json" in [option for parameter in one.params for option in parameter.opts], path
        assert all(option.help for option in one.params if isinstance(option, click.Option)), path


def test_the_written_protocol_is_the_one_that_is_served() -> None:
    """`make docs` writes it."""
    written = Path(__file__).parents[2] / "docs" / "tester-openapi.json"
    assert written.read_text(encoding="utf-8") == protocol()


def test_the_port_is_that_of_aisbench(muster: Muster) -> None:
    assert "[default: 9527;" in " ".join(muster("tester", "serve", "--help").stdout.split())


WITHOUT_EXTRA = """
import sys
for name in ("alembic", "argon2", "cryptography", "fastapi", "sqlalchemy", "starlette", "uvicorn"):
    sys.modules[name] = None
from muster.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [(["outbox"], 0, "nothing waits"), (["send", "--help"], 0, "Usage"), (["token", "list"], 2, "the server needs alembic")],
)
def test_who_only_sends_needs_no_packages_of_the_server(words: list[str], code: int, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA, "tester", *words], capture_output=True, text=True)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stderr
