"""Results of ranks on hosts: they come whole, however large, and what does not come is told."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import Muster, WriteJob, until
from host_machines import Machines
from muster.channel.stream.names import LARGEST

MIB = 1 << 20
WRITES = f"""
import hashlib, os
digest = hashlib.sha256()
with open(os.environ["MUSTER_RESULTS"] + "/model.bin", "wb") as file:
    for number in range(int(os.environ["MIB"])):
        piece = hashlib.sha256(b"%d" % number).digest() * ({MIB} // 32)
        digest.update(piece)
        file.write(piece)
print("digest", digest.hexdigest(), flush=True)
"""


def assert_whole(folder: Path, log: str, mib: int) -> None:
    """The result is here as it was written, and nothing else."""
    model = folder / "model.bin"
    assert model.stat().st_size == mib * MIB
    assert f"digest {hashlib.sha256(model.read_bytes()).hexdigest()}\n" in log
    assert [path.name for path in folder.iterdir()] == ["model.bin"]


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
def test_a_large_result_comes_whole(run_json: Callable[..., dict[str, Any]], write_job: WriteJob) -> None:
    view = run_json(write_job({"env": {"MIB": "80"}}, **{"train.py": WRITES}))
    assert view["state"] == "succeeded", view["reason"]
    assert view["warnings"] == []
    [node], [rank] = view["attempts"][0]["nodes"], view["attempts"][0]["ranks"]
    assert_whole(Path(node["dir"], "results"), Path(rank["log"]).read_text(), 80)


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
def test_a_result_that_is_too_large_is_named_where_people_look(muster: Muster, write_job: WriteJob, home: Path) -> None:
    train = f"""
    import os
    huge = os.environ["MUSTER_RESULTS"] + "/huge"
    with open(huge + ".tmp", "wb") as file:
        file.truncate({LARGEST} + 1)
    os.rename(huge + ".tmp", huge + ".bin")
    open(os.environ["MUSTER_RESULTS"] + "/small.txt", "w").write("here")
    """
    ran = muster("run", write_job({}, **{"train.py": train}))
    assert ran.returncode == 0, ran.stderr
    [left] = home.parent.glob("hosts/nodes/0/runs/*/attempts/1/nodes/0")
    assert (left / "results/huge.bin").exists(), "what did not come stays on the host"
    said = f"not all that node 0 wrote is here: results/huge.bin (it is larger than 16G); the rest is in h1:{left}, for 14 days"
    assert f"warning: {said}\n" in ran.stderr
    assert f"warning: {said}\n" in muster("show", "last").stdout
    shown = json.loads(muster("show", "last", "--json").stdout)
    assert shown["warnings"] == [said]
    assert os.listdir(Path(shown["attempts"][0]["nodes"][0]["dir"], "results")) == ["small.txt"]


@pytest.mark.long
def test_a_large_result_comes_whole_although_the_connection_breaks(
    machines: Machines, home: Path, command: list[str], write_job: WriteJob
) -> None:
    home.mkdir()
    (home / "config.toml").write_text('engine = "ssh"\n[hosts.lab]\nnodes = ["h1"]\n')
    with Live(command, write_job({"python": "python3", "env": {"MIB": "300"}}, **{"train.py": WRITES})) as live:
        results = Path(live.run.attempt(1).node(0).results)
        until(lambda: any(path.stat().st_size > 20 * MIB for path in results.glob("*.tmp")))
        machines.break_connections("h1")
        assert live.end()["state"] == "succeeded"
        assert "link-broken" in Path(live.run.events).read_text()
        assert_whole(results, live.log(), 300)
