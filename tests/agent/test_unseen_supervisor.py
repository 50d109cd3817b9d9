"""A run whose supervisor cannot be seen from here, as from another host or PID namespace, is not taken for lost."""

from __future__ import annotations

import sys

from live import Live

from conftest import Muster, WriteJob
from muster.engines.local.engine import Local

LOOK = f"'{sys.executable}' -m muster ps"


def test_a_rank_can_look_at_its_own_run(containment: str, muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": f"{LOOK}; echo fin"}))
    assert done.returncode == 0, done.stderr
    assert "[0] fin" in done.stdout
    assert " running " in done.stdout


def test_a_command_beside_a_rank_can_look(containment: str, command: list[str], muster: Muster, write_job: WriteJob) -> None:
    with Live(command, write_job({"command": "echo up; sleep 1000"})) as live:
        live.until_running()
        seen = muster("exec", live.run.id, "--", *LOOK.replace("'", "").split()).stdout
        assert " running " in seen
        assert live.state == "running"
        muster("stop", live.run.id, "--now")


def test_a_run_of_another_machine_is_left_alone() -> None:
    elsewhere = "1:1:00000000:1:another-machine"
    status = Local("/nowhere").status([elsewhere])[elsewhere]
    assert status.alive
    assert "another-machine" in status.reason
