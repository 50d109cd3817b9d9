"""What is wrong with a job file is told completely: file, line, field, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from job_files import accepted, one, refused

from muster.job.load import load
from muster.job.source import JobError


@pytest.mark.parametrize(
    ("line", "field", "message", "hint"),
    [
        # unknown fields, with the nearest known name or the one that other tools have for it
        ("devics: 8", "devics", "is not a field", "did you mean `devices`?"),
        ("time-limit: 2h", "time-limit", "is not a field", "did you mean `time_limit`?"),
        ("gpus: 8", "gpus", "is not a field", "did you mean `devices`?"),
        ("timeout: 2h", "timeout", "is not a field", "did you mean `time_limit`?"),
        ("labels: {a: b}", "labels", "is not a field", "`muster schema` lists the fields"),
        ("inputs: {a b: c}", "inputs.a b", "cannot be the name", "letters, digits"),
        ("inputs: {a: obs:///key}", "inputs.a", "names no bucket", "obs://bucket/key"),
        ("inputs: {a: 'obs://AK:SK@bucket/key'}", "inputs.a", "names no bucket", "config.toml"),
        ("inputs: {a: 'obs:/b/key'}", "inputs.a", "lacks a slash", "obs://b/key"),
        ("inputs: {a: oss://b/key}", "inputs.a", "scheme `oss`", "did you mean `obs://`?"),
        ("inputs: {a: file://data}", "inputs.a", "no absolute path", "file:///data"),
        ("inputs: {a: {access: env}}", "inputs.a", "has no `url`", "access: env"),
        ("inputs: {a: {url: b, mode: c}}", "inputs.a", "has no field `mode`", "`url` and `access`"),
        ("inputs: {a-b: {url: b, access: env}}", "inputs.a-b", "name of a variable", "letters, digits"),
        ("inputs: [a]", "inputs", "is a list", "data_url"),
        ("outputs: {a: /tmp/}", "outputs.a", "every simulated node has for itself", "a directory inside"),
        ("requires: {data_url: [train/]}", "requires.data_url", "is not an input", "its inputs: none"),
        ("requires: {data_url: train/}", "requires.data_url", "takes a list", "[train/, val/]"),
        ("requires: {data_url: [../up]}", "requires.data_url", "not a name inside", "relative to the input"),
        ("keep_alive: 1h", "keep_alive", "goes with `compat: apulis`", "remove it"),
        ("compat: modelarts", "compat", "is not known", "modelarts-v2"),
        ("code: obs://", "code", "names no bucket", "obs://bucket/key"),
        # wrong types
        ("nodes: two", "nodes", "`two` is not a whole number", "in plain digits"),
        ('nodes: "2"', "nodes", "`2` is not a whole number", "without quotes"),
        ("nodes: 2.0", "nodes", "`2.0` is not a whole number", "in plain digits"),
        ("nodes: true", "nodes", "`true` is not a whole number", "in plain digits"),
        ("nodes: 010", "nodes", "`010` is not a whole number", "leading zeros"),
        ("nodes: 1:30", "nodes", "`1:30` is not a whole number", "in plain digits"),
        ("nodes: [2]", "nodes", "is a list", "a single value"),
        ("name: {a: b}", "name", "is a mapping", "a single value"),
        ("env: [A, B]", "env", "is a list; it takes a mapping of variables", '{GLOG_v: "3"}'),
        ("parameters: 5", "parameters", "is `5`; it takes a mapping of parameters", "{epoch_size: 90}"),
        ("secrets: {A: b}", "secrets", "is a mapping; it takes a list of names", "[WANDB_API_KEY]"),
        ("retry_on: oom", "retry_on", "is `oom`; it takes a list of exit codes", "[137, lost]"),
        ("time_limit: soon", "time_limit", "`soon` is not a time", "a number and its unit"),
        ("memory: lots", "memory", "`lots` is not a size", "a number and its unit"),
        # empty values
        ("nodes:", "nodes", "is empty; it takes a whole number", "remove the line"),
        ("nodes: ~", "nodes", "is empty", "remove the line"),
        ('name: ""', "name", "is empty", "remove the line"),
        ('setup: "  "', "setup", "is empty", "remove the line"),
        ("device:", "device", "is empty; it takes one of `auto`", "remove the line"),
        ("grace:", "grace", "is empty", "remove the line"),
        ("memory:", "memory", "is empty", "remove the line"),
        ("env:", "env", "is empty; it takes a mapping", "such as"),
        ("secrets:", "secrets", "is empty; it takes a list", "such as"),
        ("retry_on: []", "retry_on", "is an empty list", "such as"),
        ("env: {A: }", "env.A", "is empty", '`""` for an empty text'),
        # choices
        ("device: gpu", "device", "`gpu` is not known", "did you mean `nvidia`?"),
        ("device: NVIDIA", "device", "`NVIDIA` is not known", "did you mean `nvidia`?"),
        ("framework: torch", "framework", "`torch` is not known", "did you mean `pytorch`?"),
        ("framework: mindspor", "framework", "`mindspor` is not known", "did you mean `mindspore`?"),
        ("framework: jax", "framework", "`jax` is not known", "it takes one of `command`, `pytorch`"),
        ("workdir: yes", "workdir", "`yes` is not known", "it takes one of `node`, `rank`"),
        # counts below 1, or above what ports can hold
        ("nodes: 0", "nodes", "`0` is too small", "from 1 to"),
        ("nodes: -3", "nodes", "`-3` is too small", "from 1 to"),
        ("devices: 0", "devices", "`0` is too small", "from 1 to"),
        ("devices: 60000", "devices", "`60000` is too many", "port"),
        ("nodes: 9999999", "nodes", "`9999999` is too many", "at most"),
        ("nodes: 1" + "0" * 5000, "nodes", "is too many", "at most"),
        ("retries: -1", "retries", "`-1` is too small", "from 0 to"),
        ("cpus: 0", "cpus", "`0` is too small", "from 1 to"),
        # names that cannot be a directory
        ("name: a/b", "name", "`a/b` cannot be the name of a directory", "`a-b` would do"),
        ("name: ..", "name", "`..` cannot be the name of a directory", "such as `train-1`"),
        ("name: .hidden", "name", "cannot be the name of a directory", "`hidden` would do"),
        ("name: -rf", "name", "cannot be the name of a directory", "`rf` would do"),
        ("name: my job", "name", "cannot be the name of a directory", "`my-job` would do"),
        ('name: "a\\nb"', "name", "cannot be the name of a directory", "`a-b` would do"),
        ('name: "a\\0b"', "name", "NUL", "remove it"),
        ("name: " + "x" * 65, "name", "at most 64", "would do"),
        ("name: " + "\U00020000" * 64, "name", "cannot be the name of a directory", "would do"),
        # times and sizes
        ("time_limit: 90", "time_limit", "`90` is not a time", "did you mean `90s`?"),
        ("time_limit: 10 min", "time_limit", "`10 min` is not a time", "did you mean `10m`?"),
        ("time_limit: 0s", "time_limit", "`0s` is no time at all", "it takes a time"),
        ("time_limit: -5s", "time_limit", "`-5s` is not a time", "a number and its unit"),
        ("time_limit: 99999d", "time_limit", "more than ten years", "leave the field out"),
        ("time_limit: " + "9" * 400 + "h", "time_limit", "more than ten years", "leave the field out"),
        ("memory: 96", "memory", "`96` is not a size", "did you mean `96G`?"),
        ("memory: 96 gb", "memory", "`96 gb` is not a size", "did you mean `96G`?"),
        ("memory: 100K", "memory", "less than `1M`", "it takes a size"),
        ("memory: " + "9" * 400 + "T", "memory", "more than any machine has", "leave the field out"),
        # mappings and lists, entry by entry
        ("env: {A: [1]}", "env.A", "is a list", "quote it"),
        ("env: {9A: 1}", "env.9A", "cannot be the name of a variable", "letters, digits"),
        ("env: {A=B: 1}", "env.A=B", "cannot be the name of a variable", "letters, digits"),
        ("parameters: {--lr: 1}", "parameters.--lr", "cannot be the name of a parameter", "without dashes"),
        ('parameters: {"a b": 1}', "parameters.a b", "cannot be the name of a parameter", "spaces"),
        ('parameters: {a: "\\0"}', "parameters.a", "NUL", "remove it"),
        (f"parameters: {{a: {'x' * 130_000}}}", "parameters.a", "bytes long", "a file"),
        ("secrets: [A, 9]", "secrets[1]", "is not the name of an environment variable", "only names"),
        ("retry_on: [137, 0]", "retry_on[1]", "`0` is neither an exit code nor a cause", "1 to 255"),
        ("retry_on: [oomm]", "retry_on[0]", "`oomm` is neither", "did you mean `oom`?"),
        # combinations
        ("retry_on: [oom]", "retry_on", "has no effect without `retries`", "retries: 2"),
        ("ps: 2", "ps", "goes with framework `tensorflow`", "remove it"),
        ("per: node\nframework: pytorch", "per", "is `node`, and pytorch starts one process per device", "`per: device`"),
        ('rank_table: "1.0"', "rank_table", "goes with framework `mindspore`", "remove it"),
        ("python: python3", "python", "this job has a command", "into the command"),
        ("env: {MUSTER_RANK: 1}", "env.MUSTER_RANK", "keeps for itself", "another name"),
        ("secrets: [MUSTER_RUN]", "secrets", "names `MUSTER_RUN`", "another name"),
        ("inputs: {MUSTER_RUN: {url: /, access: env}}", "inputs.MUSTER_RUN", "keeps for itself", "another name"),
        # the code directory
        ("code: ./nope", "code", "which does not exist", "relative to the job file"),
        ("code: train.py", "code", "which is not a directory", "relative to the job file"),
        ("code: http://bucket/code", "code", "scheme `http`", "obs://, s3://, file:// and paths"),
        ("code: " + "d" * 5000, "code", "file name too long", "relative to the job file"),
        # tags
        ("nodes: !env NODES", "nodes", "has the tag `!env`", "remove the tag"),
        ("parameters: !!python/object:os.system {a: b}", "parameters", "has the tag", "remove the tag"),
    ],
)
def test_a_wrong_value_is_told_with_its_line_its_field_and_a_hint(
    tmp_path: Path, line: str, field: str, message: str, hint: str
) -> None:
    problem = refused(tmp_path, f"command: echo\n# a comment\n{line}\n")[0]
    assert problem.line == 3
    assert problem.field == field
    assert message in problem.message
    assert hint in problem.hint


def test_a_problem_reads_as_a_sentence_with_the_value_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    assert str(one(tmp_path, "command: x\ndevice: gpu\n")) == f"{path}:2: `device: gpu` is not known; did you mean `nvidia`?"
    assert str(one(tmp_path, "command: x\nenv:\n  B: []\n")).startswith(f"{path}:3: `env.B` is a list; ")


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
name: a/b
boot: nope.py
command: echo
nodes: 0
nodes: two
devics: 3
env:
  GOOD: 1
  BAD: []
  9: x
secrets: [A, b c, D]
time_limit: 5
code: ./nowhere
"""
    problems = refused(tmp_path, text)
    assert [(problem.line, problem.field) for problem in problems] == [
        (1, "name"),
        (2, "boot"),
        (5, "nodes"),
        (5, "nodes"),
        (6, "devics"),
        (9, "env.BAD"),
        (10, "env.9"),
        (11, "secrets[1]"),
        (12, "time_limit"),
        (13, "code"),
    ]


