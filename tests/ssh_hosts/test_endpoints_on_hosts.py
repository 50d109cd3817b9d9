"""Endpoints on real hosts: connections to ports of their loopback, carried over one ssh connection for each host."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import Muster, WriteJob, until
from host_machines import Machines

pytestmark = pytest.mark.long

SERVES = "cd $MUSTER_RESULTS && echo on rank $MUSTER_RANK > who && head -c 3000000 /dev/zero > large"
JOB = {
    "command": f"{SERVES} && exec python3 -m http.server --bind 127.0.0.1 8123",
    "nodes": 2,
    "grace": "1s",
    "login": True,
    "endpoints": {"first": 8123, "second": {"port": 8123, "node": 1}},
}


@pytest.fixture
def run(machines: Machines, home: Path, command: list[str], write_job: WriteJob, muster: Muster) -> str:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text('engine = "ssh"\n[hosts.lab]\nnodes = ["h1", "h2"]\n')
    assert muster("run", write_job(JOB), "--detach").returncode == 0

    def states() -> list[str]:
        return [entry["state"] for entry in json.loads(muster("endpoints", "last", "--json").stdout)["endpoints"]]

    until(lambda: states() == ["ready"] * 3, 90)
    return "last"


def test_services_logins_and_ports_of_hosts_are_reached(run: str, muster: Muster, command: list[str], home: Path) -> None:
    for name, who in (("first", b"on rank 0\n"), ("second", b"on rank 1\n")):
        words = [*command, "connect", run, "--endpoint", name]
        request = b"GET /who HTTP/1.0\r\n\r\n"
        done = subprocess.run(words, input=request, capture_output=True, timeout=60)
        assert done.stdout.endswith(who), done
    words = [*command, "connect", run, "--port", "8123", "--rank", "1", "--listen", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as connecting:
        assert connecting.stdout
        address = connecting.stdout.readline().strip()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: len(urllib.request.urlopen(address + "large").read()), range(16)))
        assert found == [3000000] * 16
        connecting.terminate()
    config = muster("ssh", run, "--config")
    assert config.returncode == 0, config.stderr
    (home / "ssh_config").write_text(config.stdout.replace("muster connect", " ".join([*command, "connect"])))
    name = config.stdout.split()[1]
    login = subprocess.run(
        ["ssh", "-F", home / "ssh_config", name, "echo $MUSTER_RUN; hostname"], capture_output=True, text=True, timeout=60
    )
    assert login.stdout.split() == [name, "h1"], login
    assert muster("connect", run, "--port", "8124").stdout == "", "nothing listens there"
    muster("stop", run, "--now")
    refused = muster("connect", run, "--endpoint", "first")
    assert refused.returncode == 2 and "not running" in refused.stderr
