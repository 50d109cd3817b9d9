"""Directories of a simulated node's own: scripts with fixed paths and lock files behave as on separate machines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from behaviour import no_namespaces
from conftest import Muster, WriteJob, until
from muster.agent.sandbox import rootfs
from muster.launch import api
from traces import RunJson, put, said, told

pytestmark = pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")

PLACES = ("/tmp", "/cache", "/home/work", "/home/ma-user")
LOCK = f"""
import fcntl, json, os, pathlib, socket, time
shared, node = pathlib.Path(os.environ["MUSTER_SHARED"]), os.environ["MUSTER_NODE"]
locks = []
for place in {PLACES}:
    lock = os.open(place + "/muster-test.lock", os.O_CREAT | os.O_EXCL | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(lock, node.encode())
    locks.append(lock)
(shared / node).touch()
while not ((shared / "0").exists() and (shared / "1").exists()):
    time.sleep(0.01)
seen = [pathlib.Path(place, "muster-test.lock").read_text() for place in {PLACES}]
print(json.dumps([socket.gethostname(), seen, os.stat("/tmp").st_mode & 0o7777]))
"""


def outside() -> dict[str, list[str]]:
    """What the machine has where nodes have directories of their own."""
    folders = ("/", "/home", *PLACES[1:])
    found = {folder: sorted(os.listdir(folder)) for folder in folders if os.path.isdir(folder)}
    return {**found, "/tmp": [name for name in os.listdir("/tmp") if name == "muster-test.lock"]}


@pytest.fixture
def in_tmp() -> Iterator[Path]:
    """A directory right in the machine's /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("compat", ["", "modelarts-v1", "modelarts-v2"])
def test_two_nodes_hold_the_same_locks_and_the_machine_sees_nothing(
    compat: str, run_json: RunJson, write_job: WriteJob
) -> None:
    before = outside()
    view = run_json(write_job({"nodes": 2, "compat": compat} if compat else {"nodes": 2}, **{"train.py": LOCK}))
    hosts, *seen = zip(*told(view), strict=True)
    assert [host.rpartition("-")[2] for host in hosts] == ["0", "1"]
    assert [*zip(*seen, strict=True)] == [([str(node)] * len(PLACES), 0o1777) for node in (0, 1)]
    assert outside() == before


def test_what_a_job_names_in_tmp_stays_visible_and_nothing_else(
    run_json: RunJson, write_job: WriteJob, in_tmp: Path, tmp_path: Path
) -> None:
    names = ("in command", "parameter", "env", "input", "hidden")
    folders = {name: Path(tempfile.mkdtemp(prefix="muster-test-", dir="/tmp")) for name in names}
    try:
        for name, folder in folders.items():
            (folder / "word").write_text(name)
        spaced = in_tmp / "with a space"
        spaced.write_text("spaced")
        look = f"cat {folders['in command']}/word /tmp/../etc/hostname > /dev/null && ls /tmp && cat '{spaced}' && : \"$@\""
        fields = {"command": look, "env": {"PLACE": str(folders["env"])}, "inputs": {"data": f"file://{folders['input']}"}}
        view = run_json(write_job({**fields, "parameters": {"x": f"a,{folders['parameter']}/word"}}))
        (text,) = said(view)
        *seen, last = text.splitlines()
        wanted = {folders[name].name for name in names if name != "hidden"} | {in_tmp.name}
        assert wanted <= set(seen) and folders["hidden"].name not in seen
        assert last == "spaced"
    finally:
        for folder in folders.values():
            shutil.rmtree(folder)


def test_outputs_and_logs_that_are_new_in_tmp_reach_the_machine(run_json: RunJson, write_job: WriteJob, in_tmp: Path) -> None:
    in_tmp.rmdir()
    write = ["bash", "-c", 'echo weights > "${1#*=}/model"', "write"]
    fields = {"command": write, "outputs": {"out": str(in_tmp / "out")}, "log_url": f"file://{in_tmp}/log"}
    assert run_json(write_job(fields))["state"] == "succeeded"
    assert sorted(str(path.relative_to(in_tmp)) for path in in_tmp.glob("*/*")) == ["log/rank-0.log", "out/model"]


def test_a_home_that_is_a_directory_of_the_nodes_own_keeps_the_store(command: list[str]) -> None:
    """The machine's /tmp is MUSTER_HOME, in a namespace in which it is empty."""
    if any(path.startswith("/tmp/") for path in (sys.executable, __file__)):
        pytest.skip("the tests themselves lie in /tmp")
    write = "import moxing as mox; mox.file.write('obs://b/x', 'kept')"
    script = """
        mount -t tmpfs tmpfs /tmp || exit 77
        export MUSTER_HOME=/tmp
        mkdir /tmp/code && cd /tmp/code && "$@" run -- %s -c "%s" && cat /tmp/store/b/x
    """
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script % (sys.executable, write), "sh", *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode == 77 or "unshare: " in done.stderr:
        pytest.skip(f"no namespaces for a machine of its own: {done.stderr}")
    assert done.stdout.endswith("kept"), done.stderr


def test_a_run_inside_of_a_run_leaves_the_code_of_the_other_alone(
    run_json: RunJson, write_job: WriteJob, command: list[str]
) -> None:
    overwrite = ["sh", "-c", "echo new > train.py; ls /home/work"]
    inner = [*command, "run", "--nodes", "2", "--set", "compat=modelarts-v1", "--", *overwrite]
    train = f"import subprocess, sys\nsys.exit(subprocess.call({inner!r}) or open('train.py').read().startswith('new'))"
    view = run_json(write_job({"compat": "modelarts-v1"}, **{"train.py": train}))
    assert view["state"] == "succeeded", said(view)
    assert said(view)[0].count("user-job-dir\n") == 2


def test_a_home_beside_others_that_cannot_be_listed_is_found(in_tmp: Path) -> None:
    homes = in_tmp / "home"
    for name in ("me", "somebody"):
        (homes / name).mkdir(parents=True)
    in_tmp.chmod(0o755)
    homes.chmod(0o711 if os.getuid() == 0 else 0o311)
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setuid(65534)
        found = rootfs.machine([f"{homes}/work"], [f"{homes}/me/.muster", "/elsewhere"])
        os._exit(0 if {path for path in found if path.startswith(f"{homes}/")} == {f"{homes}/me"} else 1)
    assert os.waitpid(child, 0)[1] == 0
    homes.chmod(0o755)


def test_a_python_and_a_home_in_tmp_work(
    run_json: RunJson, write_job: WriteJob, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", in_tmp / "my env"], check=True)
    (in_tmp / "behind").mkdir()
    (in_tmp / "link").symlink_to(in_tmp / "behind")
    job = write_job({"python": str(in_tmp / "my env" / "bin" / "python")}, **{"train.py": "import sys\nprint(sys.prefix)"})
    monkeypatch.setenv("MUSTER_HOME", str(in_tmp / "link" / "a home"))
    assert said(run_json(job)) == [f"{in_tmp / 'my env'}\n"]
    assert len(list((in_tmp / "behind" / "a home" / "runs").iterdir())) == 1


def test_a_command_beside_a_rank_sees_its_directories(muster: Muster, write_job: WriteJob) -> None:
    train = "echo $MUSTER_NODE | tee /tmp/muster-test-note > /cache/note; echo up; sleep 1000"
    run = api.get(muster("run", write_job({"nodes": 2, "command": train}), "--detach").stdout.strip())
    try:
        until(lambda: all(b"up" in b"".join(run.logs(rank=rank)) for rank in (0, 1)) if run.state == "running" else False)
        for rank in ("0", "1"):
            done = muster("exec", run.id, "--rank", rank, "--", "cat", "/cache/note", "/tmp/muster-test-note")
            assert done.stdout == f"{rank}\n{rank}\n", done.stderr
    finally:
        muster("stop", run.id, "--now")


@pytest.mark.parametrize("code", [0, 3])
def test_the_cache_is_emptied_after_success_and_kept_after_a_failure(
    code: int, containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    fill = 'mkdir -p "$DLS_LOCAL_CACHE_PATH/data" && cd "$DLS_LOCAL_CACHE_PATH" && touch one data/two && chmod 500 data'
    nodes = 1 if code else 2  # the first failure would end the other node in the middle
    view = run_json(write_job({"compat": "modelarts-v1", "nodes": nodes, "command": f"{fill} && exit {code}"}))
    assert view["state"] == ("failed" if code else "succeeded"), said(view)
    for node in view["attempts"][0]["nodes"]:
        left = sorted(path.name for path in Path(node["dir"], "root", "cache").rglob("*"))
        assert left == (["data", "one", "two"] if code else [])


# A machine that has directories where nodes have their own: a root made of this machine's, in a namespace of its own.
MACHINE = """
root=$1; shift
mount -t tmpfs tmpfs "$root" || exit 77
for entry in /*; do
    case $entry in /cache | /home) continue ;; esac
    if [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
    elif [ -d "$entry" ]; then mkdir "$root$entry"; mount --rbind "$entry" "$root$entry" || exit 77
    fi
done
mkdir -p "$root/cache/set" "$root/home/ma-user/modelarts" "$root/home/work/user-job-dir"
for file in cache/set/x cache/other home/ma-user/.rc home/ma-user/modelarts/mine; do echo precious > "$root/$file"; done
chroot "$root" "$@"
code=$?
(cd "$root" && find cache home -path '*/.muster' -prune -o -type f -print | sort) >&2
exit $code
"""


def on_a_machine_with_its_own(folder: Path, words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    whole = ["unshare", *own, "--mount", "sh", "-c", MACHINE, "sh", str(folder), *words]
    done = subprocess.run(whole, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip(f"no such machine can be made: {done.stderr}")
    return done


KEPT = ["cache/other", "cache/set/x", "home/ma-user/.rc", "home/ma-user/modelarts/mine"]


@pytest.mark.parametrize("compat", ["modelarts-v1", "modelarts-v2"])
def test_what_the_machine_has_there_is_neither_used_nor_lost(
    compat: str, command: list[str], write_job: WriteJob, tmp_path: Path
) -> None:
    look = """
    import json, os, sys
    paths = [word.split("=")[1] for word in sys.argv[1:]]
    open("/cache/new", "w").write("new")
    open(os.path.expanduser("~/new"), "w").write("new")
    kept = [open(paths[0] + "/x").read(), open(os.path.expanduser("~/.rc")).read()]
    listed = [sorted(os.listdir("/cache")), os.path.exists("/home/ma-user/modelarts/mine"), os.getcwd()]
    print(json.dumps([kept, listed]))
    """
    fields = {"nodes": 2, "compat": compat, "inputs": {"data_url": "/cache/set"}, "code": "app", "boot": "train.py"}
    job = write_job(fields, **{"app/train.py": look})
    home = {"HOME": "/home/ma-user", "MUSTER_HOME": "/home/ma-user/.muster"}
    done = on_a_machine_with_its_own(tmp_path / "machine", [*command, "run", str(job)], **home)
    assert done.returncode == 0, done.stdout + done.stderr
    above = "/home/work/user-job-dir" if compat == "modelarts-v1" else "/home/ma-user/modelarts/user-job-dir/app"
    for line in done.stdout.splitlines():
        kept, (cache, mine, cwd) = json.loads(line[4:])
        assert kept == ["precious\n"] * 2
        assert (cache, mine, cwd) == (["new", "set"], False, above), "only what the job names is shown"
    assert [line for line in done.stderr.splitlines() if line in KEPT or "new" in line] == KEPT


def test_a_store_in_the_cache_of_the_machine_outlives_a_run(command: list[str], write_job: WriteJob, tmp_path: Path) -> None:
    put(**{"x": "x"})
    job = write_job({"command": "ls /cache"})
    env = {"MUSTER_HOME": "/cache/runs of mine", "HOME": "/nowhere"}
    done = on_a_machine_with_its_own(tmp_path / "machine", [*command, "run", str(job)], **env)
    assert (done.returncode, done.stdout) == (0, "[0] runs of mine\n"), done.stderr
    assert "cache/other" in done.stderr.splitlines() and any("final.json" in line for line in done.stderr.splitlines())
