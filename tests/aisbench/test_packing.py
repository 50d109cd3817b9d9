"""`muster pack`: names and tree of AISBench's packages, the same bytes every time, and nothing that cannot be measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from packages import EXAMPLE, unpacked
from pythons import VERSIONS, python_of

from conftest import Muster
from muster.aisbench.packing import TEMPLATE

NAMED = ("--workload", "train_mindspore_resnet", "--arch", "aarch64")
TREE = {
    "README.md", "ais-bench-stubs", "code", "code/ais_utils.py", "code/benchmark.sh", "code/code", "code/code/train.py",
    "code/common", "code/common/muster.sh", "code/common/train_modelarts.py", "code/config", "code/config.json",
    "code/config/config.sh", "code/config/modelarts_config.py", "code/doc", "code/doc/version.txt", "code/system.json",
    "log", "result", "tmp",
}  # fmt: skip


def workload(folder: Path, train: str = "record.metric('throughput', 1); open('accuracy.json')", **files: str) -> Path:
    for name, text in {"code/train.py": train, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (
            ("--version", "r1.3", "--type", "modelarts"),
            "train_huawei_train_mindspore_resnet-Ais-Benchmark-Stubs-aarch64-1.0-r1.3_modelarts",
        ),
        (("--version", "r1.5"), "train_huawei_train_mindspore_resnet-Ais-Benchmark-Stubs-aarch64-1.0-r1.5"),
        ((), "train_huawei_train_mindspore_resnet-Ais-Benchmark-Stubs-aarch64-1.0-"),
        (("--vendor", "nvidia"), "train_nvidia_train_mindspore_resnet-Ais-Benchmark-Stubs-aarch64-1.0-"),
    ],
)
def test_names_are_those_of_aisbench(muster: Muster, tmp_path: Path, words: tuple[str, ...], name: str) -> None:
    done = muster("pack", EXAMPLE, *NAMED, *words)
    assert done.stdout == f"output/{name}.tar.gz\n", done.stderr
    with tarfile.open(tmp_path / "output" / f"{name}.tar.gz") as packed:
        assert {member.name.partition("/")[0] for member in packed} == {name}


def test_the_tree_is_that_of_aisbench(muster: Muster, tmp_path: Path) -> None:
    done = muster("pack", EXAMPLE, *NAMED, "--json", "-o", tmp_path / "dist")
    made = Path(json.loads(done.stdout)["package"])
    folder = unpacked(made, tmp_path)
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*")} == TREE
    assert sorted(os.listdir(folder)) == ["README.md", "ais-bench-stubs", "code", "log", "result", "tmp"]
    assert os.access(folder / "ais-bench-stubs", os.X_OK) and os.access(folder / "code/benchmark.sh", os.X_OK)


@pytest.mark.parametrize("name", ["resnet50", "bert-large", "resnet50-mindspore"])
def test_workloads_that_come_with_muster_are_packed_by_name(muster: Muster, tmp_path: Path, name: str) -> None:
    done = muster("pack", name, "--arch", "x86_64", "--version", "r1.5")
    folder = unpacked(tmp_path / done.stdout.strip(), tmp_path)
    found = {path.relative_to(folder / "code/code").as_posix() for path in (folder / "code/code").rglob("*")}
    assert {"train.py", "common/labels.py"} <= found, done.stderr
    assert not [path for path in found if path.endswith(".yaml") or path.startswith("config")]
    assert "epoch_size" in (folder / "code/config/modelarts_config.py").read_text()


def test_a_workload_that_is_neither_here_nor_known_is_told(muster: Muster, tmp_path: Path) -> None:
    done = muster("pack", "resnet51")
    assert done.returncode == 2
    assert "`resnet51` is neither a directory nor a workload of Muster" in done.stderr and "resnet50" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("type", "runtype"), [("modelarts", "modelarts"), ("", "cluster_offline")])
def test_the_type_decides_the_mode(muster: Muster, tmp_path: Path, type: str, runtype: str) -> None:
    muster("pack", EXAMPLE, *NAMED, "--version", "r1.3", "--type", type)
    folder = unpacked(next((tmp_path / "output").iterdir()), tmp_path)
    assert f'RUNTYPE="{runtype}"\n' in (folder / "code/benchmark.sh").read_text()


def test_the_same_workload_gives_the_same_bytes(muster: Muster, tmp_path: Path) -> None:
    """Weakness 26: a package could not be compared with another."""
    first = workload(tmp_path / "one" / "load")
    second = workload(tmp_path / "two" / "load")
    for cache in ("__pycache__/train.pyc", ".mypy_cache/3.11/cache.db", ".pytest_cache/README.md"):
        (second / "code" / cache).parent.mkdir(parents=True)
        (second / "code" / cache).write_bytes(b"left by a tool")
    os.utime(second / "code/train.py", (1, 1))
    made = [muster("pack", folder, "-o", folder.parent / "out").stdout.strip() for folder in (first, second)]
    assert Path(made[0]).read_bytes() == Path(made[1]).read_bytes()


def test_what_tools_leave_behind_is_not_packed(muster: Muster, tmp_path: Path) -> None:
    caches = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")
    left = {f"{part}/{cache}/left": "behind" for part in ("code", "code/models", "config") for cache in caches}
    made = muster("pack", workload(tmp_path / "load", **left), "-o", tmp_path / "out").stdout.strip()
    with tarfile.open(made) as packed:
        assert [name for name in packed.getnames() if name.endswith("/left")] == []


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("print('accuracy')", "code: holds nothing that reports throughput"),
        ("open('throughput_0.json', 'w')", "code: holds nothing that reports accuracy"),
    ],
)
def test_a_workload_that_reports_nothing_is_refused(muster: Muster, tmp_path: Path, train: str, message: str) -> None:
    """Weakness 16: a missing patch made packages that could never have a result."""
    done = muster("pack", workload(tmp_path / "load", train))
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "output").exists()


def test_keys_are_not_packed(muster: Muster, tmp_path: Path) -> None:
    """Weakness 10: a package that is passed on holds no keys."""
    config = "access_config = {'access_key': 'AKIDX', 'secret_access_key': 'word'}\n"
    shell = "export BMC_PASSWORD=bmc-word\n"
    folder = workload(tmp_path / "load", **{"config/modelarts_config.py": config, "config/config.sh": shell})
    done = muster("pack", folder)
    assert done.returncode == 2
    assert "config/modelarts_config.py:1: `access_key` is filled in, and a package is passed on to others" in done.stderr
    assert "`BMC_PASSWORD` is filled in" in done.stderr
    assert "AKIDX" not in done.stderr and "word'" not in done.stderr and "bmc-word" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--vendor", "vision"), "`--vendor: vision` is none of train; take huawei or nvidia"),
        (("--version", "1.3"), "`--version: 1.3` is no version of a workload; write one such as r1.3"),
        (("--type", "modelarts"), "`--type` stands behind a version in the name; add --version, such as r1.3"),
        (("--workload", "a-b"), "`--workload: a-b` is no name; it takes letters, digits, `_` and `.`"),
    ],
)
def test_invalid_names_are_reported(muster: Muster, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = muster("pack", workload(tmp_path / "load"), *words)
    assert done.returncode == 2
    assert done.stderr == f"muster: {message}\n"


def test_a_workload_without_code_is_told(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "load").mkdir()
    done = muster("pack", tmp_path / "load")
    assert done.returncode == 2
    assert "has no directory `code` with the training code" in done.stderr


def test_links_are_not_followed(muster: Muster, tmp_path: Path) -> None:
    folder = workload(tmp_path / "load")
    (folder / "code/secret.py").symlink_to("/etc/hostname")
    done = muster("pack", folder)
    assert done.returncode == 2
    assert "secret.py: is a link" in done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_scripts_of_a_package_run_with_old_pythons(version: str) -> None:
    """AISBench's packages name python3.7."""
    python, bare = python_of(version), {"PATH": os.environ["PATH"], "MUSTER": "/no/such/muster"}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, "-I", *words], cwd=TEMPLATE, capture_output=True, text=True, env=bare)

    reported = call("ais_utils.py", "set_result", "training", "accuracy", "0.5")
    assert (reported.returncode, reported.stdout) == (0, "training accuracy: 0.5\n"), reported.stderr
    stop = call("train_modelarts.py", "--action", "stop")
    expected = "MUSTER names /no/such/muster, which cannot be run. Set it to the command of Muster, or unset it.\n"
    assert (stop.returncode, stop.stderr) == (1, expected)


