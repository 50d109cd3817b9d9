"""Measures `muster serve`: submissions, the first line, many runs at once, many followers, whether it grows, and its store.

Everything runs on this machine, clients included, so both ends share its processors. `--database` measures PostgreSQL: each
aim in a new database of its own, so that none finds what others left.
"""

import argparse
import asyncio
import base64
import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import make_url

PASSWORD = "a password for measuring"
AIMS = {
    "submissions": "200 a second",
    "first line": "0.3 s more than `muster run`",
    "supervisor": "25 MB",
    "followers": "99 % within 500 ms",
    "growth": "none",
    "store": "half of rclone's speed, where both promise the same",
}


@dataclass
class Served:
    url: str
    token: str
    process: subprocess.Popen[bytes]
    code: str = ""
    folder: Path = Path()
    database: str | None = None
    store: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=self.headers, timeout=120, trust_env=False)

    def submit(self, client: httpx.Client, job: str) -> str:
        answer = client.post("/runs", json={"job": job, "code": self.code, "project": "bench"})
        answer.raise_for_status()
        return str(answer.json()["run"])


@contextlib.contextmanager
def served(database: str | None, pool: str = "", parent: str = "/var/tmp") -> Iterator[Served]:
    """A server of its own with one administrator, a project and code without files."""
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-", dir=parent))
    (folder / "data").mkdir(mode=0o700)
    (folder / "data" / "config.toml").write_text(f"[pools.local]\ntrusted = true\n{pool}")
    process, said = _started(folder, database)
    found = Served("", "", process, "", folder, database)
    try:
        _prepare(found, said)
        yield found
    finally:
        found.process.terminate()
        found.process.wait()
        _end_supervisors(folder)
        time.sleep(0.5)
        shutil.rmtree(folder, ignore_errors=True)


def _end_supervisors(folder: Path) -> None:
    """Kills what supervises runs below a folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"supervise\0{folder}".encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


def _started(folder: Path, database: str | None) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Starts the server of a folder; returns what it says when it listens."""
    words = ["--database", database] if database else []
    command = [sys.executable, "-m", "muster", "serve", "--json", "--port", "0", "--data", str(folder / "data"), *words]
    environment = {**os.environ, "MUSTER_HOME": str(folder / "home")}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
    assert process.stdout is not None
    text = b""
    while not text.endswith(b"}\n"):
        line = process.stdout.readline()
        if not line:
            raise SystemExit((folder / "log").read_text())
        text += line
    return process, json.loads(text)


def restarted(server: Served, meanwhile: Callable[[str], None]) -> Served:
    """Stops a server, has something done with the URL of its database, and starts it again."""
    server.process.terminate()
    server.process.wait()
    meanwhile(server.database or f"sqlite:///{server.folder / 'data' / 'server.db'}")
    server.process, said = _started(server.folder, server.database)
    server.url = str(said["url"])
    return server


def _prepare(found: Served, said: dict[str, Any]) -> None:
    """Makes the administrator, a project and code without files; a database that was filled before has the first two."""
    found.url, found.store = str(said["url"]), str(said["store"])
    url = found.url
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Origin": url}, trust_env=False, timeout=60) as http:
        if said["first_administrator"]:
            sent = {"token": said["first_administrator"].split("token=")[1], "name": "admin", "password": PASSWORD}
            http.post("/set-password", json=sent).raise_for_status()
        login = http.post("/login", json={"name": "admin", "password": PASSWORD}).raise_for_status()
        http.headers["X-CSRF-Token"] = login.json()["csrf"]
        found.token = http.post("/tokens", json={"name": "bench", "scope": "write"}).json()["secret"]
    with found.client() as client:
        made = client.post("/projects", json={"name": "bench"})
        if made.status_code != 409:
            made.raise_for_status()
        found.code = client.post("/code", json={"entries": []}).json()["code"]


