"""The Slurm engine: a run is one batch job, and everything about it is asked in as few questions as can be."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from muster import config
from muster.engines.base import EngineError, Node, Order, Request
from muster.engines.slurm import client, cluster, options, overview, script, shared_disk, states
from muster.engines.slurm.options import Site
from muster.job import LAUNCHERS, Job
from muster.records.layout import home
from muster.records.state import Status

FRESH = 5.0  # seconds for which one answer of the controller serves all who ask: it has other users, too
ARGV = ("sbatch", "--parsable")
CPUS = "set `cpus`, or `slurm: {exclusive: true}`"
INTERRUPTED = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED")  # ends after which Slurm could have started a job again, and did not


@dataclass(frozen=True)
class Answer:
    """What the controller showed, and when: by a clock that only goes forward and by that of the world."""

    moment: float
    time: float
    jobs: list[client.Queued]


_answers: dict[str, Answer] = {}  # by cluster


class Slurm:
    name = "slurm"
    lasting = True

    @cached_property
    def _machines(self) -> list[cluster.Machine]:
        return cluster.machines()

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        site = _site()
        if doubt := shared_disk.doubtful(home(), site.shared):
            say(f"{home()} lies on {doubt}: the nodes must see it; `shared` below [slurm] in config.toml names what they see")
        chosen = options.choose(site, job, os.environ)
        if cluster.may_starve(job, chosen, self._machines) and not client.gives_cpus(chosen.partitions):
            say(f"the job asks for {job.devices} devices and no `cpus`: most sites give it one CPU on each node; {CPUS}")
        if job.device == "auto":
            if not self._machines:
                say("Slurm shows you no nodes: `device: auto` means `cpu` here; set `device` for accelerators")
            nodes = [node for group in cluster.members(self._machines, chosen.partitions).values() for node in group]
            job = replace(job, device=cluster.device(nodes, site.gres))
        job = options.with_mpi(site, job)
        if job.ssh is None and site.ssh and (_needs_ssh(job) or job.compat == "apulis"):
            job = replace(job, ssh=True)
        return job

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        site = _site()
        chosen = options.choose(site, job, os.environ)
        _check_home(site)
        found = [("slurm", f"cannot take the option `{option}`", hint) for option, hint in options.refused(chosen.options)]
        if chosen.gpus_per_node and chosen.gres and chosen.gres.partition(":")[0] != "gpu":
            hint = "only a GRES `gpu` can be asked for like that"
            found.append(("slurm", f"asks for `{chosen.gres}` with --gpus-per-node", hint))
        if never := cluster.never(job, chosen, self._machines):
            field, reason = never
            found.append((field, f"cannot be given; {reason}", "`muster doctor` shows what the cluster has"))
        if _needs_ssh(job) and not job.ssh:
            hint = "set `ssh: true`, or let the site allow it with `ssh = true` below [slurm]"
            hint += "; or `mpi` there, for ranks that srun starts" if job.framework == "mpi" else ""
            found.append(("ssh", f"is off, and {job.framework} starts its ranks over ssh", hint))
        return [*found, *_wrong_mpi(job)]

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        site = _site()
        chosen = options.choose(site, job, environment)
        order = replace(order, namespaces=site.namespaces)
        longest = cluster.longest(chosen, self._machines) if job.time_limit else math.inf
        text = script.render(job, order, chosen, sys.executable, longest)
        return Request(ARGV, "/", f"{order.run_dir}/slurm.log", options.clean(environment), text)

    def submit(self, request: Request, follower: int | None) -> str:
        _answers.clear()
        try:
            return client.submit(request.argv, request.script, request.environment)
        except EngineError:
            if handle := self._taken(request.log):
                return handle
            raise

    def _taken(self, log: str) -> str | None:
        """The job of a run that Slurm has taken although sbatch did not hear of it."""
        try:
            return self.find(os.path.dirname(log)) if log else None
        except EngineError:
            return None

    def submit_again(self, script: str, environment: Mapping[str, str]) -> str:
        return self.submit(Request(ARGV, "/", "", options.clean(environment), script), None)

    def find(self, run_dir: str) -> str | None:
        name, user = os.path.basename(run_dir), client.user()
        ids = [int(job.id) for job in _queue("", fresh=True).jobs if job.name == name and job.user == user]
        return str(max(ids)) if ids else None

    def poll(self, handles: Iterable[str]) -> dict[str, Status]:
        wanted = list(handles)
        found = {handle: states.gone(handle) for handle in wanted if not client.HANDLE.fullmatch(handle)}  # damaged records
        wanted = [handle for handle in wanted if handle not in found]
        for name in dict.fromkeys(_split(handle)[1] for handle in wanted):
            ids = {_split(handle)[0]: handle for handle in wanted if _split(handle)[1] == name}
            found.update({ids[job]: status for job, status in _statuses(list(ids), name).items()})
        return found

    def cancel(self, handle: str) -> None:
        _answers.clear()
        job, name = _split(handle)
        client.cancel(job, cluster=name)

    def withdraw(self, handle: str) -> None:
        _answers.clear()
        job, name = _split(handle)
        client.cancel(job, "--state=PENDING", cluster=name)

    def sweep(self, run_id: str) -> None:
        """Slurm itself leaves nothing running of a job that is over."""

    def partitions(self) -> list[overview.Partition]:
        """What the cluster has and what of it is free, as far as this user may see it."""
        return overview.partitions(self._machines)

    def capacity(self) -> list[Node]:
        names = _site().gres
        found: dict[str, Node] = {}
        for machine in self._machines:
            kind = cluster.device([machine], names)
            count = machine.gres.get(names.get(kind, ""), 0)
            devices = tuple(f"{number}: {names[kind]}" for number in range(count))
            found[machine.name] = Node(machine.name, machine.cpus, machine.memory, kind, devices)
        return list(found.values())


def _needs_ssh(job: Job) -> bool:
    """Whether the launcher of a framework has no other way to the nodes."""
    return job.framework in LAUNCHERS and not (job.framework == "mpi" and job.slurm and job.slurm.mpi)


def _wrong_mpi(job: Job) -> list[tuple[str, str, str]]:
    """A kind of PMI that cannot be had, or that is for nobody."""
    kind = job.slurm.mpi if job.slurm else ""
    if kind and job.framework != "mpi":
        hint = "remove it, or set `framework: mpi`"
        return [("slurm", f"asks for `mpi: {kind}`, and the framework is {job.framework}", hint)]
    if kind and kind not in (known := client.pmi_kinds()):
        return [("slurm", f"asks for `mpi: {kind}`, which srun does not have", f"it has {', '.join(known)}")]
    return []


def _site() -> Site:
    site: Site = config.load(home()).options("slurm")
    return site


def _check_home(site: Site) -> None:
    """Refuses a home that the nodes cannot see: nothing of a run would be found there."""
    if reason := shared_disk.unseen(home(), site.shared) or shared_disk.unwritable(home()):
        raise config.ConfigError(f"MUSTER_HOME is {home()}, which {reason}; set it to a directory on a shared file system")


def _split(handle: str) -> tuple[str, str]:
    """The job and the cluster of a handle: `12` or `12;west`."""
    job, _, name = handle.partition(";")
    return job, name


def _queue(name: str, fresh: bool = False) -> Answer:
    answer = _answers.get(name)
    if fresh or answer is None or time.monotonic() - answer.moment > FRESH:
        answer = _answers[name] = Answer(time.monotonic(), time.time(), _jobs(name))
    return answer


def _jobs(name: str) -> list[client.Queued]:
    """All jobs; of those that Slurm starts later it is asked whether it had them before."""
    jobs = client.queue(name)
    returns = client.returns(name) if any(job.reason == "BeginTime" for job in jobs) else {}
    return [replace(job, returns=returns.get(job.id, 0)) for job in jobs] if returns else jobs


def _statuses(ids: list[str], name: str) -> dict[str, Status]:
    """What becomes of jobs: one question to the controller, and one about those that are over or that it has forgotten."""
    answer = _queue(name)
    if not {*ids} <= {job.id for job in answer.jobs}:  # they may be younger than the answer
        answer = _queue(name, fresh=True)
    known = {job.id: job for job in answer.jobs}
    seen = [] if _sees_own_jobs_alone(answer.jobs, name) else answer.jobs
    found = {job: replace(states.status(known[job], seen), time=answer.time) for job in ids if job in known}
    over = [job for job in ids if job not in found or not found[job].alive]
    ends = _ends(over, known, name) if over else {}
    for job in over:
        if job in ends:
            status = states.ended(known.get(job, job), ends[job])
            found[job] = replace(status, interrupted=ends[job].state in INTERRUPTED)
        elif job not in found:
            found[job] = states.gone(job)
    return found


def _sees_own_jobs_alone(jobs: list[client.Queued], name: str) -> bool:
    """Whether there may be jobs of others that the controller does not show; asked only where that matters."""
    waiting = any(job.reason == "Priority" for job in jobs)
    return waiting and all(job.user == client.user() for job in jobs) and client.hides_jobs(name)


def _ends(over: list[str], known: Mapping[str, client.Queued], name: str) -> dict[str, client.End]:
    """How jobs ended: by accounting, which knows most, where there is some, else by the controller."""
    found: dict[str, client.End] = client.remembered(name)
    try:
        found.update(client.accounted(over, name))
    except EngineError:
        if not {*over} <= {*known}:
            raise  # nobody else can tell
    return {job: end for job, end in found.items() if end.state in states.OVER}
