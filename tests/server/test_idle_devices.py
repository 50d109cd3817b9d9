"""Runs whose devices idle: since when, from hostile files; warned of, and stopped where the project says so."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from fake_devices import Gpus
from hypothesis import given
from hypothesis import strategies as st
from run_client import run_client
from sqlalchemy import update

from conftest import until
from muster.records.layout import RunDir
from muster.server.core.tables import projects
from muster.server.runs.pools.idle import samples
from muster.server.runs.pools.idle.samples import Idle, RunSamples, Sample, continued, idle_seconds
from muster.server.runs.pools.idle.watch import Limits, limits
from muster_server import MusterServer, ServeMuster

NOW = 1_000_000.0


def line(at: float, *uses: object) -> str:
    return json.dumps({"t": at, "cpu": 99, "devices": {str(id): {"util": use} for id, use in enumerate(uses)}}) + "\n"


def test_devices_are_idle_since_the_last_moment_at_which_one_was_busy() -> None:
    found = continued(None, [Sample(10, 0), Sample(20, 97), Sample(30, 4.9), Sample(40, 0)])
    assert found == Idle(20, 40)
    assert continued(found, [Sample(30, 4.9), Sample(40, 0), Sample(50, 1)]) == Idle(20, 50)
    assert continued(found, [Sample(40, 0), Sample(50, 5.0)]) == Idle(50, 50)


def test_a_gap_that_was_not_read_is_not_called_idle() -> None:
    assert continued(Idle(20, 40), [Sample(90, 0), Sample(95, 0)]) == Idle(90, 95)


def test_a_run_is_idle_only_where_all_of_its_nodes_are_known_to_be() -> None:
    assert idle_seconds([Idle(10, 40), Idle(30, 40)]) == 10
    assert idle_seconds([Idle(10, 40), None]) is None
    assert idle_seconds([]) is None


@given(uses=st.lists(st.floats(0, 100), min_size=1, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=5))
def test_it_does_not_matter_in_how_many_pieces_samples_are_read(uses: list[float], cuts: list[int]) -> None:
    whole = [Sample(float(at), use) for at, use in enumerate(uses, 1)]
    found = None
    for end in [*sorted(cuts), len(whole)]:
        found = continued(found, whole[:end])
    assert found == continued(None, whole)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The samples of a run with one node."""
    folder = tmp_path / "runs" / "r" / "attempts" / "1" / "nodes" / "0"
    folder.mkdir(parents=True)
    return folder / "metrics.jsonl"


def idle(node: Path, now: float = NOW) -> float | None:
    return RunSamples().idle(RunDir(str(node.parents[4])), now)


def test_samples_of_all_devices_are_read_from_the_end_of_a_file(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = json.dumps({"format": "muster-metrics/1", "devices": None}).ljust(200) + "\n"
    node.write_text(header + line(10, 0, 80) + "".join(line(at, 0, 1) for at in range(20, 120)) + '{"t": 130, "devi')
    assert idle(node) == 109
    monkeypatch.setattr(samples, "FIRST", 500)
    found = idle(node)
    assert found is not None
    assert 0 < found < 100  # the rest of the file was not read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        '{"t": 10, "cpu": 1}\n{"t": 20, "cpu": 1}\n',  # a run on CPUs
        '{"t": 10, "devices": {}}\n',
        '{"t": 10, "devices": {"0": {"power": 50}}}\n',  # a device that does not tell its use
        line(10, 0, None),
        '{"t": NaN, "devices": {"0": {"util": 0}}}\n{"t": 1e300, "devices": {"0": {"util": 0}}}\n',
        '{"t": true, "devices": {"0": {"util": 0}}}\n{"t": 10, "devices": {"0": {"util": NaN}}}\n',
        '{"t": 10, "devices": {"0": ["util"]}}\n[{"devices": 1}]\n"devices"\n',
        '{"devices":' * 5000 + "\n",
        "\0" * 5000 + '"devices"\n',
    ],
)
def test_what_says_nothing_about_devices_is_never_called_idle(node: Path, text: str) -> None:
    node.write_text(text)
    assert idle(node) is None


@pytest.mark.parametrize("put", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/etc/passwd"), Path.mkdir])
def test_something_else_in_the_place_of_samples_is_not_read(node: Path, put: Callable[[Path], None]) -> None:
    put(node)
    assert idle(node) is None


def test_a_new_attempt_begins_anew(node: Path) -> None:
    node.write_text(line(10, 0) + line(500, 0))
    read = RunSamples()
    run = RunDir(str(node.parents[4]))
    assert read.idle(run, NOW) == 490
    (Path(run.attempts) / "2" / "nodes" / "0").mkdir(parents=True)
    assert read.idle(run, NOW) is None


def test_projects_say_when_runs_are_warned_of_and_stopped() -> None:
    assert limits(None) == Limits(3600.0, None)
    assert limits({"idle_warn_after": "10m", "stop_idle_after": "2h"}) == Limits(600.0, 7200.0)
    assert limits({"idle_warn_after": "never", "stop_idle_after": 90}) == Limits(None, 90.0)
    assert limits({"idle_warn_after": ["x"], "stop_idle_after": "soon"}) == Limits(3600.0, None)


def set_limits(server: MusterServer, project: str, **settings: str) -> None:
    with server.database() as opened, opened.begin() as connection:
        connection.execute(update(projects).where(projects.c.name == project).values(settings=settings))


def sampled(server: MusterServer, pattern: str) -> list[Path]:
    return list(server.data.glob(pattern))


def test_a_run_with_idle_devices_is_warned_of_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve_muster: ServeMuster
) -> None:
    for name, value in Gpus(tmp_path / "machine", 2).env.items():
        monkeypatch.setenv(name, value)
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        set_limits(server, client.project, idle_warn_after="2s")
        busy = client.submit("command: sleep 1000\ndevice: nvidia\ngrace: 0s")
        run = client.submit("command: sleep 1000\ndevice: nvidia\ngrace: 0s")
        until(lambda: {client.get(one)["state"] for one in (busy, run)} == {"running"}, 60)
        for one, use in ((busy, 90), (run, 1)):
            pattern = f"homes/local/*/runs/{one}/attempts/*/nodes/0/metrics.jsonl"
            [file] = until(partial(sampled, server, pattern))
            now = time.time()
            (tmp_path / "samples").write_text("".join(line(now - 4000 + 10 * at, use) for at in range(400)))
            os.replace(tmp_path / "samples", file)  # the sampler writes on into the one that is gone
        until(lambda: client.get(run)["warnings"], 60)
        assert client.get(run)["warnings"] == ["its devices have been idle for 1h6m (under 5 %)"]
        listed = {one["run"]: one["warnings"] for one in client.http.get("/api/v1/runs").json()["items"]}
        assert (len(listed[run]), listed[busy]) == (1, [])
        set_limits(server, client.project, idle_warn_after="2s", stop_idle_after="1h")
        ended = client.wait(run)
        assert ended["state"] == "stopped"
        said = f"its devices were idle for 1h6m (under 5 %), and the project `{client.project}` stops such runs after 1h"
        assert said in ended["reason"]
        assert client.get(busy)["state"] == "running"
        client.http.post(f"/api/v1/runs/{busy}/stop", json={"now": True})
        client.wait(busy)
