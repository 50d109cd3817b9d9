"""`muster bench` as people use it: complete numbers, or a failure that says which one is missing and why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, until

# A rank that records as it is told in its environment: TELL maps ranks to the text of a result file.
TELLS = """
    import json, os, pathlib
    rank = os.environ["MUSTER_RANK"]
    for name, text in json.loads(os.environ["TELL"]).get(rank, {}).items():
        pathlib.Path(os.environ["MUSTER_RESULTS"], name).write_text(text)
"""


def telling(**ranks: Mapping[str, str]) -> dict[str, Any]:
    return {"env": {"TELL": json.dumps({rank.lstrip("r"): files for rank, files in ranks.items()})}}


def rates(*values: str) -> dict[str, Any]:
    return telling(**{f"r{rank}": {f"throughput_{rank}.json": value} for rank, value in enumerate(values)})


def bench(muster: Muster, job: Path, *words: object, code: int = 0) -> dict[str, Any]:
    done = muster("bench", job, "--json", *words)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_complete_result_passes_and_is_on_the_record(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"nodes": 2, "per": "device", **rates("10.5", "20.25")}, **{"train.py": TELLS})
    result = bench(muster, job)
    assert result["verdict"] == {"passed": True, "problems": []}
    assert result["metrics"]["throughput"]["value"] == 30.75
    folder = home / "benches" / result["id"]
    assert json.loads((folder / "result.json").read_text()) == result
    record = json.loads((folder / "bench.json").read_text())
    assert record["runs"] == [result["runs"][0]["run"]] == [path.name for path in (home / "runs").iterdir()]
    assert record["command"][:2] == ["muster", "bench"]
    assert record["ended"] >= record["created"]


def test_the_lines_of_aisbench_are_printed_for_one_world(muster: Muster, write_job: WriteJob) -> None:
    fields = telling(r0={"throughput_0.json": "10.5", "accuracy.json": "0.75"}, r1={"throughput_1.json": "20.25"})
    done = muster("bench", write_job({"nodes": 2, "per": "device", **fields}, **{"train.py": TELLS}))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "report result total_throughput : 30.75" in lines
    assert "report result accuracy:0.75" in lines
    info = json.loads(done.stdout[done.stdout.index("train_result_info: ") + len("train_result_info: ") :])
    assert (info["throughput_ratio"], info["accuracy"]) == ("30.75", "0.75")
    assert info["average_power"] is None and info["dataload_start_time"] is None
    assert not any("2020-01-30" in str(value) or value == 0 for value in info.values())


@pytest.mark.parametrize(
    "values, problem",
    [
        (("10", None), "rank 1 on node 1"),
        (("10", "nan"), "not finite"),
        (("10", "0"), "not positive"),
        (("10", "-3"), "not positive"),
        (("10", "fast"), "not a number"),
        (("10", ""), "rank 1 on node 1"),
    ],
)
def test_a_number_that_is_missing_or_no_use_fails_the_benchmark(
    values: tuple[str, str | None], problem: str, muster: Muster, write_job: WriteJob
) -> None:
    known = {f"r{rank}": {f"throughput_{rank}.json": value} for rank, value in enumerate(values) if value is not None}
    result = bench(muster, write_job({"nodes": 2, "per": "device", **telling(**known)}, **{"train.py": TELLS}), code=1)
    assert not result["verdict"]["passed"]
    assert any(problem in told for told in result["verdict"]["problems"]), result["verdict"]
    assert result["metrics"]["throughput"]["value"] is None
    assert result["metrics"]["throughput"]["reason"]


def test_accuracy_that_the_job_asks_for_must_be_there(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"metrics": {"throughput": None, "accuracy": None}, **rates("10")}, **{"train.py": TELLS})
    assert any("accuracy" in problem for problem in bench(muster, job, code=1)["verdict"]["problems"])


@pytest.mark.long
def test_what_lay_in_the_output_before_is_never_counted(muster: Muster, write_job: WriteJob, home: Path) -> None:
    train = """
        import os, sys
        import moxing as mox
        url = sys.argv[1].partition("=")[2]
        if os.environ["MUSTER_RANK"] in os.environ["WRITERS"].split():
            mox.file.write(url + "throughput_%s.json" % os.environ["MUSTER_RANK"], "5.5")
    """
    fields = {"nodes": 2, "per": "device", "compat": "modelarts-v1", "outputs": {"train_url": "obs://b/o/"}}
    job = write_job({**fields, "env": {"WRITERS": "0 1"}}, **{"train.py": train})
    assert bench(muster, job)["metrics"]["throughput"]["value"] == 11.0
    result = bench(muster, job, "--set", "env.WRITERS=0", code=1)
    assert any("throughput_1.json" in problem and "older than" in problem for problem in result["verdict"]["problems"]), result[
        "verdict"
    ]


def test_a_run_that_fails_ends_the_measurement_with_its_reason(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"bench": {"repeats": 3}}, **{"train.py": "import sys; sys.exit(7)"})
    result = bench(muster, job, code=1)
    assert len(result["runs"]) == 1
    assert any("exited with code 7" in problem for problem in result["verdict"]["problems"])


@pytest.mark.long
def test_repeats_are_combined_by_the_rule_that_the_job_names(muster: Muster, write_job: WriteJob) -> None:
    train = """
        import os, pathlib
        count = pathlib.Path(os.environ["COUNT"])
        number = len(count.read_text()) if count.exists() else 0
        count.write_text("x" * (number + 1))
        pathlib.Path(os.environ["MUSTER_RESULTS"], "throughput_0.json").write_text(str([10, 100, 12, 1][number]))
    """
    job = write_job(**{"train.py": train})
    counter = job.parent.parent / "count"
    words = ["--repeats", "4", "--set", "bench.combine=olympic", "--set", f"env.COUNT={counter}"]
    result = bench(muster, job, *words, "--set", "bench.limits.repeats=50%", code=1)
    assert result["metrics"]["throughput"]["list"] == [10, 100, 12, 1]
    assert result["metrics"]["throughput"]["value"] == 11.0
    assert [limit["held"] for limit in result["limits"]] == [False]


@pytest.mark.conformance
def test_every_server_alone_gives_the_figures_of_the_manual(muster: Muster, write_job: WriteJob) -> None:
    train = """
        import os, pathlib
        server = int(os.environ["MUSTER_SERVER"])
        assert os.environ["RANK"] == "0" and os.environ["WORLD_SIZE"] == "1"
        folder = pathlib.Path(os.environ["MUSTER_RESULTS"])
        (folder / "throughput_0.json").write_text(["450.77798444604605", "450.38567065252664"][server])
        (folder / "accuracy.json").write_text(["0.7138142585754395", "0.7139078378677368"][server])
    """
    job = write_job({"nodes": 2, "framework": "pytorch"}, **{"train.py": train})
    done = muster("bench", job, "--scope", "server")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "report >> throughput_list:[450.77798444604605, 450.38567065252664] average:450.58182754928634",
        "report >> accuracy_list:[0.7138142585754395, 0.7139078378677368] average:0.7138610482215881",
    ]


# What AISBench's patches do in single-server mode, for any number of devices: the table is cut down in place.
OWN_MODE = """
    import json, os, pathlib, sys, time
    import moxing as mox
    devices = int(os.environ["DEVICE_NUM"])
    server, local = divmod(int(os.environ["RANK_ID"]), devices)
    assert os.environ["SINGLESERVER_MODE"] == "True" and server == int(os.environ["BATCH_TASK_INDEX"])
    table, flag = pathlib.Path(os.environ["RANK_TABLE_FILE"]), pathlib.Path("/tmp/tmp.txt")
    if local == 0:
        found = json.loads(table.read_text())
        found["server_list"] = [found["server_list"][server]]
        for device in found["server_list"][0]["device"]:
            device["rank_id"] = str(int(device["rank_id"]) % devices)
        table.write_text(json.dumps(dict(found, server_count="1")))
        flag.touch()
    while not flag.exists():
        time.sleep(0.01)
    [only] = json.loads(table.read_text())["server_list"]
    assert [device["rank_id"] for device in only["device"]] == [str(rank) for rank in range(devices)]
    url = sys.argv[1].partition("=")[2]
    mox.file.make_dirs(url + str(server))
    mox.file.write(url + "%d/throughput_%d.json" % (server, local), ["7073.657496647554", "7077.524230846457"][server])
    if local == 0:
        mox.file.write(url + "accuracy_%d.json" % server, ["0.7705078125", "0.7707316080729166"][server])
