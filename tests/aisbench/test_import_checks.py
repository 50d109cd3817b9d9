"""What the old tool left to the cloud is found before anything is written, all of it at once, each with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packages import ACCESS, SESSION, complaints, imported, package, settings, v2

KEY, SECRET = ACCESS["access_key"], ACCESS["secret_access_key"]


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "code/config/modelarts_config.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def with_session(tmp_path: Path, **fields: Any) -> Path:
    return package(tmp_path, settings(session={**SESSION, **fields}))


def with_v2(tmp_path: Path, **fields: Any) -> Path:
    config = settings(session_config_v2={**v2(), **fields})
    return package(tmp_path, config, "export MODELARTS_VERSION=V2\n")


def test_a_sound_configuration_has_no_problems(tmp_path: Path) -> None:
    assert complaints(package(tmp_path / "v1", settings())) == []
    assert complaints(with_v2(tmp_path / "v2")) == []


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"boot_file": "/lab-bucket/other/train.py"}, "boot_file", "is outside of code_dir"),
        ({"boot_file": "/lab-bucket/resnet2/train.py"}, "boot_file", "is outside of code_dir"),
        ({"boot_file": "/lab-bucket/resnet/missing.py"}, "boot_file", "names `missing.py`, which is not in"),
        ({"boot_file": "/lab-bucket/resnet/"}, "boot_file", "ends with a slash"),
        ({"inputs": "lab-bucket/dataset/"}, "inputs", "does not start with a slash; write `/lab-bucket/dataset/`"),
        ({"inputs": "/lab-bucket/dataset"}, "inputs", "does not end with a slash; write `/lab-bucket/dataset/`"),
        ({"code_dir": "/lab-bucket/resnet"}, "code_dir", "does not end with a slash"),
        ({"out_base_url": "/lab-bucket/result"}, "out_base_url", "does not end with a slash"),
        ({"out_base_url": "obs://lab-bucket/result/"}, "out_base_url", "has a scheme; write `/lab-bucket/result/`"),
        ({"inputs": "/lab-bucket//data/"}, "inputs", "holds two slashes in a row"),
        ({"inputs": "/lab-bucket/../data/"}, "inputs", "holds `.` or `..`"),
        ({"inputs": "/Bucket_1/data/"}, "inputs", "starts with `Bucket_1`, which cannot be the name of a bucket"),
        ({"pool_id": "poolfaf38d76"}, "pool_id", "and train_instance_type are both set; set train_instance_type to None"),
        ({"train_instance_type": None}, "train_instance_type", "and pool_id are both empty"),
        ({"train_instance_type": "modelarts.unheard.of"}, "train_instance_type", "does not name its number of cards"),
        (
            {"train_instance_count": 2, "train_instance_type": "modelarts.kat1.4xlarge"},
            "train_instance_count",
            "is 2 with 4 of 8 cards each, and several nodes must have all of them",
        ),
        ({"train_instance_count": "2"}, "train_instance_count", "is not a number of nodes"),
        ({"train_instance_count": 0}, "train_instance_count", "is not a number of nodes"),
        ({"job_name": "has spaces"}, "job_name", "is no name for a job"),
        ({"job_name": "a" * 65}, "job_name", "is 65 characters long, and a job's name has 64"),
        ({"job_name": ""}, "job_name", "is empty"),
        ({"inputs": None}, "inputs", "is empty"),
        ({"inputs": ["/lab-bucket/a/"]}, "inputs", "is not a text"),
        ({"hyperparameters": "epoch_size=90"}, "hyperparameters", "is not a list"),
        ({"hyperparameters": [{"label": "a", "value": 90}]}, "hyperparameters.a", "is the number 90, and all values are texts"),
        ({"hyperparameters": [{"label": "a", "value": True}]}, "hyperparameters.a", "is the truth value True"),
        ({"hyperparameters": [{"name": "a", "value": "1"}]}, "hyperparameters", "has an entry without `label` and `value`"),
        ({"hyperparameters": [{"label": "--a", "value": "1"}]}, "hyperparameters", "has a `label` that cannot be one"),
        ({"hyperparameters": [{"label": "data_url", "value": "1"}]}, "hyperparameters.data_url", "is passed by the platform"),
        (
            {"hyperparameters": [{"label": "a", "value": "1"}, {"label": "a", "value": "2"}]},
            "hyperparameters.a",
            "stands twice",
        ),
        ({"parameters": []}, "parameters", "belongs to the other version of ModelArts than V1"),
        ({"job_nmae": "x"}, "job_nmae", "is not known; did you mean `job_name`?"),
    ],
)
def test_each_check_of_a_session(tmp_path: Path, fields: dict[str, Any], where: str, message: str) -> None:
    """Weakness 9: none of this was looked at before the cloud did."""
    folder = with_session(tmp_path, **fields)
    found = complaints(folder)
    line = line_of(folder, f"'{where.partition('.')[0]}'")
    expected = f"code/config/modelarts_config.py:{line}: `session_config.{where}"
    assert [problem for problem in found if problem.startswith(expected) and message in problem], found


@pytest.mark.parametrize("field", ["inputs", "code_dir", "boot_file", "job_name", "out_base_url"])
def test_a_field_that_is_missing_is_told(tmp_path: Path, field: str) -> None:
    session = {name: value for name, value in SESSION.items() if name != field}
    found = complaints(package(tmp_path, settings(session=session)))
    assert [problem for problem in found if f"`session_config.{field}` is missing; fill it in" in problem], found


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ({"access_key": ""}, "`access_config.access_key` is empty"),
        ({"secret_access_key": "  "}, "`access_config.secret_access_key` is empty"),
        ({"server": ""}, "`access_config.server` is empty, and the keys need the address of a store"),
        ({"server": "https://me:word@obs.example.com"}, "`access_config.server` is no address"),
        ({"server": "10.0.0.1:9000"}, "`access_config.server` is `10.0.0.1:9000`, which names no store"),
        ({"iam_endpoint": "iam.example.com"}, "`access_config.obs_endpoint` is empty while another endpoint is set"),
        ({"access_key": 7}, "`access_config.access_key` is not a text"),
        ({"acces_key": "x"}, "`access_config.acces_key` is not known; did you mean `access_key`?"),
        ({SECRET: "secret_access_key"}, "`access_config` has a name that is not known; remove it"),
    ],
)
def test_each_check_of_the_keys(tmp_path: Path, access: dict[str, Any], message: str) -> None:
    """Weakness 9; and no message shows a key."""
    found = complaints(package(tmp_path, settings({**ACCESS, **access})))
    assert [problem for problem in found if message in problem], found
    assert not [problem for problem in found if SECRET in problem or KEY in problem or "word@" in problem]


def test_both_keys_empty_is_a_problem_of_the_cloud_alone(tmp_path: Path) -> None:
    folder = package(tmp_path, settings({**ACCESS, "access_key": "", "secret_access_key": "", "server": ""}))
    assert len(complaints(folder)) == 2
    assert complaints(folder, here=True) == []
    notes = [str(note) for note in imported(folder, here=True).findings.notes]
    assert [note for note in notes if "`access_config.access_key` is empty; a run on this machine does without" in note]


def test_any_number_of_cards_on_several_nodes_runs_here(tmp_path: Path) -> None:
    """Weakness 4: 8 cards per server were written into the code."""
    folder = with_session(tmp_path, train_instance_count=3, train_instance_type="modelarts.kat1.2xlarge")
    found = imported(folder, here=True)
    assert found.findings.problems == []
    assert "nodes: 3 " in found.text and "devices: 2 " in found.text


def test_the_newer_generation_wants_slashes_at_the_end(tmp_path: Path) -> None:
    """Weakness 8: log and output went to different places without a word."""
    found = complaints(with_v2(tmp_path, out_base_url="/lab-bucket/result"))
    assert len(found) == 1 and "does not end with a slash: ModelArts refuses it as ModelArts.2791" in found[0]


def test_a_name_and_its_time_stamp_pass_the_limit(tmp_path: Path) -> None:
    """Weakness 8: the newer generation appends 19 characters to the name of a job."""
    assert complaints(with_v2(tmp_path / "fits", job_name="a" * 45)) == []
    found = complaints(with_v2(tmp_path / "long", job_name="a" * 46))
    assert len(found) == 1 and "with its time stamp of 19 passes the limit of 64; keep it to 45 characters" in found[0]


def test_code_in_another_bucket_goes_where_it_should(tmp_path: Path) -> None:
    """Weakness 7: the old tool took the bucket of out_base_url for the code as well."""
    found = imported(with_v2(tmp_path, out_base_url="/other-bucket/result/"))
    assert found.findings.problems == []
    assert [note for note in map(str, found.findings.notes) if "lies in another bucket than out_base_url" in note]
    (tmp_path / "code/code/train.py").unlink()
    (tmp_path / "code/code").rmdir()
    assert "code: obs://lab-bucket/resnet/ " in imported(tmp_path).text


@pytest.mark.parametrize("broken", ["'access_key': ‘x’,", "'access_key': 'x'", "'access_key': get(),", "'access_key': x,"])
def test_one_mistake_is_told_once(tmp_path: Path, broken: str) -> None:
    text = settings()
    before = f"'access_key': {ACCESS['access_key']!r},"
    assert before in text
    (found,) = complaints(package(tmp_path, text.replace(before, broken)))
    assert found.startswith("code/config/modelarts_config.py:4: " if broken[-1] == "," else "code/config/modelarts_config.py:")


def test_what_only_the_cloud_refuses_can_run_here(tmp_path: Path) -> None:
    (found,) = complaints(with_session(tmp_path, pool_id="pool1"))
    assert found.endswith("the pool has a type of its own, or import with `--here` to run it on this machine")


@pytest.mark.parametrize(("value", "looks"), [("0f3c9a77e1b2", True), ("[PAD]", False), ("", False)])
def test_a_parameter_that_looks_like_a_key_is_told(tmp_path: Path, value: str, looks: bool) -> None:
    found = imported(with_session(tmp_path, hyperparameters=[{"label": "api_token", "value": value}]))
    notes = [note for note in map(str, found.findings.notes) if "hyperparameters.api_token` looks like a key" in note]
    assert bool(notes) == looks
    assert not value or value not in str(notes)


def test_a_section_that_is_missing_is_told(tmp_path: Path) -> None:
    found = complaints(package(tmp_path, settings(), "export MODELARTS_VERSION=V2\n"))
    assert len(found) == 1 and "`session_config_v2` is missing" in found[0]


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    access = {**ACCESS, "access_key": "", "secret_access_key": ""}
    session = {**SESSION, "inputs": "bucket", "boot_file": "/x/y.py", "pool_id": "pool1", "train_instance_count": 0}
    found = complaints(package(tmp_path, settings(access, session)))
    assert len(found) >= 7
    assert all(problem.startswith("code/config/modelarts_config.py:") for problem in found)


def test_a_pool_does_not_tell_its_cards(tmp_path: Path) -> None:
    folder = with_session(tmp_path, pool_id="poolfaf38d76", train_instance_type=None)
    assert "devices: 8  # a pool does not name its number of cards" in imported(folder).text
    assert "devices: 4  # from --devices" in imported(folder, devices=4).text


@pytest.mark.parametrize(
    ("flavor", "cards"),
    [
        ("modelarts.kat1.xlarge", 1),
        ("modelarts.kat1.2xlarge", 2),
        ("modelarts.kat1.4xlarge", 4),
        ("modelarts.kat1.8xlarge", 8),
        ("modelarts.kat1.8xlarge.public", 8),
        ("modelarts.pool.visual.16xlarge", 16),
        ("modelarts.bm.gpu.8v100", 8),
        ("modelarts.vm.gpu.v100", 1),
    ],
)
def test_types_tell_their_cards(tmp_path: Path, flavor: str, cards: int) -> None:
    assert f"devices: {cards}  #" in imported(with_session(tmp_path, train_instance_type=flavor)).text


def test_none_that_is_written_as_a_text_is_nothing(tmp_path: Path) -> None:
    found = imported(with_session(tmp_path, pool_id="None", train_instance_count=2))
    assert found.findings.problems == []
    assert [note for note in map(str, found.findings.notes) if "pool_id` is the text `None`, and counts as nothing" in note]
    assert "devices: 8  # from session_config.train_instance_type" in found.text


@pytest.mark.parametrize(
    ("engine", "framework"),
    [("Ascend-Powered-Engine", "mindspore"), ("", "mindspore"), ("PyTorch", "command"), ("Horovod", "command")],
)
def test_the_engine_tells_how_ranks_are_started(tmp_path: Path, engine: str, framework: str) -> None:
    found = imported(with_session(tmp_path, framework_type=engine))
    assert f"framework: {framework} " in found.text
    assert ("rank_table" in found.text) == (framework == "mindspore")
