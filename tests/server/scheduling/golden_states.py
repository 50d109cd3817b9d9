"""States of the scheduler as readable files, and decisions with their words as text.

`scheduler_golden/NAME.yaml` is the state, `NAME.txt` what is decided. Run this module to write the texts anew; read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.explain import explain
from muster.server.runs.scheduling.model import Decision, Demand, Node, Pool, Running, State, Waiting
from muster.server.runs.scheduling.reasons import after, drained, failed_check, paused

FOLDER = Path(__file__).parent / "scheduler_golden"
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def load(path: Path) -> State:
    """The state in a file. Times are minutes ago (`5m`), durations `40m` or `2h`, gangs `3x8 ascend`, devices `ascend 8`."""
    given = yaml.safe_load(path.read_text())
    pools = tuple(_pool(name, about) for name, about in given["pools"].items())
    running = tuple(_running(id, dict(about), pools[0].name) for id, about in (given.get("running") or {}).items())
    queue = enumerate((given.get("waiting") or {}).items(), 1)
    waiting = tuple(_waiting(number, id, dict(about), pools[0].name) for number, (id, about) in queue)
    quotas = {tuple(_three(key)): most for key, most in (given.get("quotas") or {}).items()}
    use = {tuple(key.split()): hours * 3600.0 for key, hours in (given.get("device_hours") or {}).items()}
    return State(0.0, pools, waiting, running, quotas, use, given.get("weights") or {})  # type: ignore[arg-type]


def render(state: State, decision: Decision) -> str:
    lines = ["starts"]
    for start in decision.starts:
        places = [_place(*part) for part in zip(start.nodes, start.ids, strict=True)]
        before = f", before {' '.join(start.overtakes)}" if start.overtakes else ""
        lines.append(f"  {start.run} on {' '.join(places) or start.pool}{before}")
    lines += ["preempts", *(f"  {each.victim} for {each.made_for}" for each in decision.preemptions)]
    lines.append("keeps")
    for kept in decision.reservations:
        places = [_place(*part) for part in zip(kept.nodes, kept.ids, strict=True)]
        when = "at a time that nobody knows" if kept.at is None else f"in {kept.at / 60:g} min at the latest"
        lines.append(f"  {' '.join(places) or kept.pool} for {kept.run} {when}, after {' '.join(kept.waits_for)}")
    lines.append("waits")
    ordered = [job for jobs in decision.order.values() for job in jobs]
    for job in [*ordered, *(each for each in state.waiting if each.id in decision.ledger.aside)]:
        wait = explain(state, decision, job.id)
        lines += [f"  {wait.position or '-'} {job.id}", f"      {wait.words('en')}", f"      {wait.words('zh')}"]
    return "\n".join(lines) + "\n"


def decided(path: Path) -> str:
    state = load(path)
    return render(state, decide(state))


def _place(node: str, ids: tuple[int, ...]) -> str:
    if not ids:
        return node
    dense = len(ids) > 1 and ids == tuple(range(ids[0], ids[-1] + 1))
    return f"{node}[{ids[0]}-{ids[-1]}]" if dense else f"{node}[{','.join(map(str, ids))}]"


def _pool(name: str, about: dict[str, Any]) -> Pool:
    about = dict(about)
    nodes = tuple(_node(*each) for each in about.pop("nodes", {}).items())
    if "minimum_runtime" in about:
        about["minimum_runtime"] = _seconds(about["minimum_runtime"])
    if "drained" in about:
        about["drained"] = drained(*about["drained"])
    return Pool(name, nodes, **about)


def _node(name: str, about: dict[str, Any]) -> Node:
    about = dict(about)
    devices = {kind: tuple(range(count)) for kind, count in about.pop("devices", {}).items()}
    held = {kind: frozenset(ids) for kind, ids in about.pop("held", {}).items()}
    unusable = drained(*about.pop("drained")) if "drained" in about else None
    unusable = failed_check(*about.pop("failed")) if "failed" in about else unusable
    short = failed_check(*about.pop("short")) if "short" in about else None
    memory = about.pop("gib", None)
    return Node(name, devices=devices, held=held, unusable=unusable, short=short, memory=memory and memory << 30, **about)


def _gang(about: dict[str, Any]) -> Demand:
    size, kind = about.pop("gang").split()
    nodes, devices = map(int, size.split("x"))
    labels, on = tuple(sorted(about.pop("labels", {}).items())), tuple(about.pop("files_on", "").split())
    sizes = about.pop("cpus", 0), about.pop("gib", 0) << 30
    return Demand(nodes, kind, devices, *sizes, about.pop("model", ""), labels, on, about.pop("servers", 0))


def _waiting(number: int, id: str, about: dict[str, Any], pool: str) -> Waiting:
    demand = _gang(about)
    blocked = paused(about.pop("paused")) if "paused" in about else after(about.pop("after")) if "after" in about else None
    submitted = -_seconds(about.pop("submitted", "10m"))
    times: dict[str, float] = {key: _seconds(about.pop(key)) for key in ("limit", "expected") if key in about}
    given: dict[str, Any] = {"user": "ann", "project": "vision", "pool": pool, **about, **times}
    return Waiting(id, number, demand=demand, submitted=submitted, blocked=blocked, **given)


def _running(id: str, about: dict[str, Any], pool: str) -> Running:
    demand = _gang(about)
    nodes = tuple(about.pop("nodes").split())
    ids = tuple(tuple(each) for each in about.pop("ids")) if "ids" in about else None
    started = -_seconds(about.pop("started", "10m"))
    times: dict[str, float] = {key: _seconds(about.pop(key)) for key in ("limit", "expected") if key in about}
    given: dict[str, Any] = {"user": "ann", "project": "vision", "pool": pool, **about, **times}
    return Running(id, demand=demand, nodes=nodes, started=started, ids=ids, **given)


def _three(key: str) -> list[str]:
    """`project kind` or `project user kind`."""
    words = key.split()
    return words if len(words) == 3 else [words[0], "", words[1]]


def _seconds(text: str) -> float:
    return float(text[:-1]) * UNITS[text[-1]]


if __name__ == "__main__":
    for state_file in sorted(FOLDER.glob("*.yaml")):
        state_file.with_suffix(".txt").write_text(decided(state_file))