"""


@pytest.mark.long
def test_a_script_with_its_own_single_server_mode_is_left_to_it(muster: Muster, write_job: WriteJob) -> None:
    job = write_job(
        {
            "nodes": 2,
            "devices": 2,
            "framework": "mindspore",
            "rank_table": "1.0",
            "compat": "modelarts-v1",
            "env": {"SINGLESERVER_MODE": "True"},
            "outputs": {"train_url": "obs://b/out/"},
            "bench": {"scope": "server"},
            "metrics": {"throughput": None, "accuracy": None},
        },
        **{"train.py": OWN_MODE},
    )
    done = muster("bench", job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "report >> throughput_list:[14147.314993295107, 14155.048461692913] average:14151.181727494011" in done.stdout
    assert "report >> accuracy_list:[0.7705078125, 0.7707316080729166] average:0.7706197102864583" in done.stdout


def test_a_start_script_with_the_mode_that_the_job_does_not_name_is_refused(
    muster: Muster, write_job: WriteJob, home: Path
) -> None:
    files = {"train.py": "pass", "ma-pre-start.sh": "export SINGLESERVER_MODE=True\n"}
    job = write_job({"nodes": 2, "compat": "modelarts-v1", "bench": {"scope": "server"}}, **files)
    done = muster("bench", job)
    assert done.returncode == 2
    assert 'env: {SINGLESERVER_MODE: "True"}' in done.stderr
    assert not (home / "benches").exists()


@pytest.mark.parametrize(
    "fields, files, setter",
    [
        ({"env": {"SINGLESERVER_MODE": "True"}}, {}, "`env`"),
        ({"env": {"SINGLESERVER_MODE": "True"}, "bench": {"scope": "cluster"}}, {}, "`env`"),
        ({"compat": "modelarts-v1"}, {"ma-pre-start.sh": "export SINGLESERVER_MODE=True\n"}, "ma-pre-start.sh"),
    ],
)
def test_nodes_that_train_alone_are_not_measured_as_one_training(
    muster: Muster, write_job: WriteJob, home: Path, fields: dict[str, Any], files: dict[str, str], setter: str
) -> None:
    done = muster("bench", write_job({"nodes": 2, **fields}, **{"train.py": "pass", **files}))
    assert done.returncode == 2
    assert "bench.scope" in done.stderr and f"{setter} sets SINGLESERVER_MODE" in done.stderr
    assert "set `bench.scope` to server" in done.stderr
    assert not (home / "benches").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (["--sign"], "--export"),
        (["--tester", "http://127.0.0.1:1"], "--test-id"),
        (["--export", "."], "name a file"),
        (["--export", "job/job.yaml"], "exists already"),
        (["--mllog", "nowhere/x.log"], "directory that exists"),
        (["--system", "nowhere.json"], "check the path"),
        (["--system", "job/job.yaml"], "not JSON"),
        (["--repeats", "0"], "bench.repeats"),
        (["--set", "bench.scope=half"], "--set bench.scope=half: `bench.scope: half`"),
        (["--scope", "servr"], "--scope servr: `bench.scope: servr` is not known; did you mean `server`?"),
        (["--repeats", "2", "--set", "bench.combine=olympic"], "set `bench.repeats` to 3 or more"),
        (["--set", "bench.limits.repeats=5%"], "`bench.limits.repeats` limits how far repeats lie apart"),
        (["--set", "bench.limits.nodes=5%"], "`bench.limits.nodes` limits how far nodes lie apart"),
        (["--set", "bench.limits.ranks=5%"], "`bench.limits.ranks` limits how far ranks lie apart"),
    ],
)
def test_bad_input_starts_nothing(words: list[str], said: str, muster: Muster, write_job: WriteJob, home: Path) -> None:
    done = muster("bench", write_job(**{"train.py": "pass"}), *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (home / "runs").exists() and not (home / "benches").exists()


def test_json_says_why_nothing_could_be_started(muster: Muster, write_job: WriteJob, home: Path) -> None:
    home.mkdir()
    (home / "benches").write_text("a file in the place of a directory")
    done = muster("bench", write_job(**{"train.py": "pass"}), "--json")
    assert done.returncode == 1
    assert str(home / "benches") in json.loads(done.stdout)["reason"]


def test_a_tester_that_cannot_be_reached_is_told_before_anything_starts(
    muster: Muster, write_job: WriteJob, home: Path
) -> None:
    done = muster("bench", write_job(**{"train.py": "pass"}), "--tester", "http://127.0.0.1:1", "--test-id", "x")
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr
    assert not (home / "runs").exists()


def test_ctrl_c_stops_the_run_and_the_repeats(command: list[str], write_job: WriteJob, home: Path) -> None:
    job = write_job({"bench": {"repeats": 5}}, **{"train.py": "import time\nprint('up', flush=True)\ntime.sleep(60)"})
    process = subprocess.Popen([*command, "bench", str(job), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    until(lambda: [path for path in home.glob("runs/*/attempts/1/nodes/0/logs/rank-0.log") if path.read_text() == "up\n"])
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    result = json.loads(out)
    assert len(result["runs"]) == 1 and result["runs"][0]["state"] == "stopped"
    assert not result["verdict"]["passed"]


def test_the_files_that_are_asked_for_are_written(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    (tmp_path / "system.json").write_text('{"vendor": "ACME"}')
    job = write_job(rates("10.5"), **{"train.py": TELLS})
    words = ["--export", "b.tar.gz", "--mllog", "m.log", "--html", "r.html", "--system", "system.json"]
    bench(muster, job, *words)
    assert muster("verify", "b.tar.gz").returncode == 0
    assert (tmp_path / "m.log").read_text().startswith(":::MLLOG ")
    assert "<html" in (tmp_path / "r.html").read_text()
    [record] = (tmp_path / "home" / "benches").glob("*/bench.json")
    assert json.loads(record.read_text())["system"] == {"vendor": "ACME"}


def test_a_signed_bundle_is_signed_by_the_key_that_was_named(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"], cwd=tmp_path, check=True)
    bench(muster, write_job(rates("10.5"), **{"train.py": TELLS}), "--export", "b.tar.gz", "--sign", "key")
    public = (tmp_path / "key.pub").read_text()
    (tmp_path / "signers").write_text(f"anna {public}")
    done = muster("verify", "b.tar.gz", "--signers", "signers", "--signed", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["signed_by"] == "anna"


def test_a_measurement_can_be_bundled_later_and_removed_with_its_runs(
    muster: Muster, write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    result = bench(muster, write_job(rates("10.5"), **{"train.py": TELLS}))
    done = muster("report", result["id"], "--export", "late.tar.gz", "--json")
    assert done.returncode == 0, done.stderr
    assert muster("verify", "late.tar.gz").returncode == 0
    assert muster("report", "late.tar.gz", "--export", "again.tar.gz").returncode == 2
    assert json.loads(muster("rm", result["id"], "--json").stdout)["removed"] == [result["runs"][0]["run"], result["id"]]
    assert list((home / "benches").iterdir()) == list((home / "runs").iterdir()) == []
