"""`--set name=value`: any field, nested ones too, with the same checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from job_files import accepted, one, refused

from muster.engines.modelarts.options import ModelArtsOptions
from muster.engines.slurm.options import SlurmOptions
from muster.engines.ssh.options import HostsOptions
from muster.job import FIELDS, Bench, Data, Metric
from muster.job.endpoints import Endpoint
from muster.job.queue import Constraints

PLAIN = "command: x\n"


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("name=other", "other"),
        ("framework=pytorch", "pytorch"),
        ("per=device", "device"),
        ("code=sub", "{folder}/sub"),
        ("boot=train.py", "train.py"),
        ("command=echo hello world", "echo hello world"),
        ("command=[echo, 1e3]", ("echo", "1e3")),
        ("python=sub/python", "{folder}/sub/python"),
        ("setup=export A=b=c", "export A=b=c"),
        ("nodes=7", 7),
        ("nodes = 7", 7),
        ("ps=2", 2),
        ("devices=3", 3),
        ("device=cpu", "cpu"),
        ("rank_table=1.0", "1.0"),
        ("cpus=5", 5),
        ("memory=1G", 1 << 30),
        ("compat=apulis", "apulis"),
        ("inputs={a: obs://b/c}", {"a": Data("obs://b/c")}),
        ("inputs.a=s3://b/c", {"a": Data("s3://b/c")}),
        ("outputs.a={url: obs://b/c, access: env}", {"a": Data("obs://b/c", "env")}),
        ("requires={a: [train/, x.ckpt]}", {"a": ("train/", "x.ckpt")}),
        ("log_url=obs://b/log", "obs://b/log"),
        ("keep_alive=1h", 3600.0),
        ("parameters={a: 1e-3, b: on}", {"a": "1e-3", "b": "on"}),
        ("parameters.lr=1e-3", {"lr": "1e-3"}),
        ("parameters.a.b=010", {"a.b": "010"}),
        ('parameters.empty=""', {"empty": ""}),
        ("env.URL=http://a/?b=c", {"URL": "http://a/?b=c"}),
        ("secrets=[A, B]", ("A", "B")),
        ("ssh=true", True),
        ("workdir=rank", "rank"),
        ("time_limit=5m", 300.0),
        ("silent_limit=5m", 300.0),
        ("grace=0", 0.0),
        ("retries=3", 3),
        ("retry_on=[oom, 3]", ("oom", 3)),
        ("hold_on_failure=1h", 3600.0),
        ("project=vision", "vision"),
        ("pool=lab", "lab"),
        ("priority=180", 180),
        ("preemptible=true", True),
        ("after=[first-1]", {"first-1": "succeeded"}),
        ("after.first-1=failed", {"first-1": "failed"}),
        ("constraints={model: A100}", Constraints(model="A100")),
        ("constraints.labels.rack=a", Constraints({"rack": "a"})),
        ("queue_limit=1h", 3600.0),
        ("kind=environment", "environment"),
        ("endpoints={jupyter: true}", {"jupyter": Endpoint()}),
        ("endpoints.web=8000", {"web": Endpoint(port=8000)}),
        ("endpoints.web={port: 8000, node: 0}", {"web": Endpoint(port=8000, node=0)}),
        ("login=true", True),
        ("idle_limit=0s", 0.0),
        ("bench={repeats: 2}", Bench(repeats=2)),
        ("bench.scope=server", Bench(scope="server")),
        ("bench.targets.accuracy=0.76", Bench(targets={"accuracy": 0.76})),
        ("metrics.fps.unit=frames", {"fps": Metric(unit="frames")}),
        ("sample=5s", 5.0),
        ("slurm={partition: big, exclusive: true}", SlurmOptions(partition="big", exclusive=True)),
        ("slurm.options=[--nice=100]", SlurmOptions(options=("--nice=100",))),
        ("hosts=[a, b]", HostsOptions(nodes=("a", "b"))),
        ("hosts.group=lab", HostsOptions(group="lab")),
        ("modelarts.flavor=modelarts.vm.cpu.2u", ModelArtsOptions(flavor="modelarts.vm.cpu.2u")),
    ],
)
def test_every_field_can_be_set(tmp_path: Path, override: str, value: Any) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "python").touch(mode=0o755)
    context = {"boot": "{}\n", "python": "boot: train.py\n", "ps": PLAIN + "framework: tensorflow\n",
               "rank_table": PLAIN + "framework: mindspore\n", "retry_on": PLAIN + "retries: 1\n",
               "requires": PLAIN + "inputs: {a: obs://b/c}\n", "keep_alive": PLAIN + "compat: apulis\n", "kind": "{}\n",
               "idle_limit": "kind: environment\n"}  # fmt: skip
    name = override.partition("=")[0].strip().partition(".")[0]
    job = accepted(tmp_path, context.get(name, PLAIN), override)
    expected = value.format(folder=tmp_path) if isinstance(value, str) and name != "setup" else value
    assert getattr(job, name) == expected


def test_the_list_above_leaves_no_field_out() -> None:
    marks = [mark for mark in test_every_field_can_be_set.pytestmark if mark.name == "parametrize"]
    set_ones = {case[0].partition("=")[0].strip().partition(".")[0] for case in marks[0].args[1]}
    assert set_ones == set(FIELDS)


def test_an_override_replaces_what_the_file_says_even_what_is_wrong_there(tmp_path: Path) -> None:
    assert accepted(tmp_path, PLAIN + "nodes: many\n", "nodes=2", "nodes=4").nodes == 4


def test_a_nested_override_keeps_its_neighbours_and_their_order(tmp_path: Path) -> None:
    text = PLAIN + "parameters: {z: 1, lr: 0.1, a: 3}\n"
    job = accepted(tmp_path, text, "parameters.lr=0.20", "parameters.new=4")
    assert list(job.parameters.items()) == [("z", "1"), ("lr", "0.20"), ("a", "3"), ("new", "4")]


def test_overrides_can_make_a_whole_job_of_an_empty_file(tmp_path: Path) -> None:
    assert accepted(tmp_path, "", "command=x").command == "x"


@pytest.mark.parametrize(
    ("override", "field", "message", "hint"),
    [
        ("device=gpu", "device", "`gpu` is not known", "did you mean `nvidia`?"),
        ("nodes=0", "nodes", "`0` is too small", "from 1 to"),
        ("nodes=", "nodes", "is empty", "give it a value"),
        ("devics=4", "devics", "is not a field", "did you mean `devices`?"),
        ("devics.a=4", "devics", "is not a field", "did you mean `devices`?"),
        ("nodes.a=4", "nodes", "has no fields of its own", "--set nodes="),
        ("env.9=4", "env.9", "cannot be the name of a variable", "letters"),
        ("env.=4", "", "is not of the form name=value", "--set devices=4"),
        ("env.A=[1]", "env.A", "is a list", "quote it"),
        ("env.A=", "env.A", "is empty", '`""`'),
        ("env={A: [1]}", "env.A", "is a list", "quote it"),
        ("env.MUSTER_RUN=x", "env.MUSTER_RUN", "keeps for itself", "another name"),
        ("nodes=[", "nodes", "is not YAML", "a bracket"),
        ("name=\udcff", "name", "U+DCFF", "UTF-8"),
        ("nodes", "", "is not of the form name=value", "--set devices=4"),
        ("=4", "", "is not of the form name=value", "--set devices=4"),
        ("", "", "is not of the form name=value", "--set devices=4"),
        ("parameters=a: b: c", "parameters", "is not YAML", "quote"),
        ("code=nowhere", "code", "does not exist", "relative to the job file"),
    ],
)
def test_a_wrong_override_is_named_with_what_is_wrong(
    tmp_path: Path, override: str, field: str, message: str, hint: str
) -> None:
    problem = one(tmp_path, PLAIN, override)
    assert (problem.file, problem.line, problem.field) == (f"--set {override}", None, field)
    assert message in problem.message
    assert hint in problem.hint


def test_a_secret_in_an_override_is_refused_and_not_repeated(tmp_path: Path) -> None:
    problem = one(tmp_path, PLAIN, "env.HF_TOKEN=hunter2")
    assert (problem.file, problem.field) == ("--set env.HF_TOKEN=...", "env.HF_TOKEN")
    assert "secrets: [HF_TOKEN]" in problem.hint
    assert one(tmp_path, PLAIN, "secrets=hunter2").file == "--set secrets=..."


def test_problems_of_the_file_and_of_all_overrides_are_told_together(tmp_path: Path) -> None:
    problems = refused(tmp_path, PLAIN + "env: {A: []}\nnodes: 0\n", "devices=[", "env.B={}", "foo", "grace=3")
    path = str(tmp_path / "job.yaml")
    assert [(problem.file, problem.line, problem.field) for problem in problems] == [
        (path, 2, "env.A"),
        (path, 3, "nodes"),
        ("--set devices=[", None, "devices"),
        ("--set foo", None, ""),
        ("--set env.B={}", None, "env.B"),
        ("--set grace=3", None, "grace"),
    ]


def test_a_nested_override_does_not_hide_that_the_field_is_wrong_in_the_file(tmp_path: Path) -> None:
    problem = one(tmp_path, PLAIN + "env: 5\n", "env.A=1")
    assert (problem.line, problem.field) == (2, "env")


def test_the_last_override_of_a_field_counts_and_earlier_nested_ones_go_with_it(tmp_path: Path) -> None:
    assert accepted(tmp_path, PLAIN, "env.A=[]", "env={A: 1}", "env.B=2").env == {"A": "1", "B": "2"}


def test_an_override_of_what_runs_takes_the_place_of_what_the_file_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    job = accepted(tmp_path, "command: x\n", "boot=train.py")
    assert (job.boot, job.command) == ("train.py", "")
    job = accepted(tmp_path, "boot: train.py\npython: python3\n", "command=echo hello")
    assert (job.boot, job.python, job.command) == ("", "", "echo hello")
    assert "are both given" in one(tmp_path, "command: x\n", "boot=train.py", "command=y").message


@pytest.mark.parametrize(
    ("written", "override", "data"),
    [
        ("{url: obs://b/old, access: env}", "inputs.a=obs://b/new", Data("obs://b/new", "env")),
        ("{url: obs://b/old, access: env}", "inputs.a.url=obs://b/new", Data("obs://b/new", "env")),
        ("{url: obs://b/old, access: env}", "inputs.a={url: obs://b/new}", Data("obs://b/new")),
        ("obs://b/old", "inputs.a.access=env", Data("obs://b/old", "env")),
        ("obs://b/old", "inputs.a.url=obs://b/new", Data("obs://b/new")),
    ],
)
def test_one_part_of_an_input_can_be_set_and_the_other_stays(tmp_path: Path, written: str, override: str, data: Data) -> None:
    assert accepted(tmp_path, PLAIN + f"inputs: {{a: {written}}}\n", override).inputs == {"a": data}


def test_a_wrong_part_of_an_input_is_told_under_its_override(tmp_path: Path) -> None:
    problem = one(tmp_path, PLAIN + "inputs: {a: obs://b/old}\n", "inputs.a.access=variable")
    assert (problem.file, problem.line, problem.field) == ("--set inputs.a.access=variable", None, "inputs.a")
    assert "has no field `way`" in one(tmp_path, PLAIN + "inputs: {a: obs://b/old}\n", "inputs.a.way=env").message


def test_an_override_inside_an_empty_section_makes_one(tmp_path: Path) -> None:
    assert accepted(tmp_path, PLAIN + "bench:\n", "bench.repeats=2").bench == Bench(repeats=2)


def test_what_is_wrong_deep_inside_is_told_where_it_was_written(tmp_path: Path) -> None:
    text = PLAIN + "bench:\n  repeats: 2\n  targets:\n    a: high\n    b: 1\n"
    here, there = refused(tmp_path, text, "bench.targets.c=low")
    assert (here.line, here.field) == (5, "bench.targets.a")
    assert (there.file, there.line, there.field) == ("--set bench.targets.c=low", None, "bench.targets.c")
