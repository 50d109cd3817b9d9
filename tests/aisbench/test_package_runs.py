"""Packages run: with the lines, logs, results and exit codes of AISBench, and with numbers that hold or a reason."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_devices import Npus
from packages import changed, stubs
from ready_packages import installed as installed
from ready_packages import modelarts as modelarts
from ready_packages import offline as offline

from behaviour import no_namespaces
from conftest import Muster, until
from s3_server import ACCESS, S3, SECRET

V2, SINGLE = ("#export MODELARTS_VERSION=V2", "export MODELARTS_VERSION=V2"), ("#export SINGLE", "export SINGLE")
TWO_NODES = ('"train_instance_count": 1', '"train_instance_count": 2')

# What the patches of AISBench do before they train: one rank of each server keeps its own part of the table.
REWRITES = """
import json, os, sys, time
import moxing as mox

url = next(word.partition("=")[2] for word in sys.argv if word.startswith("--train_url="))
old, server = int(os.environ["RANK_ID"]), os.environ["BATCH_TASK_INDEX"]
rank, table = old % 8, os.environ["RANK_TABLE_FILE"]
if rank:
    while not os.path.exists("/tmp/tmp.txt"):
        time.sleep(0.02)
else:
    with open(table) as file:
        whole = json.load(file)
    own = whole["server_list"][old // 8]
    for device in own["device"]:
        device["rank_id"] = str(int(device["rank_id"]) % 8)
    with open(table, "w") as file:
        json.dump({**whole, "server_list": [own], "server_count": "1"}, file)
    open("/tmp/tmp.txt", "w").close()
with open(table) as file:
    assert [device["rank_id"] for device in json.load(file)["server_list"][0]["device"]] == [str(n) for n in range(8)]
mox.file.make_dirs(os.path.join(url, server))
mox.file.write(os.path.join(url, server, "throughput_%d.json" % rank), str(100.0 + rank + 10 * int(server)))
if rank == 0:
    mox.file.write(os.path.join(url, "accuracy_%s.json" % server), str(0.5 + 0.25 * int(server)))
"""
contained = pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")


def info(output: str) -> dict[str, Any]:
    found = re.search(r"train_result_info: (\{.*?\n\})", output, re.DOTALL)
    assert found, output
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def test_local_mode_of_the_older_generation(modelarts: Path) -> None:
    done = stubs(modelarts, "test")
    assert done.returncode == 0, done.stdout
    assert "[INFO]get ConfigInfo testid:20210126-ljp0IY, Mode:training, Model:perceptron, Divsion:close" in done.stdout
    assert re.search(r"create sucess job_id:\S+ resource_id:job[0-9a-f]{8} version_name:V0001 create_time:", done.stdout)
    assert re.search(r"task succeeded, total time \d+\(s\)", done.stdout)
    assert re.search(r"-Ais-Bench-Stubs- INFO run_eval\(benchmark.sh:\d+\) - run_eval called", done.stdout)
    assert done.stdout.endswith("[INFO]BenchManager stop done\n")
    values = [float((modelarts / f"result/throughput_{rank}.json").read_text()) for rank in (0, 1)]
    printed = info(done.stdout)
    assert printed["throughput_ratio"] == repr(values[0] + values[1])
    assert float(printed["accuracy"]) == float((modelarts / "result/accuracy.json").read_text()) > 0.9
    assert (printed["dataload_start_time"], printed["average_power"]) == (None, None)
    result = json.loads((modelarts / "result/result.json").read_text())
    assert result["verdict"] == {"passed": True, "problems": []}
    assert json.loads((modelarts / "result/result.log").read_text()) == {
        "throughput_ratio": printed["throughput_ratio"],
        "accuracy": printed["accuracy"],
    }


@pytest.mark.long
def test_logs_are_named_as_the_platform_names_them(modelarts: Path) -> None:
    assert stubs(modelarts, "test").returncode == 0
    logs = sorted(os.listdir(modelarts / "log"))
    assert [re.sub("job[0-9a-f]{8}", "jobX", name) for name in logs] == [
        "benchmark.log",
        "jobX-job-aisbench-example-0.log",
        "stub.log",
    ]
    assert {line[:9] for line in (modelarts / "log" / logs[1]).read_text().splitlines()} == {"rank 0 of", "rank 1 of"}
    assert "run_train called" in (modelarts / "log/benchmark.log").read_text()
    assert "BenchManager stop done" in (modelarts / "log/stub.log").read_text()


@pytest.mark.long
@pytest.mark.parametrize("mode", ["modelarts", "offline"])
def test_logs_of_an_earlier_run_are_gone(mode: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(mode)
    assert stubs(folder, "test").returncode == 0
    before = {path.name: path.read_text() for path in (folder / "log").iterdir()}
    (folder / "log/notes.txt").write_text("of the user")
    assert stubs(folder, "test").returncode == 0
    after = {path.name: path.read_text() for path in (folder / "log").iterdir()}
    assert after.pop("notes.txt") == "of the user"
    assert len(after) == len(before) == 3
    assert [after["stub.log"].count("begin run"), after["benchmark.log"].count("run_train called")] == [1, 1]
    assert [text.count("rank 0 of") for name, text in after.items() if name not in ("stub.log", "benchmark.log")] == [
        text.count("rank 0 of") for name, text in before.items() if name not in ("stub.log", "benchmark.log")
    ]
    done = subprocess.run(["bash", str(folder / "code/benchmark.sh")], capture_output=True, timeout=100)
    assert done.returncode == 0, done.stdout
    assert not {"stub.log", "benchmark.log"} & set(os.listdir(folder / "log"))


@pytest.mark.long
def test_the_bundle_of_a_package_can_be_verified(modelarts: Path, muster: Muster) -> None:
    assert stubs(modelarts, "test").returncode == 0
    bundle = next((modelarts / "result").glob("*.tar.gz"))
    assert muster("verify", bundle).returncode == 0


@pytest.mark.long
def test_local_mode_of_the_newer_generation(modelarts: Path) -> None:
    changed(modelarts / "code/config/config.sh", V2)
    done = stubs(modelarts, "test")
    assert done.returncode == 0, done.stdout
    found = re.search(r"create job sucess. job_id:([0-9a-f-]{36})  job name:aisbench-example", done.stdout)
    assert found, done.stdout
    assert f"modelarts-job-{found.group(1)}-worker-0.log" in os.listdir(modelarts / "log")
    assert float(info(done.stdout)["throughput_ratio"]) > 0


@pytest.mark.long
@pytest.mark.parametrize("generation", ["V1", "V2"])
def test_single_server_mode(modelarts: Path, generation: str) -> None:
    """Weaknesses 4 and 15: every server has its own numbers, however many cards it has."""
    changed(modelarts / "code/config/modelarts_config.py", TWO_NODES)
    changed(modelarts / "code/config/config.sh", SINGLE, *([V2] if generation == "V2" else []))
    done = stubs(modelarts, "test")
    assert done.returncode == 0, done.stdout
    servers = [
        sum(float((modelarts / f"result/{server}/throughput_{rank}.json").read_text()) for rank in (0, 1)) for server in (0, 1)
    ]
    accuracies = [float((modelarts / f"result/accuracy_{server}.json").read_text()) for server in (0, 1)]
    assert f"report >> throughput_list:{servers!r} average:{sum(servers) / 2!r}" in done.stdout
    assert f"report >> accuracy_list:{accuracies!r} average:{sum(accuracies) / 2!r}" in done.stdout


@pytest.mark.long
@contained
def test_scripts_that_rewrite_the_rank_table_in_place(modelarts: Path) -> None:
    """Weaknesses 4 and 14: AISBench's own single-server mode counts on 8 cards, a table it may write, and a /tmp of its own."""
    (modelarts / "code/code/train.py").write_text(REWRITES)
    changed(modelarts / "code/config/modelarts_config.py", TWO_NODES, ("kat1.2xlarge", "kat1.8xlarge"))
    changed(modelarts / "code/config/config.sh", SINGLE)
    done = stubs(modelarts, "test")
    assert done.returncode == 0, done.stdout
    assert "report >> throughput_list:[828.0, 908.0] average:868.0" in done.stdout
    assert "report >> accuracy_list:[0.5, 0.75] average:0.625" in done.stdout


@pytest.mark.long
def test_offline_mode_of_one_card(offline: Path) -> None:
    done = stubs(offline, "test")
    assert done.returncode == 0, done.stdout
    assert float(info(done.stdout)["accuracy"]) == float((offline / "result/eval_acc.log").read_text()) > 0.9
    assert "train_parallel0.log" in os.listdir(offline / "log")


@pytest.mark.long
def test_the_chosen_card_is_the_one_that_is_used(offline: Path, tmp_path: Path) -> None:
    """Weakness 19: another card than the chosen one trained, and its number was lost."""
    changed(offline / "code/config/config.sh", ("export RANK_SIZE=1", "export SINGLE_CARD_INDEX=5\nexport RANK_SIZE=1"))
    program = 'def main():\n    print("card", os.environ["ASCEND_RT_VISIBLE_DEVICES"], os.environ["DEVICE_ID"])\n'
    changed(offline / "code/code/train.py", ("def main():\n", program))
    done = stubs(offline, "test", **Npus(tmp_path / "machine", *range(8)).env)
    assert done.returncode == 0, done.stdout
    assert (offline / "log/train_parallel0.log").read_text().startswith("card 5 0\n")
    assert float(info(done.stdout)["throughput_ratio"]) > 0


def test_offline_mode_of_two_servers_without_their_logins_is_simulated_here(offline: Path) -> None:
    cards = [[{"device_id": "0", "device_ip": f"10.1.0.{server}", "rank_id": str(server)}] for server in (0, 1)]
    servers = [{"server_id": f"10.0.0.{server}", "device": cards[server]} for server in (0, 1)]
    (offline / "code/table.json").write_text(json.dumps({"version": "1.0", "server_count": "2", "server_list": servers}))
    more = "export RANK_SIZE=2\nexport RANK_TABLE_FILE=$CODE_PATH/table.json"
    changed(offline / "code/config/config.sh", ("export RANK_SIZE=1", more))
    done = stubs(offline, "test")
    assert done.returncode == 0, done.stdout
    values = [float((offline / f"result/throughput_rank_{rank}").read_text()) for rank in (0, 1)]
    assert info(done.stdout)["throughput_ratio"] == repr(values[0] + values[1])


@pytest.mark.long
def test_the_store_and_keys_of_the_configuration_are_used(modelarts: Path, muster: Muster, s3: S3, home: Path) -> None:
    """Weakness 10: the keys open the store, and are in no file but the one that the user wrote, and the profile."""
    bucket = s3.bucket()
    for name in ("train", "val"):
        s3.s5cmd("cp", home.parent / "points" / name / "points.csv", f"s3://{bucket}/data/{name}/points.csv")
    changed(
        modelarts / "code/config/modelarts_config.py",
        ("/aisbench-example", f"/{bucket}"),
        ('"access_key": ""', f'"access_key": "{ACCESS}"'),
        ('"secret_access_key": ""', f'"secret_access_key": "{SECRET}"'),
        ('"server": ""', f'"server": "{s3.endpoint}"'),
    )
    done = stubs(modelarts, "test")
    assert done.returncode == 0, done.stdout
    assert "throughput_0.json" in s3.s5cmd("ls", f"s3://{bucket}/result/*")
    for path in (path for folder in (modelarts, home) for path in folder.rglob("*") if path.is_file()):
        assert path.name == "modelarts_config.py" or SECRET.encode() not in path.read_bytes(), path
    imported = muster("import", modelarts, "--profile", "lab", "-o", modelarts / "job.yaml")
    assert imported.returncode == 0, imported.stderr
    assert muster("run", modelarts / "job.yaml", "--check", MUSTER_PROFILE="lab").returncode == 0
    assert muster("run", modelarts / "job.yaml", "--check").returncode == 2  # it is not in the store under MUSTER_HOME


@pytest.mark.long
def test_secrets_of_config_sh_reach_the_ranks_and_no_file(offline: Path, home: Path) -> None:
    """Weakness 10."""
    more = "export WANDB_API_KEY=wandb-word BMC_PASSWORD=bmc-word\nexport EPOCH"
    changed(offline / "code/config/config.sh", ("export EPOCH", more))
    program = 'def main():\n    print(len(os.environ["WANDB_API_KEY"]), "BMC_PASSWORD" in os.environ)\n'
    changed(offline / "code/code/train.py", ("def main():\n", program))
    done = stubs(offline, "test")
    assert done.returncode == 0, done.stdout
    assert (offline / "log/train_parallel0.log").read_text().startswith("10 False\n")
    for path in (path for folder in (offline, home) for path in folder.rglob("*") if path.is_file()):
        assert path.name == "config.sh" or not re.search(b"wandb-word|bmc-word", path.read_bytes()), path


def test_a_wrong_configuration_is_exit_code_1(modelarts: Path) -> None:
    """Weaknesses 9 and 21: everything wrong is reported at once, under the exit code for it."""
    config = modelarts / "code/config/modelarts_config.py"
    changed(config, ('"boot_file": bucket + "/code/train.py"', '"boot_file": "/elsewhere/train.py"'), ('"/data/"', '"/data"'))
    done = stubs(modelarts, "test")
    assert done.returncode == 1
    assert "is outside of code_dir" in done.stdout and "does not end with a slash" in done.stdout
    assert "run_train" not in done.stdout and "train_result_info" not in done.stdout


def test_missing_data_is_exit_code_1(modelarts: Path) -> None:
    changed(modelarts / "code/config/modelarts_config.py", ('"/data/"', '"/nothing/"'))
    done = stubs(modelarts, "test")
    assert done.returncode == 1
    assert "obs://aisbench-example/nothing/, which does not exist" in done.stdout


@pytest.mark.long
def test_a_training_that_fails_is_exit_code_2(modelarts: Path) -> None:
    """Weaknesses 11 and 17: a failing rank is seen, and its error is in the log."""
    changed(modelarts / "code/code/train.py", ("def main():\n", 'def main():\n    raise SystemExit("no memory left")\n'))
    done = stubs(modelarts, "test")
    assert done.returncode == 2
    assert "task failed, status JOBSTAT_FAILED" in done.stdout
    log = next((modelarts / "log").glob("job*.log"))
    assert "no memory left" in log.read_text()


@pytest.mark.long
def test_a_training_that_fails_offline_is_exit_code_2(offline: Path) -> None:
    """Weakness 17: the exit code of the training was that of `tee`, and stderr was in no log."""
    changed(offline / "code/code/train.py", ("def main():\n", 'def main():\n    raise SystemExit("no memory left")\n'))
    done = stubs(offline, "test")
    assert done.returncode == 2
    assert "no memory left" in (offline / "log/train_parallel0.log").read_text()


@pytest.mark.long
def test_a_program_that_a_shell_does_not_find_is_named(modelarts: Path) -> None:
    program = 'def main():\n    os.execvp("bash", ["bash", "-c", "python3.1.4 train.py"])\n'
    changed(modelarts / "code/code/train.py", ("def main():\n", program))
    done = stubs(modelarts, "test")
    assert done.returncode == 2
    assert re.search(r"exited with code 127: bash: line 1: python3\.1\.4: command not found", done.stdout), done.stdout


@pytest.mark.long
def test_a_missing_accuracy_is_exit_code_3(modelarts: Path) -> None:
    """Weaknesses 3 and 18: no evaluation is no result, and no other file is taken for one."""
    changed(modelarts / "code/code/train.py", ("    if rank == 0:\n        mox", "    if rank == 99:\n        mox"))
    done = stubs(modelarts, "test")
    assert done.returncode == 3, done.stdout
    assert "[ERROR] there is no accuracy" in done.stdout
    assert info(done.stdout)["accuracy"] is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("value", "message"),
    [("float('nan')", "finite"), ("0.0", "positive"), ("'abc'", "not a number")],
)
def test_a_throughput_that_is_none_is_exit_code_4(modelarts: Path, value: str, message: str) -> None:
    """Weakness 3: whatever a rank wrote was summed."""
    changed(modelarts / "code/code/train.py", ("str(throughput)", f"str(throughput if rank else {value})"))
    done = stubs(modelarts, "test")
    assert done.returncode == 4, done.stdout
    assert message in done.stdout and "rank 0" in done.stdout
    assert info(done.stdout)["throughput_ratio"] is None


