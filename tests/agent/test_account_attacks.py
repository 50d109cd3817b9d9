"""A job that runs as another user attacks the run that root looks after: each attempt is refused."""

from __future__ import annotations

import json
import os
import socket
import struct
from pathlib import Path

import pytest
from as_account import MADE_UP, OTHER, Start, done, log, needs_root, up
from as_account import home as home
from as_account import start as start
from test_keys_out_of_reach import LOOK

from conftest import Muster, WriteJob, gone, processes_with, until
from muster.engines import registry
from muster.launch.run import Run
from muster.linux import proc
from muster.linux.accounts import Account
from muster.records.logs import last_lines
from s3_server import S3, SECRET

pytestmark = needs_root

# Tries everything that is on its list, and says what was not refused.
ATTACKS = """
import ctypes, json, os, pathlib, signal, time
home, shared = pathlib.Path(os.environ["MUSTER_HOME"]), pathlib.Path(os.environ["MUSTER_SHARED"])
run, node = shared.parent, pathlib.Path(os.environ["MUSTER_RESULTS"]).parent
attempt, archive = node.parent.parent, next(home.glob("agent/*.pyz"))
code = next(home.glob("code/*"))
libc = ctypes.CDLL(None, use_errno=True)
while not (shared / "pids").exists():
    time.sleep(0.02)
supervisor, others = json.loads((shared / "pids").read_text())

def called(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")

attacks = {
    **{f"write {name}": lambda name=name: open(run / name, "w") for name in
       ("run.json", "job.json", "events.jsonl", "final.json", "stop.json", "kill.json", "supervisor.log", "new")},
    **{f"read {name}": lambda name=name: open(run / name) for name in ("run.json", "job.json", "events.jsonl")},
    **{f"unlink {name}": lambda name=name: os.unlink(run / name) for name in ("run.json", "events.jsonl")},
    "list run": lambda: os.listdir(run),
    "write world": lambda: open(attempt / "world.json", "r+"),
    "unlink world": lambda: os.unlink(attempt / "world.json"),
    "unlink announced": lambda: os.unlink(attempt / "meet/world"),
    "move nodes": lambda: os.rename(attempt / "nodes", attempt / "gone"),
    "move node": lambda: os.rename(node, str(node) + ".gone"),
    "move shared": lambda: os.rename(shared, run / "gone"),
    "write code": lambda: open(code / "train.py", "r+"),
    "add code": lambda: open(code / "new", "w"),
    "chmod code": lambda: os.chmod(code, 0o777),
    "write agent": lambda: open(archive, "r+b"),
    "replace agent": lambda: os.rename(archive, str(archive) + ".gone"),
    "add to home": lambda: open(home / "new", "w"),
    "list store": lambda: os.listdir(home / "store"),
    "signal supervisor": lambda: os.kill(supervisor, 0),
    **{f"signal {pid}": lambda pid=pid: os.kill(pid, 0) for pid in others},
    "environment of the supervisor": lambda: open(f"/proc/{supervisor}/environ", "rb").read(),
    "environment of the agent": lambda: open("/proc/1/environ", "rb").read(),
    "memory of the agent": lambda: open("/proc/1/mem", "rb"),
    "descriptors of the agent": lambda: os.listdir("/proc/1/fd"),
    "root of the agent": lambda: os.listdir("/proc/1/root/etc"),
    "attach to the agent": lambda: called(libc.ptrace(16, 1, 0, 0)),
    "become root": lambda: os.setresuid(0, 0, 0),
    "root's group": lambda: os.setgroups([0]),
    "unmount": lambda: called(libc.umount2(os.fsencode(str(home)), 2)),
    "mount": lambda: called(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)),
    "passwd": lambda: open("/etc/passwd", "r+"),
    "hosts": lambda: open("/etc/hosts", "r+"),
    "raise memory limit": lambda: open("/sys/fs/cgroup/cgroup.procs", "w"),
}
done = []
for name, attack in attacks.items():
    try:
        attack()
    except OSError:
        continue
    done.append(name)
print(json.dumps({"done": done, "tried": len(attacks), "runs": os.listdir(home / "runs")}), flush=True)
"""


def test_a_job_reaches_nothing_of_its_supervisor_or_its_record(home: Path, start: Start, write_job: WriteJob) -> None:
    earlier = start(write_job({}, **{"train.py": "print('x')"}))
    done(earlier)
    run = start(write_job({}, **{"train.py": ATTACKS}))
    shared = until(lambda: Path(run.dir.attempt(1).node(0).path, "up.json").exists() and Path(run.dir.shared))
    supervisor = int(str(run.handle).partition(":")[0])
    (shared / "pids.tmp").write_text(json.dumps([supervisor, [os.getpid(), os.getppid()]]))
    (shared / "pids.tmp").chmod(0o644)
    (shared / "pids.tmp").rename(shared / "pids")
    said = json.loads(done(run))
    assert said["tried"] > 40
    assert said["done"] == []
    assert said["runs"] == [run.id]  # not the earlier one, which is the same account's


