"""What the fields of a job mean once they are accepted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from job_files import accepted

from muster.job import FIELDS, FRAMEWORKS, Job
from muster.job.load import load


def test_everything_but_the_program_has_a_default(tmp_path: Path) -> None:
    assert accepted(tmp_path, "command: echo\n") == Job(name="job", code=str(tmp_path), command="echo")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("1m1s1ms", 61.001),
    ],
)
def test_a_duration_is_a_number_and_a_unit(tmp_path: Path, text: str, seconds: float) -> None:
    job = accepted(tmp_path, f"command: x\ntime_limit: {text}\nsilent_limit: {text}\ngrace: {text}\n")
    assert job.time_limit == job.silent_limit == job.grace == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["0", "0s", "'0'", "0.0h"])
def test_only_the_grace_can_be_nothing(tmp_path: Path, text: str) -> None:
    assert accepted(tmp_path, f"command: x\ngrace: {text}\n").grace == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("512M", 512 << 20), ("96G", 96 << 30), ("1.5G", 3 << 29), ("2T", 2 << 40), ("2048K", 2 << 20), ("1GB", 1 << 30),
     ("1GiB", 1 << 30), ("1Gi", 1 << 30)],
)  # fmt: skip
def test_a_size_is_a_number_and_a_unit_of_1024(tmp_path: Path, text: str, size: int) -> None:
    assert accepted(tmp_path, f"command: x\nmemory: {text}\n").memory == size


# What YAML would turn into something else: numbers, booleans, dates, octal and sexagesimal numbers, null, nothing special.
WRITTEN = """
90 0.10 1e-3 1E5 010 0x1F 1_000 1:30 +5 -0 .5 5. 1.0 true True yes No off null ~ 2026-01-01 2026-99-99
2026-01-01T00:00:00Z .nan .inf = << 1234567890123456789012345 a/b:c http://x/?a=1 50% $HOME
"""


@pytest.mark.parametrize("field", ["parameters", "env"])
def test_parameters_and_variables_keep_their_text_exactly_as_written(tmp_path: Path, field: str) -> None:
    lines = "".join(f"  v{number}: {text}\n" for number, text in enumerate(WRITTEN.split()))
    job = accepted(tmp_path, f"command: x\n{field}:\n{lines}")
    assert list(getattr(job, field).values()) == WRITTEN.split()


def test_quoted_and_folded_texts_are_what_yaml_says(tmp_path: Path) -> None:
    text = "command: x\nparameters:\n  a: ''\n  b: \"\\tx\\n\"\n  c: 'it''s'\n  d: |\n    1\n    2\n  e: ' 7 '\n"
    assert accepted(tmp_path, text).parameters == {"a": "", "b": "\tx\n", "c": "it's", "d": "1\n2\n", "e": " 7 "}


def test_words_of_a_command_keep_their_text(tmp_path: Path) -> None:
    job = accepted(tmp_path, 'command: [python, -u, train.py, --lr, 1e-3, yes, "", 010]\n')
    assert job.command == ("python", "-u", "train.py", "--lr", "1e-3", "yes", "", "010")


def test_a_command_is_a_text_for_bash_or_a_list_of_words(tmp_path: Path) -> None:
    assert accepted(tmp_path, "command: true\n").command == "true"
    assert accepted(tmp_path, "command: |\n  a\n  b\n").command == "a\nb\n"
    assert accepted(tmp_path, "command: [a b]\n").command == ("a b",)


def test_parameters_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert list(accepted(tmp_path, "command: x\nparameters: {z: 1, a: 2, m: 3}\n").parameters) == ["z", "a", "m"]


@pytest.mark.parametrize("name", ["a", "A.b_c-1", "2024", "1.5", "2026-01-01", "训练", "é" * 64, "x" * 64, "on"])
def test_names_that_directories_can_have_are_taken(tmp_path: Path, name: str) -> None:
    assert accepted(tmp_path, f"command: x\nname: {name}\n").name == name


@pytest.mark.parametrize(
    ("file", "name"), [("train.yaml", "train"), ("my job!.yml", "my-job"), ("...", "job"), ("训" * 80, "训" * 64), ("_a_", "a")]
)
def test_a_job_without_a_name_is_called_like_its_file(tmp_path: Path, file: str, name: str) -> None:
    path = tmp_path / file
    path.write_text("command: x\n")
    assert load(path).checked().name == name


def test_paths_are_relative_to_the_job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "run.py").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir("/")
    job = accepted(tmp_path, "code: ./code\nboot: run.py\npython: bin/python\n")
    assert (job.code, job.boot, job.python) == (str(tmp_path / "code"), "run.py", str(tmp_path / "bin" / "python"))


def test_the_home_directory_can_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    assert accepted(tmp_path, "code: ~/work\ncommand: x\n").code == str(tmp_path / "work")


def test_a_python_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mypython").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert accepted(tmp_path, "boot: train.py\npython: mypython\n").python == str(tmp_path / "mypython")


def test_ranks_are_one_per_device_or_with_a_plain_command_one_per_node() -> None:
    size = {"nodes": 3, "devices": 4, "command": "x"}
    for framework in FRAMEWORKS:
        assert load({**size, "framework": framework}).checked().ranks == (3 if framework == "command" else 12)
    assert load({**size, "per": "device"}).checked().ranks == 12
    assert load({**size, "per": "node"}).checked().ranks == 3


def test_a_secret_that_is_named_twice_is_taken_once(tmp_path: Path) -> None:
    assert accepted(tmp_path, "command: x\nsecrets: [B, A, B]\n").secrets == ("B", "A")


FULL = """\
name: full
framework: tensorflow
code: .
command: [python, train.py]
setup: source env.sh
nodes: 2
ps: 1
devices: 4
device: cpu
cpus: 3
memory: 1.3G
parameters: {a: 1, b: ""}
env: {A: x}
secrets: [S]
workdir: rank
time_limit: 1.5h
silent_limit: 333ms
grace: 0
retries: 2
retry_on: [137, oom]
"""


@pytest.mark.parametrize("text", ["command: x\n", "boot: train.py\n", FULL])
def test_a_job_comes_back_from_its_recorded_form(tmp_path: Path, text: str) -> None:
    job = accepted(tmp_path, text)
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


@pytest.mark.parametrize(
    "text", ["command: x\n", "boot: train.py\n", FULL, "command: x\ntime_limit: 0.4ms\nmemory: 1025.001K\n"]
)
def test_a_recorded_job_can_be_loaded_again_as_it_was(tmp_path: Path, text: str) -> None:
    job = accepted(tmp_path, text)
    assert load(job).checked() == job


def test_a_recorded_job_with_fields_of_another_version_can_be_read() -> None:
    assert Job.from_json({"name": "old", "command": ["a", "b"], "gone": 1}) == Job(name="old", command=("a", "b"))


def test_python_data_describes_the_same_job_as_a_file(tmp_path: Path) -> None:
    import yaml

    data = yaml.safe_load(FULL)
    assert load(data, base=tmp_path).checked() == accepted(tmp_path, FULL)
    assert set(data) < set(FIELDS)
