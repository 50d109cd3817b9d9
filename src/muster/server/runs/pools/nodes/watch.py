"""Looks after the nodes of all pools in the background, and has what is known of them ready for the loop and for requests.

A node that fails its check is left out and tried again, later each time; it returns by itself. Checks of nodes that failed
have threads of their own, so that hosts that hang delay only each other.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from muster.engines.base import EngineError
from muster.engines.ssh.survey import LIMIT
from muster.server.core.database import Database
from muster.server.core.tables import runs
from muster.server.core.web.logs import log
from muster.server.runs.pools.nodes import drains
from muster.server.runs.pools.nodes.checking import Checks
from muster.server.runs.pools.nodes.drains import Drain
from muster.server.runs.pools.nodes.lanes import Lane
from muster.server.runs.pools.nodes.state import LOCALHOST, NOT_CHECKED, NodeState, PoolState, node
from muster.server.runs.pools.pool import Pool, Pools
from muster.server.runs.scheduling import model
from muster.server.runs.scheduling.reasons import Reason

CHECKERS, RETRIERS, OTHERS = 16, 8, 4  # threads for nodes that passed, for nodes that failed, for rings and Slurm
AGAIN = 15.0  # seconds until a node that failed is checked again for the first time
HELD = 30.0  # seconds between two looks at a node whose devices others may use
HANGS = 2 * LIMIT + 10  # seconds after which a check counts as failed, whatever it waits for
PAUSE = 1.0
RING, SLURM = "ring", "slurm"


@dataclass
class Task:
    """A check that is repeated: of a node, of a ring, or of Slurm."""

    pool: Pool
    name: str
    kind: str = ""  # RING or SLURM; else a node
    due: float = 0.0  # by the monotonic clock
    begun: float | None = None  # while it is under way
    ended: float | None = None  # when it ended last, by the monotonic clock
    hangs: bool = False
    failures: int = 0  # one after the other


class NodeWatch:
    """What is known of the nodes of all pools. Nothing here waits for a node."""

    def __init__(self, database: Database, pools: Pools, data: Path, changed: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._pools = pools.all
        self._changed = changed
        self._checks = Checks(data)
        self._lock = threading.Lock()
        self._states = {pool.name: PoolState({name: NodeState(name) for name in _names(pool)}) for pool in pools.all.values()}
        self._drains: dict[tuple[str, str], Drain] = {}
        self._models: dict[str, model.Pool] = {}
        self._tasks = {(task.pool.name, task.kind, task.name): task for pool in pools.all.values() for task in _tasks(pool)}
        self._lanes = {False: Lane("check", CHECKERS), True: Lane("check-again", RETRIERS)}
        self._others = Lane("check-pool", OTHERS)
        self._woken = threading.Event()
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Checks nodes until the end; checks that are under way then are given up."""
        self.load_drains()
        thread = threading.Thread(target=self._run, name="nodes", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._woken.set()
            self._checks.stop()
            thread.join()

    # -- what is known

    def pool(self, name: str) -> model.Pool:
        """A pool as the scheduler sees it, as of the last checks."""
        with self._lock:
            if name not in self._models:
                self._models[name] = self._model(self._pools[name])
            return self._models[name]

    def state(self, name: str) -> PoolState:
        with self._lock:
            found = self._states[name]
            return replace(found, nodes=dict(found.nodes))

    def drained(self, pool: str, node: str = "") -> Drain | None:
        return self._drains.get((pool, node))

    def known(self, name: str) -> bool:
        """False while a node of a pool has not been checked yet."""
        return all(state.problem != NOT_CHECKED for state in self.state(name).nodes.values())

    def seen(self, name: str) -> bool:
        """False while a node of a pool has never said what it has: it may have more than the scheduler sees."""
        return all(state.seen for state in self.state(name).nodes.values())

    def fresh(self, pool: str, nodes: Iterable[str]) -> bool:
        """True if the last checks of nodes are not old; else they are checked now, and the caller asks again later."""
        old = [task for name in set(nodes) if (task := self._tasks.get((pool, "", name))) is not None and not _is_fresh(task)]
        for task in old:
            task.due = 0.0
        if old:
            self._woken.set()
        return not old

    def load_drains(self) -> None:
        """Reads again what is drained."""
        with self._database.read() as connection:
            found = drains.load(connection)
        with self._lock:
            self._drains = found
            self._models.clear()
        self._changed()

    def _model(self, pool: Pool) -> model.Pool:
        nodes = self._states[pool.name].nodes.values() if pool.settings.engine != "slurm" else ()
        drained, here = self._drains.get((pool.name, "")), pool.settings.engine == "local"
        return model.Pool(
            pool.name,
            tuple(node(pool, state, self._why_drained(pool.name, state.name)) for state in nodes),
            pool.settings.runs,
            shares_nodes=here,
            passes_on=pool.settings.engine == "slurm",
            drained=drained.why if drained else None,
            minimum_runtime=pool.settings.minimum_runtime,
        )

    def _why_drained(self, pool: str, node: str) -> Reason | None:
        found = self._drains.get((pool, node))
        return found.why if found else None

    # -- checks

    def _run(self) -> None:
        while not self._ended.is_set():
            now = time.monotonic()
            for task in self._tasks.values():
                if task.begun is not None and now - task.begun > HANGS and not task.hangs:
                    task.hangs = True
                    self._hangs(task)
                elif task.begun is None and task.due <= now:
                    task.begun = now
                    lane = self._others if task.kind else self._lanes[task.failures > 0]
                    lane.submit(lambda task=task: self._carry_out(task))  # type: ignore[misc]
            due = min((task.due for task in self._tasks.values() if task.begun is None), default=now + PAUSE)
            self._woken.wait(min(PAUSE, max(0.05, due - now)))
            self._woken.clear()

    def _carry_out(self, task: Task) -> None:
        """Checks, and says when it is done again."""
        if self._ended.is_set():
            return
        failed = True
        try:
            failed = self._check(task)
        except Exception as error:
            if self._ended.is_set():
                return
            said = str(error) if isinstance(error, EngineError) else f"its check failed: {type(error).__name__}: {error}"
            log("a check failed", logging.ERROR, pool=task.pool.name, node=task.name, reason=said)
            if not task.kind:
                self._put(task.pool, self._states[task.pool.name].nodes[task.name].failed(said, time.time()))
        task.failures = task.failures + 1 if failed else 0
        task.ended = time.monotonic()
        task.due = task.ended + self._pause(task)
        task.begun, task.hangs = None, False
        self._woken.set()

    def _check(self, task: Task) -> bool:
        """Carries out a check; returns True if it failed."""
        pool = task.pool
        if task.kind == SLURM:
            return self._check_slurm(pool)
        if task.kind == RING:
            return self._check_ring(pool)
        found = self._with_owners(pool, self._checks.node(pool, self._states[pool.name].nodes[task.name]))
        if self._ended.is_set():
            return False
        self._put(pool, replace(found, unreached=self._states[pool.name].nodes[task.name].unreached))
        return bool(found.problem or found.short)

    def _check_slurm(self, pool: Pool) -> bool:
        try:
            found = self._checks.slurm(pool)
        except EngineError as error:
            found = replace(self._states[pool.name], problem=str(error), checked=time.time())
        with self._lock:
            self._states[pool.name] = found
        return bool(found.problem)

    def _check_ring(self, pool: Pool) -> bool:
        """Adds numbers up between the nodes that passed their own checks."""
        nodes = [state.name for state in self._states[pool.name].nodes.values() if not state.problem]
        if len(nodes) < len(self._states[pool.name].nodes) and not self.known(pool.name):
            return True  # all are checked first
        failed = self._checks.ring(pool, nodes) if len(nodes) > 1 else {}
        if self._ended.is_set():
            return False
        for name in nodes:
            state = self._states[pool.name].nodes[name]
            self._put(pool, replace(state, unreached=failed.get(name, "")))
        return bool(failed)

    def _with_owners(self, pool: Pool, state: NodeState) -> NodeState:
        """The state with what is used by others than runs of the pool that have not ended."""
        found = {device.run for device in state.devices if device.run}
        own: set[str] = set()
        if found:
            wanted = (runs.c.id.in_(found), runs.c.pool == pool.name, runs.c.stage != "ended")
            try:
                with self._database.read() as connection:
                    own = set(connection.scalars(select(runs.c.id).where(*wanted)))
            except SQLAlchemyError:
                own = found  # the next check says it
        devices = tuple(replace(device, other=bool(device.who) and device.run not in own) for device in state.devices)
        return replace(state, devices=devices)

    def _put(self, pool: Pool, state: NodeState) -> None:
        """Notes the state of a node, and says so where it has changed."""
        with self._lock:
            before = self._states[pool.name].nodes[state.name]
            self._states[pool.name].nodes[state.name] = state
            self._models.pop(pool.name, None)
        first = before.problem == NOT_CHECKED
        if state.left_out and (first or not before.left_out):
            log("a node failed its check", logging.WARNING, pool=pool.name, node=state.name, reason=state.left_out)
        elif before.left_out and not state.left_out:
            log("a node passed its check", pool=pool.name, node=state.name, before="" if first else before.left_out)
        if (state.left_out, state.devices, state.cpus, state.memory) != (
            before.left_out,
            before.devices,
            before.cpus,
            before.memory,
        ):
            self._changed()

    def _hangs(self, task: Task) -> None:
        if not task.kind:
            state = self._states[task.pool.name].nodes[task.name]
            self._put(task.pool, state.failed("its check hangs: a driver or a disk does not answer", time.time()))

    def _pause(self, task: Task) -> float:
        """Seconds until the next check."""
        every = task.pool.settings.check_every
        if task.failures:
            return float(min(every, AGAIN * 2 ** min(task.failures - 1, 20)))
        state = self._states[task.pool.name].nodes.get(task.name)
        watched = not task.kind and (task.pool.settings.engine == "local" or (state is not None and state.has_others))
        return float(min(every, HELD) if watched else every)


def _names(pool: Pool) -> list[str]:
    """The nodes of a pool, as far as its settings name them."""
    return {"local": [LOCALHOST], "ssh": list(pool.hosts)}.get(pool.settings.engine, [])


def _tasks(pool: Pool) -> Iterator[Task]:
    for name in _names(pool):
        yield Task(pool, name)
    if pool.settings.engine == "slurm":
        yield Task(pool, "", SLURM)
    if pool.settings.engine == "ssh" and pool.settings.all_reduce:
        yield Task(pool, "", RING)


def _is_fresh(task: Task) -> bool:
    """True if a check ended no longer ago than the next one should have."""
    return task.ended is not None and time.monotonic() - task.ended <= task.pool.settings.check_every + LIMIT
