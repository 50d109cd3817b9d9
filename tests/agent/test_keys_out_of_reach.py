"""A rank looks for the keys that Muster uses for its run: in every process that it can see, also as root."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from live import Live

from behaviour import no_namespaces
from conftest import Muster, WriteJob, gone, processes_with, until
from traces import RunJson, stored

SECRET = "the-secret-that-opens-the-store"
PASSWORD = "the-password-of-the-controller"
KEYS = {"OBS_ACCESS_KEY_ID": "somebody", "OBS_SECRET_ACCESS_KEY": SECRET, "BMC_PASSWORD": PASSWORD}
POWER = '[power]\nsource = "redfish"\nredfish = "https://127.0.0.1:9/redfish/v1/Chassis/1/Power"\nuser = "reader"\n'
POWER += 'password_secret = "BMC_PASSWORD"\n'

LOOK = """
import json, os, pathlib, sys, time
import moxing as mox

needles = [text[::-1].encode() for text in sys.argv[1:3]]  # which this process must not hold itself
mox.file.write("obs://b/from-a-rank", "x")  # has a storage server started
deadline = time.monotonic() + 20
while not (pathlib.Path(os.environ["MUSTER_RESULTS"]).parent / "system.json").exists() and time.monotonic() < deadline:
    time.sleep(0.05)

def pieces(process):
    for name in ("environ", "cmdline"):
        yield name, (process / name).read_bytes()
    for descriptor in (process / "fd").iterdir():
        if "memfd" in os.readlink(descriptor):
            yield "descriptor", descriptor.read_bytes()
        elif os.path.isdir(descriptor):
            for inside in descriptor.glob("[0-9]*/environ"):  # a /proc that shows more than this node's
                yield "inside", inside.read_bytes()
    with (process / "mem").open("rb", 0) as memory:
        for line in (process / "maps").read_text().splitlines():
            places, rights = line.split()[:2]
            if rights.startswith("r") and "[v" not in line:
                start, end = (int(place, 16) for place in places.split("-"))
                memory.seek(start)
                yield "memory", memory.read(end - start)

found, looked = [], 0
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if process.name == str(os.getpid()):
        continue
    try:
        for what, data in pieces(process):
            looked += 1
            found += [(process.name, what) for needle in needles if needle in data]
    except OSError:
        continue  # it has ended, or another user's
print(json.dumps({"found": found, "looked": looked}))
"""


def test_no_process_that_a_rank_can_see_holds_a_key(home: Path, run_json: RunJson, write_job: WriteJob) -> None:
    if reason := no_namespaces():
        pytest.skip(f"namespaces are not to be had: {reason}")
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(POWER)
    words = [SECRET[::-1], PASSWORD[::-1]]
    job = {"command": ["python", "train.py", *words], "sample": "0.1s", "bench": {}, "outputs": {"train_url": "obs://b/out"}}
    view = run_json(write_job(job, **{"train.py": LOOK}), **KEYS)
    assert view["state"] == "succeeded", view["reason"]
    said = json.loads(Path(view["dir"], "attempts/1/nodes/0/logs/rank-0.log").read_text())
    assert said["looked"] > 10  # the agent and the sampler at least
    assert said["found"] == []


def test_the_helpers_that_have_keys_still_do_their_work(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    job = {"command": ["bash", "-c", 'echo weights > "${1#*=}/model.ckpt"', "write"], "outputs": {"train_url": "obs://b/out"}}
    view = run_json(write_job(job), **KEYS)
    assert view["state"] == "succeeded", view["reason"]
    assert stored("obs://b") == {"out/model.ckpt": "weights\n"}


def test_whoever_of_agent_and_keeper_is_killed_takes_the_other_along(command: list[str], write_job: WriteJob) -> None:
    if reason := no_namespaces():
        pytest.skip(f"namespaces are not to be had: {reason}")
    job = write_job({}, **{"train.py": "import moxing as m, time\nm.file.exists('obs://b/x')\nprint('up')\ntime.sleep(1000)"})
    with Live(command, job, PYTHONUNBUFFERED="1") as live:
        live.until_running()
        (server,) = [line for line in processes_with(f"MUSTER_HOME={live.home}") if " storage serve " in line]
        keeper = int(Path(f"/proc/{server.partition(':')[0]}/stat").read_text().rpartition(")")[2].split()[1])
        assert Path(f"/proc/{keeper}/comm").read_text() == "muster-keep-0\n"
        os.kill(keeper, signal.SIGKILL)
        view = live.end()
        assert (view["state"], view["reason"]) == ("failed", "the agent of node 0 was killed (SIGKILL)")
        assert gone(f"MUSTER_HOME={live.home}") == []


def test_a_run_without_namespaces_says_that_its_job_can_read_the_keys(home: Path, muster: Muster, write_job: WriteJob) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("[local]\nnamespaces = false\n")
    job = write_job({"command": "true"})
    done = muster("run", job, **KEYS, MUSTER_STORAGE_ENDPOINT="http://127.0.0.1:9")
    assert done.stderr.count("the job can read the keys that Muster uses for it") == 1
    assert "there are no namespaces (switched off)" in muster("show", "last").stdout
    assert "the keys" not in muster("run", job).stderr
    assert "the keys" not in muster("show", "last").stdout


def test_a_run_with_namespaces_has_nothing_to_say_about_keys(muster: Muster, write_job: WriteJob) -> None:
    if reason := no_namespaces():
        pytest.skip(f"namespaces are not to be had: {reason}")
    assert "the keys" not in muster("run", write_job({"command": "true"}), **KEYS).stderr
    assert "the keys" not in muster("show", "last").stdout


def test_the_environment_of_a_supervisor_holds_no_key(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({"command": "echo up; sleep 1000"}), "--detach", **KEYS) as live:
        live.until_running()
        live.command.wait()  # it was given the keys
        for line in processes_with(f"MUSTER_HOME={live.home}"):
            environment = Path(f"/proc/{line.partition(':')[0]}/environ").read_bytes()
            assert SECRET.encode() not in environment, line
            assert PASSWORD.encode() not in environment, line
        os.kill(live.supervisor, signal.SIGTERM)
        until(lambda: Path(live.run.final).exists())
