"""The queue of a server: who starts when, why others wait, quotas, pauses, and runs that make room and go on later."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from run_client import RunClient

from conftest import until
from muster_server import MusterServer, server_folder

LAB = "[pools.lab]\ntrusted = true\ncpu = 2\nminimum_runtime = 0\n"


@dataclass
class Lab:
    """A server whose one pool gives out two slots, with an administrator."""

    server: MusterServer
    administrator: str
    folder: Path

    @contextmanager
    def client(self, project: str = "vision", token: str | None = None) -> Iterator[RunClient]:
        with self.server.http(token or self.administrator) as http:
            yield RunClient(http, project)

    def member(self, name: str, project: str = "vision", role: str = "member") -> str:
        """A user of a project; returns a token."""
        self.server.make_user(self.administrator, name)
        with self.server.http(self.administrator) as http:
            assert http.put(f"/api/v1/projects/{project}/members/{name}", json={"role": role}).status_code == 200
        return self.server.token(name)

    def gate(self, name: str) -> Path:
        """A file for which jobs wait."""
        return self.folder / name

    def open(self, *gates: str) -> None:
        for name in gates:
            self.gate(name).touch()

    def holding(self, gate: str, devices: int = 2, more: str = "") -> str:
        """A job that holds devices until its gate opens."""
        wait = f"while [ ! -e {self.gate(gate)} ]; do sleep 0.05; done"
        return f"name: {gate}\ndevice: cpu\ndevices: {devices}\ncommand: '{wait}; echo done'\ngrace: 0s\n{more}"


@pytest.fixture(params=["sqlite", "postgresql"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    words = ["--database", request.getfixturevalue("postgres_url")] if request.param == "postgresql" else []
    with made(tmp_path, words) as lab:
        yield lab


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Lab]:
    """The same, on SQLite alone: for what the database has no part in."""
    with made(tmp_path, []) as lab:
        yield lab


@contextmanager
def made(folder: Path, words: list[str]) -> Iterator[Lab]:
    server = MusterServer(server_folder(), words)
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text(LAB)
    try:
        server.start()
        administrator = server.make_administrator()
        with server.http(administrator) as http:
            for project in ("vision", "speech"):
                assert http.post("/api/v1/projects", json={"name": project}).status_code == 201
        folder.chmod(0o755)
        yield Lab(server, administrator, folder)
    finally:
        server.kill(signal.SIGTERM)
        shutil.rmtree(server.folder)


def queue(client: RunClient, **query: Any) -> list[dict[str, Any]]:
    answer = client.http.get("/api/v1/queue", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def running(client: RunClient, run: str) -> bool:
    return bool(client.get(run)["state"] == "running")


def reason(client: RunClient, run: str) -> str:
    return str(client.get(run)["reason"])


def test_a_job_that_no_pool_can_ever_run_is_refused_with_the_nearest_that_fits(small: Lab) -> None:
    with small.client() as client:
        refused = client.post("device: cpu\ndevices: 3\ncommand: id")
        assert refused.status_code == 400
        assert "3 cpu" in refused.json()["reason"] and "2" in refused.json()["reason"], refused.json()["reason"]
        assert client.http.get("/api/v1/runs").json()["items"] == []


def test_a_parameter_server_needs_no_device_of_the_pool(small: Lab) -> None:
    with small.client() as client:
        job = "framework: tensorflow\nboot: train.py\ndevice: cpu\nnodes: 2\nps: 1"
        run = client.submit(job, code=client.send_code(train__py="print('here')"))
        assert client.wait(run)["state"] == "succeeded"
        names = ("rank-0", 0), ("rank-1", 1), ("ps-0", 2)
        assert [client.log(run, name, node=node) for name, node in names] == ["here\n"] * 3


def test_a_run_that_waits_says_why_and_where_it_stands(lab: Lab) -> None:
    with lab.client() as client:
        first = client.submit(lab.holding("a", more="time_limit: 1h\n"))
        until(lambda: running(client, first))
        second, third = client.submit(lab.holding("b")), client.submit(lab.holding("c", devices=1))
        until(lambda: [entry["position"] for entry in queue(client)] == [1, 2])
        entries = queue(client)
        assert [entry["run"] for entry in entries] == [second, third]
        assert "cpu" in entries[0]["reason"] and entries[0]["expected"]  # from the time limit of the first
        assert entries[0]["expected_from"] == ["limits"]
        assert second in entries[1]["reason"]  # which is ahead
        assert any("一" <= letter <= "鿿" for letter in queue(client, language="zh")[0]["reason"])
        assert (client.get(second)["state"], client.get(second)["position"]) == ("pending", 1)
        for gate in "abc":
            lab.gate(gate).touch()
        assert [client.wait(run)["state"] for run in (first, second, third)] == ["succeeded"] * 3


def test_higher_priority_goes_first_and_users_have_a_range(lab: Lab) -> None:
    ann = lab.member("ann")
    with lab.client(token=ann) as client:
        refused = client.post("priority: 201\ncommand: id")
        assert (refused.status_code, "100 to 200" in refused.text) == (400, True)
        first = client.submit(lab.holding("a"))
        until(lambda: running(client, first))
        low, high = client.submit(lab.holding("low", more="priority: 110\n")), client.submit(lab.holding("high"))
        until(lambda: [entry["run"] for entry in queue(client)] == [high, low])
        changed = client.http.patch(f"/api/v1/runs/{low}", json={"priority": 190})
        assert changed.status_code == 200, changed.text
        assert client.http.patch(f"/api/v1/runs/{low}", json={"priority": 300}).status_code == 400
        until(lambda: [entry["run"] for entry in queue(client)] == [low, high])
        lab.gate("a").touch()
        until(lambda: running(client, low))
        assert client.get(high)["state"] == "pending"
        lab.open("low", "high")
        assert client.wait(high)["state"] == "succeeded"


def test_administrators_give_runs_another_place(small: Lab) -> None:
    ann = small.member("ann")
    with small.client() as client, small.client(token=ann) as member:
        first = client.submit(small.holding("a"))
        until(lambda: running(client, first))
        waiting = [member.submit(small.holding(name)) for name in ("b", "c", "d")]
        until(lambda: len(queue(client)) == 3)
        moved = client.http.post(f"/api/v1/runs/{waiting[2]}/move", json={"position": 2})
        assert moved.status_code == 200, moved.text
        until(lambda: [entry["run"] for entry in queue(client)] == [waiting[0], waiting[2], waiting[1]])
        assert member.http.post(f"/api/v1/runs/{waiting[1]}/move", json={"position": 1}).status_code == 403
        assert client.http.post(f"/api/v1/runs/{waiting[2]}/move", json={"position": None}).status_code == 200
        assert client.http.post(f"/api/v1/runs/{waiting[0]}/move", json={"position": None}).status_code == 200
        until(lambda: [entry["run"] for entry in queue(client)] == waiting)
        for run in (first, *waiting):
            client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        assert {client.wait(run)["state"] for run in (first, *waiting)} == {"stopped"}


def test_runs_come_after_others_and_never_start_once_that_cannot_be(small: Lab) -> None:
    with small.client() as client:
        good, bad = client.submit(small.holding("good", 1)), client.submit(small.holding("bad", 1, "parameters: {x: 1}\n"))
        after = client.submit(f"after: {good}\ncommand: echo after")
        mended = client.submit(f"after: {{{bad}: failed}}\ncommand: echo mended")
        never = client.submit(f"after: [{bad}]\ncommand: echo never")
        until(lambda: good in reason(client, after))
        client.http.post(f"/api/v1/runs/{bad}/stop", json={"now": True})
        assert client.wait(never)["state"] == "failed"
        assert reason(client, never) == f"it comes after {bad}, which should have succeeded; it is stopped"
        assert client.wait(mended)["state"] == "succeeded"
        assert client.get(after)["state"] == "pending"
        small.gate("good").touch()
        assert client.wait(after)["state"] == "succeeded"
        unknown = client.post("after: nothing-like-this\ncommand: id")
        assert (unknown.status_code, "there is no such run" in unknown.text) == (400, True)


def test_a_run_that_waits_longer_than_it_may_has_failed(small: Lab) -> None:
    with small.client() as client:
        first = client.submit(small.holding("a"))
        until(lambda: running(client, first))
        late = client.submit(small.holding("late", more="queue_limit: 1s\n"))
        assert client.wait(late)["state"] == "failed"
        assert reason(client, late) == "it has waited longer than its queue_limit"
        small.gate("a").touch()
        assert client.wait(first)["state"] == "succeeded"


def test_a_quota_holds_runs_back_unless_they_are_preemptible(lab: Lab) -> None:
    ann = lab.member("ann", role="manager")
    with lab.client() as admin, lab.client(token=ann) as client:
        set_ = {"kind": "cpu", "devices": 1}
        assert client.http.put("/api/v1/projects/vision/quotas", json=set_).status_code == 403
        assert admin.http.put("/api/v1/projects/vision/quotas", json=set_).status_code == 200
        first, second = client.submit(lab.holding("a", 1)), client.submit(lab.holding("b", 1))
        until(lambda: running(client, first))
        until(lambda: "quota" in reason(client, second))
        free = client.submit(lab.holding("c", 1, "preemptible: true\n"))
        until(lambda: running(client, free))
        used = client.http.get("/api/v1/projects/vision/quotas").json()
        until(lambda: client.http.get("/api/v1/projects/vision/quotas").json()[0]["preemptible"] == 1)
        assert (used[0]["user"], used[0]["kind"], used[0]["devices"], used[0]["used"]) == (None, "cpu", 1, 1)
        own = {"kind": "cpu", "devices": 0, "user": "ann"}  # managers set those of users
        assert client.http.put("/api/v1/projects/vision/quotas", json=own).status_code == 200
        lab.open("a", "c")
        assert client.wait(first)["state"] == "succeeded"
        until(lambda: "quota" in reason(client, second) and "ann" in reason(client, second))
        for gone in (own, set_):
            admin.http.put("/api/v1/projects/vision/quotas", json={**gone, "devices": None})
        lab.gate("b").touch()
        assert client.wait(second)["state"] == "succeeded"
        assert admin.http.get("/api/v1/projects/vision/quotas").json() == []


def test_a_waiting_run_is_paused_and_goes_on_when_it_is_resumed(small: Lab) -> None:
    with small.client() as client:
        first = client.submit(small.holding("a"))
        until(lambda: running(client, first))
        second, third = client.submit(small.holding("b")), client.submit(small.holding("c"))
        assert client.http.post(f"/api/v1/runs/{second}/pause").status_code == 200
        until(lambda: "paused by admin" in reason(client, second))
        small.gate("a").touch()
        until(lambda: running(client, third))
        assert client.http.post(f"/api/v1/runs/{second}/resume").status_code == 200
        small.open("b", "c")
        assert client.wait(second)["state"] == "succeeded"
        assert client.http.post(f"/api/v1/runs/{second}/pause").status_code == 409


def test_nobody_learns_of_runs_that_may_not_be_seen(small: Lab) -> None:
    ann, ben = small.member("ann"), small.member("ben", "speech")
    with small.client(token=ann) as one, small.client("speech", ben) as other:
        held = one.submit(small.holding("a"))
        until(lambda: running(one, held))
        ahead = one.submit(small.holding("b"))
        behind = other.submit(small.holding("c", more="preemptible: true\n"))
        until(lambda: other.get(behind)["position"] == 2)
        assert [entry["run"] for entry in queue(other)] == [behind]
        for hidden in (held, ahead, "ann", "vision"):
            assert hidden not in reason(other, behind)
            assert hidden not in str(queue(other)) and hidden not in str(queue(other, language="zh"))
        for action in ("pause", "resume", "move"):
            assert other.http.post(f"/api/v1/runs/{ahead}/{action}", json={}).status_code == 404
        assert other.http.patch(f"/api/v1/runs/{ahead}", json={"priority": 120}).status_code == 404
        for gate in "abc":
            small.gate(gate).touch()
        assert other.wait(behind)["state"] == "succeeded"


TRAINING = """
import os, pathlib, sys, time
kept = pathlib.Path(os.environ["MUSTER_SHARED"]) / "steps"
done = int(kept.read_text()) if kept.exists() else 0
print("begins at", done, flush=True)
while done < 10_000_000:
    done += 1
    new = kept.with_name("new")
    new.write_text(str(done))
    new.replace(kept)
    if pathlib.Path(sys.argv[1]).exists():
        print("trained", flush=True)
        sys.exit()
    time.sleep(0.02)
