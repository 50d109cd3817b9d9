"""`bench --mllog` of scripts that log for MLPerf: MLCommons' own checker accepts the export where it accepts their log."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob

# A script as MLPerf's reference code is written, whose benchmark and settings stand in rules.json.
TRAINS = """
    import json, os, sys, time
    from mlperf_logging import mllog

    rules, rank = json.load(open("rules.json")), int(os.environ["MUSTER_RANK"])
    attempt, speaks = int(os.environ["MUSTER_ATTEMPT"]), rules.get("speaks")
    mllog.config(default_namespace="worker", filename=os.environ.get("OWN_LOG"))
    log = mllog.get_mllogger()

    def start(key, value=None, **metadata):
        if speaks is None or rank in speaks:
            log.start(key=key, value=value, metadata=metadata)

    def end(key, value=None, **metadata):
        if speaks is None or rank in speaks:
            log.end(key=key, value=value, metadata=metadata)

    def event(key, value, **metadata):
        if speaks is None or rank in speaks:
            log.event(key=key, value=value, metadata=metadata)

    for key, value in rules["submission"].items():
        event("submission_" + key, value)
    event("cache_clear", True)
    start("init_start")
    for key, value in rules["settings"].items():
        event(key, value)
    event("seed", 1000 + rank)
    event("made_up_by_the_script", {"deep": [1, {"name": "\\u540d"}]}, note="kept")
    end("init_stop")
    start("run_start")
    time.sleep(0.01)
    if attempt <= rules.get("fails", 0):
        start("block_start", first_epoch_num=1, epoch_count=9, samples_count=0)
        sys.exit(1)
    print("warming up", end=" ", flush=True)
    start("block_start", first_epoch_num=1, epoch_count=2, samples_count=0)
    for epoch, value in enumerate(rules["reached"], 1):
        where = {"epoch_num": epoch, "samples_count": 100 * epoch}
        start("epoch_start", **where)
        sys.stdout.write("\\rstep 1\\rstep 2\\r")
        end("epoch_stop", **where)
        start("eval_start", **where)
        event(rules["measure"], value, **where)
        end("eval_stop", **where)
    end("block_stop", first_epoch_num=1, epoch_count=2, samples_count=200)
    event("tracked_stats", {"throughput": 100.0 + rank}, step=8)
    end("run_stop", status="success")
    print("[1,0]<stdout>: :::MLLOG {broken")
"""


@dataclass(frozen=True)
class Rules:
    """One of MLPerf's benchmarks, in one of its rounds."""

    usage: str
    ruleset: str
    benchmark: str
    reached: list[float]
    settings: dict[str, Any]
    measure: str = "eval_accuracy"

    @property
    def written(self) -> dict[str, Any]:
        who = {"benchmark": self.benchmark, "division": "closed", "org": "ACME", "platform": "2xA", "status": "onprem"}
        return {"submission": who, "settings": self.settings, "reached": self.reached, "measure": self.measure}


SIZES = {"global_batch_size": 1024, "train_samples": 5000, "eval_samples": 500, "gradient_accumulation_steps": 1}
SGD = {
    "sgd_opt_base_learning_rate": 0.5,
    "sgd_opt_end_learning_rate": 0.0001,
    "sgd_opt_learning_rate_decay_poly_power": 2,
    "sgd_opt_learning_rate_decay_steps": 100,
    "sgd_opt_weight_decay": 0.0002,
    "sgd_opt_momentum": 0.9,
    "model_bn_span": 32,
    "opt_learning_rate_warmup_epochs": 2,
}
LAMB = {
    "opt_base_learning_rate": 0.0004,
    "opt_lamb_epsilon": 1e-6,
    "opt_learning_rate_training_steps": 100,
    "opt_learning_rate_warmup_steps": 0,
    "num_warmup_steps": 0,
    "start_warmup_step": 0,
    "opt_lamb_beta_1": 0.9,
    "opt_lamb_beta_2": 0.999,
    "opt_lamb_weight_decay_rate": 0.01,
}
LORA = {
    "opt_base_learning_rate": 0.0004,
    "opt_learning_rate_training_steps": 100,
    "opt_gradient_clip_norm": 0.3,
    "opt_adamw_weight_decay": 0.0001,
    "lora_alpha": 32,
    "lora_rank": 16,
}
COSMOFLOW = {
    "opt_name": "sgd",
    "opt_base_learning_rate": 0.5,
    "opt_learning_rate_warmup_epochs": 1,
    "opt_learning_rate_warmup_factor": 1.0,
    "opt_learning_rate_decay_boundary_epochs": [16],
    "opt_learning_rate_decay_factor": 0.25,
    "number_of_nodes": 1,
    "accelerators_per_node": 1,
}
RESNET = Rules("training", "3.0.0", "resnet", [0.5, 0.76], {**SIZES, "opt_name": "sgd", **SGD})
BERT = Rules("training", "5.0.0", "bert", [0.5, 0.73], {**SIZES, **LAMB})
LLAMA = Rules("training", "5.1.0", "llama2_70b_lora", [2.5, 0.92], {**SIZES, **LORA})
HPC = Rules("hpc", "3.0.0", "cosmoflow", [0.5, 0.12], {**SIZES, **COSMOFLOW}, measure="eval_error")


