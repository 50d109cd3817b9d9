"""Defects of AISBench's own tools that Muster's results do not have, by their number in the list of them."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from records import RunRecord, bench_of, make

from conftest import Muster, WriteJob
from muster import __version__
from muster.bench.formats.aisbench_lines import lines
from muster.bench.model.result import Result
from muster.metrics.final import collect


def result_of(*runs: RunRecord) -> dict[str, Any]:
    return make(bench_of(*runs), [run.dir for run in runs])


def problems(*runs: RunRecord) -> list[str]:
    found: list[str] = result_of(*runs)["verdict"]["problems"]
    return found


TIMED = """
    import time
    from muster import record
    began = time.process_time()
    timer = record.timer(10, {warmup})
    timer.start()
    for step in range(6):
        {work}
        timer.step()
    timer.done()
    print(time.process_time() - began)
"""


def timed(folder: Path, work: str, warmup: str) -> dict[str, Any]:
    """What the step timer says about six steps of ten samples."""
    script = textwrap.dedent(TIMED.format(work=work, warmup=warmup))
    env = {**os.environ, "MUSTER_RESULTS": str(folder), "MUSTER_RANK": "0"}
    cpu = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=env).stdout
    told = [json.loads(line) for line in (folder / "record-0.jsonl").read_text().splitlines()]
    (final,) = [line for line in told if line.get("final")]
    return {**final["spread"], "rate": final["value"], "cpu": float(cpu)}


def test_3_missing_results_are_not_ok(home: Path) -> None:
    run = RunRecord(home, nodes=2, devices=2, bench={})
    assert problems(run) == [f"run {run.dir.id} has no throughput: nobody recorded it"]
    for rank in (0, 1, 3):
        run.result_file(rank // 2, f"throughput_{rank}.json", "nan" if rank == 3 else 5)
    assert problems(run) == [
        f"rank 2 on node 1 of run {run.dir.id} reported no throughput",
        f"rank 3 on node 1 of run {run.dir.id} reported a value of throughput that is not finite: nan",
    ]


@pytest.mark.parametrize("devices", [1, 2, 4, 16])
@pytest.mark.parametrize("env", [{}, {"SINGLESERVER_MODE": "True"}])
def test_4_servers_may_have_any_number_of_cards(home: Path, devices: int, env: dict[str, str]) -> None:
    run = RunRecord(home, nodes=3, devices=devices, bench={"scope": "server"}, env=env)
    for server in range(3):
        for rank in range(devices):
            run.output_file(0, f"{server}/throughput_{rank}.json", server + 1)
        run.output_file(0, f"accuracy_{server}.json" if env else f"{server}/accuracy.json", 0.5)
    found = result_of(run)
    assert found["verdict"]["passed"], found["verdict"]
    assert found["runs"][0]["metrics"]["throughput"]["list"] == [devices, 2 * devices, 3 * devices]
    assert found["metrics"]["throughput"]["value"] == 2 * devices


def test_6_old_results_in_the_folder_are_never_counted(home: Path) -> None:
    run = RunRecord(home, devices=4, bench={})
    for rank in range(4):
        run.output_file(0, f"throughput_{rank}.json", 5, stale=rank == 3)
    run.output_file(0, "ranksize.json", 8, stale=True)
    assert problems(run) == [
        f"rank 3 on node 0 of run {run.dir.id} reported no throughput of its own: "
        "throughput_3.json in train_url is older than the run"
    ]


def test_6_a_rank_size_that_differs_is_told(home: Path) -> None:
    run = RunRecord(home, devices=2, bench={})
    for rank in range(2):
        run.result_file(0, f"throughput_{rank}.json", 5)
    run.result_file(0, "ranksize.json", 8)
    assert problems(run) == [f"run {run.dir.id}: ranksize.json says 8, but the ranks were 2"]


def test_13_short_times_are_neither_rounded_nor_a_division_by_zero(tmp_path: Path) -> None:
    """AISBench divides by whole seconds, and times the first steps as well; five steps of 20 ms are 0 of its seconds."""
    spread = timed(tmp_path, "time.sleep(0.2 if step == 0 else 0.02)", "warmup=1")
    assert (spread["steps"], spread["warmup"], spread["samples"]) == (5, 1, 50.0)
    assert spread["seconds"] >= 5 * 0.02
    assert 0 < spread["rate"] == spread["samples"] / spread["seconds"] <= 10 / 0.02
    assert spread["max"] <= 10 / 0.02  # the long first step is in none of them


def test_15_every_server_is_shown_and_racy_files_are_not_read(home: Path) -> None:
    run = RunRecord(home, nodes=2, devices=2, bench={"scope": "server"}, env={"SINGLESERVER_MODE": "True"})
    for server, rate in enumerate((10.0, 30.0)):
        for rank in range(2):
            run.output_file(0, f"{server}/throughput_{rank}.json", rate)
    run.output_file(0, "accuracy.json", 0.9)
    run.output_file(0, "accuracy_0.json", 0.5)
    run.output_file(0, "accuracy_1.json", 0.7)
    found = result_of(run)["runs"][0]["metrics"]
    rate = found["throughput"]
    assert (rate["list"], rate["min"], rate["max"], rate["mean"], rate["spread"]) == ([20.0, 60.0], 20.0, 60.0, 40.0, 1.0)
    assert (found["accuracy"]["list"], found["accuracy"]["value"]) == ([0.5, 0.7], 0.6)


def test_15_a_server_without_numbers_is_named(home: Path) -> None:
    run = RunRecord(home, nodes=2, devices=1, bench={"scope": "server", "targets": {"accuracy": 0.1}})
    run.result_file(0, "throughput_0.json", 5)
    run.result_file(1, "throughput_0.json", 5)
    run.result_file(0, "accuracy.json", 0.5)
    assert problems(run) == [f"node 1 of run {run.dir.id} has no accuracy: nobody recorded it"]


def test_19_the_file_of_a_single_card_may_have_any_number(home: Path) -> None:
    run = RunRecord(home, devices=1, bench={})
    run.result_file(0, "throughput_rank_5", 7.5)
    assert result_of(run)["metrics"]["throughput"]["value"] == 7.5


def test_20_what_is_missing_does_not_count_as_0(home: Path) -> None:
    run = RunRecord(home, devices=2, bench={})
    run.result_file(0, "throughput_rank_0", 7.5)
    found = result_of(run)
    assert found["metrics"]["throughput"]["value"] is None
    assert found["metrics"]["accuracy"]["value"] is None
    assert found["train_result_info"]["throughput_ratio"] is None and found["train_result_info"]["accuracy"] is None
    assert lines(Result.from_json(found)) == []
    assert not found["verdict"]["passed"]


def test_22_all_devices_count_and_energy_is_computed(home: Path) -> None:
    run = RunRecord(home, devices=2, bench={})
    for rank in range(2):
        run.timed(rank, 100.0, steps=250)
        run.phase(rank, "proc", 20, 100)
    loads = {"0": {"util": 50, "power": 100}, "1": {"util": 100, "power": 300}}
    run.samples(0, [{"t": t, "devices": loads} for t in range(110)])
    found = result_of(run)["train_result_info"]
    assert found["resource_util_ratio"] == 75.0
    assert (found["average_power"], found["max_power"], found["energy_consumption"]) == (400.0, 400.0, 32000.0)
    assert found["efficientcy"] == 200.0 * 80 / 32000


def test_23_time_that_passes_counts_and_not_time_of_the_cpu(tmp_path: Path) -> None:
    """A step that waits for its device uses next to no CPU time."""
    spread = timed(tmp_path, "time.sleep(0.02)", "warmup=0")
    assert spread["seconds"] >= 6 * 0.02 > spread["cpu"]


def test_23_proc_has_its_time_of_day(home: Path) -> None:
    run = RunRecord(home, devices=1, bench={})
    run.timed(0, 100.0)
    run.phase(0, "proc", 20, 100)
    found = result_of(run)["train_result_info"]
    assert (found["proc_start_time"], found["proc_end_time"]) == ("2026-09-21 22:13:40", "2026-09-21 22:15:00")


def test_24_servers_do_not_write_over_the_numbers_of_each_other(home: Path) -> None:
    """Where ranks go by the number of their card, every server has a throughput_rank_0."""
    run = RunRecord(home, nodes=2, devices=1, bench={})
    for node, rate in enumerate((10, 20)):
        run.result_file(node, "throughput_rank_0", rate)
    files = "throughput_rank_0 of node 0 and throughput_rank_0 of node 1"
    assert problems(run) == [
        f"rank 0 on node 0 of run {run.dir.id} reported different values of throughput: {files}",
        f"rank 1 on node 1 of run {run.dir.id} reported no throughput",
    ]
    alone = RunRecord(home, "alone", nodes=2, devices=1, bench={"scope": "server"})
    for node, rate in enumerate((10, 20)):
        alone.result_file(node, "throughput_rank_0", rate)
    assert result_of(alone)["runs"][0]["metrics"]["throughput"]["list"] == [10.0, 20.0]


def test_25_nothing_is_a_placeholder(home: Path) -> None:
    run = RunRecord(home, devices=1, bench={})
    run.timed(0, 100.0)
    found = result_of(run)
    text = json.dumps(found, allow_nan=False)
    assert "2020-01-30" not in text
    assert {key: value for key, value in found["train_result_info"].items() if value is not None} == {
        "prepare_start_time": "2026-09-21 22:13:20",
        "prepare_end_time": "2026-09-21 22:13:30",
        "throughput_ratio": "100.0",
        "total_start_time": "2026-09-21 22:13:20",
        "total_end_time": "2026-09-21 22:15:10",
    }
    assert found["runs"][0]["phases"]["dataload"]["reason"] == "no rank recorded it"
    assert found["power"]["reasons"]["joules"] == "the node was not sampled"
    assert isinstance(found["metrics"]["throughput"]["value"], float)


def test_26_the_record_of_a_run_lies_beside_its_result(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    """Configuration, versions and sums, for programs to read and for anybody to check."""
    train = "import os; open(os.environ['MUSTER_RESULTS'] + '/throughput_0.json', 'w').write('5.5')\n"
    job = write_job({"parameters": {"epochs": 90}}, **{"train.py": train})
    bundle = tmp_path / "result.tar.gz"
    done = muster("bench", job, "--json", "--export", bundle)
    found = json.loads(done.stdout)["provenance"]
    assert found["job"]["parameters"] == {"epochs": "90"}
    assert re.fullmatch("[0-9a-f]{16,}", found["code"])
    assert found["muster"] == __version__
    assert found["command"][:2] == ["muster", "bench"]
    (node,) = found["nodes"]  # also of a run that is over in a moment
    assert node["kernel"] == platform.release()
    assert node["memory"] > 0 and node["cpu"]["threads"] > 0 and node["host"] == "node-0"
    assert all(node["missing"].values())
    assert muster("verify", bundle).returncode == 0


def test_the_record_and_the_result_tell_the_same_numbers(home: Path) -> None:
    run = RunRecord(home, nodes=2, devices=2, bench={})
    for rank in range(4):
        run.timed(rank, 1 / 3)
    run.metric(0, "accuracy", 0.1 + 0.2)
    brief, whole = collect(run.attempt, run.job), result_of(run)["metrics"]
    assert brief is not None
    assert {name: entry["value"] for name, entry in brief.items()} == {name: entry["value"] for name, entry in whole.items()}