def test_ais_utils_divides_by_no_time(tmp_path: Path) -> None:
    """Weakness 13: a rate over no time was 0 or infinite."""
    code = "import ais_utils as a\nprint(a.calc_throughput_rate(10, 1.0, 3.0), a.calc_lantency(4.0, 2))\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=TEMPLATE, capture_output=True, text=True)
    assert done.stdout == "5.0 2.0\n"
    for call in ("calc_throughput_rate(10, 1.0, 1.0)", "calc_lantency(4.0, 0)", "set_result('training', 'accuracy', 'nan')"):
        done = subprocess.run(
            [sys.executable, "-c", f"import ais_utils\nais_utils.{call}"], cwd=TEMPLATE, capture_output=True, text=True
        )
        assert done.returncode == 1 and "ValueError" in done.stderr


def test_ais_utils_from_a_shell(tmp_path: Path) -> None:
    """Weakness 22: a call without the verb was dropped without a word."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "MUSTER_RESULTS": str(tmp_path), "MUSTER_RANK": "0"}
        return subprocess.run([sys.executable, str(TEMPLATE / "ais_utils.py"), *words], capture_output=True, text=True, env=env)

    assert call("set_result", "training", "throughput_ratio", "12.5").returncode == 0
    assert call("set_result", "training", "result", "OK").returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "record-0.jsonl").read_text().splitlines()]
    assert [(line["name"], line["value"], line["unit"]) for line in lines] == [("throughput", 12.5, "samples/s")]
    for words in ("training throughput_ratio 1", "set_result training accuracy abc", "set_result x y 1"):
        done = call(*words.split())
        assert done.returncode == 1 and "Traceback" not in done.stderr