def test_a_missing_rank_is_exit_code_4(offline: Path) -> None:
    """Weakness 20: a missing rank counted as 0, and the result was OK."""
    changed(offline / "code/code/train.py", ("throughput_rank_{rank}", "elsewhere_{rank}"))
    done = stubs(offline, "test")
    assert done.returncode == 4, done.stdout
    assert info(done.stdout)["throughput_ratio"] is None


@pytest.mark.long
def test_old_results_are_never_taken_for_new_ones(modelarts: Path) -> None:
    """Weakness 6: what lay in the output directory was summed."""
    assert stubs(modelarts, "test").returncode == 0
    changed(modelarts / "code/code/train.py", ('mox.file.write(f"{folder}/throughput_', 'print(f"{folder}/throughput_'))
    done = stubs(modelarts, "test")
    assert done.returncode == 4, done.stdout
    assert not (modelarts / "result/throughput_0.json").exists()


@pytest.mark.long
def test_packages_that_run_at_the_same_time_keep_their_numbers(modelarts: Path, tmp_path: Path) -> None:
    """Weakness 6: parallel runs wrote into one folder, and one reported what the other had measured."""
    other, other_ran = tmp_path / "other", tmp_path / "other-ran"
    shutil.copytree(modelarts, other)
    measured = "measured, throughput = accuracy(weights, eval_data), samples / seconds"
    changed(other / "code/code/train.py", (measured, "measured, throughput = 0.25, 2.0"))
    waits = f"    main()\n    while not os.path.exists({str(other_ran)!r}):\n        time.sleep(0.02)\n"
    changed(modelarts / "code/code/train.py", (measured, "measured, throughput = 0.75, 1.0"), ("    main()\n", waits))
    first = subprocess.Popen(["./ais-bench-stubs", "test"], cwd=modelarts, stdout=subprocess.PIPE, text=True)
    until(
        lambda: (modelarts / "log").is_dir() and any("samples/s" in log.read_text() for log in (modelarts / "log").glob("job*"))
    )
    second = stubs(other, "test")
    other_ran.touch()
    output, _ = first.communicate(timeout=60)
    for printed, throughput, accuracy in ((output, "2.0", "0.75"), (second.stdout, "4.0", "0.25")):
        assert (info(printed)["throughput_ratio"], info(printed)["accuracy"]) == (throughput, accuracy)


