"""Records of runs as agents and samplers leave them, written by hand: what a test wants to find lies where a run puts it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.bench import result
from muster.bench.model.result import BenchRecord
from muster.job import Job
from muster.job.bench import KNOWN, Bench, Metric
from muster.records.layout import AttemptDir, NodeDir, RunDir

START = 1_790_000_000.0  # when the attempt started; ranks follow after PREPARED seconds
PREPARED = 10.0
LASTED = 110.0  # from the start of the attempt to its end


class RunRecord:
    """One run of one attempt that has ended, in `<home>/runs/<id>`."""

    def __init__(
        self,
        home: Path,
        id: str = "resnet-20260919-000000-abcd",
        start: float = START,
        lasted: float = LASTED,
        state: str = "succeeded",
        reason: str = "all ranks succeeded",
        bench: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Mapping[str, Any]] | None = None,
        **job: Any,
    ) -> None:
        self.start, self.end = start, start + lasted
        self.job = Job(
            **{
                **{"name": "resnet", "framework": "pytorch", "boot": "train.py", "device": "cpu", **job},
                "bench": Bench(**bench) if bench is not None else None,
                "metrics": {name: _metric(name, fields) for name, fields in (metrics or {}).items()},
            }
        )
        self.dir = RunDir(str(home / "runs" / id))
        self._write_run(state, reason)
        for node in range(self.job.nodes):
            self._write_node(node)

    @property
    def attempt(self) -> AttemptDir:
        return self.dir.attempt(1)

    def node(self, index: int) -> NodeDir:
        return self.attempt.node(index)

    # -- what ranks reported

    def result_file(self, node: int, name: str, text: object) -> None:
        """A file in the node's MUSTER_RESULTS."""
        _write(Path(self.node(node).results, name), str(text))

    def output_file(self, node: int, path: str, text: object, stale: bool = False, output: str = "train_url") -> None:
        """A file in an output of the job, as the agent of `node` lists and copies it."""
        listing = Path(self.node(node).results, "outputs.json")
        entries = json.loads(listing.read_text()) if listing.exists() else []
        modified = self.start - 3600 if stale else self.end - 5
        entry = {"output": output, "path": path, "url": f"obs://bucket/{output}/{path}", "size": len(str(text))}
        _write(listing, json.dumps([*entries, {**entry, "modified": modified, "stale": stale}]))
        if not stale:
            _write(Path(self.node(node).results, "outputs", output, path), str(text))

    def metric(self, rank: int, name: str, value: float, after: float = 60.0, **more: Any) -> None:
        """A number that `muster.record` wrote for a (global) rank, `after` seconds into the attempt."""
        point = {"kind": "metric", "name": name, "value": value, "unit": "", "step": None, "final": False, **more}
        self._record(rank, after, point)

    def phase(self, rank: int, name: str, start: float | None, end: float | None) -> None:
        """A phase that `muster.record` wrote for a rank, with its edges in seconds into the attempt."""
        for edge, after in (("start", start), ("end", end)):
            if after is not None:
                self._record(rank, after, {"kind": "phase", "name": name, "edge": edge})

    def log(self, rank: int, text: str) -> None:
        """What a rank printed."""
        node = self.node(rank // self.job.ranks_per_node)
        _write(Path(node.log(f"rank-{rank}")), text)

    def timed(self, rank: int, value: float, steps: int = 100) -> None:
        """What the step timer wrote for a rank."""
        spread = {"steps": steps, "warmup": 0, "samples": steps * 32, "seconds": steps * 32 / value, "mean": value}
        spread |= {"stdev": 0.0, "min": value, "max": value, "p50": value, "p95": value}
        self.metric(rank, "throughput", value, unit="samples/s", final=True, spread=spread)

    # -- what the sampler saw

    def samples(self, node: int, lines: Iterable[Mapping[str, Any]], **header: Any) -> None:
        """The lines of a node's `metrics.jsonl`; `t` counts from the start of the attempt."""
        first = {"format": "muster-metrics/1", "interval": 1.0, "machine": "m0", "devices": None, "power": [], "missing": {}}
        rows = [{**first, **header}, *({**line, "t": self.start + line["t"]} for line in lines)]
        _write(Path(self.node(node).path, "metrics.jsonl"), "".join(json.dumps(row) + "\n" for row in rows))

    def system(self, node: int, **facts: Any) -> None:
        _write(Path(self.node(node).path, "system.json"), json.dumps({"machine": "m0", "host": f"node-{node}", **facts}))

    # -- the frame

    def _record(self, rank: int, after: float, data: dict[str, Any]) -> None:
        node, local = divmod(rank, self.job.ranks_per_node)
        known_as = local if self.job.servers and not self.job.own_servers else rank
        path = Path(self.node(node).results, f"record-{known_as}.jsonl")
        with path.open("a") as file:
            file.write(json.dumps({"t": self.start + after, "rank": known_as, **data}) + "\n")

    def _write_run(self, state: str, reason: str) -> None:
        end = {"time": self.end, "attempt": 1, "event": "attempt-ended"}
        events = [{"time": self.start, "event": "attempt", "attempt": 1}, end, {"time": self.end, "event": "ended"}]
        facts = {"run": self.dir.id, "engine": "local", "user": "ada", "host": "here", "created": self.start - 1}
        _write(Path(self.dir.job), json.dumps(self.job.to_json()))
        _write(Path(self.dir.run), json.dumps({**facts, "code": "c0de", "muster": "0.4.0", "utc_offset": 28800}))
        _write(Path(self.dir.events), "".join(json.dumps(event) + "\n" for event in events))
        size = {"nodes": self.job.nodes, "ranks": self.job.ranks, "up": 0, "attempt": 1}
        times = {"created": self.start - 1, "started": self.start, "ended": self.end}
        kind = {"name": self.job.name, "framework": self.job.framework, "engine": "local", "user": "ada", "phase": "ended"}
        told = {"run": self.dir.id, "state": state, "reason": reason, "dir": self.dir.path, "result": None}
        _write(Path(self.dir.final), json.dumps({**told, **kind, **size, **times, "failure": None, "attempts": []}))

    def _write_node(self, node: int) -> None:
        count = self.job.ranks_per_node
        times = {"started": self.start + PREPARED, "ended": self.end - 1, "code": 0, "signal": None, "stopped": False}
        ranks = range(node * count, (node + 1) * count)
        processes = [{"process": f"rank-{rank}", "rank": rank, "pid": 1000 + rank, **times} for rank in ranks]
        _write(Path(self.node(node).exit), json.dumps({"node": node, "ended": self.end - 1, "processes": processes}))
        Path(self.node(node).results).mkdir()
        Path(self.node(node).logs).mkdir()


def bench_of(*runs: RunRecord, repeats: int | None = None) -> dict[str, Any]:
    """What `muster bench` writes about these runs."""
    id = runs[0].dir.id.replace("abcd", "bnch")
    times = {"created": runs[0].start - 2, "ended": runs[-1].end + 1}
    planned = repeats or len(runs)
    about = {"format": "muster-bench/1", "id": id, "name": runs[0].job.name, "command": ["muster", "bench", "job.yaml"]}
    return {**about, **times, "repeats": planned, "runs": [run.dir.id for run in runs], "plan": None, "system": None}


def make(bench: Mapping[str, Any] | BenchRecord, runs: Sequence[RunDir]) -> dict[str, Any]:
    """The JSON of the result of these runs."""
    record = bench if isinstance(bench, BenchRecord) else BenchRecord.from_json(bench)
    return result.make(record, runs).to_json()


def _metric(name: str, fields: Mapping[str, Any]) -> Metric:
    known = KNOWN.get(name, Metric())
    return Metric(**{**known.__dict__, **fields})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
