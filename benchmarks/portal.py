"""Measures the portal in Chromium, with 100,000 jobs in the database: how soon pages can be used, and how live the console is.

The jobs are copies of one that waits (`long_queue.py`); one job really runs and writes lines that hold the time. Server and
browser share the processors of this machine. It needs `make portal` and `make browser`.
"""

import argparse
import json
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from long_queue import fill, settled
from muster.server.pages import assets
from server import PASSWORD, Served, restarted, served

AIMS = {"interactive_ms": 1000, "first_paint_ms": 300, "line_ms": 200, "script_kb": 150}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WRITES = "import time\nwhile True:\n    print('at', time.time(), flush=True)\n    time.sleep(0.05)\n"
PAGES = (
    *("/", "/jobs", "/jobs?scope=all", "/jobs?state=failed", "/jobs?search=bench&sort=name"),
    *(f"/jobs/RUN{tab}" for tab in ("", *map("/{}".format, "console metrics files endpoints events file compare".split()))),
    *("/jobs/ENDED", "/jobs/ENDED/result", "/submit", "/cluster", "/results", "/ranking", "/projects", "/projects/bench"),
    *("/admin/users", "/admin/audit", "/account"),
)
# The first moment after its scripts ran in which the page has nothing to do; and the scripts it loaded, as they were sent.
INTERACTIVE = "() => new Promise((resolve) => requestIdleCallback(() => resolve(performance.now())))"
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
SCRIPTS = """() => Object.values(Object.fromEntries(performance.getEntriesByType('resource')
  .filter((one) => /\\.m?js$/.test(new URL(one.name).pathname)).map((one) => [one.name, one.encodedBodySize])))
  .reduce((sum, size) => sum + size, 0)"""
WATCH = """() => {
  window.late = [];
  const seen = new Set();
  const look = () => {
    for (const row of document.querySelectorAll('[data-screen] .row')) {
      const at = /at (\\d+\\.\\d+)/.exec(row.textContent)?.[1];
      if (!at || seen.has(at)) continue;
      seen.add(at);
      if (Number(at) * 1000 > begun) window.late.push(Date.now() - Number(at) * 1000);
    }
  };
  const begun = Date.now();
  look();
  const changes = new MutationObserver(() => requestAnimationFrame(look));
  changes.observe(document.querySelector('[data-screen]'), { childList: true, subtree: true, characterData: true });
}"""


@dataclass(frozen=True)
class PageSpeed:
    page: str
    interactive_ms: int  # the median
    slowest_ms: int
    first_paint_ms: int | None
    script_kb: int

    @property
    def holds(self) -> bool:
        painted = not self.page.startswith("/jobs/") or (self.first_paint_ms or 0) <= AIMS["first_paint_ms"]
        return self.interactive_ms <= AIMS["interactive_ms"] and self.script_kb <= AIMS["script_kb"] and painted


@contextmanager
def logged_in(browser: Browser, url: str) -> Iterator[BrowserContext]:
    """The browser of the owner of all jobs; each has an empty cache."""
    context = browser.new_context(base_url=url)
    try:
        answer = context.request.post("/api/v1/login", data={"name": "admin", "password": PASSWORD}, headers={"Origin": url})
        if not answer.ok:
            raise SystemExit(answer.text())
        yield context
    finally:
        context.close()


def speed(browser: Browser, url: str, path: str, name: str, rounds: int) -> PageSpeed:
    """Opens a page in browsers that know nothing of it."""
    times, paints, size = [], [], 0
    for _ in range(rounds):
        with logged_in(browser, url) as context:
            page = context.new_page()
            answer = page.goto(path)
            if answer is None or not answer.ok:
                raise SystemExit(f"{path} answers {answer and answer.status}")
            times.append(page.evaluate(INTERACTIVE))
            paints.append(page.evaluate(PAINT))
            size = page.evaluate(SCRIPTS)
    painted = [paint for paint in paints if paint is not None]
    paint = round(statistics.median(painted)) if painted else None
    return PageSpeed(name, round(statistics.median(times)), round(max(times)), paint, round(size / 1000))