"""


def training(lab: Lab, more: str) -> str:
    command = ["python3", "train.py", str(lab.gate("trained"))]
    return f"name: training\ndevice: cpu\ndevices: 2\nper: node\ncommand: {command}\ngrace: 5s\n{more}"


def test_a_preemptible_run_makes_room_and_goes_on_where_it_was(lab: Lab) -> None:
    ann, ben = lab.member("ann"), lab.member("ben", "speech")
    with lab.client(token=ann) as client, lab.client("speech", ben) as other:
        code = client.send_code(train__py=TRAINING)
        victim = client.submit(training(lab, "preemptible: true\n"), code=code)
        until(lambda: running(client, victim) and "begins at 0" in client.log(victim))
        urgent = other.submit(lab.holding("urgent"))
        until(lambda: running(other, urgent))
        stands = client.get(victim)
        assert (stands["state"], stands["preemptions"]) == ("pending", 1)
        assert urgent not in stands["reason"] and "speech" not in stands["reason"]
        lab.gate("urgent").touch()
        until(lambda: running(client, victim))
        lab.gate("trained").touch()
        ended = client.wait(victim)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 2), ended["reason"]
        text = client.log(victim, attempt=2)
        assert "trained" in text and "begins at 0" not in text and "begins at" in text
        assert other.wait(urgent)["state"] == "succeeded"


def test_no_grace_keeps_a_preemptible_run_on_its_devices(small: Lab) -> None:
    stubborn = "device: cpu\ndevices: 2\ncommand: 'trap \"\" TERM; echo up; while :; do sleep 0.1; done'\ngrace: 3650d\n"
    with small.client() as client:
        refused = client.post(f"{stubborn}preemptible: true\n")
        [problem] = refused.json()["problems"]
        assert (refused.status_code, problem["field"], "leave within 10m" in problem["message"]) == (400, "grace", True), (
            problem
        )
        config = small.server.data / "config.toml"
        small.server.kill()
        config.write_text(f'{LAB}longest_grace = "3650d"\n')
        small.server.start()
        victim = client.submit(f"{stubborn}preemptible: true\n")
        until(lambda: running(client, victim) and "up" in client.log(victim))
        small.server.kill()
        config.write_text(f'{LAB}longest_grace = "1s"\n')  # holds for runs that are there
        small.server.start()
        urgent = client.submit(small.holding("urgent"))
        until(lambda: running(client, urgent))
        client.http.post(f"/api/v1/runs/{victim}/stop", json={"now": True})
        small.gate("urgent").touch()
        assert client.wait(urgent)["state"] == "succeeded"


def test_a_failed_run_is_held_with_its_devices_until_it_is_stopped_or_has_to_make_room(small: Lab) -> None:
    held = "device: cpu\ndevices: 2\ncommand: exit 4\nhold_on_failure: 1h\n"
    with small.client() as client:
        kept = client.submit(held)
        until(lambda: client.get(kept)["phase"] == "held")
        behind = client.submit(f"{held}preemptible: true\n")
        until(lambda: client.get(behind)["position"] == 1)
        beside = client.http.post(f"/api/v1/runs/{kept}/exec", json={"command": ["sh", "-c", "exit 7"]})
        assert json.loads(beside.text.splitlines()[-1])["code"] == 7
        client.http.post(f"/api/v1/runs/{kept}/stop", json={})
        until(lambda: client.get(behind)["phase"] == "held")
        urgent = client.submit("device: cpu\ndevices: 2\ncommand: echo hello")
        assert client.wait(urgent)["state"] == "succeeded"
        for run in (kept, behind):
            ended = client.wait(run)
            assert (ended["state"], "exited with code 4" in ended["reason"], ended["preemptions"]) == ("failed", True, 0)


def test_runs_that_cannot_be_preempted_keep_their_devices(small: Lab) -> None:
    with small.client() as client:
        first = client.submit(small.holding("a"))
        until(lambda: running(client, first))
        second = client.submit(small.holding("b", more="priority: 1000\n"))
        until(lambda: client.get(second)["position"] == 1)
        assert client.get(first)["state"] == "running"
        small.open("a", "b")
        assert client.wait(second)["state"] == "succeeded"


def test_a_running_run_is_paused_leaves_its_devices_and_goes_on_when_it_is_resumed(lab: Lab) -> None:
    with lab.client() as client:
        code = client.send_code(train__py=TRAINING)
        run = client.submit(training(lab, ""), code=code)
        until(lambda: running(client, run) and "begins at 0" in client.log(run))
        assert client.http.post(f"/api/v1/runs/{run}/pause").status_code == 200
        until(lambda: client.get(run)["state"] == "pending")
        lab.server.kill()  # a server that starts anew leaves it where it was
        lab.server.start()
        between = client.submit("device: cpu\ndevices: 2\ncommand: echo hello")
        until(lambda: client.get(between)["state"] == "succeeded")
        assert (client.get(run)["state"], "paused by admin" in reason(client, run)) == ("pending", True)
        lab.gate("trained").touch()
        assert client.http.post(f"/api/v1/runs/{run}/resume").status_code == 200
        assert (client.wait(run)["state"], client.get(run)["attempt"]) == ("succeeded", 2)


@pytest.mark.parametrize("moment", ["told", "gone"])
def test_a_server_that_is_killed_while_a_run_makes_room_loses_nothing(lab: Lab, moment: str) -> None:
    with lab.client() as client:
        code = client.send_code(train__py=TRAINING)
        victim = client.submit(training(lab, "preemptible: true\n"), code=code)
        until(lambda: running(client, victim) and "begins at 0" in client.log(victim))
        urgent = client.submit(lab.holding("urgent"))
        if moment == "gone":
            until(lambda: running(client, urgent))
        lab.server.kill()
        lab.server.start()
        until(lambda: running(client, urgent))
        lab.gate("urgent").touch()
        until(lambda: running(client, victim))
        lab.gate("trained").touch()
        assert (client.wait(victim)["state"], client.get(victim)["attempt"]) == ("succeeded", 2)
        assert client.wait(urgent)["state"] == "succeeded"


def test_a_preempted_run_is_stopped_while_it_waits(small: Lab) -> None:
    with small.client() as client:
        code = client.send_code(train__py=TRAINING)
        victim = client.submit(training(small, "preemptible: true\n"), code=code)
        until(lambda: running(client, victim) and "begins at 0" in client.log(victim))
        urgent = client.submit(small.holding("urgent"))
        until(lambda: running(client, urgent))
        client.http.post(f"/api/v1/runs/{victim}/stop", json={"reason": "enough"})
        ended = client.wait(victim)
        assert (ended["state"], "enough" in ended["reason"]) == ("stopped", True)
        assert "begins at 0" in client.log(victim)
        small.gate("urgent").touch()
        assert client.wait(urgent)["state"] == "succeeded"


def test_a_preemptible_run_whose_node_was_lost_goes_on(small: Lab) -> None:
    with small.client() as client:
        code = client.send_code(train__py=TRAINING)
        run = client.submit(training(small, "preemptible: true\n"), code=code)
        until(lambda: running(client, run) and "begins at 0" in client.log(run))
        node = small.server.data / "homes" / "lab" / "one" / "runs" / run / "attempts" / "1" / "nodes" / "0"
        os.kill(json.loads((node / "facts.json").read_text())["agent"], signal.SIGKILL)
        until(lambda: client.get(run)["attempt"] == 2 and running(client, run))
        small.gate("trained").touch()
        assert client.wait(run)["state"] == "succeeded"
        assert "begins at 0" not in client.log(run, attempt=2)


def test_a_job_without_a_limit_gets_that_of_its_pool_and_is_backfilled(small: Lab) -> None:
    small.server.kill()
    (small.server.data / "config.toml").write_text(f'{LAB}default_time_limit = "1h"\n')
    small.server.start()
    with small.client() as client:
        first = client.submit(small.holding("a", 1, "time_limit: 2h\n"))
        until(lambda: running(client, first))
        head = client.submit(small.holding("b"))
        until(lambda: client.get(head)["position"] == 1)
        quick = client.submit("device: cpu\ncommand: id")
        assert client.wait(quick)["state"] == "succeeded"
        assert (client.get(quick)["job"]["time_limit"], client.get(head)["state"]) == (3600.0, "pending")
        small.open("a", "b")
        assert client.wait(head)["state"] == "succeeded"
