"""Records of a server's runs on this machine: fetched for reports, removed with their runs; and measurements of them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from muster.cli.rm_command import refuse_going
from muster.client import records
from muster.client.api import Server
from muster.client.runs import RemoteRun
from muster.launch.names import RunNotFound
from muster.launch.run_store import RunStore
from muster.records.files import delete_tree
from muster.records.layout import BenchDir, bench_dir, run_dir


def store_of(server: Server) -> RunStore:
    return RunStore(records.place(server))


def fetched(server: Server, names: Sequence[str]) -> tuple[list[str], RunStore]:
    """Fetches the records that names stand for; returns the names as they are found among them. Raises RunNotFound."""
    return [name if os.path.isfile(name) else _fetched(server, name) for name in names], store_of(server)


def _fetched(server: Server, name: str) -> str:
    if name != "last" and (bench := _bench(server, name)):
        return bench.id
    run = server.get(name)
    if not run.peek().state.ended:
        raise RunNotFound(f"{run.id} has not ended; `muster wait {run.id}` waits for it")
    records.fetch(server, run.id)
    store = store_of(server)
    made_for = (bench for bench in store.bench_ids() if run.id in _runs(store, bench_dir(store.home, bench)))
    return next(made_for, run.id) if name == "last" else run.id


def remove(server: Server, names: Sequence[str]) -> list[str]:
    """Removes runs, and measurements with their runs, at the server and here; returns their ids. Raises RunNotFound."""
    store = store_of(server)
    benches = [bench for name in names if name != "last" and (bench := _bench(server, name))]
    named = [name for name in names if name == "last" or not _bench(server, name)]
    found = {run.id: run for run in map(server.get, named)}
    for run_id in (run for bench in benches for run in _runs(store, bench)):
        found |= {run.id: run for run in _remaining(server, run_id)}
    refuse_going(list(found.values()))
    for run in found.values():
        run.remove()
        delete_tree(run_dir(store.home, run.id).path)
    for bench in benches:
        delete_tree(bench.path)
    return [*found, *(bench.id for bench in benches)]


def _remaining(server: Server, run: str) -> list[RemoteRun]:
    """A run of a measurement, unless it was removed before."""
    try:
        return [server.get(run)]
    except RunNotFound:
        return []


def _runs(store: RunStore, bench: BenchDir) -> list[str]:
    return [run.id for run in store.runs_of(bench)]


def _bench(server: Server, name: str) -> BenchDir | None:
    """The measurement of an id or a unique beginning of one."""
    store = store_of(server)
    known = store.bench_ids()
    matching = [name] if name in known else [bench for bench in known if name and bench.startswith(name)]
    return bench_dir(store.home, matching[0]) if len(matching) == 1 else None
