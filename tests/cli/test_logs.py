"""`muster logs`: every byte exactly once, of the process that was meant, also while it is written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
from going import background, going, log_of, says
from recorded import Recorded

from conftest import Muster, WriteJob, until
from forked_command import ForkedCommand

RunJson = Callable[..., dict[str, Any]]

# Binary pieces of odd lengths, at odd times; each byte tells where it stands.
PIECES = """
import os, sys, time
data = bytes(n * 31 % 251 for n in range(300_000))
at = 0
while at < len(data):
    size = 1 + at % 9973
    sys.stdout.buffer.write(data[at:at + size])
    sys.stdout.buffer.flush()
    at += size
    time.sleep(0.002)
"""
WRITTEN = bytes(n * 31 % 251 for n in range(300_000))


def shown(command: list[str], *words: object) -> bytes:
    return subprocess.run([*command, "logs", *map(str, words)], stdout=subprocess.PIPE, check=True).stdout


def read_some(stream: IO[bytes] | None, size: int) -> bytes:
    assert stream is not None
    found = b""
    while len(found) < size:
        piece = stream.read(size - len(found))
        assert piece, "the output ended too early"
        found += piece
    return found


Record = Callable[[dict[str, Any]], Recorded]


@pytest.fixture(scope="module")
def record(forked_command: ForkedCommand, tmp_path_factory: pytest.TempPathFactory) -> Record:
    return lambda fields: Recorded(forked_command, tmp_path_factory.mktemp("recorded"), fields)


@pytest.fixture(scope="module")
def recorded_attempts(record: Record) -> Recorded:
    return record({"command": "echo a$MUSTER_ATTEMPT; [ $MUSTER_ATTEMPT = 3 ]", "retries": 2})


@pytest.fixture(scope="module")
def recorded_gang(record: Record) -> Recorded:
    return record({"command": "seq 4", "per": "device", "nodes": 2, "devices": 2})


@pytest.fixture
def three_attempts(recorded_attempts: Recorded, home: Path) -> str:
    """A run whose rank 0 wrote `a1 a2 a3`, a line per attempt, in the end well."""
    return recorded_attempts.copied(home).name


@pytest.fixture
def gang(recorded_gang: Recorded, home: Path) -> str:
    """A run of two nodes with two ranks each, which counted to 4."""
    return recorded_gang.copied(home).name


@pytest.mark.long
def test_the_log_of_a_rank_or_process_is_shown_as_it_was_written(
    command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    text = r"printf 'rank %s\r\n\033[31m\xff\x00' $MUSTER_RANK"
    muster("run", write_job({"command": text, "per": "device", "devices": 2, "setup": "echo set up"}))
    assert shown(command, "last") == b"rank 0\r\n\x1b[31m\xff\0"
    assert shown(command, "last", "--rank", 1) == b"rank 1\r\n\x1b[31m\xff\0"
    assert shown(command, "last", "--process", "rank-1") == b"rank 1\r\n\x1b[31m\xff\0"
    assert shown(command, "last", "--process", "setup") == b"set up\n"


def test_all_logs_are_shown_with_their_ranks(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "echo one; echo two", "per": "device", "nodes": 2, "devices": 2}))
    lines = muster("logs", "last", "--all").stdout.splitlines()
    assert lines == [f"[{rank}] {word}" for rank in range(4) for word in ("one", "two")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rank", "4"], "has no rank 4; it has ranks 0 to 3"),
        (["--rank", "-1"], "has no rank -1; it has ranks 0 to 3"),
        (["--process", "shceduler"], "has no process `shceduler`; it has ranks 0 to 3"),
        (["--attempt", "2"], "has no attempt 2; it has attempt 1"),
        (["--attempt", "0", "--follow"], "has no attempt 0; it has attempt 1"),
        (["--rank", "1", "--all"], "exclude each other"),
        (["--from", "3", "--tail", "1"], "without --tail"),
        (["--from", "3", "--all"], "goes with one log"),
        (["--tail", "-1"], "-1"),
    ],
)
def test_what_a_run_does_not_have_is_refused_with_what_it_has(muster: Muster, gang: str, words: list[str], said: str) -> None:
    done = muster("logs", gang, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_rank_that_never_started_has_no_log(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"setup": "exit 1", "command": "true"}))
    done = muster("logs", "last")
    assert done.returncode == 2
    assert "has no log of `rank-0`: it was not started" in done.stderr


@pytest.mark.parametrize(("count", "expected"), [(0, ""), (1, "4\n"), (3, "2\n3\n4\n"), (99, "1\n2\n3\n4\n")])
def test_the_last_lines_alone(muster: Muster, gang: str, count: int, expected: str) -> None:
    assert muster("logs", gang, "--tail", count).stdout == expected


def test_reading_can_begin_anywhere(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "printf 0123456789"}))
    assert muster("logs", "last", "--from", 4).stdout == "456789"
    assert muster("logs", "last", "--from", 10).stdout == ""
    assert muster("logs", "last", "--from", 99).stdout == ""
    assert muster("logs", "last", "--follow", "--from", 7).stdout == "789"


def test_following_shows_every_byte_once_while_it_is_written_and_ends_by_itself(
    command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    """Two follow at once; both see the same."""
    run_id = muster("run", write_job({}, **{"train.py": PIECES}), "--detach").stdout.strip()
    words = [*command, "logs", run_id, "--follow"]
    with background(words) as one, background(words) as two:
        first, _ = one.communicate(timeout=60)
        second, _ = two.communicate(timeout=60)
    assert first == second == WRITTEN
    assert (one.returncode, two.returncode) == (0, 0)


@pytest.mark.long
def test_an_interrupted_follower_says_where_the_next_one_goes_on(
    command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    run_id = muster("run", write_job({}, **{"train.py": PIECES}), "--detach").stdout.strip()
    seen, start = b"", "0"
    for _ in range(3):
        with background([*command, "logs", run_id, "--follow", "--from", start]) as follower:
            seen += read_some(follower.stdout, 40_000)
            follower.send_signal(signal.SIGINT)
            more, said = follower.communicate(timeout=30)
        seen += more
        assert follower.returncode == 130
        found = re.search(r"--from (\d+)` goes on", said.decode())
        assert found, said
        start = found[1]
        assert int(start) == len(seen)
    seen += shown(command, run_id, "--follow", "--from", start)
    assert seen == WRITTEN


@pytest.mark.long
def test_fifty_megabytes_come_through_whole(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    text = """
        import os, sys
        block = bytes(range(256)) * 4096
        for n in range(50):
            sys.stdout.buffer.write(n.to_bytes(4, "big") + block)
    """
    run_id = muster("run", write_job({}, **{"train.py": text}), "--detach").stdout.strip()
    block = bytes(range(256)) * 4096
    digest = hashlib.sha256(b"".join(n.to_bytes(4, "big") + block for n in range(50))).hexdigest()
    assert hashlib.sha256(shown(command, run_id, "--follow")).hexdigest() == digest
    assert hashlib.sha256(shown(command, run_id)).hexdigest() == digest


def test_without_following_the_last_attempt_is_shown(muster: Muster, three_attempts: str) -> None:
    assert muster("logs", three_attempts).stdout == "a3\n"
    assert muster("logs", three_attempts, "--attempt", 2).stdout == "a2\n"


def test_following_shows_all_attempts_one_behind_the_other(muster: Muster, three_attempts: str) -> None:
    assert muster("logs", three_attempts, "--follow").stdout == "a1\na2\na3\n"
    assert muster("logs", three_attempts, "--follow", "--from", 4).stdout == "2\na3\n"
    assert muster("logs", three_attempts, "--follow", "--tail", 5).stdout == "a3\n"
    assert muster("logs", three_attempts, "--follow", "--attempt", 2).stdout == "a2\n"


@pytest.mark.conformance
def test_a_follower_goes_on_over_new_attempts(command: list[str], write_job: WriteJob, muster: Muster) -> None:
    """Interrupted in the first attempt, continued in the last, it has missed and repeated nothing."""
    text = """
        import os, sys, time
        attempt = int(os.environ["MUSTER_ATTEMPT"])
        for n in range(60):
            print("attempt", attempt, "line", n, flush=True)
            time.sleep(0.01)
        sys.exit(attempt < 3)
    """
    run_id = muster("run", write_job({"retries": 2}, **{"train.py": text}), "--detach").stdout.strip()
    with background([*command, "logs", run_id, "-f"]) as follower:
        seen = read_some(follower.stdout, 500)
        follower.send_signal(signal.SIGINT)
        more, _ = follower.communicate(timeout=30)
    seen += more
    until(lambda: says(log_of(run_id, attempt=3), "line 5"))
    seen += shown(command, run_id, "-f", "--from", len(seen))
    assert seen.decode().splitlines() == [f"attempt {a} line {n}" for a in (1, 2, 3) for n in range(60)]


def test_following_one_attempt_ends_with_it(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "echo ready $MUSTER_ATTEMPT; [ $MUSTER_ATTEMPT = 2 ] && sleep 1000; exit 1", "retries": 1})
    run_id = muster("run", job, "--detach").stdout.strip()
    until(lambda: says(log_of(run_id, attempt=2), "ready"))
    assert muster("logs", run_id, "--follow", "--attempt", 1).stdout == "ready 1\n"
    muster("stop", run_id)


def test_following_with_a_tail_misses_nothing_new(
    muster: Muster, command: list[str], write_job: WriteJob, tmp_path: Path
) -> None:
    text = f"seq 100; echo ready; until [ -e {tmp_path}/go ]; do sleep 0.02; done; seq 101 103"
    with (
        going(muster, write_job({"command": text})) as run_id,
        background([*command, "logs", run_id, "--tail", "2", "--follow"]) as follower,
    ):
        seen = read_some(follower.stdout, len("100\nready\n"))
        (tmp_path / "go").touch()
        more, _ = follower.communicate(timeout=30)
    assert seen + more == b"100\nready\n101\n102\n103\n"


def test_a_follower_ends_when_the_run_is_lost(muster: Muster, command: list[str], write_job: WriteJob) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        with background([*command, "logs", run_id, "--follow"]) as follower:
            read_some(follower.stdout, len("ready\n"))
            record = json.loads(Path(os.environ["MUSTER_HOME"], "runs", run_id, "run.json").read_text())
            os.kill(int(record["handle"].split(":")[0]), signal.SIGKILL)
            follower.communicate(timeout=30)
        assert follower.returncode == 0
        assert json.loads(muster("show", run_id, "--json").stdout)["state"] == "lost"


def test_json_lines_never_cut_a_letter_and_tell_where_they_stand(muster: Muster, write_job: WriteJob) -> None:
    text = """
        import os, time
        for byte in "数据 ok\\n".encode() + b"\\xff|" + "é".encode()[:1]:
            os.write(1, bytes([byte]))
            time.sleep(0.02)
    """
    run_id = muster("run", write_job({}, **{"train.py": text}), "--detach").stdout.strip()
    lines = [json.loads(line) for line in muster("logs", run_id, "--follow", "--json").stdout.splitlines()]
    assert "".join(line["text"] for line in lines) == "数据 ok\n\ufffd|\ufffd"
    assert {(line["attempt"], line["process"]) for line in lines} == {(1, "rank-0")}
    offsets = [line["offset"] for line in lines]
    assert offsets == sorted(set(offsets))
    assert offsets[0] == 0


@pytest.mark.long
def test_a_reader_that_has_enough_is_not_bothered(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "seq 200000"}))
    for words in ("logs last", "logs last --all", "logs last --follow", "logs last --json", "ps", "schema"):
        line = " ".join([*command, words]) + " | head -1"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert len(done.stdout.splitlines()) == 1
        assert done.stderr == ""


def test_many_logs_need_few_descriptors(command: list[str], muster: Muster, write_job: WriteJob, run_json: RunJson) -> None:
    """Also a gang of hundreds is shown where a process may have 64 files open."""
    view = run_json(write_job({"command": "echo hello"}))
    folder = Path(view["dir"], "attempts/1/nodes/0/logs")
    for rank in range(1, 300):
        (folder / f"rank-{rank}.log").write_text(f"hello {rank}\n")
    line = f"ulimit -n 64; {' '.join(command)} logs last --all --follow"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[0] hello"] + [f"[{rank}] hello {rank}" for rank in range(1, 300)]


ODD_LOGS = {
    "a digit that is no number": "echo odd > 'logs/rank-².log'",
    "a name that is not UTF-8": "echo odd > \"$(printf 'logs/b\\377.log')\"",
    "a name of two lines": "echo odd > \"$(printf 'logs/b\\nc\\033[31m.log')\"",
    "no directory": "rm -rf logs",
    "a file in its place": "rm -rf logs; touch logs",
    "a link that leads nowhere": "ln -s nowhere logs/link.log",
    "a link loop in its place": "rm -rf logs; ln -s logs logs",
}


@pytest.mark.parametrize("what", ODD_LOGS)
def test_whatever_a_rank_does_to_its_logs_they_are_shown_as_far_as_they_are_there(
    what: str, muster: Muster, write_job: WriteJob
) -> None:
    text = f'sleep 0.3; cd "$(dirname "$MUSTER_RESULTS")"; {ODD_LOGS[what]}; sleep 0.3; [ $MUSTER_ATTEMPT = 2 ]'
    job = write_job({"command": f"echo hello; {text}", "retries": 1})
    shown = [muster("run", job), *(muster("logs", "last", "--all", *more) for more in ([], ["--follow"], ["--json"]))]
    shown += [muster("logs", "last", "--all", "--follow", "--tail", "1")]
    for done in shown:
        assert done.returncode == 0, done.stderr
        assert "defect" not in done.stderr and "check the disk" not in done.stderr
    assert all(line.startswith("[") and "\x1b" not in line for line in shown[0].stdout.splitlines())
    assert "[0] hello" in shown[0].stdout
    if "odd >" in ODD_LOGS[what]:
        assert "] odd" in shown[0].stdout and "] odd" in shown[1].stdout


def test_the_output_of_a_run_whose_node_directory_is_gone_is_shown(muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": "echo hello; sleep 0.5; rm -rf $(dirname $MUSTER_RESULTS); sleep 0.5"}))
    assert "[0] hello" in done.stdout
    assert "defect" not in done.stderr and "check the disk" not in done.stderr
    assert "run directory" in done.stderr  # the end is told, whatever it was
    assert "check the disk" not in muster("logs", "last", "--all").stderr


@pytest.mark.long
def test_logs_that_come_back_are_followed(command: list[str], muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    text = f"""
        cd "$(dirname "$MUSTER_RESULTS")"; echo ready; until [ -e {tmp_path}/go ]; do sleep 0.02; done
        rm -rf logs; sleep 0.2; mkdir logs; sleep 0.2; touch logs/new.log; sleep 0.2; echo again >> logs/new.log; sleep 1000
    """
    with (
        going(muster, write_job({"command": text})) as run_id,
        background([*command, "logs", run_id, "--all", "--follow"]) as follower,
    ):
        assert read_some(follower.stdout, len("[0] ready\n")) == b"[0] ready\n"
        (tmp_path / "go").touch()
        assert read_some(follower.stdout, len("[new] again\n")) == b"[new] again\n"
        muster("stop", run_id, "--now")
        follower.communicate(timeout=30)
