"""Opening connections to hosts: with the keys of the user's own agent, and all hosts at the same time, but not too many."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, until
from host_machines import Machines
from muster.engines.ssh.node import ssh_options
from muster.engines.ssh.node.connection import Host, explained
from muster.engines.ssh.node.site import CONNECTING

RunJson = Callable[..., dict[str, Any]]


@pytest.fixture
def agent(machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent that has the key, which is nowhere else."""
    socket, key = tmp_path / "agent", machines.folder / "key"
    hidden, config = key.rename(key.with_name("hidden")), machines.folder / "ssh_config"
    before = config.read_text()
    config.write_text("".join(line for line in before.splitlines(True) if "Identit" not in line))
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL) as process:
        until(socket.exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", str(hidden)], check=True)
        yield
        process.terminate()
    config.write_text(before)
    hidden.rename(key)


@pytest.mark.long
def test_a_key_of_the_agent_opens_connections_and_is_not_lent_to_the_hosts(
    machines: Machines, agent: None, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2")
    view = run_json(write_job({"nodes": 2, "command": "echo agent: $SSH_AUTH_SOCK"}))
    assert view["state"] == "succeeded", view["reason"]
    for rank in view["attempts"][0]["ranks"]:
        assert Path(rank["log"]).read_text() == "agent:\n"


@pytest.mark.long
@pytest.mark.parametrize("shell", ["tcsh", "fish"])
def test_a_host_whose_user_has_another_shell(
    shell: str, machines: Machines, on_hosts: Callable[..., None], muster: Muster, run_json: RunJson, write_job: WriteJob
) -> None:
    if not (path := shutil.which(shell)):
        assert not os.environ.get("CI"), f"CI has {shell}"
        pytest.skip(f"there is no {shell}; `make hosts` installs it")
    users = machines.home("h1") / "passwd"
    before = users.read_text()
    users.write_text(before.replace("/root/trainer:/bin/sh", f"/root/trainer:{path}"))
    try:
        on_hosts("trainer@h1")
        assert muster("doctor", "--hosts", "lab").returncode == 0
        view = run_json(write_job({"python": "python3"}, **{"train.py": "import os; print(os.environ['SHELL'])"}))
    finally:
        users.write_text(before)
    assert view["state"] == "succeeded", view["reason"]
    assert Path(view["attempts"][0]["ranks"][0]["log"]).read_text() == f"{path}\n"


OF_PEOPLE = """
Host h1
  RemoteCommand tmux new -A -s main
  RequestTTY force
  StdinNull yes
Host h2
  ForkAfterAuthentication yes
  SessionType none
"""


@pytest.mark.long
def test_a_configuration_that_is_for_people_does_not_disturb_runs(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2")
    with machines.configured(OF_PEOPLE):
        view = run_json(write_job({"nodes": 2, "command": "echo here"}))
    assert view["state"] == "succeeded", view["reason"]


@pytest.mark.parametrize(
    ("says", "later"),
    [
        ("OpenSSH_7.4p1, OpenSSL 1.0.2k-fips", set()),
        ("OpenSSH_8.0p1, OpenSSL 1.1.1k", {"RemoteCommand"}),
        ("OpenSSH_for_Windows_9.5p1", {"RemoteCommand", "StdinNull", "ForkAfterAuthentication", "SessionType"}),
        ("another program", set()),
    ],
)
def test_ssh_is_given_the_options_that_it_knows(
    says: str, later: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert set(ssh_options.chosen()) - set(ssh_options.OPTIONS) == later


# Stands for ssh: a connection is open until as many are as may be, or nothing new came for a while.
COUNTING = """#!{python}
import os, sys, time
if sys.argv[1:] == ["-V"]:
    sys.exit("OpenSSH_9.2p1")
folder = {folder!r}
open(f"{{folder}}/{{os.getpid()}}", "w").close()
most, since = 0, time.monotonic()
while time.monotonic() < since + 2:
    count = len(os.listdir(folder))
    if count > most:
        most, since = count, time.monotonic()
    time.sleep(0.01)
with open({seen!r}, "a") as file:
    file.write(f"{{most}}\\n")
os.unlink(f"{{folder}}/{{os.getpid()}}")
sys.exit("Permission denied (publickey)")
"""


def test_connections_are_opened_at_the_same_time_but_not_too_many(
    run_json: RunJson, write_job: WriteJob, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    program, seen = tmp_path / "bin/ssh", tmp_path / "seen"
    program.parent.mkdir()
    program.write_text(COUNTING.format(python=sys.executable, folder=str(tmp_path / "open"), seen=str(seen)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    home.mkdir()
    count = CONNECTING + 8
    (home / "config.toml").write_text(f'engine = "ssh"\n[hosts.many]\nnodes = ["n[1-{count}]"]\n')
    view = run_json(write_job({"command": "true", "nodes": count, "device": "cpu"}))
    assert "does not accept your key" in view["reason"]
    assert max(map(int, seen.read_text().split())) == CONNECTING


@pytest.fixture
def crowded(machines: Machines) -> Iterator[list[str]]:
    """Many names of h1, whose sshd takes few new connections at a time, by the rule of its defaults."""
    config, log = machines.home("h1") / "sshd_config", machines.home("h1") / "sshd.log"
    before = config.read_text()

    def restart(text: str) -> None:
        config.write_text(text)
        listening = log.read_text().count("Server listening")
        machines.kill_sshd("h1")
        until(lambda: log.read_text().count("Server listening") > listening)

    restart(before.replace("MaxStartups 200", "MaxStartups 1:80:6"))
    names = f"Host n*\n  HostName {machines.address('h1')}\n  HostKeyAlias h1\n"
    with machines.configured(names):
        yield [f"n{number}" for number in range(1, 13)]
    restart(before)


@pytest.mark.long
def test_a_host_that_takes_few_connections_at_a_time_is_asked_again(
    machines: Machines,
    crowded: list[str],
    on_hosts: Callable[..., None],
    muster: Muster,
    run_json: RunJson,
    write_job: WriteJob,
) -> None:
    on_hosts(*crowded)
    done = muster("doctor", "--hosts", "lab", "--timeout", "100s", timeout=110)
    assert f"{len(crowded)} of {len(crowded)} hosts can run jobs" in done.stdout, done.stdout
    assert "drop connection" in (machines.home("h1") / "sshd.log").read_text()
    view = run_json(write_job({"command": "true", "nodes": len(crowded)}))
    assert view["state"] == "succeeded", view["reason"]


@pytest.mark.parametrize(
    "said",
    [
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.0.0.1 port 22",
        "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 10.0.0.1 port 22",
    ],
)
def test_a_host_that_takes_no_more_connections_says_which_setting_that_is(said: str) -> None:
    found = explained(Host("h1"), said, 255)
    assert "MaxStartups" in str(found)
    assert (found.lasting, found.crowded) == (False, True)