def console(browser: Browser, url: str, run: str, seconds: int) -> dict[str, Any]:
    """How long lines take from the rank, by the time that is written in each, to the frame in which the console has them."""
    with logged_in(browser, url) as context:
        page = context.new_page()
        page.goto(f"/jobs/{run}/console")
        page.locator("[data-screen] .row").first.wait_for()
        page.evaluate(WATCH)
        page.wait_for_timeout(1000 * seconds)
        late = sorted(page.evaluate("window.late"))
    if not late:
        return {"lines": 0, "median_ms": None, "p99_ms": None, "holds": False}
    worst = late[int(len(late) * 0.99)]
    return {
        "lines": len(late),
        "median_ms": round(statistics.median(late)),
        "p99_ms": round(worst),
        "holds": worst <= AIMS["line_ms"],
    }


def prepared(server: Served, client: httpx.Client) -> tuple[str, str]:
    """Returns the ids of a run that has ended and of one that goes on; a third waits, of which copies are made."""
    ended = server.submit(client, "name: ended\ndevice: cpu\ncommand: echo done\n")
    client.get(f"/runs/{ended}/wait", params={"seconds": 60})
    job = {"name": "writes", "device": "cpu", "command": ["python3", "-uc", WRITES], "grace": "0s"}
    running = server.submit(client, json.dumps(job))
    server.submit(client, "name: bench\ndevice: cpu\ncommand: sleep 100000\n")
    return ended, running


def measure(count: int, rounds: int, seconds: int, database: str | None) -> tuple[list[PageSpeed], dict[str, Any]]:
    program = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if program is None or not assets.complete():
        raise SystemExit("it needs Chromium and the libraries of the pages: `make browser portal` installs both")
    with served(database, "cpu = 1\n") as server:
        with server.client() as client:
            ended, running = prepared(server, client)
        server = restarted(server, lambda url: fill(url, count))
        with server.client() as client, sync_playwright() as playwright:
            settled(client)
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            try:
                line = console(browser, server.url, running, seconds)
                paths = {page: page.replace("RUN", running).replace("ENDED", ended) for page in PAGES}
                pages = [speed(browser, server.url, path, name, rounds) for name, path in paths.items()]
            finally:
                browser.close()
                client.post(f"/runs/{running}/stop", json={"now": True})
    return pages, line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="jobs in the database")
    parser.add_argument("--rounds", type=int, default=5, help="how often each page is opened")
    parser.add_argument("--seconds", type=int, default=20, help="how long the console is watched")
    parser.add_argument("--database", help="the URL of an empty PostgreSQL database; SQLite without it")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    pages, line = measure(given.count, given.rounds, given.seconds, given.database)
    holds = line["holds"] and all(page.holds for page in pages)
    if given.json:
        found = [{**asdict(page), "holds": page.holds} for page in pages]
        print(json.dumps({"jobs": given.count, "aims": AIMS, "pages": found, "console": line, "holds": holds}))
        return 0 if holds else 1
    print(f"{'page':32} {'interactive':>11} {'slowest':>8} {'first paint':>11} {'script':>7}")
    for page in pages:
        paint = "–" if page.first_paint_ms is None else f"{page.first_paint_ms} ms"
        times = f"{page.interactive_ms:>8} ms {page.slowest_ms:>5} ms"
        print(f"{page.page:32} {times} {paint:>11} {page.script_kb:>4} KB{'' if page.holds else '  MISSED'}")
    print(f"a line in the console after {line['median_ms']} ms, 99 % within {line['p99_ms']} ms ({line['lines']} lines)")
    print(f"aims: {AIMS} (first paint: of a job's pages): {'hold' if holds else 'MISSED'}")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
