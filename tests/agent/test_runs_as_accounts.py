"""Runs that root starts as another user: whose processes and files there are, and how such a run lives and ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from functools import partial
from pathlib import Path

import pytest
from as_account import MADE_UP, OTHER, Start, done, log, needs_root, of_machine, up
from as_account import home as home
from as_account import start as start
from test_memory_limit import HUNGRY, groups

from conftest import Muster, WriteJob, gone, needs_ssh, processes_with, until
from fake_horovodrun import HOROVODRUN
from muster import devices
from muster.agent.sandbox import account_checks, memory, namespaces
from muster.agent.supervisor.site import Assignment
from muster.agent.tools import Tools
from muster.devices import DeviceInfo
from muster.engines import EngineError, registry
from muster.job import Job
from muster.launch import reconcile
from muster.linux import accounts, proc
from muster.linux.accounts import Account, AccountError
from muster.records.layout import RunDir
from s3_server import S3

TELL = """
import grp, json, os, pathlib, pwd, time
node = pathlib.Path(os.environ["MUSTER_RESULTS"]).parent
(pathlib.Path(os.environ["MUSTER_SHARED"]) / os.environ["MUSTER_RANK"]).write_text("x")
while not (node / "metrics.jsonl").exists():
    time.sleep(0.02)
name = pwd.getpwuid(os.getuid()).pw_name
print(json.dumps([os.getresuid(), os.getresgid(), sorted(os.getgroups()), name, grp.getgrgid(os.getgid()).gr_name != "",
                  os.path.expanduser("~"), os.environ["HOME"], os.popen("whoami").read()]))
