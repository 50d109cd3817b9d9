"""The offline mode of a package: config.sh, the rank table and the list of hosts, with all rules between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from packages import complaints, imported, package, settings

from conftest import Muster
from muster.job.load import load


def table(servers: int, devices: int, **changes: Any) -> str:
    ranks = iter(range(servers * devices))
    listed = [
        {
            "server_id": f"10.0.0.{server + 1}",
            "device": [
                {"device_id": str(card), "device_ip": f"10.1.{server}.{card}", "rank_id": str(next(ranks))}
                for card in range(devices)
            ],
        }
        for server in range(servers)
    ]
    return json.dumps({"version": "1.0", "server_count": str(servers), "server_list": listed, "status": "completed", **changes})


def hosts(*names: str, **login: Any) -> str:
    return json.dumps({"cluster": dict.fromkeys(names, login)})


def offline(tmp_path: Path, lines: str, **files: str) -> Path:
    shell = "export PYTHON_COMMAND=python3\n" + lines
    named = {"table": "code/table.json", "nodes": "code/nodes.json"}
    return package(tmp_path, None, shell, **{named.get(name, name): text for name, text in files.items()})


TWO_BY_FOUR = "export RANK_SIZE=8\nexport DEVICE_NUM=4\nexport RANK_TABLE_FILE=$CODE_PATH/table.json\n"
NODES = "export NODEINFO_FILE=$CODE_PATH/nodes.json\n"


def test_one_rank_needs_no_table(tmp_path: Path) -> None:
    found = imported(offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\nexport EPOCH_SIZE=90\n"))
    assert found.findings.problems == []
    job = yaml.safe_load(found.text)
    assert (job["nodes"], job["devices"], job["framework"]) == (1, 1, "command")
    assert job["env"] == {"RANK_ID": 0, "RANK_SIZE": 1, "DEVICE_ID": 0, "DEVICE_NUM": 1, "EPOCH_SIZE": 90}
    assert "compat" not in job


def test_servers_and_devices_come_from_the_table(tmp_path: Path) -> None:
    """Weakness 4: servers of other than 8 cards broke in offline mode."""
    folder = offline(tmp_path, TWO_BY_FOUR + NODES, table=table(2, 4), nodes=hosts("10.0.0.1", "10.0.0.2"))
    found = imported(folder)
    assert found.findings.problems == []
    job = yaml.safe_load(found.text)
    assert (job["nodes"], job["devices"], job["framework"], job["workdir"]) == (2, 4, "mindspore", "rank")


LOGINS = [
    ({}, "10.0.0.1", "ssh-copy-id 10.0.0.1"),
    ({"user": "root"}, "root@10.0.0.1", "ssh-copy-id root@10.0.0.1"),
    ({"user": "train", "port": 2222}, "train@10.0.0.1:2222", "ssh-copy-id -p 2222 train@10.0.0.1"),
    ({"port": "22"}, "10.0.0.1:22", "ssh-copy-id -p 22 10.0.0.1"),
    ({"user": "", "port": None}, "10.0.0.1", "ssh-copy-id 10.0.0.1"),
]


@pytest.mark.parametrize(("login", "host", "command"), LOGINS)
def test_the_job_names_the_hosts_as_ssh_reaches_them(tmp_path: Path, login: dict[str, Any], host: str, command: str) -> None:
    cluster = {"10.0.0.1": {**login, "pd": "host-word"}, "10.0.0.2": {}}
    folder = offline(tmp_path, TWO_BY_FOUR + NODES, table=table(2, 4), nodes=json.dumps({"cluster": cluster}))
    found = imported(folder)
    assert found.findings.problems == []
    assert (found.hosts, found.engine) == ((host, "10.0.0.2"), "ssh")
    job = load(yaml.safe_load(found.text)).job
    assert job.hosts.nodes == (host, "10.0.0.2")
    [left] = map(str, found.findings.left)
    assert left.endswith(f"has a password for 10.0.0.1, which is kept nowhere: ssh takes keys; install yours with `{command}`")


def test_programs_are_told_the_hosts_and_their_engine(muster: Muster, tmp_path: Path, home: Path) -> None:
    nodes = hosts("10.0.0.1", "10.0.0.2", user="root", pd="host-word")
    folder = offline(tmp_path / "pack", TWO_BY_FOUR + NODES, table=table(2, 4), nodes=nodes)
    done = muster("import", folder, "--json")
    found = json.loads(done.stdout)
    assert (found["engine"], found["hosts"]) == ("ssh", ["root@10.0.0.1", "root@10.0.0.2"])
    assert (found["profile"], found["secrets"]) == (None, [])
    assert "host-word" not in done.stdout + done.stderr
    assert not (home / "config.toml").exists()


def test_an_address_of_version_6_stands_in_brackets(tmp_path: Path) -> None:
    lines = "export RANK_SIZE=4\nexport DEVICE_NUM=4\nexport RANK_TABLE_FILE=$CODE_PATH/table.json\n" + NODES
    servers = json.loads(table(1, 4))["server_list"]
    servers[0]["server_id"] = "fd00::1"
    nodes = hosts("fd00::1", user="root", port=22, pd="host-word")
    found = imported(offline(tmp_path, lines, table=table(1, 4, server_list=servers), nodes=nodes))
    assert found.findings.problems == []
    assert found.hosts == ("root@[fd00::1]:22",)
    assert "`ssh-copy-id -p 22 root@fd00::1`" in str(found.findings.left[0])


def test_what_lies_on_the_hosts_is_not_looked_for_here(tmp_path: Path) -> None:
    lines = TWO_BY_FOUR + NODES + "export TRAIN_DATA_PATH=/data/of/hosts\nexport PYTHON_COMMAND=python3.0\n"
    found = imported(offline(tmp_path, lines, table=table(2, 4), nodes=hosts("10.0.0.1", "10.0.0.2")))
    assert (found.findings.problems, found.findings.notes) == ([], [])
    job = yaml.safe_load(found.text)
    assert "inputs" not in job
    assert (job["env"], job["python"]) == ({"TRAIN_DATA_PATH": "/data/of/hosts"}, "python3.0")
    assert "TRAIN_DATA_PATH: /data/of/hosts  # from TRAIN_DATA_PATH (config.sh:6), a path on the hosts" in found.text


def test_files_of_the_environment_have_to_come_with_the_code_to_hosts(tmp_path: Path) -> None:
    files = {"table": table(2, 4), "nodes": hosts("10.0.0.1", "10.0.0.2"), "code/config/mindspore_env.sh": ""}
    [left] = map(str, imported(offline(tmp_path, TWO_BY_FOUR + NODES, **files)).findings.left)
    assert left.endswith("copy it to the training code and add `. ./mindspore_env.sh` to `setup` of the job")


def test_a_job_for_this_machine_leaves_the_hosts_out(tmp_path: Path) -> None:
    nodes = hosts("10.0.0.1", "10.0.0.2", pd="host-word")
    found = imported(offline(tmp_path, TWO_BY_FOUR + NODES, table=table(2, 4), nodes=nodes), here=True)
    assert (found.hosts, found.engine) == ((), None)
    assert "hosts" not in yaml.safe_load(found.text)
    [left] = map(str, found.findings.left)
    assert left.endswith("lists 10.0.0.1, 10.0.0.2; the nodes of the job are simulated on this machine")


@pytest.mark.parametrize(
    ("lines", "files", "message"),
    [
        ("export DEVICE_NUM=8\n", {}, "`RANK_SIZE` is not set"),
        ("export RANK_SIZE=8\n", {}, "`DEVICE_NUM` is not set"),
        ("export RANK_SIZE=many\nexport DEVICE_NUM=8\n", {}, "`RANK_SIZE: many` is not a number of ranks"),
        ("export RANK_SIZE=12\nexport DEVICE_NUM=8\n", {}, "`RANK_SIZE` is 12, which is no multiple of DEVICE_NUM, 8"),
        ("export RANK_SIZE=8\nexport DEVICE_NUM=8\n", {}, "`RANK_TABLE_FILE` is not set, and RANK_SIZE is 8"),
        (
            "export RANK_SIZE=1\nexport DEVICE_NUM=1\nexport RANK_TABLE_FILE=$CODE_PATH/table.json\n",
            {"table": table(1, 1)},
            "`RANK_TABLE_FILE` is set, and RANK_SIZE is 1; remove the line",
        ),
        (TWO_BY_FOUR, {"table": table(2, 4)}, "`NODEINFO_FILE` is not set, and 2 servers take part"),
        (
            TWO_BY_FOUR + NODES,
            {"table": table(1, 8), "nodes": hosts("10.0.0.1")},
            "has 1 servers, and RANK_SIZE / DEVICE_NUM is 2",
        ),
        (
            TWO_BY_FOUR + NODES,
            {"table": table(2, 2), "nodes": hosts("10.0.0.1", "10.0.0.2")},
            "has servers with 2, 2 devices, and DEVICE_NUM is 4",
        ),
        (
            TWO_BY_FOUR + NODES,
            {"table": table(2, 4), "nodes": hosts("10.0.0.2", "10.0.0.1")},
            "name the same servers in the same order",
        ),
        (TWO_BY_FOUR + NODES, {"nodes": hosts("10.0.0.1", "10.0.0.2")}, "table.json, which is not there"),
        (TWO_BY_FOUR + NODES, {"table": "{", "nodes": hosts("10.0.0.1", "10.0.0.2")}, "table.json:1: is not JSON"),
        (TWO_BY_FOUR, {"table": table(2, 4, server_count="3")}, "`server_count` is 3, and server_list has 2"),
        (TWO_BY_FOUR, {"table": table(2, 4, server_list=[])}, "`server_list` is missing or empty"),
        (TWO_BY_FOUR + NODES, {"table": table(2, 4), "nodes": "{}"}, "`cluster` is missing or empty"),
        (TWO_BY_FOUR + NODES, {"table": table(2, 4), "nodes": hosts("10.0.0.1", usr="x")}, "usr` is not known"),
        (TWO_BY_FOUR + NODES, {"table": table(2, 4), "nodes": hosts("10.0.0.1", port="ssh")}, "port` is not a port"),
        (TWO_BY_FOUR + NODES, {"table": table(2, 4), "nodes": hosts("10.0.0.1", port="٢٢")}, "port` is not a port"),
        (
            TWO_BY_FOUR + NODES,
            {"table": table(2, 4), "nodes": hosts("-oProxyCommand=id", "b")},
            "is no host that ssh reaches as `-oProxyCommand=id`",
        ),
        (
            TWO_BY_FOUR + NODES,
            {"table": table(2, 4), "nodes": hosts("10.0.0.[1-2]")},
            "is no host that ssh reaches as `10.0.0.[1-2]`",
        ),
        (
            TWO_BY_FOUR + NODES,
            {"table": table(2, 4), "nodes": hosts("10.0.0.1", user="a b")},
            "is no host that ssh reaches as `a b@10.0.0.1`",
        ),
        (
            "export RANK_SIZE=1\nexport DEVICE_NUM=1\n" + NODES,
            {"nodes": hosts("10.0.0.1", "10.0.0.2")},
            "lists 2 servers, and RANK_SIZE / DEVICE_NUM is 1",
        ),
        (TWO_BY_FOUR + "export SINGLE_CARD_INDEX=3\n", {"table": table(2, 4)}, "it goes with one rank on one device alone"),
    ],
)
def test_each_rule(tmp_path: Path, lines: str, files: dict[str, str], message: str) -> None:
    """Weakness 21: a rule that did not hold ended the shell instead of being reported with the others."""
    found = complaints(offline(tmp_path, lines, **files))
    assert [problem for problem in found if message in problem], found


def test_all_rules_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    """Weakness 21."""
    lines = "export RANK_SIZE=16\nexport DEVICE_NUM=8\nexport SINGLE_CARD_INDEX=1\nexport TRAIN_DATA_PATH=$(pwd)\n"
    found = complaints(offline(tmp_path, lines))
    assert len(found) == 4
    assert [problem.partition(" ")[0] for problem in found] == [
        "code/config/config.sh:2:",
        "code/config/config.sh:2:",
        "code/config/config.sh:4:",
        "code/config/config.sh:5:",
    ]


def test_a_card_of_choice_is_named(tmp_path: Path) -> None:
    """Weakness 19: the chosen card was not the one that was used."""
    found = imported(offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\nexport SINGLE_CARD_INDEX=5\n"))
    assert found.findings.problems == []
    assert [left for left in map(str, found.findings.left) if "set ASCEND_RT_VISIBLE_DEVICES=5 when you start the job" in left]


def test_passwords_of_hosts_are_kept_nowhere(tmp_path: Path) -> None:
    """Weakness 10: passwords lay in plain files and stood on command lines."""
    lines = TWO_BY_FOUR + NODES + "export BMC_IP=10.9.9.9\nexport BMC_USER=admin\nexport BMC_PASSWORD=bmc-word\n"
    login = {"user": "root", "pd": "host-word", "port": "22"}
    found = imported(offline(tmp_path, lines, table=table(2, 4), nodes=hosts("10.0.0.1", "10.0.0.2", **login)))
    assert found.findings.problems == []
    assert found.credentials.secrets == {"BMC_PASSWORD": "bmc-word"}
    shown = found.text + repr(found) + "".join(map(str, [*found.findings.left, *found.findings.notes]))
    assert "host-word" not in shown and "bmc-word" not in shown


def test_data_that_is_missing_is_a_note(tmp_path: Path) -> None:
    lines = "export RANK_SIZE=1\nexport DEVICE_NUM=1\nexport TRAIN_DATA_PATH=/nowhere/train\n"
    found = imported(offline(tmp_path, lines))
    assert found.findings.problems == []
    assert [note for note in map(str, found.findings.notes) if "names /nowhere/train, which is no directory" in note]
    assert yaml.safe_load(found.text)["inputs"] == {"TRAIN_DATA_PATH": {"url": "/nowhere/train", "access": "env"}}


def test_a_boot_file_that_nobody_names_is_asked_for(tmp_path: Path) -> None:
    folder = offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\n", **{"code/code/start_here.py": "", "code/x": ""})
    (folder / "code/code/train.py").unlink()
    assert [problem for problem in complaints(folder) if problem.endswith("say `--boot FILE`")]
    assert "boot: start_here.py  # from --boot" in imported(folder, boot="start_here.py").text


def test_what_a_shell_script_starts_is_listed(tmp_path: Path) -> None:
    script = "#!/bin/bash\n# ${PYTHON_COMMAND} not_this.py\n${PYTHON_COMMAND} ${WORK_PATH}/train.py --epochs 3 | tee log\n"
    folder = offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\n", **{"code/run_node.sh": script})
    left = [str(entry) for entry in imported(folder).findings.left]
    assert left == ["code/run_node.sh:3: starts train.py with arguments of its own; write those it needs under `parameters`"]


def test_secrets_of_the_training_are_named_alone(tmp_path: Path) -> None:
    found = imported(offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\nexport WANDB_API_KEY=wandb-word\n"))
    assert yaml.safe_load(found.text)["secrets"] == ["WANDB_API_KEY"]
    assert "wandb-word" not in found.text
    assert found.credentials.secrets == {"WANDB_API_KEY": "wandb-word"}


def test_files_of_the_environment_are_listed(tmp_path: Path) -> None:
    more = {"code/config/mindspore_env.sh": "export GLOG_v=3\n"}
    folder = offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\n", **more)
    left = [str(entry) for entry in imported(folder).findings.left]
    assert left == [
        "code/config/mindspore_env.sh: sets up the environment of the training; "
        f"add `. {folder}/code/config/mindspore_env.sh` to `setup` of the job if it needs it"
    ]


@pytest.mark.parametrize("runtype", ["cluster_offline", "modelarts"])
def test_benchmark_sh_decides_the_mode(tmp_path: Path, runtype: str) -> None:
    start = f'#!/bin/bash\nexport RUNTYPE="{runtype}"\n'
    folder = package(tmp_path, settings(), "export RANK_SIZE=1\nexport DEVICE_NUM=1\n", **{"code/benchmark.sh": start})
    assert imported(folder).package.kind == {"cluster_offline": "offline", "modelarts": "V1"}[runtype]


def test_relative_paths_start_at_the_code_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    lines = "export RANK_SIZE=8\nexport DEVICE_NUM=4\nexport RANK_TABLE_FILE=./table.json\nexport NODEINFO_FILE=nodes.json\n"
    folder = offline(tmp_path, lines, table=table(2, 4), nodes=hosts("10.0.0.1", "10.0.0.2"))
    for part in (folder, folder / "code"):
        found = imported(part)
        assert found.findings.problems == []
        assert found.hosts == ("10.0.0.1", "10.0.0.2")


def test_comments_in_a_file_of_json_are_told(tmp_path: Path) -> None:
    """The guides of AISBench show such files with comments."""
    nodes = hosts("10.0.0.1").replace("{}", '{"port": 0 # 22\n}')
    folder = offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\n" + NODES, nodes=nodes)
    assert [
        problem
        for problem in complaints(folder)
        if "is not JSON; check the quotes, commas and brackets there, and remove comments" in problem
    ]


@pytest.mark.parametrize("name", ["config_imagenet2012.sh", "config_pretrain.sh"])
def test_packages_for_gpus(tmp_path: Path, name: str) -> None:
    lines = 'export CUDA_VISIBLE_DEVICES="0,2"\nexport TRAIN_STEPS=200\nexport BMC_USER="root"\nexport BMC_PASSWORD="hidden"\n'
    started = '    train_run_cmd="python -u $BASE_PATH/work/official/main.py \\\n    --data_dir=${TRAIN_DATA_PATH}"\n'
    folder = package(tmp_path, **{f"code/config/{name}": lines, "code/run.sh": started, "code/code/official/main.py": ""})
    (folder / "code/config/config.sh").unlink()
    found = imported(folder)
    assert found.findings.problems == []
    job = yaml.safe_load(found.text)
    assert (job["nodes"], job["devices"], job["framework"], job["boot"]) == (1, 2, "command", "official/main.py")
    assert job["env"] == {"TRAIN_STEPS": 200}
    assert found.credentials.secrets == {"BMC_PASSWORD": "hidden"}
    assert [left for left in map(str, found.findings.left) if "set CUDA_VISIBLE_DEVICES=0,2 when you start the job" in left]


def test_files_of_another_machine_do_not_keep_a_job_from_running_here(tmp_path: Path) -> None:
    lines = "export RANK_SIZE=8\nexport DEVICE_NUM=8\nexport RANK_TABLE_FILE=/home/tools/rank_table_8p_66.json\n"
    folder = offline(tmp_path, lines)
    assert [problem for problem in complaints(folder) if "rank_table_8p_66.json, which is not there" in problem]
    found = imported(folder, here=True)
    assert found.findings.problems == []
    assert yaml.safe_load(found.text)["devices"] == 8


def test_the_boot_file_is_the_one_that_the_package_starts(tmp_path: Path) -> None:
    script = '    train_run_cmd="${PYTHON_COMMAND} -u $WORK_PATH/code/nested/begin.py \\\n'
    files = {"code/run_node.sh": script, "code/code/nested/begin.py": ""}
    folder = offline(tmp_path, "export RANK_SIZE=1\nexport DEVICE_NUM=1\n", **files)
    assert "boot: nested/begin.py  # what the package starts" in imported(folder).text


def test_comments_in_another_encoding_are_read(tmp_path: Path) -> None:
    folder = offline(tmp_path, "")
    shell = "# 单卡训练\nexport RANK_SIZE=1\nexport DEVICE_NUM=1\n"
    (folder / "code/config/config.sh").write_bytes(shell.encode("gb18030"))
    assert complaints(folder) == []
