"""Result files that programs leave in their outputs are copied into the record; what lay there before is known as stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob
from muster.records.layout import RunDir
from s3_server import S3

MOXING = """
    import os, sys
    import moxing as mox
    url = sys.argv[1].partition("=")[2].rstrip("/")
    rank = os.environ["MUSTER_RANK"]
    mox.file.write(url + "/throughput_%s.json" % rank, "10%s.5" % rank)
    mox.file.write(url + "/notes.txt", "not a result")
"""
LOCAL = """
    import os, pathlib, sys
    folder = pathlib.Path(sys.argv[1].partition("=")[2])
    rank = os.environ["MUSTER_RANK"]
    (folder / ("throughput_%s.json" % rank)).write_text("7.5")
    (folder / "1").mkdir(exist_ok=True)
    (folder / "1" / "accuracy_1.json").write_text("0.5")
    (folder / "checkpoint.ckpt").write_text("large")
"""


def run(muster: Muster, job: Path, *words: str, **env: str) -> RunDir:
    done = muster("run", job, *words, "--json", **env)
    assert done.returncode == 0, done.stderr
    return RunDir(json.loads(done.stdout)["dir"])


def outputs(run: RunDir, node: int = 0, attempt: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(run.attempt(attempt).node(node).results, "outputs.json").read_text())
    return sorted(found, key=lambda entry: str(entry["path"]))


def kept(run: RunDir, node: int = 0, attempt: int = 1) -> dict[str, str]:
    folder = Path(run.attempt(attempt).node(node).results, "outputs")
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
@pytest.mark.parametrize("place", ["embedded", "path", "server"])
def test_files_that_programs_wrote_to_a_url_are_copied_by_the_first_node(
    place: str, muster: Muster, write_job: WriteJob, tmp_path: Path, s3: S3
) -> None:
    env: dict[str, str] = {}
    url = "obs://results/out"
    if place == "path":
        url = str(tmp_path / "out")
    if place == "server":
        url, env = f"s3://{s3.bucket()}/out", s3.env
    job = write_job(
        {"nodes": 2, "per": "device", "compat": "modelarts-v1", "outputs": {"train_url": url}}, **{"train.py": MOXING}
    )
    first = run(muster, job, **env)
    expected = {"train_url/throughput_0.json": "100.5", "train_url/throughput_1.json": "101.5"}
    assert kept(first) == expected
    assert [(entry["path"], entry["stale"]) for entry in outputs(first)] == [
        ("throughput_0.json", False),
        ("throughput_1.json", False),
    ]
    assert not Path(first.attempt(1).node(1).results, "outputs.json").exists()

    silent = run(muster, job, "--set", "command=true", **env)
    assert kept(silent) == {}
    assert all(entry["stale"] for entry in outputs(silent))

    again = run(muster, job, **env)  # the same bytes, written anew
    assert kept(again) == expected


def test_what_an_earlier_attempt_wrote_is_stale(muster: Muster, write_job: WriteJob) -> None:
    write = '    mox.file.write(url + "/throughput_%s.json" % rank, "10%s.5" % rank)\n'
    assert write in MOXING
    first = "    if os.environ['MUSTER_ATTEMPT'] == '1':\n    " + write + "        sys.exit(3)\n"
    second = MOXING.replace(write, first)
    job = write_job({"compat": "modelarts-v1", "retries": 1, "outputs": {"train_url": "obs://b/o"}}, **{"train.py": second})
    done = run(muster, job)
    assert kept(done, attempt=1) == {"train_url/throughput_0.json": "100.5"}
    assert [(entry["path"], entry["stale"]) for entry in outputs(done, attempt=2)] == [("throughput_0.json", True)]


@pytest.mark.parametrize("compat", ["", "modelarts-v2"])
def test_each_node_copies_what_lies_in_directories_of_its_own(compat: str, muster: Muster, write_job: WriteJob) -> None:
    fields = {"nodes": 2, "per": "device", "outputs": {"train_url": "obs://b/o"}, **({"compat": compat} if compat else {})}
    done = run(muster, write_job(fields, **{"train.py": LOCAL}))
    for node in (0, 1):
        assert kept(done, node) == {f"train_url/throughput_{node}.json": "7.5", "train_url/1/accuracy_1.json": "0.5"}
        assert not any(entry["stale"] for entry in outputs(done, node))


def test_a_number_that_is_too_large_to_be_one_is_not_copied(muster: Muster, write_job: WriteJob) -> None:
    train = MOXING.replace('"10%s.5" % rank', '"1" * (2 << 20)')
    done = run(muster, write_job({"compat": "modelarts-v1", "outputs": {"train_url": "obs://b/o"}}, **{"train.py": train}))
    assert kept(done) == {}
    assert "2097152 bytes" in outputs(done)[0]["error"]


def test_a_run_without_outputs_has_no_list_of_them(muster: Muster, write_job: WriteJob) -> None:
    done = run(muster, write_job(**{"train.py": "pass"}))
    assert not Path(done.attempt(1).node(0).results, "outputs.json").exists()


@pytest.mark.parametrize("name, content", [("outputs", None), ("outputs.json", None), ("outputs", "x"), ("outputs.json", "[]")])
def test_ranks_may_call_files_of_their_own_as_the_agent_does(
    name: str, content: str | None, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    """An agent that stumbled over them would lose the outputs of the job."""
    clash = f"""
    clash = pathlib.Path(os.environ["MUSTER_RESULTS"], {name!r})
    clash.mkdir() if {content!r} is None else clash.write_text({content!r})
    """
    job = write_job({"outputs": {"train_url": "obs://results/out"}}, **{"train.py": LOCAL + clash})
    (home / "store" / "results").mkdir(parents=True)
    found = run(muster, job)
    assert kept(found)["train_url/throughput_0.json"] == "7.5"
    assert (home / "store/results/out/throughput_0.json").read_text() == "7.5"
    aside = [path for path in Path(found.attempt(1).node(0).results).iterdir() if path.name.startswith(f"{name}.")]
    assert [path.is_dir() or path.read_text() for path in aside if path.suffix == ".tmp"] == [content or True]