def complaints(log: Path, rules: Rules) -> str:
    """What MLCommons' checker says against a log, warnings included; empty where it accepts it."""
    words = ["--usage", rules.usage, "--ruleset", rules.ruleset, "--werror", "--log_output", f"{log}.checked", str(log)]
    checker = [sys.executable, "-W", "ignore", "-m", "mlperf_logging.compliance_checker", *words]
    done = subprocess.run(checker, capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.fixture
def trained(muster: Muster, write_job: WriteJob, tmp_path: Path) -> Any:
    """Measures a script of these rules and returns its export and what its ranks printed."""

    def call(rules: Rules, code: int = 0, fields: dict[str, Any] | None = None, **more: Any) -> tuple[Path, list[Path]]:
        text = json.dumps({**rules.written, **more})
        job = write_job({"bench": {}, **(fields or {})}, **{"train.py": TRAINS, "rules.json": text})
        export = tmp_path / "export.log"
        done = muster("bench", job, "--mllog", export)
        assert done.returncode == code, done.stdout + done.stderr
        return export, sorted((tmp_path / "home" / "runs").glob("*/attempts/*/nodes/*/logs/rank-*.log"))

    return call


def told(log: Path) -> list[dict[str, Any]]:
    """The events of a log, wherever in a line they stand."""
    texts = [text for text in log.read_text().replace("\r", "\n").split("\n") if ":::MLLOG " in text and "{broken" not in text]
    return [json.loads(text.rpartition(":::MLLOG ")[2]) for text in texts]


@pytest.mark.long
@pytest.mark.parametrize("rules", [RESNET, BERT, LLAMA, HPC], ids=lambda rules: f"{rules.benchmark}-{rules.ruleset}")
def test_the_checker_accepts_the_export_of_a_script_whose_log_it_accepts(rules: Rules, trained: Any, tmp_path: Path) -> None:
    export, [printed] = trained(rules)
    own = tmp_path / "own.log"
    own.write_text("".join(f":::MLLOG {json.dumps(event)}\n" for event in told(printed)))
    assert complaints(own, rules) == ""
    assert complaints(export, rules) == ""


def test_everything_that_a_script_logged_stands_in_the_export_as_it_was_written(trained: Any) -> None:
    export, [printed] = trained(BERT)
    assert told(export) == told(printed)
    assert all(line.startswith(":::MLLOG {") for line in export.read_text().splitlines())
    [own] = [event for event in told(export) if event["key"] == "made_up_by_the_script"]
    assert own["namespace"] == "worker" and own["metadata"]["note"] == "kept"
    assert own["metadata"]["file"].endswith("train.py") and own["metadata"]["lineno"] > 0


@pytest.mark.long
@pytest.mark.parametrize("speaks", [[0, 1], [1]], ids=["all ranks", "the last rank"])
def test_ranks_that_log_the_same_are_one_voice(speaks: list[int], trained: Any) -> None:
    export, _ = trained(BERT, 0 if len(speaks) == 2 else 1, {"nodes": 2, "framework": "pytorch"}, speaks=speaks)
    assert complaints(export, BERT) == ""
    assert [event["value"] for event in told(export) if event["key"] == "seed"] == [1000 + speaks[0]]


@pytest.mark.long
def test_the_clock_of_a_run_goes_on_over_its_attempts(trained: Any) -> None:
    export, [first, second] = trained(BERT, fields={"retries": 1}, fails=1)
    assert complaints(export, BERT) == ""
    times = {event["key"]: event["time_ms"] for event in told(export)}
    assert times["run_start"] == next(event["time_ms"] for event in told(first) if event["key"] == "run_start")
    assert times["run_stop"] == next(event["time_ms"] for event in told(second) if event["key"] == "run_stop")
    assert [event["time_ms"] for event in told(export)] == sorted(event["time_ms"] for event in told(export))


def test_a_script_that_dies_while_it_trains_leaves_a_run_that_was_aborted(trained: Any) -> None:
    export, [printed] = trained(BERT, 1, fails=9)
    assert told(export)[:-1] == told(printed)
    stop = told(export)[-1]
    assert (stop["key"], stop["event_type"], stop["metadata"]["status"]) == ("run_stop", "INTERVAL_END", "aborted")


PARTLY = """
    from muster import record
    record.mllog("submission_org", "ACME")
    record.mllog("submission_benchmark", "bert")
    record.mllog("global_batch_size", 64)
    record.mllog("run_start", event="INTERVAL_START")
    record.metric("accuracy", 0.5, step=100)
    record.metric("accuracy", 0.75)
    record.metric("global_batch_size", 64)
    record.metric("train_samples", 5000)
    record.metric("throughput", 10.0)
"""


def test_what_a_script_did_not_log_is_added_once_and_in_its_place(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    done = muster("bench", write_job({"bench": {}}, **{"train.py": PARTLY}), "--mllog", tmp_path / "export.log")
    assert done.returncode == 0, done.stderr
    events = told(tmp_path / "export.log")
    keys = [event["key"] for event in events]
    assert keys.index("init_start") < keys.index("init_stop") < keys.index("run_start") < keys.index("run_stop")
    once = ("submission_benchmark", "submission_org", "global_batch_size", "train_samples", "run_start", "run_stop")
    assert [keys.count(key) for key in once] == [1] * len(once)
    values = {event["key"]: event["value"] for event in events}
    assert (values["submission_benchmark"], values["train_samples"]) == ("bert", 5000)
    assert [event["time_ms"] for event in events] == sorted(event["time_ms"] for event in events)


TIMED = """
    from muster import record
    record.mllog("epoch_start", metadata={"epoch_num": 1}, event="INTERVAL_START")
    timer = record.timer(10)
    for step in range(4):
        timer.step()
    timer.done()
    record.mllog("epoch_stop", metadata={"epoch_num": 1}, event="INTERVAL_END")
"""


def test_epochs_that_a_script_logged_lie_within_its_run(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    """The timer begins to measure later than the first epoch does, and ends before the last."""
    done = muster("bench", write_job({"bench": {}}, **{"train.py": TIMED}), "--mllog", tmp_path / "export.log")
    assert done.returncode == 0, done.stderr
    keys = [event["key"] for event in told(tmp_path / "export.log")]
    assert keys[-6:] == ["init_start", "init_stop", "run_start", "epoch_start", "epoch_stop", "run_stop"]


def test_no_epoch_is_invented(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    done = muster("bench", write_job({"bench": {}}, **{"train.py": PARTLY}), "--mllog", tmp_path / "export.log")
    assert done.returncode == 0, done.stderr
    found = [event for event in told(tmp_path / "export.log") if event["key"] == "eval_accuracy"]
    assert [event["value"] for event in found] == [0.5, 0.75]
    assert [event["metadata"] for event in found] == [{"step_num": 100, "rank": 0}, {"rank": 0}]


REPLAYS = """
    import time
    from muster import record
    old = '{"namespace": "", "time_ms": %d, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {}}'
    print(":::MLLOG " + old % (1000 * time.time() - 3_600_000))
    record.mllog("run_start", event="INTERVAL_START")
    record.mllog("throughput", 10.0)
    record.mllog("run_stop", metadata={"status": "success"}, event="INTERVAL_END")
"""


def test_lines_of_an_older_run_that_a_script_prints_again_are_left_out(
    muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    done = muster("bench", write_job({"bench": {}}, **{"train.py": REPLAYS}), "--mllog", tmp_path / "export.log")
    assert done.returncode == 0, done.stderr
    keys = [event["key"] for event in told(tmp_path / "export.log")]
    assert (keys.count("run_start"), keys.count("run_stop"), keys.count("throughput")) == (1, 1, 1)


HOSTILE = r"""
    import sys, time
    head = ':::MLLOG {"time_ms": %d, "event_type": "POINT_IN_TIME", "metadata": {}' % (1000 * time.time())
    def line(value, key="loss"):
        print(head + ', "key": "%s", "value": %s}' % (key, value), flush=True)
    line("NaN")
    line('"\\ud800"')
    line("1" * 200_000)
    line("1", key="\\ud83d")
    sys.stdout.buffer.write(b':::MLLOG \xff\xfe{"a": 1}\n')
    line("10.5", key="throughput")
"""


def test_lines_that_are_not_what_they_should_be_spoil_nothing(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    done = muster("bench", write_job({"bench": {}}, **{"train.py": HOSTILE}), "--mllog", tmp_path / "export.log")
    assert "Traceback" not in done.stderr and done.returncode == 0, done.stderr
    assert [event["value"] for event in told(tmp_path / "export.log") if event["key"] == "throughput"] == [10.5]
