"""Measures `muster serve` with a long queue: its memory, its lists, a submission and a decision, with 100,000 runs that wait.

The waiting runs are copies of one that was submitted: they are put into the database while the server is stopped. No engine is
simulated: the pool is full with one run that really runs, so nothing of the queue starts meanwhile.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import create_engine, insert, select

from muster.server.core.tables import runs
from server import PASSWORD, Served, restarted, served

AIMS = {"memory": "1 GB", "lists": "100 ms at the 99th percentile"}
BATCH = 1000
PAGES = (
    "/runs?limit=100",
    "/runs?limit=100&state=pending",
    "/runs?limit=100&user=admin",
    "/runs?limit=100&search=-777",
    "/runs?limit=100&search=nothing",
    "/runs?limit=100&sort=priority&order=asc",
    "/runs?limit=100&scope=mine",
    "/queue?limit=100",
    "/queue?limit=100&offset=90000",
    "/pools",
    "/pools/local",
)
LIMITS = (None, 600.0, 3600.0, 86400.0)  # of the jobs, in turns


def fill(url: str, count: int) -> None:
    """Copies the newest waiting run."""
    engine = create_engine(url)
    with engine.begin() as connection:
        row = dict(connection.execute(select(runs).order_by(runs.c.number.desc()).limit(1)).mappings().one())
        changed = row.pop("changed")
        number, name = row.pop("number"), row["id"]
        assert number
        made = (
            {
                **row,
                "id": f"{name}-{one}",
                "key": None,
                "priority": 100 + one % 100,
                "preemptible": one % 7 == 0,
                "need": {**row["need"], "limit": LIMITS[one % len(LIMITS)]},
                "changed": changed + 1 + one,
                "created": row["created"] + one / 1000,
            }
            for one in range(count)
        )
        batch: list[dict[str, Any]] = []
        for one in made:
            batch.append(one)
            if len(batch) == BATCH:
                connection.execute(insert(runs), batch)
                batch.clear()
        if batch:
            connection.execute(insert(runs), batch)
    engine.dispose()


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def timed(client: httpx.Client, path: str, rounds: int) -> dict[str, float]:
    took = []
    for _ in range(rounds):
        begun = time.monotonic()
        client.get(path).raise_for_status()
        took.append(1000 * (time.monotonic() - begun))
    return {"median": round(statistics.median(took), 1), "p99": round(sorted(took)[int(len(took) * 0.99)], 1)}


def user(server: Served, administrator: httpx.Client, name: str, project: str | None) -> httpx.Client:
    """Makes a user, in a project where one is named; returns a client for the lists."""
    administrator.post("/users", json={"name": name, "password": PASSWORD}).raise_for_status()
    if project is not None:
        administrator.put(f"/projects/{project}/members/{name}", json={"role": "member"}).raise_for_status()
    client = httpx.Client(base_url=f"{server.url}/api/v1", headers={"Origin": server.url}, timeout=120, trust_env=False)
    client.post("/login", json={"name": name, "password": PASSWORD}).raise_for_status()
    return client


def settled(client: httpx.Client) -> float:
    """Waits until the queue has been decided once; returns the seconds."""
    begun = time.monotonic()
    while client.get("/queue", params={"limit": 1}).json()["next"] is None:
        time.sleep(0.1)
    return time.monotonic() - begun


def measure(count: int, rounds: int, database: str | None) -> dict[str, Any]:
    with served(database, "cpu = 1\n") as server:
        with server.client() as client:
            running = server.submit(client, "device: cpu\ncommand: sleep 100000\ngrace: 0s")
            server.submit(client, "device: cpu\ncommand: sleep 100000")
        server = restarted(server, lambda url: fill(url, count))
        with server.client() as client:
            first = settled(client)
            time.sleep(5)
            found: dict[str, Any] = {"waiting": count, "first_decision_s": round(first, 1)}
            askers = {
                "administrator": client,
                "member": user(server, client, "member", "bench"),
                "stranger": user(server, client, "stranger", None),
            }
            hidden = {("stranger", "/pools/local")}
            found["lists_ms"] = {
                who: {page: timed(asker, page, rounds) for page in PAGES if (who, page) not in hidden}
                for who, asker in askers.items()
            }
            begun = time.monotonic()
            server.submit(client, "device: cpu\ncommand: sleep 1")
            found["submission_ms"] = round(1000 * (time.monotonic() - begun), 1)
            found["memory_mb"] = round(memory(server.process.pid))
            client.post(f"/runs/{running}/stop", json={"now": True})
            worst = max(page["p99"] for lists in found["lists_ms"].values() for page in lists.values())
            return {**found, "holds": found["memory_mb"] < 1000 and worst < 100}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--database", help="the URL of an empty PostgreSQL database; SQLite without it")
    given = parser.parse_args()
    print(json.dumps({"aims": AIMS, **measure(given.count, given.rounds, given.database)}, indent=2))


if __name__ == "__main__":
    main()
