"""The files in deploy/ fit the command that they start."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from muster.cli.serve_command import command

DEPLOY = Path(__file__).parents[2] / "deploy"


def parses(words: list[str]) -> bool:
    """True if `muster` takes these words; nothing is started."""
    assert words[0] == "serve"
    return command.make_context("serve", words[1:]).params["host"] is not None


def unit() -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "muster.service")
    return parser["Service"]


def test_the_unit_starts_the_server_and_ends_it_alone() -> None:
    program, *words = shlex.split(unit()["ExecStart"])
    assert program.endswith("/muster") and parses(words)
    assert unit()["KillMode"] == "process"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "muster.service").read_text()
    copy = tmp_path / "muster.service"
    copy.write_text(text.replace(shlex.split(unit()["ExecStart"])[0], "/bin/true").replace("User=muster\n", ""))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert "muster.service" not in done.stderr, done.stderr


def test_the_compose_file_starts_the_server_with_a_database() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    words = [
        word.replace("${MUSTER_URL:-http://localhost:9530}", "http://localhost:9530") for word in services["server"]["command"]
    ]
    assert parses(words)
    assert services["server"]["environment"]["MUSTER_DATABASE"].startswith("postgresql://")
    assert (DEPLOY.parent / services["server"]["build"]["dockerfile"]).is_file()
