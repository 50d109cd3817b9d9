"""The files in deploy/ fit the command that they start."""

from __future__ import annotations

import configparser
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from run_client import run_client

from conftest import until
from muster.cli.serve_command import command
from muster.server.runs.pools.pool import Pools
from muster_server import ServeMuster

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


def test_a_run_that_is_out_of_memory_or_has_many_processes_does_not_end_the_server_with_it() -> None:
    service = unit()
    assert service["OOMPolicy"] == "continue"  # by default systemd stops a unit of which the kernel has killed a process
    assert service["ManagedOOMPreference"] == "omit"  # systemd-oomd kills all of a unit at once
    assert service["TasksMax"] == "infinity"  # by default all runs together have 15 % of the machine's pids


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "muster.service").read_text()
    copy = tmp_path / "muster.service"
    copy.write_text(text.replace(shlex.split(unit()["ExecStart"])[0], "/bin/true").replace("User=muster\n", ""))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert "muster.service" not in done.stderr, done.stderr


def test_stopping_the_main_process_as_the_unit_does_ends_no_run(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        run = client.submit("command: echo one; until [ -e go ]; do sleep 0.1; done; echo two")
        until(lambda: client.get(run)["state"] == "running")
        supervisor = int(client.get(run)["handle"].split(":")[0])
        assert server.kill(signal.SIGTERM) == 0  # KillMode=process: the main process alone gets it
        assert Path(f"/proc/{supervisor}").exists()
        server.start()
        assert client.get(run)["state"] == "running"
        [work] = server.data.glob(f"homes/*/*/runs/{run}/attempts/1/nodes/0/work")
        (work / "go").touch()
        assert client.wait(run)["state"] == "succeeded"
        assert (client.log(run), len(client.get(run)["attempts"])) == ("one\ntwo\n", 1)


def test_the_pools_of_the_compose_file_outlive_its_container(tmp_path: Path) -> None:
    server = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["server"]
    assert "./config.toml:/data/server/config.toml:ro" in server["volumes"]
    assert (server["pid"], server["hostname"]) == ("host", "muster")  # by which a new container knows old supervisors
    shutil.copy(DEPLOY / "config.toml", tmp_path)
    assert {pool.settings.engine for pool in Pools(tmp_path).all.values()} == {"ssh"}


def test_the_compose_file_starts_the_server_with_a_database() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    words = [
        word.replace("${MUSTER_URL:-http://localhost:9530}", "http://localhost:9530") for word in services["server"]["command"]
    ]
    assert parses(words)
    assert services["server"]["environment"]["MUSTER_DATABASE"].startswith("postgresql://")
    assert (DEPLOY.parent / services["server"]["build"]["dockerfile"]).is_file()


def test_the_image_has_neither_keys_nor_passwords() -> None:
    left_out = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    assert {"deploy/.env", "deploy/ssh", ".git", ".venv"} <= set(left_out)
