"""Scripts that nobody changed: the lines that well-known programs print, read by patterns, down to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob

PRINTS = """
    print(open("said.txt").read())
"""
HOROVOD = """\
Model: ResNet50
Number of GPUs: 2
Running benchmark...
Iter #0: 101.2 img/sec per GPU
Iter #1: 103.4 img/sec per GPU
Img/sec per GPU: 102.3 +-1.1
Total img/sec on 2 GPU(s): 204.6 +-2.2
"""
IMAGENET = """\
Epoch: [0][  1/100]\tTime  2.000 ( 2.000)\tData  0.9 ( 0.9)\tLoss 7.1e+00 (7.1e+00)\tAcc@1   0.00 (  0.00)
Epoch: [0][ 11/100]\tTime  0.500 ( 0.640)\tData  0.1 ( 0.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.39 (  0.10)
Epoch: [0][ 21/100]\tTime  0.250 ( 0.450)\tData  0.1 ( 0.1)\tLoss 6.8e+00 (6.9e+00)\tAcc@1   0.78 (  0.20)
 *   Acc@1 75.130 Acc@5 91.862
 *   Acc@1 76.130 Acc@5 92.862
"""
MINDSPORE = """\
epoch: 1 step: 195, loss is 2.3025
Train epoch time: 9000.000 ms, per step time: 46.154 ms
epoch: 2 step: 195, loss is 1.5
Train epoch time: 1950.000 ms, per step time: 10.000 ms
epoch: 3 step: 195, loss is 0.75
Train epoch time: 2340.000 ms, per step time: 12.000 ms
"""


def bench(muster: Muster, write_job: WriteJob, said: str, metrics: dict[str, Any], **fields: Any) -> dict[str, Any]:
    job = write_job({"devices": 2, "per": "device", "metrics": metrics, **fields}, **{"train.py": PRINTS, "said.txt": said})
    done = muster("bench", job)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(muster("report", "last", "--json").stdout)["results"][0]
    return {"printed": done.stdout, "metrics": found["metrics"], "run": found["runs"][0]}


def test_the_rate_of_each_rank_of_horovods_benchmark(muster: Muster, write_job: WriteJob) -> None:
    found = bench(muster, write_job, HOROVOD, {"throughput": {"pattern": r"Img/sec per GPU: ([\d.]+)", "unit": "images/s"}})
    assert (found["metrics"]["throughput"]["value"], found["metrics"]["throughput"]["unit"]) == (204.6, "images/s")
    assert "read ranksize:2" in found["printed"]
    assert "rankid:1 read throughput:102.3" in found["printed"]


def test_the_rate_of_all_ranks_that_horovods_benchmark_prints_is_not_summed(muster: Muster, write_job: WriteJob) -> None:
    total = {"pattern": r"Total img/sec on \d+ GPU\(s\): ([\d.]+)", "of": "world"}
    found = bench(muster, write_job, HOROVOD, {"throughput": total})
    assert found["metrics"]["throughput"]["value"] == 204.6
    assert "report result total_throughput : 204.6" in found["printed"]
    assert "rankid" not in found["printed"] and "ranksize" not in found["printed"]  # nobody told the number of a rank


def test_the_lines_of_pytorchs_imagenet_example(muster: Muster, write_job: WriteJob) -> None:
    metrics = {
        "step_time": {"pattern": r"Time +([\d.]+)", "unit": "s", "better": "lower", "take": "median"},
        "accuracy": {"pattern": r"\* +Acc@1 ([\d.]+)", "unit": "%"},
    }
    asked = {"metric": "step_time", "warmup": 1, "targets": {"accuracy": 76}}
    found = bench(muster, write_job, IMAGENET, metrics, bench=asked)
    assert found["metrics"]["step_time"]["value"] == 0.375
    assert found["metrics"]["accuracy"]["value"] == 76.13
    assert found["run"]["metrics"]["step_time"]["ranks"][1]["values"] == 2


def test_the_lines_of_mindspores_monitors(muster: Muster, write_job: WriteJob) -> None:
    metrics = {
        "step_time": {"pattern": r"per step time: ([\d.]+) ms", "unit": "ms", "better": "lower", "take": "mean"},
        "loss": {"pattern": r"loss is ([\d.e+-]+|nan)"},
    }
    found = bench(muster, write_job, MINDSPORE, metrics, bench={"metric": "step_time", "warmup": 1})
    assert (found["metrics"]["step_time"]["value"], found["metrics"]["loss"]["value"]) == (11.0, 0.75)


@pytest.mark.long
def test_numbers_without_a_time_are_reported_and_not_drawn_over_time(
    muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    bench(muster, write_job, HOROVOD, {"throughput": {"pattern": r"Iter #\d+: ([\d.]+)"}})
    page, both = tmp_path / "page.html", tmp_path / "both.html"
    done = muster("report", "last", "--html", page)
    assert done.returncode == 0, done.stderr
    assert "204.60 samples/s" in done.stdout
    assert "a log does not record when its numbers were written" in page.read_text("utf-8")
    assert muster("report", "last", "last", "--html", both).returncode == 0


@pytest.mark.parametrize("said", ["", "Img/sec per GPU: nan +-nan\n", "Img/sec per GPU: 0.0 +-0.0\n"])
def test_a_line_that_is_missing_or_no_use_fails_the_benchmark(said: str, muster: Muster, write_job: WriteJob) -> None:
    fields = {"metrics": {"throughput": {"pattern": r"Img/sec per GPU: (\S+)"}}}
    done = muster("bench", write_job(fields, **{"train.py": PRINTS, "said.txt": said}))
    assert done.returncode == 1
    assert "✗ Failed" in done.stderr and "throughput" in done.stderr
    assert "report result" not in done.stdout
