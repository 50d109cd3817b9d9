"""Times the server's store beside `rclone serve s3`, with s5cmd and Muster's own client, and says whether the aim holds.

It is measured as `muster serve` serves it (`serve`), with accounts in a database, and alone (`store`), with one user in memory.

rclone writes to the page cache and syncs nothing: what it answered may be lost with the power. Muster's store syncs file and
directory before it answers. So each is measured twice: on a disk, where Muster does more, and in memory (`--memory`), where
syncing is free and both promise the same.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import server
from muster.server.store.accounts import Bucket
from muster.server.store.serve import serve
from muster.server.store.store import Store
from storage import ACCESS, BIG_SIZE, BUCKET, SECRET, SMALL, Failed, Server, Step, program, served, steps, timed, write_sources

AIM = 0.5  # the speed of the store, as a part of rclone's
OWN = ("serve", "store")
KINDS = (*OWN, "rclone")
TOOLS = ("s5cmd", "muster")
MEASURED = (0, 1, 3, 4)  # steps of storage.py: small files and a large one, up and down


class OneUser:
    """Accounts of one user who may do everything."""

    def find_key(self, access_key: str) -> tuple[str, str] | None:
        return (SECRET, "user") if access_key == ACCESS else None

    def allowed(self, principal: object, bucket: str, action: str) -> bool:
        return True

    def find_bucket(self, name: str) -> Bucket | None:
        return Bucket(name) if name == BUCKET else None

    def list_buckets(self, principal: object) -> list[Bucket]:
        return [Bucket(BUCKET)]

    def prefixes(self, principal: object, bucket: str, action: str) -> list[str]:
        return [""]

    def create_bucket(self, principal: object, name: str, address: str, left: bool) -> bool:
        return False

    def delete_bucket(self, principal: object, name: str, address: str) -> None:
        return


def _serve(folder: str, ports: "multiprocessing.Queue[int]") -> None:
    listening = serve(("127.0.0.1", 0), None, Store(folder, OneUser(), floor=0))
    ports.put(listening.address[1])
    listening.wait()


@contextlib.contextmanager
def served_store(folder: Path) -> Iterator[Server]:
    """Muster's store in a process of its own."""
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_serve, args=(str(folder), ports))
    process.start()
    try:
        endpoint = f"http://127.0.0.1:{ports.get(timeout=30)}"
        env = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
        env |= {"MUSTER_STORAGE_ENDPOINT": endpoint, "S3_ENDPOINT_URL": endpoint}
        yield Server(endpoint, {**os.environ, **env})
    finally:
        if process.pid:
            os.kill(process.pid, signal.SIGKILL)
        process.join()


@contextlib.contextmanager
def served_platform(folder: Path, database: str | None) -> Iterator[Server]:
    """`muster serve`, with a key and a bucket of its administrator's."""
    folder.mkdir()
    with server.served(database, parent=str(folder)) as found, found.client() as client:
        made = client.post("/keys", json={"name": "bench"}).raise_for_status().json()
        env = {"AWS_ACCESS_KEY_ID": made["key"]["id"], "AWS_SECRET_ACCESS_KEY": made["secret"], "AWS_REGION": "us-east-1"}
        env = {**os.environ, **env, "MUSTER_STORAGE_ENDPOINT": found.store, "S3_ENDPOINT_URL": found.store}
        subprocess.run([program("s5cmd"), "mb", f"s3://{BUCKET}"], env=env, capture_output=True, check=not database)
        yield Server(found.store, env)
        client.delete(f"/keys/{made['key']['id']}").raise_for_status()


@dataclass
class Figures:
    """Seconds by step, tool and kind of server."""

    place: str
    seconds: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def median(self, step: str, tool: str, kind: str) -> float:
        return median(self.seconds[(step, tool, kind)])

    def ratio(self, step: str, tool: str, kind: str) -> float:
        return self.median(step, tool, "rclone") / self.median(step, tool, kind)