def submissions(database: str | None, count: int, senders: int = 4) -> dict[str, Any]:
    """Submissions a second that are committed, while the pool is busy with one run."""
    with served(database, "runs = 1\n") as server:
        parts = urlsplit(server.url)
        body = {"job": "command: sleep 1000", "code": server.code, "project": "bench"}
        text = json.dumps(body).encode()

        def send(first: int) -> None:
            connection = http.client.HTTPConnection(str(parts.hostname), parts.port)
            for number in range(first, count, senders):
                headers = {**server.headers, "Content-Type": "application/json", "Idempotency-Key": f"k{number}"}
                connection.request("POST", "/api/v1/runs", text, headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status != 201:
                    raise SystemExit(said.decode())
            connection.close()

        send(count - 1)  # the first submission makes directories
        threads = [threading.Thread(target=send, args=(number,)) for number in range(senders)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = count / (time.monotonic() - begun)
        return {"per_second": round(rate), "holds": rate >= 200}


def first_line(database: str | None, rounds: int) -> dict[str, Any]:
    """Seconds from the start of `muster run --server` to its first line, and of `muster run` on the same machine, in turns."""
    through, alone = [], []
    with served(database) as server, tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        environment, folder = {**os.environ, "MUSTER_HOME": home}, Path(home, "job")
        folder.mkdir()
        (folder / "job.yaml").write_text("command: echo hello\n")
        login = [sys.executable, "-m", "muster", "login", server.url, "--token-stdin"]
        subprocess.run(login, input=server.token.encode(), env=environment, check=True, stdout=subprocess.DEVNULL)
        for number in range(rounds + 1):
            taken = _first_line(["--server", "--project", "bench"], folder, environment)
            local = _first_line([], folder, environment)
            if number:  # the first packs the agent
                through.append(taken)
                alone.append(local)
    more = statistics.median(through) - statistics.median(alone)
    return {"server_s": round(statistics.median(through), 3), "run_s": round(statistics.median(alone), 3), "holds": more <= 0.3}


def _first_line(options: list[str], folder: Path, environment: dict[str, str]) -> float:
    command = [sys.executable, "-m", "muster", "run", "job.yaml", *options]
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=folder, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit(f"{' '.join(command)} printed nothing")
        taken = time.monotonic() - begun
        process.communicate()
    return taken


def many_runs(database: str | None, count: int) -> dict[str, Any]:
    """The memory of a supervisor (its proportional share) while many runs go on at once."""
    with served(database, f"runs = {count}\n") as server, server.client() as client:
        begun = time.monotonic()
        for _ in range(count):
            server.submit(client, "command: sleep 600\ngrace: 0s\nsample: 0")
        while _count(client, "running") < count:
            if time.monotonic() - begun > 600:
                raise SystemExit(f"only {_count(client, 'running')} of {count} runs are up after 10 minutes")
            time.sleep(1)
        up = time.monotonic() - begun
        found = client.get("/runs", params={"limit": 20}).json()["items"]
        pids = [int(client.get(f"/runs/{run['run']}").json()["handle"].split(":")[0]) for run in found]
        each = statistics.median(_memory(pid) for pid in pids)
        own = _memory(server.process.pid)
        return {
            "runs": count,
            "up_s": round(up, 1),
            "supervisor_mb": round(each, 1),
            "server_mb": round(own),
            "holds": each <= 25,
        }


def _count(client: httpx.Client, state: str) -> int:
    found, cursor = 0, None
    while True:
        page = client.get("/runs", params={"state": state, "limit": 500, **({"cursor": cursor} if cursor else {})}).json()
        found += len(page["items"])
        cursor = page["next"]
        if cursor is None:
            return found


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def followers(database: str | None, runs: int, each: int, seconds: int) -> dict[str, Any]:
    """How long lines take from the rank to followers, by the time that is written in each line."""
    with served(database) as server, server.client() as client:
        script = f"import time\nend = time.time() + {seconds + 30}\n"
        script += "while time.time() < end:\n    print(time.time())\n    time.sleep(0.01)\n"
        text = json.dumps({"command": ["python3", "-uc", script], "sample": 0, "grace": 0})
        started = [server.submit(client, text) for _ in range(runs)]
        while _count(client, "running") < runs:
            time.sleep(0.5)
        late = asyncio.run(_followed(server, started * each, seconds))
        for run in started:
            client.post(f"/runs/{run}/stop", json={"now": True})
    if not late:
        return {"followers": runs * each, "lines": 0, "median_ms": None, "p99_ms": None, "holds": False}
    late.sort()
    share = late[int(len(late) * 0.99)]
    half = late[len(late) // 2]
    return {
        "followers": runs * each,
        "lines": len(late),
        "median_ms": round(half * 1000),
        "p99_ms": round(share * 1000),
        "holds": share <= 0.5,
    }


async def _followed(server: Served, runs: list[str], seconds: int) -> list[float]:
    late: list[float] = []
    end = time.time() + seconds

    async def follow(run: str) -> None:
        path = f"{server.url}/api/v1/runs/{run}/follow"
        async with (
            httpx.AsyncClient(headers=server.headers, timeout=120, trust_env=False) as client,
            client.stream("POST", path, json={"tail": 0}) as answer,
        ):
            async for line in answer.aiter_lines():
                now = time.time()
                if now > end:
                    return
                for text in base64.b64decode(json.loads(line).get("data", "")).split():
                    late.append(now - float(text))

    await asyncio.gather(*map(follow, runs))
    return late


def growth(database: str | None, count: int) -> dict[str, Any]:
    """The memory, threads and descriptors of the server after a tenth of many runs, and after all."""
    with served(database) as server, server.client() as client:
        marks = []
        for number in range(count):
            run = server.submit(client, "command: 'true'\nsample: 0")
            client.get(f"/runs/{run}/wait", params={"seconds": 60})
            if number + 1 in (count // 10, count):
                pid = server.process.pid
                marks.append((_memory(pid), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))))
        (before, files, threads), (after, more_files, more_threads) = marks
        grown = after - before
        holds = grown < 0.1 * before and more_files <= files + 5 and more_threads <= threads + 5
        return {"runs": count, "mb": [round(before), round(after)], "files": [files, more_files], "holds": holds}


def store(database: str | None, rounds: int) -> dict[str, Any]:
    """The speed of the server's store as a part of rclone's, in memory, where syncing is free: the least of all steps."""
    import store as stores  # which starts servers of this module

    figures = stores.run("memory", "/dev/shm", rounds, database)
    ratios = {(step, tool): figures.ratio(step, tool, "serve") for step, tool, _ in figures.seconds}
    (step, tool), least = min(ratios.items(), key=lambda found: found[1])
    return {"rounds": rounds, "least": round(least, 2), "of": f"{step} by {tool}", "holds": least >= stores.AIM}


@contextlib.contextmanager
def own_database(url: str | None) -> Iterator[str | None]:
    """A new database on the PostgreSQL of a URL, which is deleted at the end; none for SQLite, where each server has a file."""
    if url is None:
        yield None
        return
    name = f"muster_bench_{secrets.token_hex(6)}"
    _execute(url, f"CREATE DATABASE {name}")
    try:
        yield make_url(url).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(url, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(url: str, statement: str) -> None:
    import psycopg

    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(statement.encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="of PostgreSQL, whose user may make databases; without it SQLite")
    parser.add_argument("--only", action="append", choices=list(AIMS), help="one of the measurements; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the counts that the aims name")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    scale = given.scale
    measured: dict[str, Callable[[str | None], dict[str, Any]]] = {
        "submissions": lambda database: submissions(database, int(2000 * scale)),
        "first line": lambda database: first_line(database, max(3, int(11 * scale))),
        "supervisor": lambda database: many_runs(database, int(300 * scale)),
        "followers": lambda database: followers(database, int(50 * scale), 10, 20),
        "growth": lambda database: growth(database, int(1000 * scale)),
        "store": lambda database: store(database, max(1, int(3 * scale))),
    }
    found = {}
    for name in given.only or list(AIMS):
        with own_database(given.database) as database:
            found[name] = measured[name](database)
        if not given.json:
            figures = ", ".join(f"{key} {value}" for key, value in found[name].items() if key != "holds")
            print(f"{name:12} {figures}; aim: {AIMS[name]}: {'holds' if found[name]['holds'] else 'MISSED'}", flush=True)
    if given.json:
        print(json.dumps(found))
    return 0 if all(one["holds"] for one in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
