"""Verifying finds whatever does not follow: a wrong sum, a file too many, a digit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bundles import bench_folder, edit, finish, forged, make_bundle, measured, packed, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st
from records import RunRecord, make

from muster import __version__
from muster.bench.bundle import strict_json
from muster.bench.bundle.check import verify
from muster.bench.errors import BundleError
from muster.records.layout import run_dir

RUN = "runs/resnet-20260919-000000-abcd"
NODE = f"{RUN}/attempts/1/nodes/0"


@pytest.fixture
def bundle(home: Path, tmp_path: Path) -> Path:
    return make_bundle(home, tmp_path / "b.tar.gz")


def problems(bundle: Path, tmp_path: Path, change: Callable[[Path], object], sums: bool = True) -> list[str]:
    """What is found after a change; something must be."""
    found = verify(forged(bundle, tmp_path, change, sums))
    assert not found.passed
    return found.problems


def test_a_good_bundle(bundle: Path) -> None:
    found = verify(bundle)
    assert (found.passed, found.problems, found.signature, found.signed_by) == (True, [], "none", None)
    assert found.result is not None
    assert found.result.metrics["throughput"].value == 450.77798444604605 + 450.38567065252664
    assert found.bench is not None
    assert found.bench["id"] == "resnet-20260919-000000-bnch"


def test_a_bundle_that_was_unpacked_and_packed_with_tar_is_still_good(bundle: Path, tmp_path: Path) -> None:
    folder = unpacked(bundle, tmp_path / "there")
    words = ["tar", "czf", str(tmp_path / "again.tar.gz"), "-C", str(folder.parent)]
    for name in (folder.name, f"./{folder.name}"):
        subprocess.run([*words, name], check=True)
        assert verify(tmp_path / "again.tar.gz").problems == []


def test_the_digest_is_that_of_the_content(bundle: Path, tmp_path: Path) -> None:
    again = packed(unpacked(bundle, tmp_path / "there"), tmp_path / "again.tar.gz")
    assert again.read_bytes() != bundle.read_bytes()
    assert verify(again).digest == verify(bundle).digest


def test_every_digit_of_the_result_counts(home: Path) -> None:
    """Flips each digit of result.json in turn: in numbers, texts and names."""
    folder = bench_folder(home, measured(home))
    bench = json.loads((folder / "bench.json").read_text())
    follows = strict_json.loads(json.dumps(make(bench, [run_dir(str(home), Path(RUN).name)])))
    text = (folder / "result.json").read_text()
    assert list(strict_json.differences(strict_json.loads(text), follows)) == []
    places = [place for place, letter in enumerate(text) if letter in "0123456789"]
    assert len(places) > 500
    for place in places:
        flipped = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        try:
            assert list(strict_json.differences(strict_json.loads(flipped), follows)), flipped[place - 40 : place + 40]
        except strict_json.NotExact:
            continue  # a zero before other digits


@pytest.mark.long
@settings(max_examples=25)
@given(st.data())
def test_a_changed_digit_in_a_bundle_with_fitting_sums_is_found(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        bundle = make_bundle(Path(scratch, "home"), Path(scratch, "b.tar.gz"))

        def flip(folder: Path) -> None:
            path = folder / "result.json"
            text = path.read_text()
            place = data.draw(st.sampled_from([at for at, letter in enumerate(text) if letter in "123456789"]))
            digit = data.draw(st.sampled_from([digit for digit in "123456789" if digit != text[place]]))
            path.write_text(text[:place] + digit + text[place + 1 :])

        assert problems(bundle, Path(scratch), flip)


@pytest.mark.long
@settings(max_examples=60)
@given(st.data())
def test_a_damaged_file_never_passes_with_other_content(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        bundle = make_bundle(Path(scratch, "home"), Path(scratch, "b.tar.gz"))
        whole = verify(bundle)
        content = bytearray(bundle.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.floats(0, 1, exclude_max=True))
            content[int(place * len(content))] ^= 1 << data.draw(st.integers(0, 7))
        bundle.write_bytes(content)
        try:
            found = verify(bundle)
        except BundleError:
            return
        assert not found.passed or (found.digest, found.result) == (whole.digest, whole.result)


def test_a_number_in_the_result_that_does_not_follow(bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        edit(folder / "result.json", lambda data: data["runs"][0]["metrics"]["throughput"]["ranks"][1].update(value=451.2))

    where = "runs[0].metrics.throughput.ranks[1].value"
    found = problems(bundle, tmp_path, change)
    assert found[0] == f"{where}: 451.2 stands there, 450.38567065252664 follows from the records"
    assert found[1:] == [f"result.json: was made by Muster 0.4.0, and this is {__version__}, which may count differently"]


@pytest.mark.parametrize(
    "path",
    [
        f"{NODE}/results/throughput_0.json",
        f"{NODE}/metrics.jsonl",
        f"{NODE}/system.json",
        f"{NODE}/results/record-0.jsonl",
        f"{RUN}/job.json",
        f"{RUN}/run.json",
        f"{RUN}/events.jsonl",
        "bench.json",
    ],
)
def test_a_digit_in_a_raw_record_with_fitting_sums(bundle: Path, tmp_path: Path, path: str) -> None:
    """The first digit of a long number, so that it is not a format or an index."""

    def change(folder: Path) -> None:
        text = (folder / path).read_text()
        number = RAW[Path(path).name]
        assert number in text
        (folder / path).write_text(text.replace(number, str((int(number[0]) + 1) % 10) + number[1:]))

    assert problems(bundle, tmp_path, change)


RAW = {
    "throughput_0.json": "450.77798444604605",
    "metrics.jsonl": "41.785714285714285",
    "system.json": "17179869184",
    "record-0.jsonl": "1790000020.0",
    "job.json": "2,",  # nodes
    "run.json": "1789999999.0",
    "events.jsonl": "1790000110.0",
    "bench.json": "1789999998.0",
}


def test_a_timer_whose_throughput_is_not_that_of_its_samples_and_seconds(home: Path, tmp_path: Path) -> None:
    """The forger computes everything anew that follows from it; what it follows from gives it away."""
    run = RunRecord(home, RUN.removeprefix("runs/"), bench={})
    run.timed(0, 125.0)
    assert verify(make_bundle(home, tmp_path / "true.tar.gz", run)).passed
    record = Path(run.node(0).results, "record-0.jsonl")
    record.write_text(record.read_text().replace('"value": 125.0', '"value": 126.0'))
    finish(run)
    found = verify(make_bundle(home, tmp_path / "forged.tar.gz", run))
    where = f"{RUN}/attempts/1/nodes/0/results/record-0.jsonl"
    assert found.problems == [f"{where}: 126.0 stands there, 125.0 follows from its samples and seconds"]


@pytest.mark.parametrize("path", ["result.json", f"{NODE}/logs/rank-0.log", f"{NODE}/results/throughput_0.json"])
def test_a_file_that_was_changed(bundle: Path, tmp_path: Path, path: str) -> None:
    def change(folder: Path) -> None:
        (folder / path).write_bytes((folder / path).read_bytes() + b" ")

    assert problems(bundle, tmp_path, change, sums=False) == [
        f"{path}: is not the file that the manifest lists, its size or SHA-256 differs"
    ]


def test_a_file_too_many_and_one_too_few(bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (folder / NODE / "logs/rank-7.log").write_text("hello")
        (folder / NODE / "logs/rank-0.log").unlink()

    assert problems(bundle, tmp_path, change, sums=False) == [
        f"{NODE}/logs/rank-7.log: is not in the manifest",
        f"{NODE}/logs/rank-0.log: is missing, though the manifest lists it",
    ]


def test_a_file_that_no_record_has(bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "README").write_text("trust me")

    assert problems(bundle, tmp_path, change) == ["README: is no part of a record"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "is no list of files"),
        ("[]", "is no list of files"),
        ('{"files": [1]}', "is no list of files"),
        ('{"files": [], "files": []}', 'has the key "files" twice'),
        ("not json", "is not JSON: expecting value in line 1"),
    ],
)
def test_a_manifest_that_is_none(bundle: Path, tmp_path: Path, text: str, reason: str) -> None:
    found = problems(bundle, tmp_path, lambda folder: (folder / "manifest.json").write_text(text), sums=False)
    assert found[0] == f"manifest.json: {reason}"


def test_a_manifest_in_another_order(bundle: Path, tmp_path: Path) -> None:
    change = lambda folder: edit(folder / "manifest.json", lambda data: data["files"].reverse())  # noqa: E731
    assert problems(bundle, tmp_path, change, sums=False) == ["manifest.json: is not written as Muster writes it"]


def test_a_key_that_stands_there_twice(bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        for path in ("result.json", f"{RUN}/run.json"):
            text = (folder / path).read_text()
            (folder / path).write_text('{"id": "first", "run": "first", "id": 0, "run": 0,' + text.lstrip()[1:])
        lines = (folder / NODE / "metrics.jsonl").read_text()
        (folder / NODE / "metrics.jsonl").write_text(lines + '{"t": 1, "t": 2}\n')

    found = problems(bundle, tmp_path, change)
    for path, key in (("result.json", "id"), (f"{RUN}/run.json", "run"), (f"{NODE}/metrics.jsonl", "t")):
        assert any(problem.startswith(f"{path}: ") and "twice" in problem for problem in found), (path, key, found)


def test_a_line_that_a_crash_cut_off_is_nobodys_fault(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    with open(run.node(0).results + "/record-0.jsonl", "a") as file:
        file.write('{"t": 17900')
    assert verify(make_bundle(home, tmp_path / "b.tar.gz", run)).problems == []


def nested(path: str) -> Callable[[Path], object]:
    return lambda folder: (folder / path).write_text('{"a":' * 100_000 + "1" + "}" * 100_000)


NESTED = ["result.json", "bench.json", f"{RUN}/job.json", f"{NODE}/system.json"]


@pytest.mark.parametrize("path", NESTED)
def test_json_that_is_nested_too_deeply(bundle: Path, tmp_path: Path, path: str) -> None:
    assert any("nested too deeply" in problem for problem in problems(bundle, tmp_path, nested(path)))


def test_a_line_that_is_nested_too_deeply_is_passed_over(bundle: Path, tmp_path: Path) -> None:
    lines = '{"t": 1790000020.0, "a":' + '{"a":' * 100_000 + "1" + "}" * 100_001 + "\n"

    def change(folder: Path) -> None:
        for path in (f"{NODE}/metrics.jsonl", f"{NODE}/results/record-0.jsonl"):
            (folder / path).write_text((folder / path).read_text() + lines)

    assert verify(forged(bundle, tmp_path, change, True)).problems == []


@pytest.mark.long
@settings(max_examples=40)
@given(st.data())
def test_whatever_stands_in_the_records_is_told_and_never_a_crash(data: st.DataObject) -> None:
    junk = st.sampled_from([None, True, -1, 0, 1.5, 2**70, "", "text", [], [1], {}, {"a": 1}])
    with tempfile.TemporaryDirectory() as scratch:
        bundle = make_bundle(Path(scratch, "home"), Path(scratch, "b.tar.gz"))

        def change(folder: Path) -> None:
            documents = sorted(path for path in folder.rglob("*.json") if path.name != "manifest.json")
            path = data.draw(st.sampled_from(documents))
            value = json.loads(path.read_text())
            if isinstance(value, dict) and data.draw(st.booleans()):
                value[data.draw(st.sampled_from(sorted(value)))] = data.draw(junk)
            else:
                value = data.draw(junk)
            path.write_text(json.dumps(value))

        verify(forged(bundle, Path(scratch), change))


# -- the bench and its runs


def listing(*runs: str) -> Callable[[Path], object]:
    return lambda folder: edit(folder / "bench.json", lambda data: data.update(runs=list(runs)))


def test_a_run_that_is_not_there(bundle: Path, tmp_path: Path) -> None:
    found = problems(bundle, tmp_path, listing(Path(RUN).name, "../../../etc"))
    assert found == ['bench.json: runs: lists "../../../etc", whose record is missing']


def test_a_run_that_counts_twice(bundle: Path, tmp_path: Path) -> None:
    name = Path(RUN).name
    assert problems(bundle, tmp_path, listing(name, name)) == [f'bench.json: runs: lists "{name}" twice']


def test_a_run_that_the_bench_does_not_know(bundle: Path, tmp_path: Path) -> None:
    change = lambda folder: shutil.copytree(folder / RUN, folder / "runs/another")  # noqa: E731
    assert problems(bundle, tmp_path, change) == ["runs/another: is not among the runs of bench.json"]


def test_a_bundle_under_another_name(bundle: Path, tmp_path: Path) -> None:
    folder = unpacked(bundle, tmp_path / "there")
    found = verify(packed(folder.rename(folder.with_name("mine")), tmp_path / "mine.tar.gz"))
    assert found.problems == [f'bench.json: id: "{folder.name}" stands there, the folder is called "mine"']


@pytest.mark.parametrize("name", ["job.json", "run.json", "final.json"])
def test_a_run_without_what_every_run_has(bundle: Path, tmp_path: Path, name: str) -> None:
    assert problems(bundle, tmp_path, lambda folder: (folder / RUN / name).unlink()) == [f"{RUN}/{name}: is missing"]


def test_the_final_record_of_a_run_has_to_follow_too(bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        edit(folder / RUN / "final.json", lambda data: data["result"]["throughput"].update(value=902.0))

    found = problems(bundle, tmp_path, change)
    assert f"{RUN}/final.json: result.throughput.value: 902.0 stands there, 901.1636550985727 follows from the records" in found


def test_a_run_that_failed_and_says_that_it_succeeded(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    edit(Path(run.node(1).exit), lambda data: data["processes"][0].update(code=3))
    finish(run)
    found = verify(make_bundle(home, tmp_path / "b.tar.gz", run))
    assert found.problems == [f"{RUN}/final.json: says that the run succeeded, and yet rank 1 on node 1 exited with code 3"]


def test_a_process_that_did_not_end_as_its_agent_saw_it(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    event = {"time": run.end, "event": "exit", "process": "rank-1", "rank": 1, "code": 3, "signal": None}
    Path(run.node(1).events).write_text(json.dumps(event) + "\n")
    found = verify(make_bundle(home, tmp_path / "b.tar.gz", run))
    assert found.problems == [f"{RUN}/attempts/1/nodes/1/exit.json: rank-1: code: 0 stands there, 3 in events.jsonl"]


def test_a_failed_run_can_be_bundled_and_verifies(home: Path, tmp_path: Path) -> None:
    run = measured(home)
    finish(run, succeeded=False)
    found = verify(make_bundle(home, tmp_path / "b.tar.gz", run))
    assert found.problems == []
    assert found.result is not None
    assert not found.result.verdict.passed


def test_repeats_of_another_job_are_told_in_the_result(home: Path, tmp_path: Path) -> None:
    first = measured(home)
    other = measured(home, "resnet-20260919-000100-efgh", parameters={"batch": "64"})
    found = verify(make_bundle(home, tmp_path / "b.tar.gz", first, other))
    assert (found.passed, found.result and found.result.verdict.passed) == (True, False)


@pytest.mark.parametrize("size", [{"nodes": 10**12}, {"devices": 10**12}, {"ps": 10**12}, {"nodes": -1}])
def test_a_job_of_a_size_that_keeps_the_reader_busy(bundle: Path, tmp_path: Path, size: dict[str, int]) -> None:
    found = problems(bundle, tmp_path, lambda folder: edit(folder / RUN / "job.json", lambda data: data.update(size)))
    assert len(found) == 1
    assert "cannot be counted" in found[0]


def test_nothing_is_left_of_a_verification(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    assert verify(bundle).passed
    assert os.listdir(scratch) == []
