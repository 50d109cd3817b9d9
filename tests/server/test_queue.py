"""The queue of a server: who starts when, why others wait, quotas and pauses."""

from __future__ import annotations

from queue_lab import LAB, Lab, queue, reason, running
from queue_lab import lab as lab
from queue_lab import small as small
from run_client import RunClient

from conftest import until


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


def noted(client: RunClient, run: str) -> list[str]:
    """What the audit log says of a run, the newest first; the client is an administrator."""
    return [entry["what"] for entry in client.http.get("/api/v1/audit", params={"target": run}).json()["items"]]


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
        assert noted(client, waiting[0]) == ["run.move", "run.submit"]
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
        assert client.http.patch(f"/api/v1/runs/{second}", json={"priority": 120}).status_code == 200
        small.gate("a").touch()
        until(lambda: running(client, third))
        assert client.http.post(f"/api/v1/runs/{second}/resume").status_code == 200
        small.open("b", "c")
        assert client.wait(second)["state"] == "succeeded"
        assert client.http.post(f"/api/v1/runs/{second}/pause").status_code == 409
        assert noted(client, second) == ["run.resume", "run.priority", "run.pause", "run.submit"]


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