"""
WAIT = "import time\nprint('up', flush=True)\ntime.sleep(1000)\n"


@needs_root
@pytest.mark.parametrize("kind", ["made up", "of the machine"])
def test_ranks_setup_and_sampler_are_the_accounts(kind: str, start: Start, write_job: WriteJob) -> None:
    account = MADE_UP if kind == "made up" else of_machine()
    job = write_job({"nodes": 2, "setup": "id -u; id -un", "sample": "0.1s", "bench": {}}, **{"train.py": TELL})
    run = start(job, account)
    done(run)
    known = [[account.uid] * 3, [account.gid] * 3, sorted(account.all_groups), account.name, True]
    for node in range(2):
        assert json.loads(log(run, f"rank-{node}", node)) == [*known, account.home, account.home, f"{account.name}\n"]
        assert log(run, "setup", node) == f"{account.uid}\n{account.name}\n"
    owners = {path: path.lstat().st_uid for path in Path(run.dir.path).rglob("*")}
    nodes = [path for path in owners if "/nodes/" in str(path) or "/shared" in str(path)]
    of_root = {path.name for path in nodes if owners[path] != account.uid and "/root/tmp/" not in str(path)}
    assert of_root == {"hosts"}  # and in its own /tmp, places at which something of the machine was shown
    assert Path(run.dir.attempt(1).node(0).metrics) in nodes


@needs_root
def test_what_the_supervisor_writes_is_roots_alone(home: Path, start: Start, write_job: WriteJob) -> None:
    run = start(write_job({}, **{"train.py": "print('x')"}))
    done(run)
    for name in ("run.json", "job.json", "events.jsonl", "final.json", "supervisor.log"):
        info = Path(run.dir.path, name).stat()
        assert (info.st_uid, stat.S_IMODE(info.st_mode) & 0o077) == (0, 0), name
    world = Path(run.dir.attempt(1).world).stat()
    assert (world.st_uid, world.st_gid, stat.S_IMODE(world.st_mode)) == (0, MADE_UP.gid, 0o640)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert json.loads(Path(run.dir.run).read_text())["account"] == MADE_UP.to_text()


@needs_root
def test_supervisor_and_keeper_stay_roots(home: Path, start: Start, write_job: WriteJob) -> None:
    run = start(write_job({}, **{"train.py": WAIT}))
    up(run)
    users = {}
    for line in processes_with(f"MUSTER_HOME={home}"):
        pid = int(line.partition(":")[0])
        users[proc.name(pid)] = proc.users(pid)
    supervisor = int(str(run.handle).partition(":")[0])
    assert proc.users(supervisor) == {0}
    assert users["muster-keep-0"] == {0, MADE_UP.uid}  # the second opens its files
    assert [users[name] for name in users if name.startswith("python")][-1:] == [{MADE_UP.uid}]
    agent = int(json.loads(Path(run.dir.attempt(1).node(0).facts).read_text())["agent"])
    opened = [os.readlink(path) for path in Path(f"/proc/{agent}/fd").iterdir()]
    assert not [path for path in opened if "memfd" in path or "/proc" in path or path == run.dir.events], opened
    assert run.stop() == "stopped"
    assert gone(f"MUSTER_HOME={home}") == []


@needs_root
@pytest.mark.parametrize("victim", ["agent", "keeper", "outside"])
def test_whoever_of_a_node_is_killed_takes_the_others_along(victim: str, home: Path, start: Start, write_job: WriteJob) -> None:
    run = start(write_job({}, **{"train.py": WAIT}))
    up(run)
    agent = int(json.loads(Path(run.dir.attempt(1).node(0).facts).read_text())["agent"])
    found = proc.stat(agent)
    assert found is not None
    keeper = next(pid for pid in proc.children(found.parent) if proc.name(pid) == "muster-keep-0")
    os.kill({"agent": agent, "keeper": keeper, "outside": found.parent}[victim], signal.SIGKILL)
    assert run.wait(30) == "failed"
    assert run.reason == "the agent of node 0 was killed (SIGKILL)"
    assert gone(f"MUSTER_HOME={home}") == []


@needs_root
@pytest.mark.parametrize("compat", ["modelarts-v1", "modelarts-v2", "apulis"])
def test_the_directories_of_a_platform_are_the_accounts(compat: str, start: Start, write_job: WriteJob) -> None:
    train = """
    import os
    for folder in ("/cache", "/tmp", os.path.expanduser("~"), os.getcwd(), os.environ["MUSTER_SHARED"]):
        try:
            open(folder + "/written", "w").close()
        except OSError as error:
            print(error)
    print(os.getuid(), os.path.expanduser("~"))
    """
    account = Account("carol", 61434, 61434, (), "/cache")
    run = start(write_job({"compat": compat, "boot": "train.py"}, **{"train.py": train}), account)
    home = {"apulis": "/home/carol"}.get(compat, "/cache")
    done(run)
    assert log(run, "main" if compat == "apulis" else "rank-0") == f"{account.uid} {home}\n"


@needs_root
def test_a_retry_begins_anew(start: Start, write_job: WriteJob) -> None:
    train = "import os, sys\nprint(os.getuid())\nsys.exit(os.environ['MUSTER_ATTEMPT'] == '1')\n"
    run = start(write_job({"retries": 1}, **{"train.py": train}))
    assert run.wait(60) == "succeeded", run.reason
    assert [log(run, attempt=attempt) for attempt in (1, 2)] == [f"{MADE_UP.uid}\n"] * 2


@needs_root
def test_the_time_limit_ends_it(start: Start, write_job: WriteJob) -> None:
    run = start(write_job({"time_limit": "2s"}, **{"train.py": WAIT}))
    assert run.wait(60) == "failed"
    assert "time limit" in run.reason or "time_limit" in run.reason


@needs_root
@pytest.mark.skipif(not memory.can_limit(), reason="no control group can be made here")
def test_the_kernel_keeps_its_memory_limit(start: Start, write_job: WriteJob) -> None:
    run = start(write_job({"per": "device", "devices": 2, "memory": "200M"}, **{"train.py": HUNGRY}))
    assert run.wait(60) == "failed"
    assert run.reason == "rank 1 on node 0 was killed (SIGKILL); the kernel's counters show out of memory"
    assert groups(run.id) == []


@needs_root
def test_a_killed_supervisor_leaves_nothing_and_is_recorded(home: Path, start: Start, write_job: WriteJob) -> None:
    run = start(write_job({"nodes": 2, "memory": "1G"}, **{"train.py": WAIT}))
    up(run)
    os.kill(int(str(run.handle).partition(":")[0]), signal.SIGKILL)
    until(lambda: reconcile.reconcile(run.dir).view.state.value == "lost")
    assert gone(f"MUSTER_HOME={home}") == []
    assert groups(run.id) == []
    run.remove()
    assert not Path(run.dir.path).exists()


@needs_root
def test_exec_runs_as_the_account(muster: Muster, start: Start, write_job: WriteJob) -> None:
    run = start(write_job({}, **{"train.py": WAIT}))
    up(run)
    done = muster("exec", run.id, "--", "sh", "-c", "id -u; id -G; grep CapEff /proc/self/status; hostname")
    groups = " ".join(map(str, MADE_UP.all_groups))
    assert done.stdout == f"{MADE_UP.uid}\n{groups}\nCapEff:\t0000000000000000\nnode-0\n", done.stderr


@needs_root
@needs_ssh
@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun: install openmpi-bin")
@pytest.mark.parametrize("kind", ["made up", "of the machine"])
def test_mpirun_reaches_the_other_node_as_the_account(kind: str, start: Start, write_job: WriteJob) -> None:
    account = MADE_UP if kind == "made up" else of_machine()
    train = "import os\nprint(os.environ['MUSTER_RANK'], os.environ['MUSTER_NODE'], os.getuid(), flush=True)\n"
    run = start(write_job({"framework": "mpi", "nodes": 2}, **{"train.py": train}), account)
    assert run.wait(90) == "succeeded", f"{run.reason}\n{log(run, 'main')}\n{log(run, 'sshd')}"
    assert [log(run, f"rank-{rank}", rank) for rank in range(2)] == [f"{rank} {rank} {account.uid}\n" for rank in range(2)]
    assert not Path(run.dir.attempt(1).ssh).exists()


@needs_root
@needs_ssh
def test_horovodrun_reaches_the_other_node_as_the_account(
    home: Path, start: Start, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.parent.chmod(0o755)
    launcher = home.parent / "bin" / "horovodrun"
    launcher.parent.mkdir()
    launcher.write_text(HOROVODRUN)
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{launcher.parent}:/usr/local/bin:/usr/bin:/bin")
    monkeypatch.setenv("SEEN", "/dev/null")
    train = "import os\nprint(os.environ['MUSTER_RANK'], os.environ['MUSTER_NODE'], os.getuid(), flush=True)\n"
    run = start(write_job({"framework": "horovod", "nodes": 2}, **{"train.py": train}))
    assert run.wait(90) == "succeeded", f"{run.reason}\n{log(run, 'main')}\n{log(run, 'sshd')}"
    assert [log(run, f"rank-{rank}", rank) for rank in range(2)] == [f"{rank} {rank} {MADE_UP.uid}\n" for rank in range(2)]


@needs_root
def test_moxing_and_outputs_work_with_files_of_the_account(
    s3: S3, start: Start, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    bucket = s3.bucket()
    train = f"""
    import os, sys, moxing as mox
    mox.file.write("obs://{bucket}/from-rank", "written")
    mox.file.copy("obs://{bucket}/from-rank", "fetched")
    print(open("fetched").read(), os.stat("fetched").st_uid)
    out = sys.argv[1].partition("=")[2]
    open(out + "/model", "w").write("weights")
    """
    fields = {"command": ["python3", "train.py"], "outputs": {"out": f"obs://{bucket}/out"}}
    run = start(write_job(fields, **{"train.py": train}))
    assert done(run) == f"written {MADE_UP.uid}\n"
    assert (s3.folder / bucket / "out/model").read_text() == "weights"
    assert (s3.folder / bucket / "from-rank").read_text() == "written"


@needs_root
def test_without_namespaces_it_fails_with_the_reason(home: Path, start: Start, write_job: WriteJob) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("[local]\nnamespaces = false\n")
    run = start(write_job({"setup": "touch /tmp/no-such-thing"}, **{"train.py": "print('x')"}))
    assert run.wait(60) == "failed"
    assert run.reason == "a run as alice needs namespaces, which are not to be had: switched off"
    assert run.dir.attempt_numbers() == []


@needs_root
def test_what_the_account_cannot_use_is_said_before_anything_starts(home: Path, start: Start, write_job: WriteJob) -> None:
    tool = home.parent / "closed"
    tool.mkdir(0o700)
    shutil.copy("/bin/true", tool / "python")
    run = start(write_job({"python": str(tool / "python")}, **{"train.py": ""}))
    assert run.wait(60) == "failed"
    assert run.reason.startswith(f"the job cannot run as alice: it cannot run {tool}/python")
    assert run.dir.attempt_numbers() == [] or not log(run)


@needs_root
def test_a_device_that_the_account_cannot_open_is_named(home: Path, start: Start, write_job: WriteJob) -> None:
    run = start(write_job({}, **{"train.py": ""}))
    done(run)
    code = next(Path(run.dir.home, "code").iterdir())
    tools = Tools(os.path.realpath("/proc/self/exe"), str(next(Path(run.dir.home, "agent").glob("*.pyz"))))
    assignment = Assignment(RunDir(run.dir.path), Job.from_json(run.job.to_json()), str(code), tools, True, MADE_UP)
    check = partial(account_checks.check, assignment, MADE_UP, ["/etc/shadow"])
    said = namespaces.available(str(home / "probe"), check)
    assert said.startswith("it cannot open /etc/shadow (mode 06"), said


def test_the_files_of_devices_are_those_that_programs_open() -> None:
    assert devices.files("nvidia", [DeviceInfo("1")]) == ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    assert devices.files("ascend", [DeviceInfo("0", unique="/dev/davinci0")])[:2] == ["/dev/davinci0", "/dev/davinci_manager"]
    assert [devices.files(kind, []) for kind in devices.KINDS] == [[]] * len(devices.KINDS)


@needs_root
def test_two_accounts_do_not_see_each_others_runs(home: Path, start: Start, write_job: WriteJob) -> None:
    first = start(write_job({}, **{"train.py": WAIT}))
    up(first)
    look = f"""
    import os, pathlib
    home, other = pathlib.Path(os.environ["MUSTER_HOME"]), {first.dir.path!r}
    print(len(os.listdir(home / "runs")), os.path.exists(other), os.path.exists(other + "/shared"), os.getuid())
    """
    second = start(write_job({}, **{"train.py": look}), OTHER)
    assert done(second) == f"1 False False {OTHER.uid}\n"
    assert first.state == "running"


@needs_root
def test_the_code_and_a_home_of_the_accounts_own_are_there(home: Path, start: Start, write_job: WriteJob) -> None:
    own = home.parent / "alice"
    own.mkdir(0o700)
    os.chown(own, MADE_UP.uid, MADE_UP.gid)
    (home / "public").mkdir(parents=True)
    (home / "public/ca.pem").write_text("certificate")
    train = """
    import os
    open(os.path.expanduser("~/kept"), "w").write("x")
    print(open("inner/data.txt").read(), open(os.environ["MUSTER_HOME"] + "/public/ca.pem").read())
    """
    before = os.umask(0o077)  # as a server may have
    try:
        job = write_job({}, **{"train.py": train, "inner/data.txt": "read"})
        run = start(job, Account(MADE_UP.name, MADE_UP.uid, MADE_UP.gid, (), str(own)))
    finally:
        os.umask(before)
    assert done(run) == "read certificate\n"
    assert (own / "kept").stat().st_uid == MADE_UP.uid


def test_an_account_is_one_word() -> None:
    for account in (MADE_UP, OTHER, Account("x.y-z", 1, 2, (3, 4), "/home/a b")):
        assert Account.from_text(account.to_text()) == account
    for text in (
        "root:0:0::/",
        "a:1:0::/",
        "a:1:1:0:/",
        "a b:1:1::/",
        "a:1:1::relative",
        "a:1:1",
        "a:-1:1::/",
        "a:1:4294967295::/",
    ):
        with pytest.raises(AccountError):
            Account.from_text(text)


def test_a_line_is_added_only_where_it_is_missing() -> None:
    passwd = "root:x:0:0::/root:/bin/bash\nbob:x:61334:61334::/home/bob:/bin/sh\n"
    assert accounts.with_user(passwd, OTHER) == passwd
    assert accounts.with_user(passwd, MADE_UP).splitlines()[0].startswith("alice:x:61234:61235::/nowhere:/bin/")
    closed = passwd.replace("/bin/sh", "/usr/sbin/nologin")
    assert "nologin" not in accounts.with_user(closed, OTHER)
    assert accounts.with_group("root:x:0:\n", OTHER) == "root:x:0:\nbob:x:61334:\n"


def test_an_engine_that_takes_no_account_says_so(home: Path) -> None:
    with pytest.raises(EngineError, match="ssh cannot start a run as another user"):
        registry.get("ssh", str(home), account=MADE_UP)


def test_time_is_not_lost_on_accounts_that_are_not_used() -> None:
    """What only accounts need is not imported where a run has none."""
    import subprocess
    import sys

    code = "import sys, muster.engines.local.node.main, muster.engines.local.engine, muster.launch.start.submit\n"
    code += "print([name for name in sys.modules if 'account' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
