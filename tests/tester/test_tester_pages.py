"""The pages: list, one result, comparison, ranking, CSV; in both languages, and harmless whatever a bundle says."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from bundles import make_bundle
from records import RunRecord
from submissions import planned, program, sent

from browser import open_page
from muster.server.results.result_row import ResultRow
from muster.server.results.web import csv_files
from tester_server import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A tester with results: three of one model, of which one failed, and one of another with hostile texts in it."""
    folder = tmp_path_factory.mktemp("filled")
    tester = Served(folder, []).start()
    plan = planned(tester, model="resnet50_v1.5")
    for number, (rate, name) in enumerate([(100.0, "lab-slow"), (300.0, "lab-fast"), (0.0, "lab-broken")]):
        send(tester, tester.token(name), folder, number, rate, plan=vars(plan))
    hostile = {"note": EVIL, "deep": [{"a": None}, "=1+1"]}
    send(tester, tester.token("lab-odd"), folder, 9, 5.0, job=EVIL, model=EVIL, system=hostile)
    yield tester
    tester.kill()


def send(
    tester: Served, token: str, folder: Path, number: int, rate: float, job: str = "=train", model: str = "a CPU", **fields: Any
) -> None:
    run = RunRecord(folder / f"{number}", f"job-20261115-000000-{number}abcd", bench={}, devices=2, name=job)
    for rank in range(2):
        run.result_file(0, f"throughput_{rank}.json", rate)
        run.log(rank, EVIL)
    run.phase(0, "proc", 20.0, 100.0)
    run.system(0, cpu={"model": model})
    run.samples(0, [{"t": float(second), "cpu": 50.0, "mem": 2**30} for second in range(0, 110, 5)])
    path = make_bundle(folder / f"{number}", folder / f"{number}.tar.gz", run, **fields)
    with program(tester, token) as http:
        assert sent(http, path).json()["accepted"]


@pytest.fixture
def http(filled: Served) -> Iterator[httpx.Client]:
    with program(filled, filled.token(role="read")) as opened:
        yield opened


def rows(http: httpx.Client, path: str) -> list[dict[str, str]]:
    answer = http.get(path)
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


@pytest.mark.long
def test_only_what_passed_is_ranked_and_the_best_comes_first(http: httpx.Client) -> None:
    ranked = rows(http, "/api/ranking.csv?model=resnet50_v1.5")
    places = [(row["rank"], row["submitter"], row["value"]) for row in ranked]
    assert places == [("1", "lab-fast", "600.0"), ("2", "lab-slow", "200.0")]
    page = http.get("/ranking", params={"model": "resnet50_v1.5"}).text
    assert page.index("lab-fast") < page.index("lab-slow")
    assert "lab-broken" not in page and "lab-odd" not in page


def test_the_list_is_searched_filtered_and_sorted(http: httpx.Client) -> None:
    def found(**query: str) -> list[str]:
        listed = [row["submitter"] for row in rows(http, "/api/results.csv?" + str(httpx.QueryParams(query)))]
        page = http.get("/", params=query).text
        assert all(name in page for name in listed)
        assert page.count('type="checkbox"') == len(listed)
        return listed

    assert found() == ["lab-odd", "lab-broken", "lab-fast", "lab-slow"]
    assert found(model="resnet50_v1.5") == ["lab-broken", "lab-fast", "lab-slow"]
    assert found(search="fast") == ["lab-fast"]
    assert found(search="resnet50 slow") == ["lab-slow"]
    assert found(search="%") == []
    assert found(search="_") == found(search="v1.5")  # only the model has one
    assert found(sort="value")[:3] == ["lab-fast", "lab-slow", "lab-odd"]
    assert found(sort="'; DROP TABLE results") == found()


def test_spreadsheets_run_nothing(http: httpx.Client) -> None:
    listed = rows(http, "/api/results.csv")
    assert {row["name"] for row in listed} == {"'=train", EVIL}
    assert listed[1]["passed"] == "no"


