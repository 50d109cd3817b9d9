"""The local engine: a supervisor process on this machine, no daemon, no container, no root."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from muster import devices
from muster.engines import ssh_programs
from muster.engines.base import Node, Order, Refused, Request
from muster.job import LAUNCHERS, PORTS, Job
from muster.linux import proc
from muster.linux.held_signals import held
from muster.records import keys
from muster.records.failure_text import size
from muster.records.marker import kill_marked, kill_writing
from muster.records.state import Status

_HANDLE = re.compile(r"[0-9]{1,9}:[0-9]+:[^:]*:[^:]*:")
AGENT = "muster-node-"  # how the names of agents begin
LOOKS = 3  # a process that forks and leaves while it is looked for can be missed, but hardly so often
SWEEP_LIMIT = 5.0  # for what was killed to be gone; a process may wait for a disk
END_IT = "`muster stop --now` ends the run"


class Local:
    name = "local"
    lasting = False

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        cpus, memory = len(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if job.cpus and job.cpus > cpus:
            say(f"the job asks for {job.cpus} CPUs per node; this machine has {cpus}, which its nodes share")
        if job.memory and job.memory > memory:
            say(f"the job asks for {size(job.memory)} of memory per node; this machine has {size(memory)}")
        job = replace(job, device=devices.resolve(job.device, say))
        if job.ssh is None and _needs_ssh(job, say):
            job = replace(job, ssh=True)
        return job

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        found = []
        needed = (job.nodes + job.ps) * job.ports_per_node
        if needed > len(PORTS):
            found.append(
                (
                    "nodes",
                    f"and `devices` need {needed} ports, and this machine has {len(PORTS)} to give",
                    "use fewer of them, or an engine with more machines",
                )
            )
        return [*found, *_lacking(job), *ssh_programs.lacking(job)]

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        python = os.path.realpath(sys.executable)  # -S: the agent needs nothing of a virtual environment
        argv = [python, "-I", "-S", order.agent, "supervise", order.run_dir, "--code", order.code]
        argv += ["--python", sys.executable]
        if not order.namespaces:
            argv += ["--namespaces", "off"]
        return Request(tuple(argv), "/", f"{order.run_dir}/supervisor.log", environment)

    def submit(self, request: Request, follower: int | None) -> str:
        argv = list(request.argv)
        if follower is not None:
            argv += ["--command", str(follower)]
        environment, found = keys.apart(request.environment)
        keys_file = keys.put_away(found)
        with open(request.log, "ab") as log, os.fdopen(keys_file, "rb"), held():
            os.fchmod(log.fileno(), 0o600)
            child = subprocess.Popen(
                argv,
                cwd=request.cwd,
                env={**environment, keys.VARIABLE: str(keys_file)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(keys_file,) if follower is None else (keys_file, follower),
            )
        child.returncode = 0  # it outlives this process or is collected by `poll`; subprocess need not care
        return _handle(child.pid) or f"{child.pid}:0:{_boot()}:{_space()}:{os.uname().nodename}"

    def submit_again(self, script: str, environment: Mapping[str, str]) -> str:
        raise Refused("a run on this machine ends with its supervisor; `muster rerun` starts another")

    def find(self, run_dir: str) -> str | None:
        # Agents are forked from the supervisor and share its command line: it is the one without such a parent.
        wanted = os.fsencode(f"supervise\0{run_dir}\0")
        found = {pid for pid in proc.pids() if wanted in proc.command_line(pid)}
        return next((_handle(pid) for pid in found if (stat := proc.stat(pid)) and stat.parent not in found), None)

    def poll(self, handles: Iterable[str]) -> dict[str, Status]:
        return {handle: _status(handle) for handle in handles}

    def cancel(self, handle: str) -> None:
        if not _HANDLE.match(handle):
            return
        pid = int(handle.split(":")[0])
        for number, limit in ((signal.SIGCONT, 0.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
            if _handle(pid) == handle:
                os.kill(pid, number)
            deadline = time.monotonic() + limit
            while _status(handle).alive and time.monotonic() < deadline:
                time.sleep(0.02)

    def withdraw(self, handle: str) -> None:
        """Nothing waits here without a supervisor."""

    def sweep(self, run_id: str) -> None:
        agents = os.fsencode(f"/{run_id}\0--code\0")  # they share the command line of their supervisor
        deadline = time.monotonic() + SWEEP_LIMIT
        for pid in [pid for pid in proc.pids() if agents in proc.command_line(pid) and pid != os.getpid()]:
            _end_tree(pid, deadline)
        deadline = time.monotonic() + SWEEP_LIMIT
        while time.monotonic() < deadline:
            if not kill_marked(run_id) and not kill_writing(run_id) and _remove_groups(run_id):
                return
            time.sleep(0.01)

    def capacity(self) -> list[Node]:
        kind = devices.resolve("auto")
        found = devices.found(kind)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        names = tuple(f"{device.id}: {device.name}" for device in found)
        return [Node(os.uname().nodename, len(os.sched_getaffinity(0)), memory, kind, names)]


def _end_tree(agent: int, deadline: float) -> None:
    """Kills an agent, and before it all that it started: as long as it lives, also stopped, its orphans are its children."""
    empty = 0
    while empty < LOOKS and time.monotonic() < deadline:
        left = [pid for pid in proc.descendants(agent) if pid != os.getpid() and _kill(pid)]
        empty = 0 if left else empty + 1
        if left:
            time.sleep(0.002)
    _kill(agent)


def _kill(pid: int) -> bool:
    """Whether there was something to kill that is ours."""
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except (ProcessLookupError, PermissionError):
        return False


def _needs_ssh(job: Job, say: Callable[[str], None]) -> bool:
    """Whether simulated nodes have ssh without being asked: it is no way into this machine that its user has not anyway."""
    if job.compat == "apulis" and job.framework not in LAUNCHERS and (reason := ssh_programs.unavailable()):
        if job.alone:
            say(f"its nodes cannot reach each other by ssh: {reason[0]}; {reason[1]}")
        return False
    return job.framework in LAUNCHERS or job.compat == "apulis"


def _lacking(job: Job) -> list[tuple[str, str, str]]:
    """What this machine lacks of the devices that a job asks for, even when nobody else uses them."""
    kind = devices.KINDS[job.device]
    trouble: list[str] = []
    there = devices.found(job.device, trouble.append)
    if devices.share(job.device, there, job.nodes, job.devices) is not None:
        return []
    simulate = "`device: cpu` simulates them"
    if not there:
        hint = f"{simulate}; `muster doctor` shows what was found"
        reason = "; ".join(["and this machine has none", *trouble])
        return [("device", f"asks for {job.device} devices, {reason}", hint)]
    if reason := kind.impossible(job.devices):
        return [("devices", f"cannot be given: {reason}", f"ask for one of these; {simulate}")]
    asked = f"{job.nodes} times {job.devices}" if job.nodes > 1 else str(job.devices)
    had = str(len(there))
    if job.nodes * job.devices <= len(there):  # enough, but not beside each other
        had = "no ring with as many: it has " + ", ".join(device.id for device in there)
    return [("devices", f"asks for {asked} {job.device} devices, and this machine has {had}", f"use fewer; {simulate}")]


def _status(handle: str) -> Status:
    if not _HANDLE.match(handle):
        return Status(False, "what its record says of its supervisor is damaged")
    pid, _, boot, space, host = handle.split(":", 4)
    if host != os.uname().nodename:
        return Status(True, f"it runs on {host}, where it can be looked after")
    if boot != _boot():
        return Status(False, "the machine was restarted while it ran")
    if space != _space():
        return Status(True, "it runs outside of this namespace, where it can be looked after")
    if _handle(int(pid)) != handle or not proc.alive(int(pid)):
        _collect(int(pid))
        return Status(False, f"its supervisor (process {pid}) was killed")
    return Status(True, halted=_halted(int(pid)))


def _halted(supervisor: int) -> str:
    """Who of those that look after a run stands still, and what to do about it; empty where all of them can act."""
    if still := proc.stopped(supervisor) or proc.frozen(supervisor):
        who = f"its supervisor (process {supervisor})"
        what = "the run does not end, neither at its time limit nor by `muster stop`"
        return f"{who} is {still.how}, and {what}; {still.remedy} lets it go on, {END_IT}"
    for pid in _agents(supervisor):
        if still := proc.stopped(pid):
            who = f"the agent of node {proc.name(pid).rpartition('-')[2]} (process {pid})"
            what = "nobody looks after the ranks of its node"
            return f"{who} is {still.how}, and {what}; {still.remedy} lets it go on, {END_IT}"
    return ""


def _agents(supervisor: int) -> Iterator[int]:
    """The agents of a run; one that is the first process of a namespace has its like outside as its parent."""
    for pid in proc.children(supervisor):
        yield from (inner for inner in proc.children(pid) if proc.name(inner).startswith(AGENT))
        if proc.name(pid).startswith(AGENT):
            yield pid


def _handle(pid: int) -> str | None:
    """A process as a handle: its id, when it started, and where such an id means this process: boot, namespace, host."""
    found = proc.stat(pid)
    return f"{pid}:{found.started}:{_boot()}:{_space()}:{os.uname().nodename}" if found else None


def _space() -> str:
    return os.readlink("/proc/self/ns/pid")[5:-1]


def _boot() -> str:
    return proc.read("/proc/sys/kernel/random/boot_id").decode().strip()[:8]


def _collect(pid: int) -> None:
    """Takes the status of a supervisor that this very process started."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def _remove_groups(run_id: str) -> bool:
    """Removes the control groups that kept the memory limit of a run; false while somebody is in one."""
    done = True
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        for name in names:
            if name.startswith(f"muster-{run_id}-"):
                try:
                    os.rmdir(os.path.join(folder, name))
                except FileNotFoundError:
                    continue
                except OSError:
                    done = False
    return done
