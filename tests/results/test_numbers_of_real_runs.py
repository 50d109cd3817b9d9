"""Numbers of real runs: what ranks report in whatever way is what `muster run` shows and the result is made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from records import make

from conftest import Muster, WriteJob
from muster.bench.formats.aisbench_lines import lines
from muster.bench.model.result import Result
from muster.bench.result import single
from muster.records.layout import RunDir
from traces import put

RunJson = Callable[..., dict[str, Any]]

FILES = "echo 10$MUSTER_RANK > $MUSTER_RESULTS/throughput_$MUSTER_RANK.json; echo 0.5 > $MUSTER_RESULTS/accuracy.json"
PRINTS = "for fps in 1 100 300; do echo step $fps: $fps,000.5 images/s; done"


def result_of(view: dict[str, Any]) -> dict[str, Any]:
    run = RunDir(view["dir"])
    return make(single(run), [run])


def test_files_in_the_results_directory(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": FILES.replace("accuracy", "accuracy_0"), "devices": 3, "per": "device"}))
    assert view["result"]["throughput"] == {"value": 303.0, "unit": "samples/s", "reason": None}
    assert view["result"]["accuracy"]["value"] == 0.5
    found = result_of(view)
    assert found["verdict"]["passed"], found["verdict"]
    assert [rank["source"] for rank in found["runs"][0]["metrics"]["throughput"]["ranks"]] == [
        "throughput_0.json",
        "throughput_1.json",
        "throughput_2.json",
    ]
    phases = found["runs"][0]["phases"]
    assert view["started"] <= phases["total"]["start"] <= phases["prepare"]["end"] <= phases["total"]["end"] <= view["ended"]


def test_an_unchanged_script_is_read_by_a_pattern(run_json: RunJson, write_job: WriteJob) -> None:
    metrics = {"throughput": {"pattern": r": ([0-9.,]+) images/s", "unit": "images/s"}}
    job = {"command": PRINTS, "nodes": 2, "metrics": metrics, "bench": {"warmup": 1}}
    view = run_json(write_job(job))
    assert view["result"]["throughput"] == {"value": 400_001.0, "unit": "images/s", "reason": None}
    series = result_of(view)["runs"][0]["metrics"]["throughput"]["series"]
    assert [point["value"] for point in series if point["rank"] == 1] == [1000.5, 100000.5, 300000.5]


def test_every_server_is_a_world_of_its_own(run_json: RunJson, write_job: WriteJob) -> None:
    job = {"command": FILES, "nodes": 2, "devices": 2, "per": "device", "bench": {"scope": "server"}}
    found = result_of(run_json(write_job(job)))
    assert lines(Result.from_json(found)) == [
        "report >> throughput_list:[201.0, 201.0] average:201.0",
        "report >> accuracy_list:[0.5, 0.5] average:0.5",
    ]


def test_old_files_in_an_output_are_not_the_result(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{f"out/throughput_{rank}.json": "5000" for rank in range(2)})
    train = """
        import os, sys, moxing
        url = [word.split("=", 1)[1] for word in sys.argv if word.startswith("--train_url=")][0]
        if os.environ["MUSTER_RANK"] == "0":
            moxing.file.write(url + "/throughput_0.json", "7")
    """
    fields = {"framework": "pytorch", "compat": "modelarts-v1", "devices": 2, "bench": {}}
    view = run_json(write_job({**fields, "outputs": {"train_url": "obs://b/out"}}, **{"train.py": train}))
    assert view["state"] == "succeeded", view["reason"]
    assert view["result"]["throughput"]["value"] is None
    found = result_of(view)
    assert found["runs"][0]["metrics"]["throughput"]["ranks"][0]["value"] == 7.0
    assert found["verdict"]["problems"] == [
        f"rank 1 on node 0 of run {view['run']} reported no throughput of its own: "
        "throughput_1.json in train_url is older than the run"
    ]


@pytest.mark.parametrize(("text", "code", "word"), [("7.5", 0, "7.5"), ("nan", 0, "not finite")])
def test_the_end_of_a_run_shows_the_number_or_the_reason(
    muster: Muster, write_job: WriteJob, text: str, code: int, word: str
) -> None:
    done = muster("run", write_job({"command": f"echo {text} > $MUSTER_RESULTS/throughput_0.json"}))
    assert done.returncode == code
    assert word in next(line for line in done.stderr.splitlines() if "samples per second" in line)


def test_the_end_of_a_run_shows_every_metric_that_was_recorded(muster: Muster, write_job: WriteJob) -> None:
    train = """
        from muster import record
        record.metric("throughput", 1234.5, unit="images/s")
        record.metric("memory", 12.5, unit="GB")
    """
    done = muster("run", write_job({}, **{"train.py": train}))
    rows = [line.split(maxsplit=1) for line in done.stderr.splitlines()]
    assert ["throughput", "1,234.5 images/s"] in rows
    assert ["memory", "12.5 GB"] in rows
    assert ["accuracy", "- (nobody recorded it)"] in rows


def test_a_run_that_failed_has_no_result(run_json: RunJson, write_job: WriteJob) -> None:
    found = result_of(run_json(write_job({"command": f"{FILES}; exit 3"})))
    assert not found["verdict"]["passed"]
    assert found["metrics"]["throughput"]["value"] is None
    assert "exited with code 3" in found["verdict"]["problems"][0]
    json.dumps(found, allow_nan=False)