def test_muster_that_is_not_installed_is_told(modelarts: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "readlink", "cat"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    done = stubs(modelarts, "test", MUSTER="", PATH=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert "Muster is not installed. Run `pip install .` in a checkout of it" in done.stderr


@pytest.mark.parametrize("script", ["ais-bench-stubs", "code/benchmark.sh"])
def test_a_command_that_is_not_there_is_exit_code_1(modelarts: Path, script: str) -> None:
    """Weakness 21: exit codes of the shell got past those of AISBench."""
    env = {**os.environ, "MUSTER": "/no/such/muster"}
    done = subprocess.run(["bash", str(modelarts / script)], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr[:27]) == (1, "MUSTER names /no/such/muste"), done.stderr


@pytest.mark.parametrize("way", ["muster", "python3"])
def test_muster_is_found_where_it_is(modelarts: Path, tmp_path: Path, command: list[str], way: str) -> None:
    """As a command on the PATH, or as a module of the Python there."""
    (tmp_path / "bin").mkdir()
    words = " ".join(command) if way == "muster" else command[0]
    (tmp_path / "bin" / way).write_text(f'#!/bin/bash\nexec {words} "$@"\n')
    (tmp_path / "bin" / way).chmod(0o755)
    for name in ("bash", "dirname", "readlink"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    done = stubs(modelarts, "tset", MUSTER="", PATH=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert "usage: ./ais-bench-stubs [test]" in done.stdout, done.stderr


def test_a_word_that_is_no_mode_is_told(modelarts: Path) -> None:
    done = stubs(modelarts, "tset")
    assert done.returncode == 1 and "usage: ./ais-bench-stubs [test]" in done.stdout


def test_keys_of_a_package_reach_neither_files_nor_ranks(modelarts: Path, home: Path) -> None:
    """Weakness 10: the keys stay where the user wrote them."""
    changed(
        modelarts / "code/config/modelarts_config.py",
        ('"access_key": ""', '"access_key": "AKIDSEEN"'),
        ('"secret_access_key": ""', '"secret_access_key": "sk-seen"'),
        ('"server": ""', '"server": "http://127.0.0.1:1"'),
    )
    changed(modelarts / "code/code/train.py", ("def main():\n", "def main():\n    print(dict(os.environ))\n"))
    done = stubs(modelarts, "test")
    assert done.returncode == 1  # there is no such store
    assert "http://127.0.0.1:1" in done.stdout
    for folder in (modelarts, home):
        for path in (path for path in folder.rglob("*") if path.is_file() and path.name != "modelarts_config.py"):
            assert b"sk-seen" not in path.read_bytes(), path
