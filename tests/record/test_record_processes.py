"""Recording from threads, forked processes, helpers, and outside of a run."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from pythons import VERSIONS, call, python_of, recorded, said

import muster

RECORD = str(Path(muster.__file__).parent)  # where `import record` finds the module without any package around it


def test_outside_of_a_run_everything_works_and_nothing_is_written(tmp_path: Path) -> None:
    script = f"""
        import os
        os.chdir({str(tmp_path)!r})
        from muster import record
        assert not record.active
        record.metric("accuracy", 0.5)
        with record.phase("dataload"):
            record.start("eval")
            record.end("eval")
        with record.timer(32) as timer:
            timer.step()
        timer = record.timer(32)
        timer.step()
        timer.step()
    """
    assert said(script) == ""
    assert list(tmp_path.iterdir()) == []


THREADS = """
    import os, threading
    from muster import record

    def work(name):
        for step in range(200):
            record.metric(name * 50, step, step=step)

    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            work("child%d" % number)
            os._exit(0)
        children.append(child)
    threads = [threading.Thread(target=work, args=("thread%d" % number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    work("main")
"""


def test_threads_and_forked_processes_never_mix_their_lines(tmp_path: Path) -> None:
    said(THREADS, MUSTER_RESULTS=str(tmp_path), MUSTER_RANK="0")
    lines = recorded(tmp_path)
    names = [f"{kind}{number}" for kind in ("child", "thread") for number in range(3)] + ["main"]
    assert Counter(line["name"] for line in lines) == {name * 50: 200 for name in names}
    for name in names:
        assert [line["step"] for line in lines if line["name"] == name * 50] == list(range(200))


def test_no_descriptor_is_held(tmp_path: Path) -> None:
    script = """
        import os
        from muster import record
        before = os.listdir("/proc/self/fd")
        record.metric("loss", 1)
        timer = record.timer(1)
        timer.step()
        timer.step()
        assert os.listdir("/proc/self/fd") == before
    """
    said(script, MUSTER_RESULTS=str(tmp_path))


FORGOTTEN = """
    import os, sys
    from muster import record
    timer = record.timer(32, warmup=1)
    for _ in range(5):
        timer.step()
    child = os.fork()
    if child == 0:
        sys.exit()  # runs what was to be run at the end of the program
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_a_timer_that_was_forgotten_tells_at_the_end_and_only_in_its_own_process(version: str, tmp_path: Path) -> None:
    script = FORGOTTEN.replace("from muster import record", "import record")
    said(script, python=python_of(version), PYTHONPATH=RECORD, MUSTER_RESULTS=str(tmp_path))
    finals = [line for line in recorded(tmp_path) if line.get("final")]
    assert [line["spread"]["steps"] for line in finals] == [4]


def test_a_number_that_cannot_be_written_does_not_end_the_training(tmp_path: Path) -> None:
    script = "from muster import record; record.metric('a', 1); record.metric('b', 2); print('trained')"
    done = call(script, MUSTER_RESULTS=str(tmp_path / "missing"))
    assert (done.returncode, done.stdout) == (0, "trained\n")
    path = tmp_path / "missing/record-0.jsonl"
    assert done.stderr == (
        f"muster.record: the records of this rank cannot be written: [Errno 2] No such file or directory: '{path}'\n"
    )


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "record-0.jsonl").symlink_to("/dev/full")
    done = call("from muster import record; record.metric('a', 1)", MUSTER_RESULTS=str(tmp_path))
    assert (done.returncode, "No space left on device" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"MUSTER_RANK": "3"}, 3),
        ({"MUSTER_RANK": "0", "RANK": "4"}, 4),
        ({"MUSTER_RANK": "0", "RANK": "-1"}, 0),
        ({"MUSTER_RANK": "0", "RANK": "1", "PMI_RANK": "5"}, 5),
        ({"MUSTER_RANK": "-1", "PMI_RANK": "1", "OMPI_COMM_WORLD_RANK": "6"}, 6),
        ({"MUSTER_RANK": "-1", "OMPI_COMM_WORLD_RANK": "1", "HOROVOD_RANK": "7"}, 7),
        ({}, 0),
    ],
)
def test_the_rank_is_the_one_that_the_launcher_gave(variables: dict[str, str], rank: int, tmp_path: Path) -> None:
    said("from muster import record; record.metric('a', 1)", MUSTER_RESULTS=str(tmp_path), **variables)
    assert os.listdir(tmp_path) == [f"record-{rank}.jsonl"]
    assert recorded(tmp_path, rank)[0]["rank"] == rank


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        ({"MUSTER_RANK": "0", "RANK": "1", "WORLD_SIZE": "8"}, 8),
        ({"MUSTER_RANK": "0", "WORLD_SIZE": "8", "HOROVOD_RANK": "1", "HOROVOD_SIZE": "4"}, 4),
        ({"MUSTER_RANK": "0", "RANK": "1"}, None),
        ({"MUSTER_RANK": "0", "MUSTER_WORLD_SIZE": "2", "WORLD_SIZE": "8"}, None),  # a program that reaches the others itself
    ],
)
def test_the_count_of_ranks_is_the_one_that_the_launcher_gave(
    variables: dict[str, str], ranks: int | None, tmp_path: Path
) -> None:
    said("from muster import record; record.metric('a', 1)", MUSTER_RESULTS=str(tmp_path), **variables)
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["ranks"] == ranks


def test_a_helper_is_no_rank(tmp_path: Path) -> None:
    said("from muster import record; record.metric('a', 1)", MUSTER_RESULTS=str(tmp_path), MUSTER_RANK="-1")
    assert os.listdir(tmp_path) == []