def test_a_line_is_that_of_the_field_where_its_value_stands_below(tmp_path: Path) -> None:
    assert one(tmp_path, "command: x\nnodes:\n\n  two\n").line == 2
    assert one(tmp_path, "command:\n- a\n-\n- b\n").line == 3


@pytest.mark.parametrize("text", ["nodes: 2\n", "{}\n"])
def test_a_job_without_boot_and_command_is_told_what_to_add(tmp_path: Path, text: str) -> None:
    problem = one(tmp_path, text)
    assert "neither `boot` nor `command`" in problem.message
    assert "`boot: train.py`" in problem.hint


def test_boot_and_command_cannot_both_be_given(tmp_path: Path) -> None:
    problem = one(tmp_path, "command: x\nboot: train.py\n")
    assert (problem.line, problem.field) == (2, "boot")
    assert "`command` are both given" in problem.message


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n"])
def test_an_empty_file_is_told_what_a_job_needs(tmp_path: Path, text: str) -> None:
    assert "`command` or `boot`" in one(tmp_path, text).hint


@pytest.mark.parametrize(("text", "said"), [("- command: x\n", "a list"), ("echo hello\n", "`echo hello`")])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str, said: str) -> None:
    problem = one(tmp_path, text)
    assert problem.line == 1
    assert said in problem.message


