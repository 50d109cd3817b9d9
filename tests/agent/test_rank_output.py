"""What a process writes goes straight into a log of its own: at once, whole, and byte for byte."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import WriteJob, until

RunJson = Callable[..., dict[str, Any]]


def test_what_python_prints_is_in_the_log_at_once(containment: str, command: list[str], write_job: WriteJob) -> None:
    job = write_job(
        {"per": "device", "devices": 2},
        **{"train.py": "import signal, sys\nprint('half a line', end='')\nsys.stderr.write('!')\nsignal.pause()\n"},
    )
    with Live(command, job) as live:
        until(lambda: [live.log(rank) for rank in (0, 1)] == ["half a line!"] * 2)
        live.interrupt()
        live.end()


def test_both_outputs_keep_their_order_in_one_file(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "for i in $(seq 500); do echo out $i; echo err $i >&2; done"}))
    expected = "".join(f"out {number}\nerr {number}\n" for number in range(1, 501))
    assert Path(view["attempts"][0]["ranks"][0]["log"]).read_text() == expected


@pytest.mark.long
def test_a_burst_of_100_mb_and_every_byte_value_arrive_whole(
    containment: str, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    job = write_job(
        {"per": "device", "devices": 2},
        **{
            "train.py": """
            import hashlib, os, sys
            block = bytes(range(256)) * 4096
            digest = hashlib.sha256()
            for number in range(100 if os.environ["MUSTER_RANK"] == "0" else 1):
                data = number.to_bytes(4, "big") + block
                os.write(1 + number % 2, data)
                digest.update(data)
            with open(os.path.join(os.environ["MUSTER_SHARED"], os.environ["MUSTER_RANK"]), "w") as file:
                file.write(digest.hexdigest())
            """
        },
    )
    view = run_json(job)
    assert view["state"] == "succeeded", view["reason"]
    for rank in view["attempts"][0]["ranks"]:
        with open(rank["log"], "rb") as log:
            digest = hashlib.file_digest(log, "sha256").hexdigest()
        assert digest == Path(view["dir"], "shared", str(rank["rank"])).read_text()
    assert os.path.getsize(view["attempts"][0]["ranks"][0]["log"]) == 100 * (4 + (1 << 20))


def test_the_child_of_a_finished_rank_writes_on_until_the_gang_is_done(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    command = """
    if [ $MUSTER_RANK = 0 ]; then
        (sleep 0.2; echo late; touch $MUSTER_SHARED/late) & echo early; exit 0
    fi
    until [ -e $MUSTER_SHARED/late ]; do sleep 0.01; done
    """
    view = run_json(write_job({"command": command, "per": "device", "devices": 2}))
    assert view["state"] == "succeeded", view["reason"]
    assert Path(view["attempts"][0]["ranks"][0]["log"]).read_text() == "early\nlate\n"


def test_a_rank_reads_nothing_and_has_no_terminal(run_json: RunJson, write_job: WriteJob) -> None:
    probe = (
        "cat | wc -c; test -t 0 || echo no terminal; (exec < /dev/tty) 2> /dev/null || echo none to be had; ls /proc/self/fd"
    )
    view = run_json(write_job({"command": probe}))
    assert Path(view["attempts"][0]["ranks"][0]["log"]).read_text() == "0\nno terminal\nnone to be had\n0\n1\n2\n3\n"
