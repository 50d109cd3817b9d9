"""The JSON Schema, the page about job files, and generated job files: they agree with the loader."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from job_files import accepted
from jsonschema import Draft202012Validator

from muster.job import FIELDS, Job
from muster.job.describe import page, schema
from muster.job.kinds import Choice, Count, Wrong
from muster.job.load import load
from muster.job.source import JobError, parse

CONTEXT: dict[str, dict[str, Any]] = {
    "ps": {"framework": "tensorflow"},
    "rank_table": {"framework": "mindspore"},
    "retry_on": {"retries": 1},
    "requires": {"inputs": {"data_url": "obs://bucket/data"}},
    "keep_alive": {"compat": "apulis"},
    "python": {"boot": "train.py"},
    "idle_limit": {"kind": "environment"},
}


def valid(job: Any) -> bool:
    return bool(Draft202012Validator(schema()).is_valid(job))


def test_the_schema_is_a_schema_and_describes_every_field() -> None:
    described = schema()
    Draft202012Validator.check_schema(described)
    assert list(described["properties"]) == list(FIELDS) == [field.name for field in dataclasses.fields(Job)]
    assert all(field["description"] for field in described["properties"].values())


def test_the_page_about_job_files_is_the_one_that_the_model_makes() -> None:
    written = Path(__file__).parents[2] / "docs" / "job-file.md"
    assert written.read_text() == page(), "run `make docs`"


@pytest.mark.parametrize("name", FIELDS)
def test_the_example_of_a_field_is_accepted_by_loader_and_schema(tmp_path: Path, name: str) -> None:
    (tmp_path / "resnet50").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    context: dict[str, Any] = {**CONTEXT.get(name, {})}
    if name not in ("boot", "command", "python", "kind", "idle_limit"):
        context["command"] = "x"
    text = yaml.safe_dump(context) + f"{name}: {FIELDS[name].metadata['example']}\n"
    text = text.removeprefix("{}\n")
    accepted(tmp_path, text)
    assert valid(yaml.safe_load(text))


def test_the_page_tells_the_defaults_that_jobs_have() -> None:
    rows = {row.split("|")[1].split("`")[1]: row for row in page().splitlines() if row.startswith("| [`")}
    assert set(rows) == set(FIELDS)
    for name, field in FIELDS.items():
        kind = field.metadata["kind"]
        if isinstance(kind, Choice | Count) and field.default not in ("", None):
            assert f"`{field.default}` |" in rows[name]


# Values of every shape that a field can be given. What a schema cannot see is left out: NUL characters, letters of other
# alphabets in names, how long a text is in bytes, and that 2.0 and 2 are written differently.
plain = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8)
texts = st.one_of(
    plain,
    st.sampled_from([*FIELDS, "auto", "gpu", "none", "1.0", "oom", "lost", "train.py", "A", "a-b", "", " ", "x" * 65]),
    st.from_regex(r"[0-9]{1,3}(\.[0-9])?(ms|s|m|h|d|S| s)?([1-9]m)?", fullmatch=True),
    st.from_regex(r"[1-9][0-9]{0,3}(\.[0-9])?[MGTX](B|iB|i|b)?", fullmatch=True),
)
fractions = st.floats(-100, 100, allow_nan=False).filter(lambda value: value != int(value))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 300), st.integers(0, 10**6), fractions, texts)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(texts, st.one_of(scalars, st.lists(scalars, max_size=1)), max_size=3),
    st.lists(st.one_of(st.integers(0, 256), st.sampled_from(["oom", "lost", "exit"])), max_size=3),
    st.lists(st.sampled_from(["A", "_b", "C9", "9c"]), max_size=3),
)


def reads(name: str, value: Any) -> bool:
    item, problems = parse(yaml.safe_dump(value, allow_unicode=True), "value")
    try:
        FIELDS[name].metadata["kind"].read(item)
    except Wrong:
        return False
    return not problems


@pytest.mark.long
@settings(max_examples=600)
@given(name=st.sampled_from(sorted(FIELDS)), value=values)
@example(name="rank_table", value=1.0)
@example(name="parameters", value={"9 a": 1})
@example(name="parameters", value={"a": None})
@example(name="command", value=["", "a"])
@example(name="grace", value=0)
@example(name="time_limit", value="0.0s")
def test_loader_and_schema_take_the_same_values(name: str, value: Any) -> None:
    field = schema()["properties"][name]
    assert reads(name, value) == Draft202012Validator(field).is_valid(value) or _beyond_the_schema(name, value)


def _beyond_the_schema(name: str, value: Any) -> bool:
    """Numbers where a text is meant: the loader looks at how they are written, the schema cannot. Nor does it know hosts."""
    if name == "hosts":
        return not reads(name, value)
    if name == "name":
        return isinstance(value, int | float)
    return name == "rank_table" and value == 1


mappings = st.dictionaries(st.one_of(st.sampled_from(sorted(FIELDS)), texts), values, max_size=6)
examples = {name: st.just(yaml.safe_load(field.metadata["example"])) for name, field in FIELDS.items()}
likely = st.fixed_dictionaries({}, optional={name: st.one_of(good, good, good, values) for name, good in examples.items()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generated")
    (path / "train.py").touch()
    (path / "resnet50").mkdir()
    return path


@pytest.mark.long
@settings(max_examples=400)
@given(fields=st.one_of(mappings, likely))
def test_a_job_that_the_loader_takes_is_valid_by_the_schema(folder: Path, fields: dict[str, Any]) -> None:
    path = folder / "likely.yaml"
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    try:
        load(path).checked()
    except JobError as error:
        assert_told(error)
    else:
        assert valid(yaml.safe_load(path.read_text()))


def assert_told(error: JobError) -> None:
    assert error.problems
    for problem in error.problems:
        assert problem.message
        assert problem.hint
        assert str(problem).isprintable()


def load_or_refuse(path: Path, sets: list[str]) -> None:
    """A Job that survives being recorded, or problems that can be told; anything else fails the test."""
    try:
        job = load(path, sets).checked()
    except JobError as error:
        assert_told(error)
    else:
        assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


@pytest.mark.long
@settings(max_examples=300)
@given(data=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))))
def test_bytes_of_any_kind_give_a_job_or_problems(folder: Path, data: bytes) -> None:
    path = folder / "bytes.yaml"
    path.write_bytes(data)
    load_or_refuse(path, [])


words = st.one_of(
    st.sampled_from(
        [*sorted(FIELDS), "<<", "*a", "&a", "&a *a", "!!int", "!!bool", "!!binary", "!!null", "!!set", "!t", "---"]
    ),
    st.sampled_from(["[", "]", "{", "}", "? ", ": ", ":", "- ", ", ", "|", ">", "'", '"', "\\", "#", "%", "@", "\t", "..."]),
    st.sampled_from(
        ["\n", "\n  ", "\n\n", "\r\n", " ", "\x85", "\u2028", "\ufeff", "0x_", "1:60", "1e999", "9" * 5000, "~", "="]
    ),
    st.sampled_from(["2", "train.py", "../x", "~x", "cpu", "5s", "1G", "2026-01-01"]),
    st.text(max_size=4),
)
fragments = st.lists(words, max_size=25).map("".join)


@pytest.mark.long
@settings(max_examples=800)
@given(
    text=fragments, prefix=st.sampled_from(["", "command: x\n", "boot: train.py\nenv: "]), sets=st.lists(fragments, max_size=2)
)
@example(text="nodes: !!bool x\nmemory: !!int ''\ngrace: !!timestamp x", prefix="", sets=[])
@example(text="memory: " + "9" * 400 + "T", prefix="", sets=[])
@example(text="code: " + "d" * 5000, prefix="command: x\n", sets=["name=\udcff"])
@example(text="a: &a {<<: *a}", prefix="", sets=[])
def test_pieces_of_yaml_in_any_order_give_a_job_or_problems(folder: Path, text: str, prefix: str, sets: list[str]) -> None:
    path = folder / "pieces.yaml"
    path.write_text(prefix + text, encoding="utf-8", errors="replace")
    load_or_refuse(path, sets)


@pytest.mark.long
@settings(max_examples=300)
@given(fields=mappings, name=st.sampled_from(sorted(FIELDS)), inner=texts, value=values)
def test_generated_jobs_with_generated_overrides_give_a_job_or_problems(
    folder: Path, fields: dict[str, Any], name: str, inner: str, value: Any
) -> None:
    path = folder / "mapping.yaml"
    path.write_text(yaml.safe_dump(fields))
    written = yaml.safe_dump(value, default_flow_style=True)
    load_or_refuse(path, [f"{name}={written}", f"{name}.{inner}={written}"])


data = st.recursive(
    st.one_of(scalars, st.floats(), st.integers(), st.binary(max_size=3), st.text(max_size=3), st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(texts, st.integers()), inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.long
@settings(max_examples=300)
@given(fields=st.dictionaries(st.one_of(st.sampled_from(sorted(FIELDS)), st.text(max_size=3)), data, max_size=5))
def test_python_data_of_any_kind_gives_a_job_or_problems(fields: dict[str, Any]) -> None:
    try:
        load(fields).checked()
    except JobError as error:
        assert_told(error)