@pytest.mark.parametrize("first", [*"=+-@\t\r\n＝＋－＠"])
def test_no_spreadsheet_takes_a_name_for_a_formula(first: str) -> None:
    nothing: dict[str, Any] = dict.fromkeys(ResultRow.__dataclass_fields__)
    text = csv_files.csv_table(csv_files.LISTED, [{**nothing, "received": 0.0, "name": f"{first}1"}])
    assert [row["name"] for row in csv.DictReader(io.StringIO(text, newline=""))] == [f"'{first}1"]


@pytest.mark.parametrize(
    "path", ["/", "/results/4", "/ranking", "/refused", "/plans", "/login", "/nothing", "/compare?result=1&result=4"]
)
def test_every_page_is_escaped_and_guarded(http: httpx.Client, path: str) -> None:
    answer = http.get(path, headers={"Accept": "text/html"})
    assert answer.headers["content-type"].startswith("text/html")
    assert EVIL not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "https://" not in answer.text.replace("https://www.w3.org", "")


def test_one_result_shows_who_sent_it_and_what_it_ran_on(http: httpx.Client) -> None:
    page = http.get("/results/4").text
    for shown in ("lab-odd", "not signed", "deep[0].a", "=1+1", "/api/results/4/bundle", "&lt;script&gt;"):
        assert shown in page
    assert "gave no description" in http.get("/results/1").text
    assert http.get("/results/99").status_code == 404
    assert http.get("/results/x").status_code == 400


def test_a_comparison_needs_two_to_compare(http: httpx.Client) -> None:
    assert http.get("/compare").status_code == 400
    assert http.get("/compare?result=1").status_code == 400
    assert http.get("/compare?result=1&result=99").status_code == 404
    assert http.get("/compare?result=1&result=2").status_code == 200


@pytest.mark.parametrize(
    ("wanted", "language"),
    [("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"), ("en-GB,zh;q=0.5", "en"), ("fr,zh;q=0.5", "zh-CN"), ("", "en")],
)
def test_the_browser_says_which_language_comes_first(http: httpx.Client, wanted: str, language: str) -> None:
    assert f'<html lang="{language}" ' in http.get("/", headers={"Accept-Language": wanted}).text


def log_in(page: Page, tester: Served) -> None:
    page.fill("input[name=token]", tester.token(role="read"))
    page.click("main button")
    page.wait_for_url(tester.url + "/")


@pytest.mark.long
def test_a_browser_shows_all_of_it_without_a_complaint(browser: Browser, filled: Served) -> None:
    with open_page(browser, filled.url + "/", locale="en-US") as (page, seen):
        assert page.url.startswith(filled.url + "/login")
        log_in(page, filled)
        assert page.locator("tbody tr").count() == 4
        page.select_option("select[name=model]", "resnet50_v1.5")
        page.click("form.filter button")
        assert page.locator("tbody tr").count() == 3
        for box in page.locator("input[type=checkbox]").all()[1:]:
            box.check()
        page.click("form.card button")
        assert page.locator("h1:visible").inner_text() == "Comparison"
        page.goto(filled.url + "/results/2")
        assert "600" in page.locator(".huge").inner_text()
        assert page.locator("svg").count() > 1
        with page.expect_download() as download:
            page.click("text=Download the bundle")
        assert download.value.suggested_filename.endswith(".tar.gz")
        page.goto(filled.url + "/ranking")
        page.click("header button[data-language=zh-CN]")
        assert page.locator("h1").inner_text() == "排行榜"
        page.goto(filled.url + "/")
        assert page.locator("h1").inner_text() == "测试结果"  # the choice is remembered
        page.click("header form button")
        page.wait_for_url("**/login")
        page.goto(filled.url + "/ranking")
        assert "/login" in page.url
    assert seen.errors == []
    assert all(url.startswith((filled.url, "data:")) for url in seen.requests)
