"""What the engine modelarts makes of answers: of throttling, keys that are refused, outages, states, and logs by place."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from broken_line import FAULTS, broken_line
from hypothesis import given, settings
from hypothesis import strategies as st
from modelarts_scene import collected as collected
from vendor_answers import DUPLICATE, EXPIRED, OUTAGE, THROTTLED, Answer, Service, answering

from conftest import until
from muster.engines.modelarts.node import jobs, request, shown
from muster.engines.modelarts.node.account import Account
from muster.engines.modelarts.node.client import Client, KeysRefused, Refused, Unanswered
from muster.engines.modelarts.node.jobs import JobId, JobsV2, Page
from muster.engines.modelarts.node.journal import START, Journal
from muster.engines.modelarts.node.log_lines import LogLines
from muster.engines.modelarts.node.transfers import Transfers
from muster.engines.modelarts.node.watcher import Watcher
from muster.engines.modelarts.options import ModelArtsOptions
from muster.job import Job
from muster.job.data import Data
from muster.records.layout import RunDir
from muster.storage import Settings

JOB = Job(
    name="steps",
    compat="modelarts-v2",
    boot="train.py",
    code="/program",
    outputs={"train_url": Data("obs://bucket/out")},
    modelarts=ModelArtsOptions(store="obs://bucket/muster", flavor="f", engine="e", api="v2"),
)


def account(url: str, **more: Any) -> Account:
    return Account(url, project="project", access_key="OLD", secret_key="secret", every=0.02, **{"timeout": 2.0, **more})


def shows(phase: str) -> dict[str, Any]:
    return {"metadata": {"id": "j"}, "status": {"phase": phase, "secondary_phase": phase, "start_time": 1_700_000_000_000}}


@pytest.fixture
def ask() -> Iterator[Callable[[Answer], Any]]:
    """Asks for a job, which is answered like this."""
    made: list[Client] = []

    def call(answer: Answer) -> Any:
        with answering(lambda *words: answer) as service:
            made.append(Client(account(service.url)))
            return made[-1].ask("GET", "/v2/{project_id}/training-jobs/j")

    yield call
    for client in made:
        client.close()


def test_errors_are_sorted_by_what_can_be_done(ask: Callable[[Answer], Any]) -> None:
    with pytest.raises(Unanswered, match=r"APIG\.0308") as throttled:
        ask((429, {"Retry-After": "7"}, THROTTLED))
    assert throttled.value.after == 7.0
    with pytest.raises(Unanswered, match="Backend timeout"):
        ask((504, {}, OUTAGE))
    with pytest.raises(KeysRefused, match="token expires"):
        ask((401, {}, EXPIRED))
    with pytest.raises(Refused) as refused:
        ask((400, {}, DUPLICATE))
    assert refused.value.code == "ModelArts.2751"
    assert ask((204, {}, None)) == {}  # "logs are not ready" (ModelArts.2776) has no body
    client = Client(account("http://127.0.0.1:1"))
    with pytest.raises(Unanswered):
        client.ask("GET", "/v2/{project_id}/training-jobs")
    client.close()


def test_names_are_found_at_the_addresses_of_the_settings() -> None:
    """As private clouds need it: the service has a name that no name service knows."""
    with answering(lambda *words: (200, {}, shows("Running"))) as service:
        port = service.url.rpartition(":")[2]
        private = account(f"http://modelarts.private.example:{port}", addresses={"*.private.example": "127.0.0.1"})
        assert Account.from_json(private.to_json()) == private
        client = Client(private)
        assert JobsV2(client).show(JobId("j")).state == shown.RUNNING
        client.close()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Callable[..., Watcher]]:
    """Starts the thread that follows a job, whose code and outputs are in the store of a home."""
    started: list[tuple[Watcher, Client]] = []

    def start(service: Service, **more: Any) -> Watcher:
        run = RunDir(str(tmp_path / "home/runs/steps-20260101-000000-abcd"))
        for folder in (run.path, tmp_path / "home/store/bucket", tmp_path / "digest"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "digest/train.py").write_text("pass\n")
        client = Client(account(service.url, **more))
        transfers = Transfers(JOB, str(tmp_path / "digest"), Settings(str(tmp_path / "home")))
        watcher = Watcher(JOB, run.id, 1, client, jobs.of(client, "v2"), Journal(run), transfers)
        started.append((watcher, client))
        watcher.start()
        return watcher

    yield start
    for watcher, client in started:
        watcher.give_up()
        watcher.join()
        watcher.close()
        client.close()


def test_a_job_whose_creation_was_not_answered_is_found_and_a_second_one_is_stopped(
    followed: Callable[..., Watcher], tmp_path: Path
) -> None:
    made: list[str] = []
    stopped: list[str] = []

    def answer(method: str, path: str, body: Any) -> Answer:
        if (method, path) == ("POST", "/v2/training-jobs"):
            made.append(body["metadata"]["name"])
            return (429, {"Retry-After": "0"}, THROTTLED) if len(made) == 1 else (502, {}, OUTAGE)
        if path == "/v2/training-job-searches":  # two requests were carried out, and the answer to none came
            names = made if len(made) == 3 else []
            return (
                200,
                {},
                {
                    "items": [
                        {"metadata": {"id": f"id-{number}", "name": name, "create_time": number}}
                        for number, name in enumerate(names)
                    ]
                },
            )
        if path.endswith("/actions"):
            stopped.append(path)
            return 202, {}, {}
        return 200, {}, shows("Running")

    with answering(answer) as service:
        watcher = followed(service)
        until(lambda: watcher.shown)
        assert (len(made), len(set(made))) == (3, 1)
        assert stopped == ["/v2/training-jobs/id-1/actions", "/v2/training-jobs/id-2/actions"]
        journal = Journal(RunDir(str(tmp_path / "home/runs/steps-20260101-000000-abcd")))
        assert journal.job(1) == JobId("id-0") and journal.name(1) == made[0]


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_breaks_a_creation_there_is_one_job(followed: Callable[..., Watcher], fault: str) -> None:
    made: list[str] = []

    def answer(method: str, path: str, body: Any) -> Answer:
        if (method, path) == ("POST", "/v2/training-jobs"):
            made.append(body["metadata"]["name"])
            return 201, {}, shows("Creating")
        if path == "/v2/training-job-searches":
            return 200, {}, {"items": [{"metadata": {"id": "j", "name": name, "create_time": 1}} for name in made]}
        return 200, {}, shows("Running")

    def is_creation(line: str) -> bool:
        return line.startswith("POST") and line.split()[1].endswith("/training-jobs")

    with answering(answer) as service, broken_line(int(service.url.rpartition(":")[2]), [fault], is_creation) as line:
        service.url = line.url
        watcher = followed(service, timeout=0.3)
        until(lambda: watcher.shown)
        assert (line.happened, len(made), watcher.shown and watcher.shown.state) == ([fault], 1, shown.RUNNING)
        watcher.give_up()
        watcher.join()


def test_expired_keys_are_read_again_from_their_file(followed: Callable[..., Watcher], tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch(0o600)
    keys.write_text("[default]\naws_access_key_id = OLD\naws_secret_access_key = s\naws_session_token = old\n")

    def answer(method: str, path: str, body: Any) -> Answer:
        if method == "POST":
            return 201, {}, shows("Creating")
        return (401, {}, EXPIRED) if service.keys[-1] == "OLD" else (200, {}, shows("Running"))

    with answering(answer) as service:
        watcher = followed(service, keys=str(keys))
        until(lambda: "the keys are refused" in watcher.reason)
        keys.write_text("[default]\naws_access_key_id = NEW\naws_secret_access_key = s\naws_session_token = new\n")
        until(lambda: watcher.shown)
        sent = [*zip(service.keys, service.tokens, strict=True)]
        assert (sent[0], sent[-1]) == (("OLD", None), ("NEW", "new"))
        assert watcher.shown and watcher.shown.state == shown.RUNNING and watcher.reason == ""


def test_keys_that_are_refused_before_there_is_a_job_end_the_run(followed: Callable[..., Watcher]) -> None:
    with answering(lambda *words: (401, {}, EXPIRED)) as service:
        watcher = followed(service)
        until(lambda: watcher.over)
        assert "token expires" in watcher.refused and "config.toml" in watcher.refused


def test_an_outage_of_logs_alone_keeps_nothing_else_from_going_on(followed: Callable[..., Watcher], tmp_path: Path) -> None:
    outage, ended = threading.Event(), threading.Event()
    outage.set()

    def answer(method: str, path: str, body: Any) -> Answer:
        if path.startswith("/v2/training-jobs/j/logs/worker-0"):
            lines = {
                "start_line": "1551252759254000002",
                "end_line": "1551252759254000003",
                "lines": 2,
                "content": "one\ntwo\n",
            }
            return (503, {}, OUTAGE) if outage.is_set() else (200, {}, lines)
        if method == "POST" and path == "/v2/training-jobs":
            return 201, {}, shows("Creating")
        return 200, {}, shows("Completed") if ended.is_set() else shows("Running")

    with answering(answer) as service:
        watcher = followed(service)
        until(lambda: watcher.shown)
        attempt = RunDir(str(tmp_path / "home/runs/steps-20260101-000000-abcd")).attempt(1)
        watcher.begin(attempt)
        until(lambda: sum("/logs/" in path for _, path in service.asked) > 2)
        ended.set()
        until(lambda: watcher.shown and watcher.shown.over)
        before = len(service.asked)
        until(lambda: len(service.asked) > before + 3)
        assert not watcher.over
        outage.clear()
        until(lambda: watcher.over)
        assert Path(attempt.node(0).log("rank-0")).read_text() == "one\ntwo\n"


def test_a_job_that_was_deleted_elsewhere_is_lost(followed: Callable[..., Watcher]) -> None:
    def answer(method: str, path: str, body: Any) -> Answer:
        if method == "POST":
            return 201, {}, shows("Creating")
        return 400, {}, {"error_code": "ModelArts.2775", "error_msg": "The training job does not exist"}

    with answering(answer) as service:
        watcher = followed(service)
        until(lambda: watcher.shown)
        assert watcher.shown and (watcher.shown.state, watcher.shown.words) == ("lost", "it was deleted in ModelArts")


def test_states_of_both_versions_are_told_in_words() -> None:
    failed = {
        "phase": "Failed",
        "secondary_phase": "CreateFailed",
        "task_statuses": [{"task": "worker-1", "exit_code": 3, "message": "m"}],
    }
    found = shown.of_v2({"status": failed})
    assert (found.state, found.words, found.ends["worker-1"].code) == ("failed", "Failed (CreateFailed): m", 3)
    assert shown.of_v2({"status": {"phase": "Pending", "secondary_phase": "Queuing"}}).words == "Pending (Queuing)"
    assert shown.of_v2({"status": None}).state == shown.of_v1({"status": "x"}).state == "queued"
    states = [shown.of_v1({"status": number}).state for number in (7, 8, 9, 10, 11, 12, 13, 14)]
    assert states == ["queued", "running", "stopping", "succeeded", "failed", "stopped", "stopped", "lost"]
    assert shown.of_v1({"status": 7}).words == "WAITING"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = (
    "phase",
    "secondary_phase",
    "message",
    "task_statuses",
    "running_records",
    "start_time",
    "duration",
    "status",
    "error_msg",
)
ODD = anything | st.lists(st.fixed_dictionaries({"task": anything, "exit_code": anything, "message": anything}), max_size=2)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(NAMES), ODD))
def test_no_answer_is_too_odd(answer: dict[str, Any]) -> None:
    for found in (shown.of_v2({"status": answer}), shown.of_v1(answer)):
        assert found.state and "\n" not in found.words and len(found.words) < 1000


@given(st.text(min_size=1, max_size=64), st.integers(1, 999))
def test_names_of_jobs_are_those_that_the_service_takes(name: str, attempt: int) -> None:
    found = request.service_name(f"{name}-20261119-055711-abcd", attempt)
    assert re.fullmatch(r"[0-9A-Za-z_-]{1,64}", found) and found.endswith(f"-20261119-055711-abcd-{attempt}")


@settings(max_examples=80)
@given(
    st.lists(st.text("ab \r日", max_size=4), max_size=30),
    st.lists(st.integers(0, 60), max_size=12),
    st.booleans(),
    st.integers(2, 5),
    st.sets(st.integers(0, 11)),
)
def test_each_line_of_a_growing_log_comes_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], sizes: list[int], inclusive: bool, most: int, restarts: set[int]
) -> None:
    """However the log grows between two looks, whatever the service counts by, and whenever a supervisor takes over."""
    whole = "\n".join(lines)
    path = str(tmp_path_factory.mktemp("log") / "logs" / "rank-0.log")
    moved = [(START, 0)]
    seen = ""

    def page(place: str) -> Page:
        known = seen.split("\n") if seen else []
        first = 0 if place == START else int(place) // 7 - (1 if inclusive else 0)
        part = known[first : first + most]
        return Page(str((first + 1) * 7) if part else place, str((first + len(part)) * 7), part)

    def log() -> LogLines:
        return LogLines(path, *moved[-1], lambda place, count: moved.append((place, count)), most)

    reader = log()
    for number, size in enumerate([*sorted(sizes), len(whole)]):
        seen = whole[: min(size, len(whole))]
        if number in restarts:
            reader = log()
        while reader.bring(page):
            pass
    reader.finish()
    written = Path(path).read_bytes().decode() if Path(path).exists() else ""
    assert written.removesuffix("\n") == whole.removesuffix("\n")


def test_hosts_are_those_that_the_service_names() -> None:
    tasks = [{"task": "worker-1", "ip": "172.16.0.9", "host_ip": "10.0.0.9"}, {"task": "ps-0", "ip": "1.1.1.1"}]
    with answering(lambda *words: (200, {}, tasks)) as service:
        client = Client(account(service.url))
        assert JobsV2(client).hosts(JobId("j")) == {1: {"host": "10.0.0.9", "address": "172.16.0.9"}}
        client.close()
