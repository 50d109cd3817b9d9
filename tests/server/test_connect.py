"""`muster.connect`: a server from Python, with what `muster` itself has for this machine."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import pytest

import muster
from conftest import WriteJob, until
from muster.client.api import Server
from muster.client.runs import RemoteRun
from muster.launch.names import RunNotFound
from muster.tester.errors import Misused
from muster_server import User

TRAINS = """
from muster import record
for step in range(5):
    record.metric("loss", 5 - step, step=step)
    print(f"step {step} of <5>")
"""


@pytest.fixture(autouse=True)
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mappings run the current directory: here a small one."""
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "code")


def test_types_are_known_to_checkers() -> None:
    """mypy reads this; nothing runs."""

    def reads() -> None:
        server = muster.connect()
        assert_type(server, Server)
        assert_type(server.run("job.yaml"), RemoteRun)
        assert_type(server.get("last").wait(), str)


def test_a_job_is_run_followed_and_looked_at(user: User, write_job: WriteJob) -> None:
    with muster.connect(user.server.url) as server:
        assert repr(server) == f"<Server {user.server.url} as {user.name}>"
        run = server.run(write_job(**{"train.py": TRAINS}))
        said = b"".join(chunk.data for chunk in run.follow(rank=0))
        assert said.decode() == "".join(f"step {step} of <5>\n" for step in range(5))
        assert (run.wait(), run.state, run.ended, run.warnings) == ("succeeded", "succeeded", True, [])
        assert b"".join(run.logs()) == said
        assert [rank["state"] for rank in run.ranks()] == ["succeeded"]
        assert [attempt["state"] for attempt in run.attempts()] == ["succeeded"]
        assert run.job.name == "job"
        assert run.curves()["loss"] == [(0.0, 5.0), (1.0, 4.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0)]
        shown = run._repr_html_()
        assert f"<code>{run.id}</code>" in shown and ">succeeded</b>" in shown and "<polyline" in shown
        assert "step 4 of &lt;5&gt;" in shown
        assert [found.id for found in server.list_runs()] == [run.id] == [server.get("last").id]
        run.remove()
        assert server.list_runs() == []


def test_a_run_that_goes_on_shows_its_curves(user: User, write_job: WriteJob) -> None:
    with muster.connect(user.server.url) as server:
        run = server.run(write_job({"grace": "0s"}, **{"train.py": f"{TRAINS}\nimport time\ntime.sleep(1000)\n"}))
        until(lambda: len(run.curves().get("loss", [])) == 5)
        assert not run.ended and run.curves()["loss"][-1] == (4.0, 1.0)
        assert "<polyline" in run._repr_html_()
        run.stop(now=True)


def test_a_run_is_stopped_and_started_again(user: User) -> None:
    with muster.connect() as server:
        run = server.run({"command": "echo $WORD; sleep 1000", "device": "cpu", "grace": "1s"}, set=["env.WORD=hello"])
        until(lambda: list(run.logs()) == [b"hello\n"] if run.state == "running" else False)
        assert (run.wait(0.1), run.ended) == ("running", False)
        shown = run._repr_html_()
        assert ">running</b>" in shown and "hello" in shown, "also while it goes on"
        assert run.stop(now=True) == "stopped"
        assert run.reason == f"stopped by {user.name}"
        again = run.rerun(set=["command=echo again"])
        assert again.wait() == "succeeded"
        assert b"".join(again.logs()) == b"again\n"


def test_mistakes_are_those_of_this_machine(user: User, tmp_path: Path) -> None:
    with muster.connect() as server:
        with pytest.raises(muster.JobError) as refused:
            server.run({"command": "true", "nodes": 0, "devises": 2})
        assert [problem.field for problem in refused.value.problems] == ["nodes", "devises"]
        with pytest.raises(muster.JobError) as refused:
            server.run({"command": "true", "inputs": {"data": "somewhere"}})
        assert "muster cp" in refused.value.problems[0].hint
        with pytest.raises(muster.RunNotFound):
            server.get("nothing")
    with pytest.raises(Misused, match="muster login"):
        muster.connect("elsewhere")


def test_a_job_that_was_loaded_here_runs_there(user: User, write_job: WriteJob) -> None:
    job = muster.load(write_job({"parameters": {"word": "loaded"}}, **{"train.py": "import sys; print(sys.argv[1:])"}))
    with muster.connect() as server:
        run = server.run(job)
        assert run.wait() == "succeeded", run.reason
        assert b"".join(run.logs()) == b"['--word=loaded']\n"


def test_hints_name_the_server_unless_the_settings_do(user: User, home: Path) -> None:
    with muster.connect() as server:
        run = server.run({"command": "true", "device": "cpu"})
        run.wait()
        assert run.option == ""
        (home / "config.toml").unlink()
        assert run.option == " --server"
        with pytest.raises(RunNotFound, match="`muster ps --server` lists them"):
            server.get("nothing")
