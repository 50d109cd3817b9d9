"""`muster report`: of which results, in which form, and where the page goes."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pexpect
import pytest
from bundles import bench_folder, edit, forged, make_bundle, measured
from made_results import made_result, read

from conftest import Muster, WriteJob
from muster.bench.report.formats import as_csv, as_markdown

BENCH = "resnet-20260919-000000-bnch"
RUN = "resnet-20260919-000000-abcd"
TOTAL = 901.1636550985727  # what the two ranks of `measured` did together


@pytest.fixture
def bench(home: Path) -> Path:
    """A bench of one run, as `muster bench` leaves it."""
    return bench_folder(home, measured(home))


def test_it_tells_the_result_in_short_and_writes_the_page_beside_the_record(bench: Path, muster: Muster) -> None:
    done = muster("report", BENCH)
    assert done.returncode == 0
    assert done.stdout.startswith(f"✓ Passed  {BENCH}\n")
    assert "901.16 samples/s (sum over 2 ranks on 2 nodes)" in done.stdout
    assert "▁" in done.stdout and "rank 1" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == f"muster: page {bench / 'report.html'}\n"
    assert "901.16" in (bench / "report.html").read_text("utf-8")


def test_a_plain_run_has_a_report_too(home: Path, muster: Muster) -> None:
    run = measured(home)
    done = muster("report", RUN)
    assert done.returncode == 0, done.stderr
    assert "901.16 samples/s" in done.stdout
    assert Path(run.dir.path, "report.html").exists()


def test_the_last_run_stands_for_the_bench_that_it_was_made_for(bench: Path, home: Path, muster: Muster) -> None:
    assert json.loads(muster("report", "last", "--json").stdout)["results"][0]["id"] == BENCH
    measured(home, "bert-20260920-000000-abcd")
    assert json.loads(muster("report", "last", "--json").stdout)["results"][0]["id"] == "bert-20260920-000000-abcd"


def test_a_unique_beginning_of_an_id_is_enough(bench: Path, muster: Muster) -> None:
    assert json.loads(muster("report", "resnet-20260919-000000-b", "--json").stdout)["results"][0]["id"] == BENCH
    assert json.loads(muster("report", "resnet-20260919-000000-a", "--json").stdout)["results"][0]["id"] == RUN
    done = muster("report", "resnet")
    assert done.returncode == 2
    assert f"`resnet` could be 2 benches and runs ({RUN}, {BENCH}); write more of the id" in done.stderr


def test_json_is_the_result_to_the_last_digit(bench: Path, muster: Muster) -> None:
    told = json.loads(muster("report", BENCH, "--json").stdout)
    assert told["results"] == [json.loads((bench / "result.json").read_text())]
    assert told["results"][0]["metrics"]["throughput"]["value"] == TOTAL
    assert told["comparison"] == []


def test_csv_has_a_row_for_every_value(bench: Path, muster: Muster) -> None:
    rows = list(csv.DictReader(io.StringIO(muster("report", BENCH, "--csv").stdout)))
    rates = [row for row in rows if row["quantity"] == "throughput"]
    assert [(row["level"], row["node"], row["rank"], row["value"], row["source"]) for row in rates] == [
        ("result", "", "", str(TOTAL), ""),
        ("run", "", "", str(TOTAL), ""),
        ("node", "0", "", "450.77798444604605", ""),
        ("node", "1", "", "450.38567065252664", ""),
        ("rank", "0", "0", "450.77798444604605", "throughput_0.json"),
        ("rank", "1", "1", "450.38567065252664", "throughput_1.json"),
    ]
    energy = next(row for row in rows if row["quantity"] == "joules")
    assert energy["value"] == "" and energy["unit"] == "J" and energy["reason"]


def test_a_spreadsheet_takes_no_text_for_a_formula() -> None:
    result = made_result(name="=HYPERLINK(1)")
    row = next(csv.DictReader(io.StringIO(as_csv.csv(read(result)))))
    assert row["name"] == "'=HYPERLINK(1)"


def test_markdown_holds_what_others_wrote_as_text() -> None:
    text = as_markdown.markdown(read(made_result(name="a | b\n# <b>c</b>", problems=["[x](http://y) `z`"])))
    assert text.startswith("# a \\| b \\# \\<b\\>c\\</b\\>\n")
    assert "- \\[x\\](http://y) \\`z\\`\n" in text


def test_markdown_is_printed_or_written(bench: Path, muster: Muster, tmp_path: Path) -> None:
    printed = muster("report", BENCH, "--md").stdout
    assert "| Throughput | 901.16 samples/s (sum over 2 ranks on 2 nodes) |" in printed
    done = muster("report", BENCH, "--md", "-o", tmp_path / "r.md")
    assert done.stdout == "" and (tmp_path / "r.md").read_text("utf-8") == printed
    assert not (bench / "report.html").exists()


def test_the_page_goes_where_it_is_asked_for(bench: Path, muster: Muster, tmp_path: Path) -> None:
    muster("report", BENCH, "--csv", "--html", tmp_path / "page.html")
    assert (tmp_path / "page.html").exists() and not (bench / "report.html").exists()


def test_several_are_compared_with_the_first(bench: Path, home: Path, muster: Muster, tmp_path: Path) -> None:
    faster = measured(home, "resnet-20260919-000001-abcd")
    for rank in range(2):
        faster.result_file(rank, f"throughput_{rank}.json", 900.0)
    done = muster("report", BENCH, faster.dir.id)
    assert "+99.7 %, better, more than the spread over ranks (" in done.stdout
    page = tmp_path / f"report-{BENCH}-and-1-more.html"
    assert f"muster: page {page.name}\n" in done.stderr and "+99.7 %" in page.read_text("utf-8")
    told = json.loads(muster("report", BENCH, faster.dir.id, "--json").stdout)["comparison"]
    rate = next(one for one in told if one["quantity"] == "throughput" and one["result"] == faster.dir.id)
    assert rate["difference"] == pytest.approx(1800.0 / TOTAL - 1)
    assert rate["exceeds_spread"] is True


def test_a_bundle_is_reported_with_its_samples(home: Path, muster: Muster, tmp_path: Path) -> None:
    bundle = make_bundle(home, tmp_path / "resnet.tar.gz")
    done = muster("report", bundle, MUSTER_HOME=str(tmp_path / "elsewhere"))
    assert done.returncode == 0 and "901.16 samples/s" in done.stdout
    assert "CPU of the machine" in done.stdout
    assert (tmp_path / f"report-{BENCH}.html").exists()


def test_a_forged_bundle_is_reported_as_one(home: Path, muster: Muster, tmp_path: Path) -> None:
    bundle = make_bundle(home, tmp_path / "resnet.tar.gz")

    def better(folder: Path) -> None:
        edit(folder / "result.json", lambda result: result["metrics"]["throughput"].update(value=9e9))

    changed = forged(bundle, tmp_path / "scratch", better)
    done = muster("report", changed)
    assert done.stdout.startswith("✗ Failed")
    assert f"muster: {changed} does not verify: metrics.throughput.value: 9000000000.0 stands there" in done.stderr
    page = (tmp_path / f"report-{BENCH}.html").read_text("utf-8")
    assert "does not verify: metrics.throughput.value" in page and "✗" in page


def test_a_result_file_is_reported(bench: Path, muster: Muster) -> None:
    done = muster("report", bench / "result.json")
    assert done.returncode == 0 and "901.16 samples/s" in done.stdout


@pytest.mark.long
def test_the_language_is_that_of_the_terminal_unless_it_is_set(bench: Path, muster: Muster) -> None:
    assert muster("report", BENCH, LC_ALL="zh_CN.UTF-8").stdout.startswith("✓ 通过")
    assert '<html lang="zh-CN">' in (bench / "report.html").read_text("utf-8")
    assert muster("report", BENCH, "--language", "en", LC_ALL="zh_CN.UTF-8").stdout.startswith("✓ Passed")
    assert muster("report", BENCH, "--language", "zh", LC_ALL="C").stdout.startswith("✓ 通过")


def test_lines_are_as_wide_as_the_terminal_and_coloured(bench: Path, command: list[str]) -> None:
    terminal = pexpect.spawn(command[0], [*command[1:], "report", BENCH], dimensions=(50, 60), encoding="utf-8", timeout=60)
    shown = terminal.read()
    terminal.close()
    assert "\x1b[32m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    lines = [line for line in plain.splitlines() if not line.startswith("muster:")]
    assert max(map(len, lines)) <= 60


def damaged(result: dict[str, Any]) -> dict[str, Any]:
    result["runs"][0]["metrics"]["throughput"]["ranks"] = [None]
    return result


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "no run is called `nothing`"),
        (["torn.json"], "torn.json is neither a bundle nor a result.json"),
        (["other.json"], "other.json holds no result of the format muster-result/1"),
        (["damaged.json"], "damaged.json is damaged"),
        (["cut.tar.gz"], "cut.tar.gz is cut off"),
        ([BENCH, "-o", "x"], "-o goes with --csv, --md or --json"),
        ([BENCH, "--json", "--csv"], "--json and --csv print different things"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_reported_is_said_in_a_sentence(
    words: list[str], said: str, bench: Path, muster: Muster, tmp_path: Path
) -> None:
    (tmp_path / "torn.json").write_text('{"format": "muster-res')
    (tmp_path / "other.json").write_text('{"format": "muster-bench/1"}')
    (tmp_path / "damaged.json").write_text(json.dumps(damaged(json.loads((bench / "result.json").read_text()))))
    (tmp_path / "cut.tar.gz").write_bytes(make_bundle(tmp_path / "other", tmp_path / "b.tar.gz").read_bytes()[:400])
    done = muster("report", *words)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_run_that_goes_on_has_no_report_yet(write_job: WriteJob, muster: Muster) -> None:
    job = write_job({"command": "sleep 60"})
    run = json.loads(muster("run", job, "--detach", "--json").stdout)["run"]
    done = muster("report", run)
    muster("stop", run, "--now")
    assert done.returncode == 2
    assert f"{run} has not ended; `muster wait {run}` waits for it" in done.stderr


@pytest.mark.long
def test_a_real_run_of_two_nodes_is_reported(write_job: WriteJob, muster: Muster) -> None:
    script = """
        import os, time
        from muster import record
        with record.phase("proc"):
            for step in range(3):
                record.metric("throughput", 100.0 + step, unit="samples/s", step=step)
                time.sleep(0.6)
        if os.environ["MUSTER_RANK"] == "0":
            record.metric("accuracy", 0.75)
        """
    fields = {"nodes": 2, "framework": "pytorch", "sample": "0.1s", "bench": {"targets": {"accuracy": 0.7}}}
    job = write_job(fields, **{"train.py": script})
    bench = muster("bench", job)
    assert bench.returncode == 0, bench.stderr
    done = muster("report", "last")
    assert done.returncode == 0, done.stderr
    assert "Accuracy of at least 0.7" in done.stdout and "CPU of the machine" in done.stdout
    page = Path(done.stderr.removeprefix("muster: page ").strip()).read_text("utf-8")
    assert page.count('<svg class="lines"') >= 3


def test_an_installed_wheel_writes_pages(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=root, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    code = "import muster; from muster.bench.report.formats.as_html import page; print(muster.__file__); print(page('', 'x'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "installed", capture_output=True, text=True, check=True)
    where, page = done.stdout.split("\n", 1)
    assert where.startswith(str(tmp_path))
    assert "<style>:root" in page and "aria-pressed" in page
