"""Users without rights on either side: the one who submits here, and the one who trains on the hosts."""

from __future__ import annotations

import json
import os
import re
import tarfile
from pathlib import Path

import pytest
from submitter import HOME, UID, Submitter

from host_machines import UID as TRAINER
from host_machines import Machines
from tester_server import Served

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs/ssh-hosts.md"
TRAIN = """
import os, socket
from muster import record

timer = record.timer(samples_per_step=8, warmup=0)
for step in range(3):
    timer.step()
timer.done()
record.metric("accuracy", 0.75)
print(socket.gethostname(), os.path.expanduser("~"), flush=True)
"""


@pytest.fixture
def submitter(machines: Machines, tmp_path: Path) -> Submitter:
    return Submitter(machines, tmp_path / "user")


def ten_lines() -> str:
    """The commands of the page, for the hosts of the tests."""
    section = PAGE.read_text().partition("## From two servers to a measured, signed result")[2]
    found = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert found
    assert len(found[1].splitlines()) == 10
    return found[1].replace("train@node", "trainer@h")


def test_a_user_without_rights_runs_a_job_as_another_one_on_the_hosts(submitter: Submitter, machines: Machines) -> None:
    command = "muster run --engine ssh --hosts trainer@h1,trainer@h2 --device cpu --json -- sh -c 'hostname; echo $HOME; pwd'"
    done = submitter.bash(command)
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(done.stdout)["run"]
    folder = submitter.home / ".muster/runs" / run
    assert {path.lstat().st_uid for path in folder.rglob("*")} == {UID}
    for node in (0, 1):
        name, home, place = (folder / f"attempts/1/nodes/{node}/logs/rank-{node}.log").read_text().split()
        assert (name, home) == (f"h{node + 1}", "/root/trainer")
        assert place.startswith("/root/trainer/.muster/")
        assert (machines.home(name) / "trainer/.muster").stat().st_uid == TRAINER


def test_ten_lines_lead_to_a_measured_and_signed_result(submitter: Submitter, machines: Machines, tester: Served) -> None:
    (submitter.home / "train.py").write_text(TRAIN)
    submitter.own()
    done = submitter.bash(ten_lines())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"signed with {HOME}/.ssh/id_ed25519" in done.stderr
    assert "✓ verified" in done.stdout
    with tarfile.open(submitter.home / "result.tar.gz") as bundle:
        names = bundle.getnames()
    assert any(name.endswith("manifest.json.sig") for name in names)
    assert os.stat(submitter.home / "result.tar.gz").st_uid == UID
    trusting = (
        'echo "ada $(cat ~/.ssh/id_ed25519.pub)" > signers; muster verify result.tar.gz --signers signers --signed --json'
    )
    verified = json.loads(submitter.bash(trusting).stdout)
    assert (verified["passed"], verified["signature"], verified["signed_by"]) == (True, "good", "ada")
    [run] = verified["result"]["runs"]
    assert len(run["metrics"]["throughput"]["ranks"]) == 16
    sent = submitter.bash(f"muster tester send result.tar.gz --tester {tester.url}", MUSTER_TESTER_TOKEN=tester.token())
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert "accepted" in sent.stdout
