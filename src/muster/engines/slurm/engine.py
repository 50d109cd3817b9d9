"""The Slurm engine: a run is one batch job, and one call of squeue answers for all runs."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING

from muster import config
from muster.dataclass import asdict, dataclass, replace
from muster.engines import job_variables
from muster.engines.base import Capacity, Engine, EngineError, Order, Place, Refused, Request
from muster.engines.slurm import cluster, options, refusals, script, shared_disk, states
from muster.engines.slurm.node import client
from muster.engines.slurm.node.allocation import BATCH_LOG
from muster.engines.slurm.node.client import Client
from muster.engines.slurm.node.parsing import HANDLE, End, Queued
from muster.engines.slurm.options import Site
from muster.job import LAUNCHERS, Job
from muster.linux import keys
from muster.records.status import EngineLog, Status

if TYPE_CHECKING:
    from muster.engines.carriers import Carriers, Program

# Beside the agents of the job, with none of its devices or CPUs for itself, and with both streams as they are.
STEP = "--mpi=none --cpu-bind=none --export=NONE --quiet --unbuffered"

FRESH = 5.0  # seconds for which one answer of the controller is used again: it has other users, too
PATIENCE = 60.0  # seconds for a controller that is busy
CPUS = "set `cpus`, or `slurm: {exclusive: true}`"
LOG = EngineLog(BATCH_LOG, "slurmstepd")
INTERRUPTED = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED")  # ends after which Slurm could have started a job again, and did not


@dataclass(frozen=True)
class Answer:
    """The jobs that the controller showed, and when: by the monotonic clock and by the system's."""

    moment: float
    time: float
    jobs: list[Queued]


_answers: dict[str, Answer] = {}  # by cluster


