"""Runs that leave their devices and go on later, or keep them: preempted, paused, lost, held after a failure."""

from __future__ import annotations

import json
import os
import signal

import pytest
from queue_lab import LAB, Lab, reason, running
from queue_lab import lab as lab
from queue_lab import small as small

from conftest import until

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
