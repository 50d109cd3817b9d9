"""Many submitters at once: nothing is lost, nothing is counted twice, and the best comes first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bundles import make_bundle
from records import RunRecord
from submissions import planned, program, result_count, sent

from muster.tester.client import Client
from tester_server import Serve

MANY, THREADS = 204, 8


def measured(folder: Path, number: int) -> Path:
    run = RunRecord(folder / f"{number}", f"many-20261115-000000-{number}abcd", bench={})
    run.result_file(0, "throughput_0.json", 1000 + number)
    return make_bundle(folder / f"{number}", folder / f"{number}.tar.gz", run)


@pytest.mark.long
def test_hundreds_of_results_from_eight_at_a_time(serve: Serve, tmp_path: Path) -> None:
    tester = serve()
    plan = planned(tester, model="many")
    bundles = [measured(tmp_path, number) for number in range(MANY)]
    tokens = [tester.token(f"lab-{index}") for index in range(THREADS)]

    def submit(index: int) -> list[bool]:
        with Client(tester.url, tokens[index]) as client:
            return [client.send(path, plan.test_id).accepted for path in bundles[index::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        assert [all(accepted) for accepted in pool.map(submit, range(THREADS))] == [True] * THREADS
    assert result_count(tester) == MANY
    assert len(list((tester.data / "bundles").glob("*.tar.gz"))) == MANY
    with program(tester, tokens[0]) as http:
        pages = [http.get("/api/results", params={"page": page}).json() for page in (1, 2, 3)]
        assert [len(page) for page in pages] == [101, 101, 4]  # each but the last says that there is another
        lines = http.get("/api/ranking.csv").text.splitlines()
        page = http.get("/ranking").text
        assert (page.count('href="/results/'), "CSV file:" in page) == (100, True)
    heads = lines[0].split(",")
    assert [float(line.split(",")[heads.index("value")]) for line in lines[1:]] == [1000.0 + n for n in reversed(range(MANY))]


@pytest.mark.long
def test_one_bundle_sent_by_eight_at_once_counts_once(serve: Serve, tmp_path: Path) -> None:
    tester = serve()
    path = measured(tmp_path, 1)
    tokens = [tester.token(f"lab-{index}") for index in range(THREADS)]

    def submit(token: str) -> int:
        with program(tester, token) as http:
            return sent(http, path).status_code

    with ThreadPoolExecutor(THREADS) as pool:
        assert sorted(pool.map(submit, tokens)) == [200] + [409] * (THREADS - 1)
    assert result_count(tester) == 1


@pytest.mark.long
def test_one_submitter_at_eight_machines_gets_one_verdict(serve: Serve, tmp_path: Path) -> None:
    tester = serve()
    path, token = measured(tmp_path, 1), tester.token()

    def submit(_: int) -> tuple[int | None, list[str]]:
        with Client(tester.url, token) as client:
            verdict = client.send(path)
            return verdict.number, verdict.problems

    with ThreadPoolExecutor(THREADS) as pool:
        assert [*pool.map(submit, range(THREADS))] == [(1, [])] * THREADS
    assert result_count(tester) == 1
