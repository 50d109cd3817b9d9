"""Data of a URL: a copy for each run and URL, which the last rank of the node that ends takes away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# MoXing itself is ModelArts' own; all that is asked of it here is a copy.
MOXING = """
class file:
    @staticmethod
    def copy_parallel(url, folder):
        if url.startswith("obs://nowhere/"):
            raise RuntimeError("there is nothing at " + url)
        print("fetches", url, flush=True)
        open(folder + "/train", "w").write(url)
"""
RANK = """
import sys
from common import labels, places
from common.labels import Common

def main():
    folder = places.data(Common(data_url=sys.argv[1]))
    assert folder == places.data(Common(data_url=sys.argv[1]))
    print((folder / "train").read_text(), flush=True)
    sys.stdin.read()
    return 0

labels.run(main)
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "moxing.py").write_text(MOXING)
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def rank(cache: Path, url: str, **env: str) -> subprocess.Popen[str]:
    paths = f"{cache.parent}:{ROOT / 'workloads'}"
    own = {**os.environ, "PYTHONPATH": paths, "DLS_LOCAL_CACHE_PATH": str(cache), **env}
    words = [sys.executable, "-c", RANK, url]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=own, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def said(process: subprocess.Popen[str], lines: int) -> list[str]:
    assert process.stdout
    return [process.stdout.readline().strip() for _ in range(lines)]


def test_runs_of_other_data_on_one_machine_do_not_meet(cache: Path) -> None:
    urls = ("obs://one/data", "obs://two/data")
    ranks = [rank(cache, url, MUSTER_RUN=run) for run in ("a", "b") for url in urls]
    assert [said(process, 2) for process in ranks] == [[f"fetches {url}", url] for url in (*urls, *urls)]
    for process in ranks:
        process.communicate(timeout=60)
    assert os.listdir(cache) == []


def test_what_cannot_be_fetched_is_one_sentence(cache: Path) -> None:
    process = rank(cache, "obs://nowhere/data", MUSTER_RUN="a")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2 and told.count("\n") == 1
    assert told.startswith("obs://nowhere/data cannot be copied to ")
    assert "there is nothing at obs://nowhere/data. Check" in told


def test_the_copy_is_there_until_the_last_rank_of_the_node_ends_and_survives_a_kill(cache: Path) -> None:
    url, world = "obs://one/data", {"MUSTER_RUN": "a", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    ranks = [rank(cache, url, **world, RANK=number, LOCAL_RANK=number) for number in "10"]
    assert (said(ranks[1], 2), said(ranks[0], 1)) == ([f"fetches {url}", url], [url])
    ranks[1].communicate(timeout=60)
    assert len(os.listdir(cache)) == 2  # the data, and its mark
    ranks[0].kill()
    ranks[0].communicate(timeout=60)
    again = rank(cache, url, MUSTER_RUN="a")  # the next attempt
    assert said(again, 1) == [url]
    again.communicate(timeout=60)
    assert os.listdir(cache) == []