def test_no_process_that_a_rank_can_see_holds_a_key(
    s3: S3, start: Start, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    bucket = s3.bucket()
    fields = {"command": ["python3", "train.py", SECRET[::-1], SECRET[::-1]], "sample": "0.1s", "bench": {}}
    run = start(write_job(fields, **{"train.py": LOOK.replace("obs://b/", f"obs://{bucket}/")}))
    said = json.loads(done(run).splitlines()[-1])
    assert (said["found"], said["looked"] > 0) == ([], True)


def test_links_to_what_the_account_cannot_read_are_not_uploaded(
    s3: S3, start: Start, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    bucket = s3.bucket()
    train = f"""
    import os, sys, moxing as mox
    out = sys.argv[1].partition("=")[2]
    open(out + "/good", "w").write("weights")
    os.symlink("/etc/shadow", out + "/evil")
    os.symlink("/proc/1/environ", out + "/environment")
    try:
        mox.file.copy("/etc/shadow", "obs://{bucket}/by-moxing")
        print("copied")
    except Exception as error:
        print("refused")
    """
    fields = {"command": ["python3", "train.py"], "outputs": {"out": f"obs://{bucket}/out"}}
    run = start(write_job(fields, **{"train.py": train}))
    run.wait(60)
    assert log(run) == "refused\n"
    stored = sorted(str(path.relative_to(s3.folder / bucket)) for path in (s3.folder / bucket).rglob("*") if path.is_file())
    assert stored == ["out/good"]
    assert (run.state, "evil" in run.reason or "environment" in run.reason) == ("failed", True), run.reason


def test_nothing_is_written_or_read_through_links_in_place_of_its_directories(
    s3: S3, start: Start, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The keeper would write its logs there, and the supervisor and all readers would read theirs."""
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    bucket = s3.bucket()
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "rank-0.log").write_text("somebody else's log\n")
    (secret / "record-0.jsonl").write_text('{"metric": "loss", "value": 4711, "t": 1}\n')
    train = f"""
    import os, pathlib
    node = pathlib.Path(os.environ["MUSTER_RESULTS"]).parent
    for name, target in (("logs", "/etc"), ("results", {str(secret)!r})):
        os.rename(node / name, node / (name + ".away"))
        os.symlink(target, node / name)
    for name in ("exit.json", "done.json", "metrics.jsonl"):
        os.symlink("/etc/passwd", node / name)
    os.mkfifo(node / "system.json")
    """
    fields = {"outputs": {"out": f"obs://{bucket}/out"}, "metrics": {"loss": {"pattern": "loss=([0-9.]+)"}}}
    before = sorted(os.listdir("/etc"))
    run = start(write_job(fields, **{"train.py": train}))
    run.wait(60)
    assert sorted(os.listdir("/etc")) == before
    node = Path(run.dir.attempt(1).node(0).path)
    (node / "logs").unlink()
    (node / "logs").symlink_to(secret)  # as it could be in an attempt whose readers are quicker
    assert b"".join(run.logs(0)) == b""
    assert last_lines(str(node / "logs/rank-0.log"), 1) == []
    assert "4711" not in json.dumps(run.details())
    run.remove()
    assert sorted(os.listdir(secret)) == ["rank-0.log", "record-0.jsonl"]


def test_deleting_a_run_follows_no_link_of_the_job(start: Start, write_job: WriteJob, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    train = f"""
    import os
    shared = os.environ["MUSTER_SHARED"]
    os.makedirs(shared + "/a/b")
    os.symlink({str(kept)!r}, shared + "/link")
    os.symlink({str(kept)!r}, shared + "/a/b/link")
    os.chmod(shared + "/a", 0o000)
    """
    run = start(write_job({}, **{"train.py": train}))
    done(run)
    run.remove()
    assert not Path(run.dir.path).exists()
    assert (kept / "file").read_text() == "x"


def test_exec_does_not_believe_the_process_id_that_a_job_wrote(muster: Muster, start: Start, write_job: WriteJob) -> None:
    train = """
    import json, os, pathlib, time
    events = pathlib.Path(os.environ["MUSTER_RESULTS"]).parent / "events.jsonl"
    print("up", flush=True)
    while not (pathlib.Path(os.environ["MUSTER_SHARED"]) / "go").exists():
        time.sleep(0.02)
    forged = events.with_name("forged")
    forged.write_text(json.dumps({"time": 1, "event": "start", "process": "rank-0", "rank": 0, "pid": PID}) + chr(10))
    os.replace(forged, events)
    print("forged", flush=True)
    time.sleep(1000)
    """
    run = start(write_job({}, **{"train.py": train.replace("PID", str(os.getppid()))}))
    up(run)
    Path(run.dir.shared, "go").touch()
    until(lambda: "forged" in log(run))
    told = muster("exec", run.id, "--", "id", "-u")
    assert (told.returncode != 0, told.stdout) == (True, "")
    assert "not one of the run" in told.stderr


def test_a_record_that_is_not_roots_names_no_account(start: Start, write_job: WriteJob) -> None:
    run = start(write_job({}, **{"train.py": "print('x')"}))
    done(run)
    assert registry.account_of(run.dir) == MADE_UP
    os.chown(run.dir.run, OTHER.uid, OTHER.gid)
    assert registry.account_of(run.dir) is None


def test_the_storage_of_a_run_is_for_its_account_alone(home: Path, start: Start, write_job: WriteJob) -> None:
    train = """
    import os, moxing as mox, time
    try:
        mox.file.exists("obs://bucket/key")
    except Exception:
        pass
    print(os.environ["MUSTER_SOCKET"][1:], flush=True)
    print("up", flush=True)
    time.sleep(1000)
    """
    run = start(write_job({}, **{"train.py": train}))
    up(run)
    name = log(run).split()[0]
    assert _answers(name, MADE_UP)
    assert not _answers(name, OTHER)
    run.stop()
    assert gone(f"MUSTER_HOME={home}") == []


def _answers(name: str, account: Account) -> bool:
    """True if the storage server answers a process of an account."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(account.gid, account.gid, account.gid)
            os.setresuid(account.uid, account.uid, account.uid)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect("\0" + name)
                text = json.dumps({"do": "exists", "details": {"url": "/"}}).encode()
                connection.sendall(struct.pack(">I", len(text)) + text)
                os._exit(0 if connection.recv(4) else 1)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_job_cannot_pass_for_the_supervisor_of_another_run(home: Path, start: Start, write_job: WriteJob) -> None:
    """Its words stand in /proc as it likes."""
    other = start(write_job({}, **{"train.py": "print('x')"}), OTHER)
    done(other)
    train = f"""
    import os
    print("up", flush=True)
    os.execv("/bin/sh", ["sh", "-c", "sleep 1000; :", "supervise", {other.dir.path!r}, "--code", "x"])
    """
    run: Run = start(write_job({}, **{"train.py": train}))
    up(run)
    assert registry.engine_of(other.dir).find(other.dir.path) is None
    assert registry.engine_of(run.dir).find(run.dir.path) is not None


def test_no_program_of_roots_has_a_variable_of_the_job(
    s3: S3, home: Path, start: Start, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader would do what LD_PRELOAD says, also for the supervisor and for helpers with keys."""
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    train = f"""
    import moxing as mox, os, time
    mox.file.exists("obs://{s3.bucket()}/key")
    print(os.environ["LD_LIBRARY_PATH"], os.environ["PATH"].split(":")[0], flush=True)
    print("up", flush=True)
    time.sleep(1000)
    """
    run = start(write_job({}, **{"train.py": train}), LD_LIBRARY_PATH="/evil", PATH=f"/wicked:{os.environ['PATH']}")
    up(run)
    assert log(run).splitlines()[0] == "/evil /wicked"
    of_root = 0
    for line in processes_with(f"MUSTER_HOME={home}"):
        pid = int(line.partition(":")[0])
        if 0 in proc.users(pid):
            of_root += 1
            environment = proc.environment(pid)
            assert "LD_LIBRARY_PATH" not in environment and environment["PATH"] == os.environ["PATH"], line
    assert of_root >= 4  # the supervisor, the process outside, the keeper, the storage server


def test_what_root_runs_in_a_node_lies_where_the_account_can_change_nothing(
    home: Path, start: Start, write_job: WriteJob, tmp_path: Path
) -> None:
    job = write_job({}, **{"train.py": "print('x')"})
    run = start(job, place=tmp_path / "home")
    assert run.wait(60) == "failed"
    assert "lies in /tmp, which each node has for itself" in run.reason
    place = home.parent / "open"
    place.mkdir()
    os.chown(place, MADE_UP.uid, MADE_UP.gid)
    run = start(job, place=place / "home")
    assert run.wait(60) == "failed"
    assert f"it may change {place}, on the way to" in run.reason
    assert run.dir.attempt_numbers() == []
