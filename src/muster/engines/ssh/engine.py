"""The ssh engine: a supervisor on this machine, and agents on hosts that share nothing with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from muster.dataclass import replace
from muster.engines.base import EngineError, Order, Request
from muster.engines.local import early
from muster.engines.own_supervisor import OwnSupervisor
from muster.engines.ssh import groups
from muster.engines.ssh.node.connection import Host, explained
from muster.engines.ssh.options import HostsOptions, Site
from muster.job import LAUNCHERS, Job
from muster.records.status import Status

SHORTEST = 10.0  # seconds in which a host shows a few signs of life
ALLOW = "allow it with `ssh = true` in the group of hosts, or `hosts: {ssh: true, ...}` in the job"
PROBE_LIMIT = 30.0  # for a host to say what devices it has
NODES = {"ascend": "/dev/davinci", "nvidia": "/dev/nvidia"}  # by which a host shows its devices; the agents look closer
PROBE = "ls -d /dev/davinci[0-9]* /dev/nvidia[0-9]* 2>/dev/null; true"


class Ssh(OwnSupervisor):
    name = "ssh"
    shares_files = False

    @cached_property
    def _groups(self) -> Mapping[str, Site]:
        found: Mapping[str, Site] = self.settings.sites.get("ssh") or {}
        return found

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        hosts, problems = groups.choose(job, self._groups)
        if problems:
            return job
        if hosts.lost_after is not None and hosts.lost_after < SHORTEST:
            say(f"`lost_after` is shorter than {SHORTEST:g} s: a busy network may take hosts for lost")
        if job.device == "auto":
            job = replace(job, device=_devices(hosts.nodes[0]))
        if job.ssh is None and hosts.ssh and (job.framework in LAUNCHERS or job.compat == "apulis"):
            job = replace(job, ssh=True)
        if job.compat == "apulis" and not hosts.shared and len(hosts.nodes) > 1:
            say("/job, the home directory and MUSTER_SHARED are of each host alone; `shared` of the hosts names one for all")
        return replace(job, hosts=hosts)

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        found = groups.choose(job, self._groups)[1]
        if job.ssh and not (job.hosts and job.hosts.ssh):
            found.append(("ssh", "asks for logins between the hosts", ALLOW))
        elif job.framework in LAUNCHERS and not job.ssh:
            found.append(("framework", f"is {job.framework}, which starts its ranks over ssh between the hosts", ALLOW))
        return found

    def status(self, handles: Iterable[str]) -> dict[str, Status]:
        """A run whose supervisor is gone can be taken over by another one: its ranks go on for a while without it."""
        found = super().status(handles)
        return {handle: replace(status, interrupted=not status.alive) for handle, status in found.items()}

    def remote_shell(self, job: Job, handle: str, node: int) -> str:
        host = Host.parse(job.hosts.nodes[node])
        return f"ssh {host.target}" if host else ""

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        hosts: HostsOptions = job.hosts
        argv = [*early.program(order.agent), "supervise", order.run_dir, "--code", order.code]
        argv += ["--python", early.program("")[0], "--site", "ssh"]
        if not hosts.namespaces:
            argv += ["--namespaces", "off"]
        return Request(tuple(argv), "/", f"{order.run_dir}/supervisor.log", environment)


def _devices(spec: str) -> str:
    """The kind of devices that a host has, for `device: auto`. Raises EngineError."""
    host = Host.parse(spec)
    assert host is not None  # its name was checked
    try:
        done = subprocess.run(host.argv(PROBE), capture_output=True, text=True, errors="replace", timeout=PROBE_LIMIT)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        what = "there is no `ssh` on your PATH" if isinstance(error, FileNotFoundError) else f"{spec} does not answer"
        raise EngineError(f"{what}; `device: auto` asks the first host what it has") from None
    if done.returncode == 255:
        raise EngineError(f"{spec}: {explained(host, done.stderr, done.returncode)}")
    return next((kind for kind, name in NODES.items() if name in done.stdout), "cpu")