class Slurm(Engine):
    name = "slurm"
    lasting = True
    takes_accounts = True

    @property
    def _site(self) -> Site:
        site: Site = self.settings.options("slurm")
        return site

    @cached_property
    def _machines(self) -> list[cluster.PartitionNode]:
        return cluster.machines(_client())

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        site = self._site
        if doubt := shared_disk.doubtful(self.home, site.shared):
            hint = "`shared` below [slurm] in config.toml names what they see"
            say(f"{self.home} lies on {doubt}: the nodes must see it; {hint}")
        chosen = options.choose(site, job, os.environ)
        if cluster.may_starve(job, chosen, self._machines) and not _client().gives_cpus(chosen.partitions):
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
        chosen = options.choose(self._site, job, os.environ)
        self._check_home()
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
        if self.account is not None and job.slurm and job.slurm.mpi:
            hint = "set `ssh: true` and leave `mpi` out: the job is the server's, and its ranks cannot call srun"
            found.append(("slurm", f"asks for `mpi: {job.slurm.mpi}`, which runs as another account do not have", hint))
        return [*found, *_wrong_mpi(job)]

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        chosen = options.choose(self._site, job, environment)
        longest = cluster.longest(chosen, self._machines) if job.time_limit else math.inf
        account = self.account.to_text() if self.account is not None else ""
        text = script.render(job, order, chosen, sys.executable, longest, self._site.namespaces, account)
        return Request(client.SUBMIT, "/", f"{order.run_dir}/{BATCH_LOG}", client.clean(environment), script=text)

    def submit(self, request: Request, follower: int | None = None) -> str:
        _answers.clear()
        environment = request.environment
        if self.account is not None:
            if os.geteuid() != 0:
                raise EngineError(f"only root can start a run as {self.account.name}")
            own, others = job_variables.apart(environment)
            environment = {**own, keys.OF_JOB: json.dumps(others)}
        try:
            return _client().submit(request.script, environment)
        except client.Rejected as error:
            raise Refused(refusals.explained(error.lines, request.script, _client().accounts)) from None
        except EngineError:
            with suppress(EngineError):  # Slurm may have taken the job although sbatch got no answer
                if request.log and (handle := self.find(os.path.dirname(request.log))):  # no log: it is submitted again
                    return handle
            raise

    def find(self, run_dir: str) -> str | None:
        name, user = os.path.basename(run_dir), client.user()
        ids = [int(job.id) for job in _queue("", fresh=True).jobs if job.name == name and job.user == user]
        return str(max(ids)) if ids else None

    def status(self, handles: Iterable[str]) -> dict[str, Status]:
        wanted = list(handles)
        found = {handle: states.gone(handle) for handle in wanted if not HANDLE.fullmatch(handle)}  # damaged records
        wanted = [handle for handle in wanted if handle not in found]
        for name in dict.fromkeys(_split(handle)[1] for handle in wanted):
            ids = {_split(handle)[0]: handle for handle in wanted if _split(handle)[1] == name}
            found.update({ids[job]: status for job, status in _statuses(list(ids), name).items()})
        return {handle: replace(status, log=LOG) for handle, status in found.items()}

    def cancel(self, handle: str, queued_only: bool = False) -> None:
        _answers.clear()
        job, name = _split(handle)
        _client(name).cancel(job, *(["--state=PENDING"] if queued_only else []))

    def capacity(self) -> list[Capacity]:
        if shutil.which("sinfo") is None:
            return []
        if not self._machines:
            return [Capacity("shows you no nodes (PrivateData of the site); jobs can be submitted all the same")]
        return [Capacity(found.words, asdict(found)) for found in cluster.partitions(self._machines)]

    def identity(self, handle: str) -> tuple[str, str]:
        return "Slurm job", handle.replace(";", " of cluster ")

    def remote_shell(self, job: Job, handle: str, node: int) -> str:
        return f"srun --jobid={_split(handle)[0]} --overlap --nodes=1 --relative={node} --pty bash"

    def open_connection(self, place: Place, port: int, carriers: Carriers) -> socket.socket:
        return carriers.open((self.home, place.run_id, place.node), lambda: self._carrier(place), port)

    def _carrier(self, place: Place) -> Program:
        """A step of the job beside its others, on one of its nodes."""
        from muster.engines.carriers import Program

        job, cluster_name = _split(place.handle)
        words = [f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--relative={place.node}", *STEP.split()]
        words += [f"--clusters={cluster_name}"] if cluster_name else []
        python = options.choose(self._site, place.job, os.environ).python or sys.executable
        argv = ["srun", *words, python, "-I", "-S", place.agent(), "connect"]
        return Program(argv, f"node {place.node} of Slurm job {job}")

    def _check_home(self) -> None:
        """Raises ConfigError for a home that the nodes cannot see: nothing of a run would be found there."""
        if reason := shared_disk.unseen(self.home, self._site.shared) or shared_disk.unwritable(self.home):
            message = f"MUSTER_HOME is {self.home}, which {reason}; set it to a directory on a shared file system"
            raise config.ConfigError(message)


def _needs_ssh(job: Job) -> bool:
    """True if the framework's launcher starts ranks over ssh."""
    return job.framework in LAUNCHERS and not (job.framework == "mpi" and job.slurm and job.slurm.mpi)


def _wrong_mpi(job: Job) -> list[tuple[str, str, str]]:
    """Problems with `slurm.mpi`: srun does not have this kind, or the framework is not MPI."""
    kind = job.slurm.mpi if job.slurm else ""
    if kind and job.framework != "mpi":
        hint = "remove it, or set `framework: mpi`"
        return [("slurm", f"asks for `mpi: {kind}`, and the framework is {job.framework}", hint)]
    if kind and kind not in (known := _client().pmi_kinds()):
        return [("slurm", f"asks for `mpi: {kind}`, which srun does not have", f"it has {', '.join(known)}")]
    return []


def _client(name: str = "") -> Client:
    return Client(PATIENCE, name)


def _split(handle: str) -> tuple[str, str]:
    """The job and the cluster of a handle: `12` or `12;west`."""
    job, _, name = handle.partition(";")
    return job, name


def _queue(name: str, fresh: bool = False) -> Answer:
    answer = _answers.get(name)
    if fresh or answer is None or time.monotonic() - answer.moment > FRESH:
        answer = _answers[name] = Answer(time.monotonic(), time.time(), _jobs(name))
    return answer


def _jobs(name: str) -> list[Queued]:
    """All jobs; those that wait for their begin time with how often they were requeued."""
    jobs = _client(name).queue()
    returns = _client(name).restarts() if any(job.reason == "BeginTime" for job in jobs) else {}
    return [replace(job, returns=returns.get(job.id, 0)) for job in jobs] if returns else jobs


def _statuses(ids: list[str], name: str) -> dict[str, Status]:
    """The statuses of jobs: one call of squeue, and others only for jobs that have ended or that it has forgotten."""
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


def _sees_own_jobs_alone(jobs: list[Queued], name: str) -> bool:
    """True if the controller may hide the jobs of other users; asked only where a job waits for them."""
    waiting = any(job.reason == "Priority" for job in jobs)
    return waiting and all(job.user == client.user() for job in jobs) and _hides_jobs(name)


@cache
def _hides_jobs(name: str) -> bool:
    return _client(name).hides_jobs()


def _ends(over: list[str], known: Mapping[str, Queued], name: str) -> dict[str, End]:
    """How jobs ended: by accounting where the site keeps it, else by the controller."""
    found = _client(name).remembered()
    try:
        found.update(_client(name).accounted(over))
    except EngineError:
        if not {*over} <= {*known}:
            raise
    return {job: end for job, end in found.items() if end.state in states.OVER}