def test_boot_has_to_be_a_file_inside_the_code(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "outside.py").touch()
    code = tmp_path / "code"
    code.mkdir()
    (code / "run.py").touch()
    (code / "sub").mkdir()
    (code / "link.py").symlink_to("../outside.py")
    (code / "inner.py").symlink_to("run.py")

    def boot(name: str) -> str:
        return str(one(tmp_path, f"code: code\nboot: {name}\n"))

    assert "outside the code directory" in boot("../outside.py")
    assert "outside the code directory" in boot("sub/../../outside.py")
    assert "outside the code directory" in boot(str(code / "run.py"))
    assert "outside the code directory" in boot("link.py")
    assert "is a directory" in boot("sub")
    assert "is a directory" in boot(".")
    assert "which is not in" in boot("train.py")
    assert "did you mean `run.py`?" in boot("rnu.py")
    assert accepted(tmp_path, "code: code\nboot: ./sub/../run.py\n").boot == "run.py"
    assert accepted(tmp_path, "code: code\nboot: inner.py\n").boot == "inner.py"


def test_a_python_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    problem = one(tmp_path, "boot: train.py\npython: ./train.py\n")
    assert (problem.line, problem.field) == (2, "python")
    assert "cannot be run" in problem.message


SECRETS = """
HF_TOKEN AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID MINIO_SECRET_KEY OBS_SK OBS_AK wandb_api_key DB_PASSWORD TOKEN
TENCENTCLOUD_SECRET_ID SSH_PRIVATE_KEY GOOGLE_APPLICATION_CREDENTIALS AZURE_STORAGE_KEY
"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_secret_in_env_is_refused_and_its_value_is_not_repeated(tmp_path: Path, name: str) -> None:
    problem = one(tmp_path, f"command: x\nenv:\n  A: 1\n  {name}: hunter2\n")
    assert (problem.line, problem.field) == (4, f"env.{name}")
    assert f"secrets: [{name}]" in problem.hint
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYS", "MAX_TOKENS", "TASK", "DISK", "BREAK"])
def test_a_harmless_name_in_env_is_no_secret(tmp_path: Path, name: str) -> None:
    assert accepted(tmp_path, f"command: x\nenv: {{{name}: on}}\n").env == {name: "on"}


def test_a_secret_may_be_emptied_in_env(tmp_path: Path) -> None:
    assert accepted(tmp_path, 'command: x\nenv: {HF_TOKEN: ""}\n').env == {"HF_TOKEN": ""}


def test_a_name_in_both_env_and_secrets_is_refused(tmp_path: Path) -> None:
    assert "keep it in one" in one(tmp_path, "command: x\nenv: {A: 1}\nsecrets: [A]\n").hint


@pytest.mark.parametrize("line", ["secrets: hunter2", "secrets: ['hunter2!']", "secrets:\n- hunter2: x"])
def test_a_secret_written_where_its_name_belongs_is_not_repeated(tmp_path: Path, line: str) -> None:
    assert "hunter2" not in str(one(tmp_path, f"command: x\n{line}\n"))


def test_a_wrong_field_does_not_make_others_wrong_that_depend_on_it(tmp_path: Path) -> None:
    assert one(tmp_path, "command: x\nframework: tensorfow\nps: 2\n").field == "framework"
    assert one(tmp_path, "command: x\nretries: many\nretry_on: [oom]\n").field == "retries"
    assert one(tmp_path, "boot: train.py\ncode: []\n").field == "code"


def test_parameters_need_a_place_in_a_command_of_several_lines(tmp_path: Path) -> None:
    text = "command: |\n  cd sub\n  ./run{}\nparameters: {{a: 1}}\n"
    problem = one(tmp_path, text.format(""))
    assert (problem.line, problem.field) == (4, "parameters")
    assert accepted(tmp_path, text.format(' "$@"')).parameters == {"a": "1"}


def test_a_file_that_cannot_be_read_is_told_with_its_path(tmp_path: Path) -> None:
    for path, reason in [(tmp_path / "none.yaml", "no such file"), (tmp_path, "is a directory")]:
        with pytest.raises(JobError) as error:
            load(path).checked()
        (problem,) = error.value.problems
        assert problem.file == str(path)
        assert reason in problem.message
        assert problem.hint


def test_a_code_directory_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "closed").mkdir(mode=0)
    assert one(tmp_path, "code: closed\nboot: train.py\n").field == "code"


def test_python_data_is_checked_like_a_file(tmp_path: Path) -> None:
    with pytest.raises(JobError) as error:
        load({"nodes": 10**5000, "name": "\udcff", "env": {"A": None, 7: 8}, "devics": 1}, base=tmp_path).checked()
    fields = {problem.field for problem in error.value.problems}
    assert fields == {"nodes", "name", "env.A", "env.7", "devics", ""}
    assert all(str(problem).isprintable() for problem in error.value.problems)
