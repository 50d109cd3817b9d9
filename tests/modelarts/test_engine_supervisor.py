"""The supervisor of a run in ModelArts, against a service that answers as the documentation says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from modelarts_scene import collected as collected
from vendor_answers import OUTAGE, Answer, answering

from conftest import until
from muster.engines.modelarts.node.account import Account
from muster.engines.modelarts.options import ModelArtsOptions
from muster.job import Job
from muster.job.data import Data
from muster.linux import keys
from muster.records import derive, state, submissions
from muster.records.files import Events, read_events, write_json
from muster.records.layout import RunDir
from muster.records.run_view import RunView
from muster.storage import Settings

JOB: dict[str, Any] = {
    "name": "steps",
    "framework": "pytorch",
    "compat": "modelarts-v2",
    "boot": "train.py",
    "code": "/program",
    "nodes": 2,
    "outputs": {"train_url": Data("obs://bucket/out")},
    "modelarts": ModelArtsOptions(store="obs://bucket/muster", flavor="f", engine="e", api="v2"),
}
STARTED = 1_700_000_000_000
QUEUED = {"phase": "Pending", "secondary_phase": "Queuing", "message": "2 jobs are before it"}
RUNNING = {"phase": "Running", "start_time": STARTED}
COMPLETED = {"phase": "Completed", "start_time": STARTED, "duration": 1500}
FAILED = {
    "phase": "Failed",
    "start_time": STARTED,
    "duration": 1500,
    "task_statuses": [
        {"task": "worker-0", "exit_code": 143, "message": ""},
        {"task": "worker-1", "exit_code": 3, "message": "out of luck"},
    ],
}


@dataclass
class Jobs:
    """The jobs of a service: each look at one is answered by the next of these states, and the last stays."""

    states: list[dict[str, Any]]
    made: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    looks: int = 0
    lines: int = 6
    unread: bool = False  # whether logs cannot be read

    def answer(self, method: str, path: str, body: Any) -> Answer:
        parts = urlsplit(path)
        if (method, path) == ("POST", "/v2/training-jobs"):
            self.made.append(body)
            self.looks = 0
            return 201, {}, {"metadata": {"id": f"j{len(self.made)}"}, "status": {"phase": "Creating"}}
        if path.endswith("/actions"):
            self.stopped.append(path)
            return 202, {}, {}
        if path.endswith("/tasks"):
            return 200, {}, [{"task": "worker-0", "ip": "172.16.0.4", "host_ip": "10.0.0.4"}]
        if "/logs/" in path and self.unread:
            return 503, {}, OUTAGE
        if "/logs/" in path:
            base = int(parse_qs(parts.query)["base_line"][0])
            lines = [f"line {number}" for number in range(base, self.lines)]
            content = "".join(f"{line}\n" for line in lines)
            return 200, {}, {"start_line": str(base + 1 if lines else base), "end_line": str(self.lines), "content": content}
        found = {"phase": "Terminated"} if self.stopped else self.states[min(self.looks, len(self.states) - 1)]
        self.looks += 1
        return 200, {}, {"status": found}


@dataclass
class Supervised:
    run: RunDir
    start: Callable[[], subprocess.Popen[bytes]]

    def end(self, process: subprocess.Popen[bytes]) -> RunView:
        assert process.wait(100) == 0, Path(self.run.log).read_text()
        found = state.recorded(self.run)
        assert found is not None
        return found

    def begun(self, attempt: int = 1) -> bool:
        return Path(self.run.attempt(attempt).node(1).topic("up")).exists()

    def log(self, node: int = 0) -> str:
        return Path(self.run.attempt(1).node(node).log(f"rank-{node}")).read_text()


@pytest.fixture
def supervised(home: Path, tmp_path: Path) -> Callable[..., Any]:
    @contextmanager
    def make(jobs: Jobs, **fields: Any) -> Iterator[Supervised]:
        run = RunDir(str(home / "runs/steps-20260101-000000-abcd"))
        for folder in (run.path, home / "store/bucket", tmp_path / "digest"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "digest/train.py").write_text("pass\n")
        job = Job(**{**JOB, **fields})
        write_json(run.job, job.to_json())
        write_json(run.run, {"run": run.id, "engine": "modelarts", "handle": "1:1:x:y:z", "created": time.time()})
        with answering(lambda *words: jobs.answer(*words)) as service, open(run.log, "ab") as log:
            account = Account(service.url, project="project", access_key="a", secret_key="b", every=0.05)
            environment = {**os.environ, keys.SERVICE: account.to_json(), keys.STORAGE: Settings(str(home)).to_json()}
            archive = tmp_path / "agent.pyz"  # only its bytes count here
            archive.write_bytes(b"the agent")
            main = (
                f"import sys; from muster.agent.main import main; sys.argv[0] = {str(archive)!r}; sys.exit(main(sys.argv[1:]))"
            )
            words = ["supervise", run.path, "--code", str(tmp_path / "digest"), "--python", sys.executable]
            started: list[subprocess.Popen[bytes]] = []

            def start() -> subprocess.Popen[bytes]:
                given = {**environment, "MUSTER_SUBMISSION": str(len(started) + 1)}
                argv = [sys.executable, "-c", main, *words, "--site", "modelarts"]
                started.append(subprocess.Popen(argv, env=given, stdout=log, stderr=log))
                return started[-1]

            try:
                yield Supervised(run, start)
            finally:
                for process in started:
                    process.kill()
                    process.wait()

    return make


def test_a_job_waits_in_the_queue_runs_and_is_recorded(supervised: Any, home: Path) -> None:
    jobs = Jobs([*[QUEUED] * 3, RUNNING, RUNNING, COMPLETED])
    with supervised(jobs) as one:
        found = one.end(one.start())
    assert (found.state, found.reason) == ("succeeded", "all 2 ranks succeeded")
    waited = [event["reason"] for event in read_events(one.run.events) if event["event"] == "waiting"]
    assert "in the queue of ModelArts: Pending (Queuing): 2 jobs are before it" in waited
    assert one.log(0) == one.log(1) == "".join(f"line {number}\n" for number in range(6))
    [made] = jobs.made
    assert made["metadata"] == {"name": f"{one.run.id}-1", "description": f"Muster run {one.run.id}, attempt 1"}
    code = made["algorithm"]["code_dir"]
    assert (home / "store" / code.strip("/") / "train.py").read_text() == "pass\n"
    facts = json.loads(Path(one.run.attempt(1).node(0).facts).read_text())
    assert (facts["host"], facts["address"], facts["devices"], facts["agent"]) == ("10.0.0.4", "172.16.0.4", [], None)
    ended = json.loads(Path(one.run.attempt(1).node(1).exit).read_text())["processes"]
    times = (STARTED / 1000, (STARTED + 1500) / 1000)
    assert [(entry["pid"], entry["code"], entry["started"], entry["ended"]) for entry in ended] == [(None, 0, *times)]


def test_a_failure_is_that_of_the_task_that_the_service_explains(supervised: Any) -> None:
    jobs = Jobs([RUNNING, FAILED])
    with supervised(jobs, retries=1) as one:
        found = one.end(one.start())
    assert (found.state, found.reason) == ("failed", "rank 1 on node 1 exited with code 3 (attempt 2 of 2)")
    assert found.failure is not None and found.failure.tail[-1] == "line 5"
    assert found.failure.others == ("rank 0 on node 0 exited with code 143 (128 + SIGTERM)",)
    assert [made["metadata"]["name"] for made in jobs.made] == [f"{one.run.id}-1", f"{one.run.id}-2"]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"phase": "Abnormal", "secondary_phase": "Lost"}, ("lost", "the job was lost in ModelArts: Abnormal (Lost)")),
        ({"phase": "Terminated"}, ("stopped", "it was stopped in ModelArts, not by Muster")),
        (
            {"phase": "Failed", "secondary_phase": "CreateFailed"},
            ("failed", "the job failed in ModelArts: Failed (CreateFailed); the service gives no exit code"),
        ),
    ],
)
def test_other_ends_are_told_as_the_service_tells_them(
    supervised: Any, last: dict[str, Any], expected: tuple[str, str]
) -> None:
    with supervised(Jobs([QUEUED, last])) as one:
        found = one.end(one.start())
    assert (found.state.value, found.reason) == expected


def test_a_run_that_is_stopped_in_the_queue_withdraws_its_job(supervised: Any) -> None:
    jobs = Jobs([QUEUED])
    with supervised(jobs) as one:
        process = one.start()
        until(lambda: jobs.looks > 1)
        write_json(one.run.stop, {"reason": "stopped by the user"})
        found = one.end(process)
    assert (found.state, found.reason, jobs.stopped) == ("stopped", "stopped by the user", ["/v2/training-jobs/j1/actions"])


def test_the_time_limit_stops_the_job(supervised: Any) -> None:
    jobs = Jobs([QUEUED, RUNNING])
    with supervised(jobs, time_limit=0.5) as one:
        found = one.end(one.start())
    assert (found.state, found.reason) == ("failed", "it took longer than its time limit of 500ms")
    assert jobs.stopped == ["/v2/training-jobs/j1/actions"]
    assert jobs.made[0]["spec"]["auto_stop"] == {"time_unit": "HOURS", "duration": 1}


def test_outputs_come_back_and_stale_code_is_gone(supervised: Any, home: Path, tmp_path: Path) -> None:
    """With a folder of its own for the code, as private clouds have, and an output on this machine."""
    for name in ("fixed/old.py", "fixed/train.py", "muster/runs/steps-20260101-000000-abcd/train_url/throughput_0.json"):
        path = home / "store/bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("7.5")
    options = ModelArtsOptions(store="obs://bucket/muster", code_dir="obs://bucket/fixed", flavor="f", engine="e", api="v2")
    jobs = Jobs([COMPLETED])
    with supervised(jobs, modelarts=options, outputs={"train_url": Data(str(tmp_path / "out"))}, nodes=1) as one:
        assert one.end(one.start()).state == "succeeded"
    assert [path.name for path in (home / "store/bucket/fixed").iterdir()] == ["train.py"]
    assert jobs.made[0]["algorithm"]["boot_file"] == "/bucket/fixed/train.py"
    assert (tmp_path / "out/throughput_0.json").read_text() == "7.5"
    kept = Path(one.run.attempt(1).node(0).path)
    assert (kept / "outputs/train_url/throughput_0.json").read_text() == "7.5"
    [listed] = json.loads((kept / "results/outputs.json").read_text())
    assert listed["stale"] is True  # it lay there before the job


def test_logs_that_cannot_be_read_are_no_silence(supervised: Any) -> None:
    jobs = Jobs([RUNNING], unread=True)
    with supervised(jobs, nodes=1, silent_limit=0.3) as one:
        process = one.start()
        until(lambda: jobs.looks > 20)  # a second at least
        jobs.states, jobs.unread = [COMPLETED], False
        assert one.end(process).state == "succeeded"


def test_a_job_that_writes_nothing_is_stopped(supervised: Any) -> None:
    jobs = Jobs([RUNNING])
    with supervised(jobs, nodes=1, silent_limit=0.3) as one:
        found = one.end(one.start())
    assert (found.state, found.reason) == ("failed", "nothing was written for 300ms (silent_limit)")


def test_outputs_come_while_the_job_runs(supervised: Any, home: Path) -> None:
    jobs = Jobs([RUNNING])
    with supervised(jobs, nodes=1) as one:
        (home / "store/bucket/out").mkdir()
        (home / "store/bucket/out/model.txt").write_text("half trained")
        process = one.start()
        kept = Path(one.run.attempt(1).node(0).path, "outputs/train_url/model.txt")
        until(kept.exists)
        assert (kept.read_text(), state.recorded(one.run)) == ("half trained", None)
        jobs.states = [COMPLETED]
        assert one.end(process).state == "succeeded"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_job_of_a_supervisor_that_is_gone_is_taken_over(supervised: Any, number: int) -> None:
    jobs = Jobs([RUNNING], lines=3)
    with supervised(jobs) as one:
        process = one.start()
        until(lambda: one.begun() and Path(one.run.attempt(1).node(1).log("rank-1")).exists())
        process.send_signal(number)
        assert process.wait(60) != 0
        assert state.recorded(one.run) is None and jobs.stopped == []
        jobs.lines = 8
        jobs.states = [RUNNING, COMPLETED]
        jobs.looks = 0
        found = one.end(one.start())
    assert (found.state, len(jobs.made), len(found.attempts)) == ("succeeded", 1, 1)
    assert one.log(1) == "".join(f"line {line}\n" for line in range(8))


def test_taking_a_running_job_over_again_and_again_is_not_in_vain(supervised: Any) -> None:
    jobs = Jobs([RUNNING])
    with supervised(jobs) as one:
        process = one.start()
        until(one.begun)
        process.kill()
        process.wait()
        for number in range(2, 10):
            assert submissions.claim(one.run, number, f"{number}:1:x:y:z", "it was cut off")
            events = Events(one.run.events)
            events.add("resumed", attempt=1)
            events.close()
        assert derive.in_vain(state.read(one.run)) == ""


def test_a_supervisor_that_ended_before_the_answer_finds_the_job(supervised: Any) -> None:
    """Its name was noted, and its id was not."""
    jobs = Jobs([COMPLETED])
    with supervised(jobs) as one:
        entry = {"api": "v2", "name": f"{one.run.id}-1", "created": time.time(), "before": {}}
        write_json(one.run.service, {"jobs": {"1": entry}})
        whole = jobs.answer

        def answer(method: str, path: str, body: Any) -> Answer:
            if path == "/v2/training-job-searches":
                return 200, {}, {"items": [{"metadata": {"id": "j9", "name": f"{one.run.id}-1", "create_time": 1}}]}
            return whole(method, path, body)

        jobs.answer = answer  # type: ignore[method-assign]
        found = one.end(one.start())
    assert (found.state, jobs.made) == ("succeeded", [])
    assert json.loads(Path(one.run.service).read_text())["jobs"]["1"]["job"] == "j9"
