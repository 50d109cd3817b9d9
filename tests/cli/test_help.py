"""Help, suggestions and what starting the command line costs."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys

import click
import jsonschema
import pytest

from conftest import Muster, WriteJob
from muster.cli import output
from muster.cli.main import COMMANDS

HEAVY = (
    "yaml",
    "rich",
    "pydantic",
    "json",
    "subprocess",
    "socket",
    "muster.job",
    "muster.records",
    "muster.launch",
    "muster.agent",
)
LATER = ("zipfile", "muster.launch.reconcile", "muster.launch.follow", "muster.metrics", "muster.records.ranks")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--version"], []])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    assert _imported(HEAVY, words) == "[]"


def test_checking_a_job_imports_nothing_that_only_a_running_one_needs(write_job: WriteJob) -> None:
    assert _imported(LATER, ["run", str(write_job({"command": "true"})), "--check"]) == "[]"


def test_a_run_of_this_machine_imports_no_client_of_servers(write_job: WriteJob) -> None:
    of_servers = ("httpx", "muster.client", "muster.cli.remote", "muster.tester")
    assert _imported(of_servers, ["run", str(write_job({"command": "true"}))]) == "[]"


def _imported(names: tuple[str, ...], words: list[str]) -> str:
    """Returns which modules a command line has imported when it ends."""
    script = f"""
import sys
sys.argv = ["muster", *{words!r}]
from muster.cli.main import main
try:
    main()
except SystemExit:
    pass
print([name for name in {names!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return done.stderr.splitlines()[-1]


def test_help_lists_every_command_with_what_it_does(muster: Muster) -> None:
    text = muster("--help").stdout
    assert muster("-h").stdout == text
    for name, (english, _) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(english)}$", text, re.MULTILINE)


TALKING = ("ssh", "connect")  # what these print is what somebody else says


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example_and_all_options_explained(muster: Muster, name: str) -> None:
    text = muster(name, "--help").stdout
    assert re.search(rf"Examples?:\n +muster {name}", text)
    assert "--json" in text or name in TALKING
    assert all(len(line) <= 80 for line in text.split("Options:")[1].splitlines())
    found: click.Command = importlib.import_module(f"muster.cli.{name.replace('-', '_')}_command").command
    assert all(option.help for option in found.params if isinstance(option, click.Option))


def test_help_is_chinese_for_those_who_read_it(muster: Muster) -> None:
    unset = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": ""}
    for variable in unset:
        text = muster("--help", **{**unset, variable: "zh_CN.UTF-8"}).stdout
        for name, (english, chinese) in COMMANDS.items():
            assert re.search(rf"^  {name} +{re.escape(chinese)}$", text, re.MULTILINE)
            assert english not in text
    assert "List runs." in muster("--help", **{**unset, "LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}).stdout


@pytest.mark.parametrize(("wrong", "meant"), [("rn", "run"), ("log", "logs"), ("doktor", "doctor"), ("psx", "ps")])
def test_an_unknown_command_gets_a_suggestion(muster: Muster, wrong: str, meant: str) -> None:
    done = muster(wrong, "job.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`{wrong}` is not a command; did you mean `{meant}`?" in done.stderr


def test_an_unknown_command_like_none_points_to_the_list(muster: Muster) -> None:
    assert "`muster --help` lists the commands" in muster("frobnicate").stderr


@pytest.mark.parametrize("words", [["run", "--detatch"], ["logs"], ["show", "a", "b"], ["ps", "--state", "x"], ["--nothing"]])
def test_wrong_words_exit_with_2_and_no_traceback(muster: Muster, words: list[str]) -> None:
    done = muster(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


def test_the_schema_accepts_what_runs_and_refuses_what_does_not(muster: Muster) -> None:
    schema = json.loads(muster("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"command": "true", "nodes": 2, "device": "cpu"}, schema)
    for wrong in ({"command": "true", "nodes": 0}, {"command": "true", "devises": 2}, {"command": "true", "device": "gpu"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_an_unforeseen_error_is_told_in_one_line_and_shown_with_debug(muster: Muster, write_job: WriteJob) -> None:
    """Nobody can make a home there."""
    job = write_job({"command": "true"})
    done = muster("run", job, MUSTER_HOME="/proc/nowhere")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "MUSTER_HOME" in done.stderr
    assert "Traceback" in muster("--debug", "run", job, MUSTER_HOME="/proc/nowhere").stderr


def test_who_wants_no_colours_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.state_word("failed") != "failed"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.state_word("failed") == "failed"
