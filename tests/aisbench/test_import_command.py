"""`muster import`: a job file that says where every value came from, and the keys in a profile that only its owner reads."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest
import yaml
from packages import ACCESS, EXAMPLE, SESSION, fill_store, package, settings, v2

from conftest import Muster
from muster.job.load import load

pytestmark = pytest.mark.forked

SECRET = ACCESS["secret_access_key"]


def test_every_value_says_where_it_came_from(muster: Muster, tmp_path: Path, home: Path) -> None:
    folder = package(tmp_path / "pack", settings(), "export PYTHON_COMMAND=python3\n")
    done = muster("import", folder, "-o", tmp_path / "pack" / "job.yaml")
    assert done.returncode == 0, done.stderr
    lines = (folder / "job.yaml").read_text().splitlines()
    config = (folder / "code/config/modelarts_config.py").read_text().splitlines()
    name = next(number for number, line in enumerate(config, 1) if "'job_name'" in line)
    count = next(number for number, line in enumerate(config, 1) if "'train_instance_count'" in line)
    assert f"name: aisbench-debug  # from session_config.job_name (modelarts_config.py:{name})" in lines
    assert f"nodes: 1  # from session_config.train_instance_count (modelarts_config.py:{count})" in lines
    assert "python: python3  # from PYTHON_COMMAND (config.sh:1)" in lines


def test_the_older_generation_as_a_job(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", settings(session={**SESSION, "train_instance_count": 2}))
    assert muster("import", folder).returncode == 0
    job = load(tmp_path / "job.yaml").checked()
    assert (job.name, job.framework, job.compat, job.boot) == ("aisbench-debug", "mindspore", "modelarts-v1", "train.py")
    assert job.code == str(folder / "code/code")
    assert (job.nodes, job.devices, job.rank_table) == (2, 8, "1.0")
    assert job.inputs["data_url"].url == "obs://lab-bucket/dataset/imagenet_small/"
    assert job.outputs["train_url"].url == job.log_url == "obs://lab-bucket/result/"
    assert job.parameters == {pair["label"]: pair["value"] for pair in SESSION["hyperparameters"]}
    assert job.bench is not None and job.bench.scope == "cluster"
    assert set(job.needed) == {"throughput", "accuracy"}


def test_the_newer_generation_as_a_job(muster: Muster, tmp_path: Path) -> None:
    session = {**v2(), "out_base_url": "/lab-bucket/result-v2/"}
    folder = package(tmp_path / "pack", settings(session_config_v2=session), "export MODELARTS_VERSION=V2\n")
    assert muster("import", folder).returncode == 0
    job = load(tmp_path / "job.yaml").checked()
    assert (job.compat, job.outputs["train_url"].url) == ("modelarts-v2", "obs://lab-bucket/result-v2/")
    assert job.parameters["epoch_size"] == "90"


def test_single_server_mode_is_left_to_the_script(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", settings(), "export SINGLESERVER_MODE=True\n")
    assert muster("import", folder).returncode == 0
    job = load(tmp_path / "job.yaml").checked()
    assert job.own_servers
    assert job.env == {"SINGLESERVER_MODE": "True"}


def test_single_server_mode_must_be_written_exactly(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", settings(), "export SINGLESERVER_MODE=true\n")
    done = muster("import", folder)
    assert "config.sh:1: `SINGLESERVER_MODE` is `true`, which is off; write exactly True" in done.stderr
    assert not load(tmp_path / "job.yaml").checked().servers


@pytest.mark.parametrize("value", ["090", "1e-3", "True", "null", "a: b # c", "'quoted'", "", "多", "yes", "0x10", "~", " x "])
def test_parameters_stay_as_they_are_written(muster: Muster, tmp_path: Path, value: str) -> None:
    session = {**SESSION, "hyperparameters": [{"label": "odd", "value": value}]}
    folder = package(tmp_path / "pack", settings(session=session))
    assert muster("import", folder).returncode == 0
    assert load(tmp_path / "job.yaml").checked().parameters == {"odd": value}


@pytest.mark.parametrize("part", ["", "code", "code/config"])
def test_any_directory_of_a_package_will_do(muster: Muster, tmp_path: Path, part: str) -> None:
    folder = package(tmp_path / "pack", settings())
    assert muster("import", folder / part).returncode == 0
    job = load(tmp_path / "job.yaml").checked()
    assert job.code == str(folder / "code/code")


def test_settings_alone_name_the_code_that_is_in_the_cloud(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/modelarts_config.py").write_text(settings())
    assert muster("import", tmp_path / "alone").returncode == 0
    assert load(tmp_path / "job.yaml").checked().code == "obs://lab-bucket/resnet/"


def test_a_directory_without_configuration_is_told(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = muster("import", tmp_path / "empty")
    assert done.returncode == 2
    assert "holds no configuration of AISBench; name an unpacked package" in done.stderr


def test_keys_go_into_a_profile_that_only_its_owner_reads(muster: Muster, tmp_path: Path, home: Path) -> None:
    """Weakness 10: keys lay in plain files."""
    folder = package(tmp_path / "pack", settings(), "export BMC_PASSWORD=bmc-word\n")
    done = muster("import", folder, "--profile", "lab")
    assert done.returncode == 0, done.stderr
    config = home / "config.toml"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert tomllib.loads(config.read_text())["profiles"]["lab"] == {
        "secrets": {"BMC_PASSWORD": "bmc-word"},
        "storage": {
            "obs": {
                "endpoint": ACCESS["server"],
                "region": ACCESS["region_name"],
                "access_key": ACCESS["access_key"],
                "secret_key": SECRET,
            }
        },
    }
    shown = done.stdout + done.stderr + (tmp_path / "job.yaml").read_text()
    assert SECRET not in shown and ACCESS["access_key"] not in shown and "bmc-word" not in shown
    assert "MUSTER_PROFILE=lab muster run job.yaml --check" in done.stdout


def test_problems_leave_everything_as_it_was(muster: Muster, tmp_path: Path, home: Path) -> None:
    folder = package(tmp_path / "pack", settings(session={**SESSION, "inputs": "nowhere"}))
    done = muster("import", folder)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "job.yaml").exists() and not (home / "config.toml").exists()


def test_nothing_is_written_over_unless_forced(muster: Muster, tmp_path: Path, home: Path) -> None:
    folder = package(tmp_path / "pack", settings())
    assert muster("import", folder).returncode == 0
    before = (home / "config.toml").read_bytes()
    again = muster("import", folder)
    assert again.returncode == 2
    assert "job.yaml: exists already" in again.stderr and "`profiles.aisbench-debug` exists already" in again.stderr
    assert (home / "config.toml").read_bytes() == before
    assert muster("import", folder, "--force").returncode == 0


def test_json_tells_everything_but_secrets(muster: Muster, tmp_path: Path) -> None:
    config = settings(session={**SESSION, "nas_type": "nfs"})
    folder = package(tmp_path / "pack", config, **{"code/config.json": '{"testid": "T-9"}'})
    done = muster("import", folder, "--json")
    printed = json.loads(done.stdout)
    assert (printed["name"], printed["kind"], printed["profile"], printed["problems"]) == (
        "aisbench-debug",
        "V1",
        "aisbench-debug",
        [],
    )
    assert printed["test"]["test_id"] == "T-9"
    assert "# To answer it: muster bench JOB --tester URL --test-id T-9\n" in printed["text"]
    assert "session_config.nas_type" in [left["field"] for left in printed["left"]]
    assert yaml.safe_load(printed["text"])["name"] == "aisbench-debug"
    assert SECRET not in done.stdout
    bad = muster("import", package(tmp_path / "bad", settings(session={**SESSION, "inputs": "x"})), "--json", "--force")
    assert [problem["field"] for problem in json.loads(bad.stdout)["problems"]] == ["session_config.inputs"] * 2
    assert bad.returncode == 2


def test_the_job_file_can_go_to_a_pipe(muster: Muster, tmp_path: Path) -> None:
    done = muster("import", package(tmp_path / "pack", settings()), "-o", "-", "--here")
    assert yaml.safe_load(done.stdout)["name"] == "aisbench-debug"
    assert not (tmp_path / "-").exists()


def test_the_example_passes_the_check_of_a_run(muster: Muster, tmp_path: Path) -> None:
    fill_store()
    assert muster("import", EXAMPLE, "--here").returncode == 0
    done = muster("run", tmp_path / "job.yaml", "--check")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "aisbench-example: no problems (2 ranks on 1 node)\n"


def test_a_python_that_is_not_here_is_a_note(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", settings(), "export PYTHON_COMMAND=python3.1.4\n")
    done = muster("import", folder)
    assert done.returncode == 0
    assert "config.sh:1: `PYTHON_COMMAND: python3.1.4` is not on this machine" in done.stderr
    assert not load(tmp_path / "job.yaml").checked().python


def test_a_file_that_cannot_be_read_is_told(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", settings())
    (folder / "code/config/config.sh").write_bytes(b"export A=\xff\n")
    done = muster("import", folder)
    assert done.returncode == 2
    assert "code/config/config.sh:1: is not UTF-8 text; save the file as UTF-8" in done.stderr
    assert os.listdir(tmp_path / "pack") == ["code"]


SIZES = "export RANK_SIZE=1\nexport DEVICE_NUM=1\n"
BOTH, OLD = "there is a modelarts_config.py, and ", "V1 because no MODELARTS_VERSION is set"
OTHER = "`--mode cluster_offline` takes config.sh instead"
MODELARTS, SAID = "RUNTYPE=modelarts\n", "benchmark.sh:1 sets RUNTYPE=modelarts"


@pytest.mark.parametrize(
    ("starter", "shell", "words", "mode_line"),
    [
        ("#!/bin/bash\n", "", [], f"modelarts V1: {BOTH}benchmark.sh sets no RUNTYPE; {OLD}; {OTHER}"),
        (None, "", [], f"modelarts V1: {BOTH}there is no benchmark.sh; {OLD}; {OTHER}"),
        ("#\nRUNTYPE='modelarts'\n", "", [], f"modelarts V1: benchmark.sh:2 sets RUNTYPE=modelarts; {OLD}"),
        ("RUNTYPE=${RUNTYPE:-cluster_offline}\n", "", [], "cluster_offline: benchmark.sh:1 sets RUNTYPE=cluster_offline"),
        ("RUNTYPE=$1\n", "", [], f"modelarts V1: {BOTH}benchmark.sh:1 sets RUNTYPE=$1, which is no mode; {OLD}; {OTHER}"),
        (
            "RUNTYPE=${1:-modelarts}\n",
            "",
            [],
            f"modelarts V1: {BOTH}benchmark.sh:1 sets RUNTYPE=${{1:-modelarts}}, which is no mode; {OLD}; {OTHER}",
        ),
        ("RUNTYPE=x\nRUNTYPE=cluster_offline\n", "", [], "cluster_offline: benchmark.sh:2 sets RUNTYPE=cluster_offline"),
        ("RUNTYPE=cluster_offline\n", "", ["--mode", "modelarts"], f"modelarts V1: --mode modelarts; {OLD}"),
        ("RUNTYPE=modelarts\n", "", ["--mode", "cluster_offline"], "cluster_offline: --mode cluster_offline"),
        (MODELARTS, "export MODELARTS_VERSION=V2\n", [], f"modelarts V2: {SAID}; config.sh:1 sets MODELARTS_VERSION=V2"),
        (MODELARTS, "export MODELARTS_VERSION=V1\n", ["--version", "V2"], f"modelarts V2: {SAID}; --version V2"),
    ],
)
def test_the_mode_and_why_it_was_chosen(
    muster: Muster, tmp_path: Path, starter: str | None, shell: str, words: list[str], mode_line: str
) -> None:
    files = {"code/benchmark.sh": starter} if starter is not None else {}
    folder = package(tmp_path / "pack", settings(session_config_v2=v2()), shell + SIZES, **files)
    done = muster("import", folder, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == f"muster: mode {mode_line}"
    assert f"# Mode: {mode_line}\n" in (tmp_path / "job.yaml").read_text()
    mode = mode_line.partition(":")[0]
    compats = {"cluster_offline": "", "modelarts V1": "modelarts-v1", "modelarts V2": "modelarts-v2"}
    assert load(tmp_path / "job.yaml").checked().compat == compats[mode]
    printed = json.loads(muster("import", folder, *words, "--json", "--force").stdout)["mode"]
    assert printed == {"name": mode, "why": mode_line.partition(": ")[2]}


def test_the_mode_is_told_with_what_is_wrong_in_it(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", settings(session={**SESSION, "inputs": "nowhere"}), SIZES)
    done = muster("import", folder)
    assert done.returncode == 2
    assert done.stderr.startswith(f"muster: mode modelarts V1: {BOTH}there is no benchmark.sh; ")
    assert muster("import", folder, "--mode", "cluster_offline").returncode == 0


@pytest.mark.parametrize(("mode", "file"), [("modelarts", "modelarts_config.py"), ("cluster_offline", "config.sh")])
def test_a_mode_whose_file_is_missing_is_refused(muster: Muster, tmp_path: Path, mode: str, file: str) -> None:
    folder = package(tmp_path / "pack", settings(), SIZES)
    (folder / "code/config" / file).unlink()
    done = muster("import", folder, "--mode", mode)
    assert done.returncode == 2
    assert f"holds no {file}, which mode {mode}" in done.stderr
    assert not (tmp_path / "job.yaml").exists()


def test_an_option_of_the_other_mode_is_told(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", settings(), SIZES)
    offline = muster("import", folder, "--mode", "cluster_offline", "--version", "V2").stderr
    assert "`--version` V2 goes with mode modelarts, and this is cluster_offline: --mode cluster_offline; " in offline
    cloud = muster("import", folder, "--mode", "modelarts", "--boot", "train.py", "--force").stderr
    assert "`--boot` is not used: modelarts_config.py names the boot file; change `boot_file` there" in cloud


def test_a_runtype_without_its_file_does_not_count(muster: Muster, tmp_path: Path) -> None:
    folder = package(tmp_path / "pack", None, SIZES, **{"code/benchmark.sh": "RUNTYPE=modelarts\n"})
    done = muster("import", folder)
    assert done.returncode == 0, done.stderr
    reason = "there is no modelarts_config.py, although benchmark.sh:1 sets RUNTYPE=modelarts"
    assert f"muster: mode cluster_offline: {reason}\n" in done.stderr
