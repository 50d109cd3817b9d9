"""The commands of runs against a server: the same output and exit codes as on this machine."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from conftest import Muster, WriteJob, until
from muster_server import Administered, User, make_user

HERE = "--server=none"
HELLO = {"devices": 2, "per": "device", "command": "echo hello from $MUSTER_RANK"}
SAVES = "trap 'echo saved; exit 1' TERM; echo ready; while true; do sleep 0.05; done"
GOES_ON = {"command": "echo ready; while true; do sleep 0.1; done", "grace": "1s"}

pytestmark = pytest.mark.usefixtures("user")
Show = Callable[[str], dict[str, Any]]


@pytest.fixture
def show(muster: Muster) -> Show:
    """What the server says of a run."""

    def call(run: str) -> dict[str, Any]:
        done = muster("show", run, "--json")
        assert done.returncode == 0, done.stderr
        data: dict[str, Any] = json.loads(done.stdout)
        return data

    return call


def alike(text: str) -> str:
    """What a run prints, without what differs from run to run."""
    text = re.sub(r"job-\d{8}-\d{6}-[a-z]{4}", "RUN", text)
    text = re.sub(r"run directory  .*", "run directory  DIR", text)
    return re.sub(r"time( +)[0-9.]+m?s", r"time\1TIME", text)


@pytest.mark.parametrize(
    "fields",
    [
        HELLO,
        {"command": "echo to no avail; exit 3"},
        {"retries": 1, "command": "echo $MUSTER_ATTEMPT; exit $((2 - MUSTER_ATTEMPT))"},
        {"command": "printf unended"},
        {"time_limit": "300ms", "grace": "100ms", "command": "sleep 1000"},
    ],
    ids=["succeeds", "fails", "retries", "unended", "time-limit"],
)
def test_a_run_prints_what_it_prints_here(muster: Muster, write_job: WriteJob, fields: dict[str, Any]) -> None:
    job = write_job(fields)
    here, there = muster("run", job, HERE), muster("run", job)
    assert there.returncode == here.returncode
    assert sorted(there.stdout.splitlines()) == sorted(here.stdout.splitlines())
    assert alike(there.stderr) == alike(here.stderr)


def test_json_has_the_same_keys_and_an_address_for_the_directory(
    muster: Muster, write_job: WriteJob, user: User, show: Show
) -> None:
    job = write_job({"command": "exit 3"})
    here, there = muster("run", job, HERE, "--json"), muster("run", job, "--json")
    brief = json.loads(there.stdout)
    assert (there.returncode, list(brief)) == (1, list(json.loads(here.stdout)))
    assert brief["dir"] == f"{user.server.url}/jobs/{brief['run']}"
    details = show(brief["run"])
    assert {key: details[key] for key in brief} == brief
    assert set(details) >= set(json.loads(muster("show", "last", HERE, "--json").stdout))
    assert (details["user"], details["project"], details["pool"]) == (user.name, f"of-{user.name}", "local")


def test_runs_are_listed_and_shown_to_who_may_see_them(
    muster: Muster, write_job: WriteJob, user: User, administered: Administered, tmp_path: Path
) -> None:
    muster("run", write_job(HELLO))
    failed = muster("run", write_job({"command": "exit 3"}), "--json")
    run = json.loads(failed.stdout)["run"]
    listed = muster("ps").stdout.splitlines()
    assert [line.split()[1] for line in listed] == ["STATE", "failed", "succeeded"]
    assert [row["run"] for row in json.loads(muster("ps", "--state", "failed", "--json").stdout)] == [run]
    assert muster("ps", "--everyone").stdout.splitlines()[1].split()[1] == user.name
    shown = muster("show", run).stdout
    assert f"{run}  failed: its rank exited with code 3" in shown or "exited with code 3" in shown
    assert f"project of-{user.name}, pool local" in shown
    other = tmp_path / "other"
    make_user(administered, other)
    (other / "config.toml").write_text('server = "default"\n')
    assert muster("ps", MUSTER_HOME=str(other)).stdout == ""
    unseen = muster("show", run, MUSTER_HOME=str(other))
    assert (unseen.returncode, unseen.stdout) == (2, "")
    assert f"no run is called `{run}`" in unseen.stderr


def test_logs_are_shown_whole_by_lines_and_by_bytes(muster: Muster, write_job: WriteJob) -> None:
    text = 'seq 20000; printf "\\303\\251nd"'
    assert muster("run", write_job({"command": text})).returncode == 0
    whole = muster("logs", "last").stdout
    assert whole == "".join(f"{number}\n" for number in range(1, 20001)) + "énd"
    assert muster("logs", "last", "--tail", "3").stdout == "19999\n20000\nénd"
    assert muster("logs", "last", "--from", "108890").stdout == whole[108890:]
    assert muster("logs", "last", "--follow").stdout == whole
    assert muster("logs", "last", "--all", "--tail", "1").stdout == "[0] énd\n"
    objects = [json.loads(line) for line in muster("logs", "last", "--json").stdout.splitlines()]
    assert "".join(piece["text"] for piece in objects) == whole
    assert muster("logs", "last", "--rank", "1").returncode == 2
    assert "has no rank 1" in muster("logs", "last", "--rank", "1").stderr


def test_a_run_that_goes_on_is_waited_for_and_stopped(muster: Muster, write_job: WriteJob, user: User, show: Show) -> None:
    run = muster("run", write_job({**GOES_ON, "command": SAVES}), "--detach").stdout.strip()
    until(lambda: show(run)["state"] == "running")
    waited = muster("wait", run, "--timeout", "100ms")
    assert (waited.returncode, waited.stdout) == (124, f"{run}  running\n")
    refused = muster("rm", run)
    assert (refused.returncode, "has not ended" in refused.stderr) == (2, True)
    until(lambda: muster("logs", run).stdout == "ready\n")
    stopped = muster("stop", run)
    assert (stopped.returncode, stopped.stdout) == (0, f"{run}  stopped: stopped by {user.name}\n")
    assert "its ranks have 1s to end" in stopped.stderr
    assert muster("logs", run).stdout.endswith("saved\n")
    assert muster("wait", run).returncode == 130
    assert "has already ended" in muster("stop", run).stderr


def test_a_recorded_job_runs_again_with_its_code_and_is_removed(muster: Muster, write_job: WriteJob, show: Show) -> None:
    job = write_job({"command": "cat word", "parameters": {}}, **{"word": "before"})
    muster("run", job)
    (job.parent / "word").write_text("after")
    again = muster("rerun", "last", "--set", "devices=2", "--set", "per=device")
    assert (again.returncode, sorted(again.stdout.splitlines())) == (0, ["[0] before", "[1] before"])
    runs = [row["run"] for row in json.loads(muster("ps", "--json").stdout)]
    assert muster("rm", *runs).stdout == "removed 2 runs\n"
    assert json.loads(muster("ps", "--json").stdout) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "true", "nodes": 0, "devises": 2},
        {"command": "true", "nodes": 2, "framework": "paddle", "ps": 1},
        {"boot": "trian.py"},
        {"command": "true", "secrets": ["UNSET_KEY"]},
        {"command": "true", "device": "nvidia"},
    ],
    ids=["fields", "framework", "boot", "secret", "engine"],
)
def test_mistakes_are_reported_as_here(muster: Muster, write_job: WriteJob, fields: dict[str, Any]) -> None:
    job = write_job(fields, **{"train.py": ""})
    here, there = muster("run", job, HERE), muster("run", job)
    assert (here.returncode, there.returncode) == (2, 2)
    assert there.stderr == here.stderr
    there = muster("run", job, "--json")
    assert json.loads(there.stdout) == json.loads(muster("run", job, HERE, "--json").stdout)


def test_mistakes_in_options_are_reported_under_the_option(muster: Muster) -> None:
    words = ("run", "--framework", "torch", "--", "true")
    assert muster(*words).stderr == muster(words[0], HERE, *words[1:]).stderr


def test_what_cannot_work_there_is_refused_before_anything_is_sent(muster: Muster, write_job: WriteJob, user: User) -> None:
    fields = {"inputs": {"data": "./data", "far": "/data"}, "outputs": {"out": "~/out"}, "log_url": "logs"}
    done = muster("run", write_job({"python": ".venv/bin/python", "boot": "train.py", **fields}, **{"train.py": ""}))
    assert (done.returncode, done.stdout) == (2, "")
    for name in (
        "inputs.data` names `./data`",
        "outputs.out` names `~/out`",
        "log_url` names `logs`",
        "python` names `.venv/bin",
    ):
        assert name in done.stderr
    assert "/data`, " not in done.stderr.replace("./data`", "")
    assert "muster cp" in done.stderr and "5 problems" not in done.stderr
    for words, hint in ((["--engine", "local"], "--pool"), (["--dry-run"], "--check")):
        done = muster("run", *words, "--", "true")
        assert (done.returncode, hint in done.stderr) == (2, True)
    asked = [entry["route"] for entry in user.server.entries("request") if entry.get("user") == user.name]
    assert not [route for route in asked if "/runs" in route or "/code" in route]


@pytest.mark.parametrize(
    ("fields", "words", "said"),
    [
        ({"inputs": {"data": "/srv/data"}}, [], "may not name paths there"),
        ({}, ["--pool", "nowhere"], "there is no pool `nowhere`"),
        ({}, ["--project", "nowhere"], "there is no such project"),
    ],
    ids=["path", "pool", "project"],
)
def test_what_the_server_refuses_is_refused_before_code_is_sent(
    muster: Muster, write_job: WriteJob, user: User, fields: dict[str, Any], words: list[str], said: str
) -> None:
    job = write_job({"boot": "train.py", **fields}, **{"train.py": "", "big": user.name * 100_000})
    done = muster("run", job, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "code" not in done.stderr
    sent = [entry for entry in user.server.entries("request") if entry.get("user") == user.name and entry["method"] == "PUT"]
    assert sent == []


def test_only_code_that_is_missing_is_sent(muster: Muster, write_job: WriteJob, user: User) -> None:
    def sent() -> list[str]:
        return [entry["route"] for entry in user.server.entries("request") if "/code" in str(entry.get("route"))]

    job = write_job({"command": "cat word big | tail -c 4"}, **{"word": "one", "big": "x" * 1_000_000})
    before = len(sent())
    assert muster("run", job).returncode == 0
    assert muster("run", job).returncode == 0
    announced, put = "/api/v1/code", "/api/v1/code/{code}"
    assert sent()[before:] == [announced, put, announced], "the second time nothing is missing"
    (job.parent / "big").write_text("two ")
    done = muster("run", job)
    assert done.stdout == "[0] two \n"
    assert sent()[before + 3 :] == [announced, put]


def test_links_programs_and_folders_arrive_as_they_are(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "./deep/say && readlink link && ls -d empty"}, **{"deep/say": "#!/bin/sh\necho it runs\n"})
    (job.parent / "deep" / "say").chmod(0o755)
    (job.parent / "link").symlink_to("deep/say")
    (job.parent / "empty").mkdir()
    done = muster("run", job)
    assert (done.returncode, done.stdout) == (0, "[0] it runs\n[0] deep/say\n[0] empty\n")


def test_secrets_come_from_the_environment_and_nothing_else_of_it(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "echo $THE_KEY $OTHER", "secrets": ["THE_KEY"]})
    assert muster("run", job, THE_KEY="of the shell", OTHER="left behind").stdout == "[0] of the shell\n"
    with (home / "config.toml").open("a") as file:
        file.write('[profiles.default.secrets]\nTHE_KEY = "of the profile"\n')
    (home / "config.toml").chmod(0o600)
    assert muster("run", job).stdout == "[0] of the profile\n"
    assert muster("rerun", "last").stdout == "[0] of the profile\n"


def test_a_job_is_checked_without_being_started(muster: Muster, write_job: WriteJob) -> None:
    job = write_job(HELLO)
    done = muster("run", job, "--check")
    assert (done.returncode, done.stdout) == (0, "job: no problems (2 ranks on 1 node)\n")
    assert json.loads(muster("ps", "--json").stdout) == []


def test_a_measurement_is_computed_here_from_records_of_the_server(muster: Muster, write_job: WriteJob, home: Path) -> None:
    train = "from muster import record\nrecord.metric('throughput', 20.0)\nrecord.metric('accuracy', 0.9)\n"
    job = write_job({"bench": {"repeats": 2}}, **{"train.py": train})
    done = muster("bench", job, "--json", "--export", "result.tar.gz")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["verdict"]["passed"], result["metrics"]["throughput"]["list"]) == (True, [20.0, 20.0])
    ids = [row["run"] for row in json.loads(muster("ps", "--json").stdout)]
    assert [run["run"] for run in result["runs"]] == ids[::-1]
    assert not (home / "runs").exists() and not (home / "benches").exists(), "what is fetched has a place of its own"
    assert muster("verify", "result.tar.gz").returncode == 0
    for name, found in ((result["id"], result["id"]), ("last", result["id"]), (ids[0], ids[0])):
        assert [one["id"] for one in json.loads(muster("report", name, "--json").stdout)["results"]] == [found]
    assert muster("rm", result["id"]).stdout == "removed 3 runs\n"
    assert json.loads(muster("ps", "--json").stdout) == []


def test_a_run_that_goes_on_has_no_report_yet(muster: Muster, write_job: WriteJob) -> None:
    run = muster("run", write_job(GOES_ON), "--detach").stdout.strip()
    done = muster("report", run)
    assert (done.returncode, f"muster: {run} has not ended; `muster wait {run}` waits for it\n") == (2, done.stderr)
    muster("stop", run, "--now")


def test_exec_has_a_terminal_where_the_user_has_one(
    command: list[str], muster: Muster, write_job: WriteJob, show: Show
) -> None:
    run = muster("run", write_job(GOES_ON), "--detach").stdout.strip()
    until(lambda: show(run)["state"] == "running")
    words = [*command[1:], "exec", run, "--", "bash", "--norc"]
    child = pexpect.spawn(command[0], words, encoding="utf-8", timeout=60, dimensions=(31, 97))
    try:
        child.sendline("stty size; echo rank $MUSTER_RANK")
        child.expect_exact("31 97")
        child.expect_exact("rank 0")
        child.setwinsize(40, 100)
        # The new size and the keys reach the shell in requests of their own, in any order.
        child.sendline("until [ \"$(stty size)\" = '40 100' ]; do sleep 0.1; done; echo re''sized")
        child.expect_exact("resized")
        child.sendline("sleep 1000")
        child.sendintr()  # for the command there, not for this one
        child.sendline("exit 7")
        child.expect(pexpect.EOF)
        child.wait()
    finally:
        child.close(force=True)
    assert child.exitstatus == 7
    muster("stop", run, "--now")


@pytest.mark.parametrize("words", [["ps"], ["show", "last"], ["logs", "last"], ["wait", "last"], ["run", "--", "true"]])
def test_a_server_that_does_not_answer_is_exit_code_3(muster: Muster, home: Path, words: list[str]) -> None:
    profile = home / "servers" / "default.json"
    profile.write_text(re.sub(r"127.0.0.1:\d+", "127.0.0.1:1", profile.read_text()))
    done = muster(*words)
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot be reached" in done.stderr and "check the address" in done.stderr


def test_a_token_that_was_revoked_is_exit_code_2(muster: Muster, home: Path, user: User) -> None:
    profile = home / "servers" / "default.json"
    profile.write_text(profile.read_text().replace(user.token, "mst_" + "0" * 40))
    done = muster("ps")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_server_is_named_by_login_or_address(muster: Muster, home: Path, user: User) -> None:
    (home / "config.toml").unlink()
    assert muster("ps").stderr == "no runs; `muster run job.yaml` starts one\n"
    for words in (["--server"], ["--server", "default"], ["--server", user.server.url]):
        assert muster("ps", *words).returncode == 0
    done = muster("ps", "--server", "elsewhere")
    assert (done.returncode, "`muster login URL --profile elsewhere`" in done.stderr) == (2, True)
    done = muster("ps", "--server", "https://elsewhere.example")
    assert (done.returncode, "run `muster login https://elsewhere.example`" in done.stderr) == (2, True)


def test_ctrl_c_without_a_terminal_stops_the_run(command: list[str], write_job: WriteJob, show: Show) -> None:
    import subprocess

    job = write_job({"command": SAVES, "grace": "20s"})
    process = subprocess.Popen([*command, "run", str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"[0] ready\n"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout.endswith(b"[0] saved\n")) == (130, True)
    assert b"stopped by the user (Ctrl-C)" in stderr


@pytest.mark.parametrize(("answer", "code", "state"), [("l", 0, "running"), ("s", 130, "stopped")])
def test_ctrl_c_on_a_terminal_asks(
    command: list[str], muster: Muster, write_job: WriteJob, show: Show, answer: str, code: int, state: str
) -> None:
    job = write_job({"command": SAVES, "grace": "2s"})
    child = pexpect.spawn(command[0], [*command[1:], "run", str(job)], encoding="utf-8", timeout=60)
    try:
        child.expect_exact("ready")
        child.sendintr()
        child.expect_exact("[s]top, [l]eave: ")
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.wait()
    finally:
        child.close(force=True)
    assert child.exitstatus == code
    assert show("last")["state"] == state
    muster("stop", "last", "--now")