def measure(figures: Figures, work: list[Step], rounds: int, servers: dict[str, Server], folder: Path) -> None:
    """The rounds, each in the other order of servers. What a tool brought back must be what it was given."""
    for number in range(rounds):
        for step in work:
            for tool in TOOLS:
                for kind in KINDS if number % 2 else KINDS[::-1]:
                    found = timed(step.words(tool, number), servers[kind].env).seconds
                    figures.seconds.setdefault((step.name, tool, kind), []).append(found)
                    back = folder / f"back/{tool}-{number}"
                    if "down" in step.name:
                        name = "small" if "files" in step.name else "big"
                        if os.system(f"diff -r {folder}/{name} {back}/{name}"):
                            raise Failed(f"{tool} did not bring {name} back from {kind} as it was")
                        shutil.rmtree(back)
        for kind in KINDS:
            for large in (folder / kind).glob(f"**/{BUCKET}/*/big"):
                large.unlink()


def run(place: str, parent: str | None, rounds: int, database: str | None) -> Figures:
    figures = Figures(place)
    with tempfile.TemporaryDirectory(prefix="muster-store-", dir=parent) as temporary:
        folder = Path(temporary)
        write_sources(folder)
        (folder / "quarter").unlink()
        work = [steps(folder)[index] for index in MEASURED]
        with (
            served(folder / "rclone") as peer,
            served_store(folder / "store") as own,
            served_platform(folder / "serve", database) as platform,
        ):
            servers = {"rclone": peer, "store": own, "serve": platform}
            homes = {kind: {**one.env, "MUSTER_HOME": f"{folder}/home-{kind}"} for kind, one in servers.items()}
            measure(figures, work, rounds, {kind: Server(one.endpoint, homes[kind]) for kind, one in servers.items()}, folder)
    return figures


def as_table(found: list[Figures], rounds: int) -> str:
    lines = []
    for figures in found:
        lines += [figures.place, f"{'':24}{'client':10}" + "".join(f"{kind:>9}" for kind in (*KINDS, "speed", "alone"))]
        for step, tool in dict.fromkeys((step, tool) for step, tool, _ in figures.seconds):
            seconds = "".join(f"{figures.median(step, tool, kind):8.2f}s" for kind in KINDS)
            lines.append(f"{step:24}{tool:10}{seconds}" + "".join(f"{figures.ratio(step, tool, kind):9.2f}" for kind in OWN))
        lines.append("")
    lines.append(
        f"medians of {rounds} rounds, {os.cpu_count()} cores, {platform.machine()}; {SMALL:,} files, {BIG_SIZE >> 20} MB"
    )
    lines.append(f"at least {AIM} of rclone's speed: {'yes' if holds(found) else 'no'}")
    return "\n".join(lines)


def holds(found: list[Figures]) -> bool:
    return all(figures.ratio(step, tool, kind) >= AIM for figures in found for step, tool, _ in figures.seconds for kind in OWN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="measured runs of each (default: 5)")
    parser.add_argument("--folder", metavar="DIR", help="a directory on the disk (default: that of temporary files)")
    parser.add_argument("--memory", default="/dev/shm", metavar="DIR", help="a directory in memory (default: /dev/shm)")
    parser.add_argument("--database", metavar="URL", help="of PostgreSQL, for `muster serve`; it is filled (default: SQLite)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    began = time.monotonic()
    found = [run("disk: the store syncs, rclone does not", args.folder, args.rounds, args.database)]
    found.append(run("memory: syncing is free, so both promise the same", args.memory, args.rounds, args.database))
    if args.json:
        rows = [
            {"place": one.place, "step": step, "client": tool, "server": kind, "ratio": one.ratio(step, tool, kind)}
            for one in found
            for step, tool in dict.fromkeys((step, tool) for step, tool, _ in one.seconds)
            for kind in OWN
        ]
        print(json.dumps({"rounds": args.rounds, "aim": holds(found), "steps": rows}, indent=2))
    else:
        print(as_table(found, args.rounds))
        print(f"{time.monotonic() - began:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
