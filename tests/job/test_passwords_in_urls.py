"""URLs with a name and a password in them are refused, and neither repeated nor written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Muster, WriteJob
from muster.job.kinds import without_password
from muster.job.load import load
from muster.job.source import JobError

SECRET = "SECR+ET"
URLS = [
    f"s3://AKID:{SECRET}@bucket/x",
    f"s3://AKID:SL/{SECRET}@bucket/x",
    f"s3:/AKID:{SECRET}@bucket/x",
    f"obs:AKID:{SECRET}@bucket/x",
    f"s3://{SECRET}@bucket/x",
    f"s3://AKID:{SECRET}",
    f"https://user:{SECRET}@host.example/x",
    f"s3://AKID:{'long' * 30}{SECRET}@bucket/x",
]
FIELDS = ["inputs.data_url", "outputs.train_url", "log_url", "code", "parameters.data", "env.DATA", "env", "device"]
COMMANDS = [("cp", "{}", "."), ("cp", ".", "{}"), ("ls", "{}"), ("sync", "{}", "."), ("rm", "{}"), ("show", "{}")]
USAGE = [
    *(("import", "{}"), ("tester", "send", "{}", "x"), ("tester", "serve", "--cert", "{}"), ("{}",), ("verify", "{}")),
    *(("run", "{}/x.py", "--json"), ("bench", "{}", "--export", "{}"), ("prune", "--older", "{}"), ("ls", "--{}")),
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("field", FIELDS)
def test_no_field_of_a_job_takes_or_repeats_one(field: str, url: str) -> None:
    for data, overrides in (({"command": "true"}, [f"{field}={url}"]), (_nested(field, url), [])):
        with pytest.raises(JobError) as error:
            load(data, overrides).checked()
        assert SECRET not in str(error.value)
        assert all(SECRET not in str(vars(problem)) for problem in error.value.problems)


def _nested(field: str, value: str) -> dict[str, object]:
    name, _, inner = field.partition(".")
    return {"command": "true", name: {inner: value} if inner else value}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("field", ["command", "setup"])
def test_no_command_of_a_job_holds_one(field: str, url: str) -> None:
    with pytest.raises(JobError) as error:
        load({"command": "true", field: f"fetch {url} data"}).checked()
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "git clone https://user:$TOKEN@host.example/x",
        "git clone https://user:${TOKEN}@host.example/x ssh://git@host.example/y",
        "curl http://127.0.0.1:8080/a@b obs://bucket/user@example/x me@example.com:/data s3:latest",
    ],
)
def test_variables_and_other_signs_are_no_password(text: str) -> None:
    assert load({"command": text}).checked().command == text


@pytest.mark.parametrize("url", URLS)
def test_no_command_repeats_one(muster: Muster, url: str) -> None:
    for words in COMMANDS:
        done = muster(*(word.format(url) for word in words))
        assert done.returncode == 2, done.stderr
        assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("url", URLS)
def test_no_error_of_usage_repeats_one(muster: Muster, url: str) -> None:
    for words in USAGE:
        done = muster(*(word.format(url) for word in words))
        assert done.returncode == 2, (words, done.stderr)
        assert SECRET not in done.stdout + done.stderr, words
        assert done.stderr


def test_a_refused_job_leaves_nothing_behind(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "true", "inputs": {"data_url": URLS[0]}})
    for words in (["run", job], ["run", job, "--json"], ["run", job, "--check"], ["bench", job]):
        done = muster(*words)
        assert done.returncode == 2
        assert SECRET not in done.stdout + done.stderr
    assert not (home / "runs").exists()


def test_an_ordinary_url_is_shown_as_it_is() -> None:
    for text in ("obs://bucket/user@example/x", "http://host:9000/x", "s3://bucket/a:b@c", "me@example.com", "a: b@c"):
        assert without_password(text) == text
