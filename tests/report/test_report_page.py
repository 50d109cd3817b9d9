"""The page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from made_results import made_result, made_samples, read

from browser import open_page
from muster.bench.report.formats import as_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WritePage = Callable[..., str]


@pytest.fixture
def write_page(tmp_path: Path) -> WritePage:
    """Writes the page of some results and returns its address."""

    def write(*results: dict[str, Any], language: str = "en", sampled: bool = True) -> str:
        samples = {run: nodes for result in results if sampled for run, nodes in made_samples(result).items()}
        path = tmp_path / "report.html"
        path.write_text(as_html.html(read(*results), samples, language), encoding="utf-8")
        return path.as_uri()

    return write


def three() -> Sequence[dict[str, Any]]:
    return made_result(repeats=3), made_result(rate=1850.0, repeats=3, seed=2), made_result("bert", seed=3, power=False)


@pytest.mark.long
def test_it_opens_without_errors_and_asks_the_network_for_nothing(browser: Browser, write_page: WritePage) -> None:
    url = write_page(made_result(slow=[5]))
    with open_page(browser, url) as (page, seen):
        assert page.locator(".huge").inner_text() == "13,618.45 samples/s"
        assert page.locator("svg.lines").count() == 10
        assert seen.errors == []
        assert seen.requests == [url]


@pytest.mark.long
def test_a_comparison_opens_without_errors(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(*three())) as (page, seen):
        assert "+4.43 %" in page.locator("table.comparison").inner_text()
        assert "more than the spread over repeats" in page.locator("table.comparison").inner_text()
        for summary in page.locator("details.full > summary").all():
            summary.click()
        assert page.locator("details.full .huge").all_inner_texts()[0] == "14,174.71 samples/s"
        assert seen.errors == []


def test_the_policy_of_the_page_allows_nothing_but_its_own_style_and_script(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result())) as (page, seen):
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')")
        page.evaluate("fetch('http://127.0.0.1:9/').catch(() => null)")
        assert page.evaluate("window.hacked") is None
        assert any("Content Security Policy" in error for error in seen.errors)


@pytest.mark.long
def test_what_users_wrote_is_text_and_nothing_else(browser: Browser, write_page: WritePage) -> None:
    evil = "</pre></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'"
    result = made_result(missing=[3], name=evil)
    run = result["runs"][0]
    result["verdict"]["problems"] = [evil]
    run["run"] = run["state"] = evil
    run["metrics"]["throughput"]["unit"] = result["metrics"]["accuracy"]["unit"] = evil
    run["metrics"]["throughput"]["ranks"][3]["reason"] = result["metrics"]["throughput"]["reason"] = evil
    run["metrics"][evil] = run["metrics"].pop("accuracy")
    run["phases"][evil] = run["phases"].pop("proc")
    result["provenance"]["nodes"][0].update(host=evil, os=evil, packages={evil: evil})
    result["provenance"].update(environment={evil: evil}, job={"args": [evil]}, command=[evil], user=evil)
    for results in ([result], [result, made_result()]):
        with open_page(browser, write_page(*results)) as (page, seen):
            for summary in page.locator("summary").all():
                summary.click()
            assert page.locator("main").inner_text().count("<script>window.hacked = 1</script>") > 10
            assert page.evaluate("window.hacked") is None
            assert page.locator("main img, main script").count() == 0
            assert seen.errors == []


@pytest.mark.long
def test_the_language_switch_works_without_a_network(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(slow=[5]))) as (page, _):
        assert page.locator(".badge").inner_text() == "✓ Passed"
        page.get_by_role("button", name="中文").click()
        assert page.locator(".badge").inner_text() == "✓ 通过"
        assert page.locator("html").get_attribute("lang") == "zh-CN"
        assert "落后者：rank 5" in page.locator("figure").first.inner_text()
        assert "Straggler" not in page.locator("main").inner_text()
        page.get_by_role("button", name="English").click()
        assert page.locator(".badge").inner_text() == "✓ Passed"


def test_a_chinese_page_is_chinese_from_the_start_and_without_scripts(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(), language="zh"), java_script_enabled=False) as (page, _):
        assert page.locator(".main h2").inner_text() == "吞吐量"
        phase = page.locator("svg .phase").last
        assert phase.locator(".zh").text_content() == "训练" and phase.locator(".en").is_hidden()


def test_without_scripts_everything_is_there(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(slow=[5])), java_script_enabled=False) as (page, _):
        box = page.locator("svg.bars rect.slow").first.bounding_box()
        assert box is not None and box["height"] > 50
        assert page.locator(".languages").is_hidden()


def test_a_straggler_is_seen_at_a_glance(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(slow=[5]))) as (page, _):
        bars = page.locator("figure").first.locator("rect.mark")
        heights = [bar.bounding_box() for bar in bars.all()]
        assert [bar.get_attribute("class") for bar in bars.all()] == ["mark"] * 5 + ["mark slow"] + ["mark"] * 2
        others = [box["height"] for rank, box in enumerate(heights) if box and rank != 5]
        assert heights[5] is not None and heights[5]["height"] == pytest.approx(0.7 * min(others), rel=0.03)
        assert page.locator("table.ranks tr.slow td").first.inner_text() == "5"


def test_a_rank_without_a_number_is_marked_and_explained(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(missing=[3]))) as (page, _):
        assert page.locator(".badge").first.inner_text() == "✗ Failed"
        assert "rank 3 of run" in page.locator(".problems").inner_text()
        assert page.locator(".huge").inner_text() == "no value"
        assert page.locator("rect.missing").first.get_attribute("data-en") == "rank 3, node 0, no value, it reported none"


def test_pointing_at_a_bar_tells_its_value(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(slow=[5]))) as (page, _):
        page.locator("rect.slow").first.hover()
        assert page.locator(".tip").inner_text() == "rank 5, node 1, 1,239.16 samples/s, -27.2 % to the mean, straggler"
        page.mouse.move(2, 2)
        assert page.locator(".tip").is_hidden()


def test_pointing_at_a_line_tells_time_and_values(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(nodes=1, per_node=2, slow=[1]))) as (page, _):
        chart = page.locator("svg.lines").first
        chart.scroll_into_view_if_needed()
        chart.hover()
        told = page.locator(".tip").inner_text().split("\n")
        assert re.fullmatch(r"\d+\.\d s", told[0])
        fast, slow = (float(line.split(": ")[1].split(" ")[0].replace(",", "")) for line in told[1:])
        assert told[1].startswith("rank 0: ") and slow == pytest.approx(0.7 * fast, rel=0.1)


def test_lines_can_be_read_with_the_keyboard(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result())) as (page, _):
        page.locator("svg.lines").first.focus()
        page.keyboard.press("ArrowRight")
        first = page.locator(".tip").inner_text()
        page.keyboard.press("ArrowRight")
        second = page.locator(".tip").inner_text()
        assert [first.split("\n")[0], second.split("\n")[0]] == ["20.0 s", "30.0 s"]
        page.keyboard.press("ArrowLeft")
        assert page.locator(".tip").inner_text() == first
        page.keyboard.press("Escape")
        assert page.locator(".tip").is_hidden()


def test_a_line_can_be_hidden(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result())) as (page, _):
        chart = page.locator("figure", has=page.locator(".legend")).first
        chart.get_by_role("button", name="rank 2").click()
        assert chart.locator(".series").nth(2).is_hidden() and chart.locator(".series").nth(1).is_visible()
        chart.get_by_role("button", name="rank 2").click()
        assert chart.locator(".series").nth(2).is_visible()


def background(page: Page) -> float:
    """How light the page is, from 0 to 255."""
    colour: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    found = [float(part) for part in re.findall(r"[\d.]+", colour)]
    return 255.0 if len(found) == 4 and found[3] == 0 else sum(found[:3]) / 3


def test_it_is_dark_where_the_reader_likes_it_and_light_on_paper(browser: Browser, write_page: WritePage) -> None:
    url = write_page(made_result())
    with open_page(browser, url, color_scheme="light") as (page, _):
        assert background(page) > 200
    with open_page(browser, url, color_scheme="dark") as (page, _):
        assert background(page) < 60
        page.emulate_media(media="print")
        assert background(page) > 200


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_texts_stand_out_from_their_ground(scheme: str, browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(missing=[3])), color_scheme=scheme) as (page, _):
        found = page.evaluate(
            """() => {
              const light = (colour) => {
                const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => part / 255).map(
                  (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const ground = (element) => {
                const colour = getComputedStyle(element).backgroundColor;
                return colour === 'rgba(0, 0, 0, 0)' && element.parentElement ? ground(element.parentElement) : colour;
              };
              const bad = [];
              for (const element of document.querySelectorAll('main p, main td, main th, main h3, main summary, .badge, li')) {
                if (!element.getClientRects().length) continue;
                const [one, other] = [light(getComputedStyle(element).color), light(ground(element))];
                const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
                if (ratio < 4.5) bad.push(`${element.className} ${element.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
              }
              return bad;
            }"""
        )
        assert found == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("results", "least"), [([made_result(nodes=4, per_node=8, slow=[9])], 3), (three(), 1)], ids=["one", "several"]
)
def test_it_prints_on_a4_without_losing_anything_at_the_edge(
    results: list[dict[str, Any]], least: int, browser: Browser, write_page: WritePage
) -> None:
    with open_page(browser, write_page(*results), viewport={"width": 703, "height": 1000}) as (page, _):
        paper = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type /Page\b", paper)) >= least
        width, height = (float(part) for part in re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", paper)[0])
        assert (round(width), round(height)) == (595, 842)
        page.emulate_media(media="print")  # the window is as wide as the paper between its margins
        figures = page.evaluate("[...document.querySelectorAll('figure')].map((one) => one.getBoundingClientRect().right)")
        assert max(figures) <= 703


def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(made_result(slow=[5])), viewport={"width": 360, "height": 700}) as (page, _):
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_every_drawing_has_a_name_and_every_table_headings(browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(*three())) as (page, _):
        unnamed = page.evaluate(
            """[...document.querySelectorAll('figure svg')].filter((svg) => {
              const caption = document.getElementById(svg.getAttribute('aria-labelledby'));
              return svg.getAttribute('role') !== 'img' || !caption || !caption.textContent.trim();
            }).length"""
        )
        assert unnamed == 0
        assert page.locator("table:not(:has(thead th))").count() == 0
        ids: list[str] = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids)) > 0


@pytest.mark.long
def test_thousands_of_ranks_make_a_curve_and_the_worst_twenty(browser: Browser, tmp_path: Path) -> None:
    result = made_result(nodes=1024, per_node=8, slow=[4001])
    text = as_html.html(read(result), made_samples(result, devices=8, seconds=10))
    assert len(text) < 2_000_000
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    with open_page(browser, (tmp_path / "report.html").as_uri()) as (page, seen):
        assert page.locator("path.curve").count() == 2
        assert page.locator("figure").nth(1).locator("rect.mark").count() == 20
        assert (page.locator("figure").nth(1).locator("rect.slow").get_attribute("data-en") or "").startswith("rank 4001,")
        assert page.locator("table.ranks tbody tr").count() == 20
        assert seen.errors == []


@pytest.mark.parametrize(
    "result",
    [
        made_result(nodes=1, per_node=1, power=False),
        made_result(nodes=8, per_node=8, slow=[17, 33], repeats=3),
        made_result(nodes=4, per_node=8, scope="server"),
        made_result(runs=[], metrics={}, targets=[], limits=[], problems=["0 of 3 repeats were run"]),
    ],
    ids=["one rank", "64 ranks", "servers", "no runs"],
)
def test_every_kind_of_result_has_a_page(result: dict[str, Any], browser: Browser, write_page: WritePage) -> None:
    with open_page(browser, write_page(result, sampled=bool(result["runs"]))) as (page, seen):
        assert page.locator(".badge").first.is_visible()
        assert seen.errors == []
