"""A bundle holds the records of a bench and nothing else, always in the same bytes."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from bundles import bench_folder, make_bundle, measured
from hypothesis import given, settings
from hypothesis import strategies as st
from records import RunRecord

from muster import __version__
from muster.bench.bundle import write
from muster.bench.bundle.check import export, verify
from muster.bench.errors import BundleError


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def test_it_holds_the_records_and_nothing_that_ranks_worked_with(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    node = Path(run.node(0).path)
    for path in ("work/train.py", "root/cache/data", "inputs/a", "outputs/b", "hosts", "bin/ssh"):
        (node / path).parent.mkdir(parents=True, exist_ok=True)
        (node / path).write_text("not for others")
    Path(run.dir.path, "shared").mkdir()
    Path(run.dir.path, "shared/model.ckpt").write_text("large")
    Path(run.attempt.path, "ssh").mkdir()
    Path(run.attempt.path, "ssh/id").write_text("a key")
    found = names(make_bundle(home, tmp_path / "b.tar.gz", run))
    id, at = "resnet-20260919-000000-bnch", f"runs/{run.dir.id}"
    per_node = ["exit.json", "metrics.jsonl", "system.json", "results/throughput_{}.json", "logs/rank-{}.log"]
    expected = [f"{at}/attempts/1/nodes/{node}/{name.format(node)}" for node in (0, 1) for name in per_node]
    expected += [f"{at}/attempts/1/nodes/0/results/{name}" for name in ("accuracy.json", "record-0.jsonl")]
    expected += [f"{at}/{name}" for name in ("job.json", "run.json", "events.jsonl", "final.json")]
    expected += ["bench.json", "result.json"]
    assert found == [f"{id}/{name}" for name in [*sorted(expected), "manifest.json"]]


def test_a_node_that_did_nothing_stays_visible(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    Path(run.node(2).path).mkdir()
    Path(run.node(2).agent_log).touch()
    found = verify(make_bundle(home, tmp_path / "b.tar.gz", run))
    assert found.problems == []
    assert found.result is not None
    assert [node.node for node in found.result.provenance.nodes] == [0, 1, 2]


def test_the_same_bench_gives_the_same_bytes(home: Path, tmp_path: Path) -> None:
    folder = bench_folder(home, measured(home))
    first = write.write(folder, home, tmp_path / "first.tar.gz", None)
    for path in home.rglob("*"):
        os.utime(path, (1, 1))
    second = write.write(folder, home, tmp_path / "second.tar.gz", None)
    assert first.read_bytes() == second.read_bytes()


def test_what_nobody_should_or_could_unpack_is_left_out(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    (tmp_path / "private").write_text("nobody's business")
    Path(run.node(0).results, "odd-link").symlink_to(tmp_path / "private")
    os.mkfifo(run.node(0).results + "/odd-pipe")  # nobody ever writes to it
    run.result_file(0, "odd\nname", "1")
    run.result_file(0, "odd/" * 40 + "depth", "1")
    archive = make_bundle(home, tmp_path / "b.tar.gz", run)
    assert not [name for name in names(archive) if "odd" in name]
    assert verify(archive).passed


def test_an_existing_file_stays_unless_it_is_forced(home: Path, tmp_path: Path) -> None:
    folder = bench_folder(home, measured(home))
    target = tmp_path / "b.tar.gz"
    target.write_text("precious")
    with pytest.raises(BundleError, match=r"exists already; name another file, or write over it with --force"):
        export(folder, home, target, None)
    assert target.read_text() == "precious"
    export(folder, home, target, None, force=True)
    assert verify(target).passed


def refused(home: Path, tmp_path: Path, folder: Path) -> str:
    """Why a bundle is not written; nothing of it may be left."""
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(BundleError) as caught:
        export(folder, home, place / "b.tar.gz", None)
    assert not list(place.iterdir())
    return str(caught.value)


def test_a_run_whose_record_is_gone(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    folder = bench_folder(home, run)
    os.rename(run.dir.path, run.dir.path + "-elsewhere")
    assert f"the record of run {run.dir.id} is gone" in refused(home, tmp_path, folder)


def test_a_run_that_has_not_ended(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    folder = bench_folder(home, run)
    os.unlink(run.dir.final)
    assert refused(home, tmp_path, folder) == f"run {run.dir.id} has not ended; `muster wait {run.dir.id}` waits for it"


def test_a_bench_without_a_result(home: Path, tmp_path: Path) -> None:
    folder = bench_folder(home, measured(home))
    (folder / "result.json").unlink()
    assert "holds no bench that has ended" in refused(home, tmp_path, folder)


def test_a_target_that_cannot_be(home: Path, tmp_path: Path) -> None:
    folder = bench_folder(home, measured(home))
    with pytest.raises(BundleError, match="is a directory; name a file such as"):
        export(folder, home, tmp_path, None)
    with pytest.raises(BundleError, match="is not a directory; make it first"):
        export(folder, home, tmp_path / "nowhere" / "b.tar.gz", None)


@settings(max_examples=20)
@given(
    rates=st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=4),
    name=st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/"), min_size=1, max_size=60),
    content=st.binary(max_size=3000),
)
def test_what_is_written_verifies(rates: list[float], name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch, "home")
        run = RunRecord(home, devices=len(rates), bench={})
        for rank, rate in enumerate(rates):
            run.result_file(0, f"throughput_{rank}.json", rate)
        if name not in (".", ".."):
            Path(run.node(0).logs, name).write_bytes(content)
        found = verify(make_bundle(home, Path(scratch, "b.tar.gz"), run))
        assert (found.problems, found.passed, found.signature) == ([], True, "none")


def test_records_that_contradict_each_other_are_not_exported(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    folder = bench_folder(home, run)
    result = folder / "result.json"
    result.write_text(result.read_text().replace("450.77798444604605", "460.77798444604605").replace("0.4.0", __version__))
    assert "contradict each other" in refused(home, tmp_path, folder)
