"""The ssh engine: a supervisor on this machine, and agents on hosts that share nothing with it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from muster.dataclass import replace
from muster.devices import KINDS
from muster.engines.base import Beside, Order, Place, Request
from muster.engines.local import early, requirements
from muster.engines.own_supervisor import OwnSupervisor
from muster.engines.ssh import fitness, groups
from muster.engines.ssh.options import HostsOptions, Site
from muster.engines.ssh.report import Report, Wanted
from muster.job import LAUNCHERS, Job
from muster.job.data import local_path
from muster.records.status import Status

if TYPE_CHECKING:
    from muster.engines.carriers import Carriers

SHORTEST = 10.0  # seconds in which a host shows a few signs of life
ALLOW = "allow it with `ssh = true` in the group of hosts, or `hosts: {ssh: true, ...}` in the job"


class Ssh(OwnSupervisor):
    name = "ssh"
    shares_files = False

    @cached_property
    def _known(self) -> dict[tuple[HostsOptions, Wanted | None], list[Report]]:
        return {}

    @cached_property
    def _groups(self) -> Mapping[str, Site]:
        found: Mapping[str, Site] = self.settings.sites.get("ssh") or {}
        return found

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        hosts, problems = groups.choose(job, self._groups)
        if problems or self._mistyped(job):
            return job
        if hosts.lost_after is not None and hosts.lost_after < SHORTEST:
            say(f"`lost_after` is shorter than {SHORTEST:g} s: a busy network may take hosts for lost")
        if job.hosts and (job.hosts.hostfile or job.hosts.nodes):
            listed = len(groups.meant(job.hosts, self._groups)[0].nodes)
            where = "the hostfile has" if job.hosts.hostfile else "`hosts` names"
            if listed > len(hosts.nodes):
                say(f"{where} {listed} hosts, and `nodes` takes the first {len(hosts.nodes)}")
        if job.device == "auto":
            kind = fitness.common_kind(self._reports(hosts)[: job.nodes])
            job = replace(job, device=kind or "auto")  # where they differ, `impossible` says so
        if job.ssh is None and hosts.ssh and (job.framework in LAUNCHERS or job.compat == "apulis"):
            job = replace(job, ssh=True)
        if job.compat == "apulis" and not hosts.shared and len(hosts.nodes) > 1:
            say("/job, the home directory and MUSTER_SHARED are of each host alone; `shared` of the hosts names one for all")
        for name, data in job.inputs.items():
            if path := local_path(data.url):
                say(f"{path} is sent to each host (input `{name}`); data that they have is named in `parameters` or `env`")
        return replace(job, hosts=hosts)

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        found = groups.choose(job, self._groups)[1] or self._mistyped(job)
        if reason := KINDS[job.device].impossible(job.devices) if job.device in KINDS else "":
            found.append(("devices", f"cannot be given: {reason}", "ask for one of these"))
        if job.ssh and not (job.hosts and job.hosts.ssh):
            found.append(("ssh", "asks for logins between the hosts", ALLOW))
        elif job.framework in LAUNCHERS and not job.ssh:
            found.append(("framework", f"is {job.framework}, which starts its ranks over ssh between the hosts", ALLOW))
        if job.device == "auto" and not found:
            found += fitness.lacking(job, self._reports(job.hosts))
        return found

    def _mistyped(self, job: Job) -> list[tuple[str, str, str]]:
        return groups.mistyped(job.hosts.group, self._groups) if job.hosts else []

    def examine(self, job: Job, code: int, say: Callable[[str], None]) -> list[tuple[str, str, str]]:
        launcher = requirements.launcher(job)
        wanted = Wanted(fitness.wanted_python(job), (launcher,) if launcher else ())
        reports = self._reports(job.hosts, wanted)
        for warning in fitness.warnings(job, reports):
            say(warning)
        return fitness.lacking(job, reports, code)

    def _reports(self, hosts: HostsOptions, wanted: Wanted | None = None) -> list[Report]:
        """What the hosts say of themselves, who are asked once for each set of questions."""
        asked = (hosts, wanted)
        if asked not in self._known:
            from muster.engines.ssh.survey import Survey  # here, because few runs need it

            assert self._agent is not None  # given to the engine of a job that is prepared
            with Survey(hosts, self._agent(), wanted=wanted) as survey:
                self._known[asked] = survey.reports()
        return self._known[asked]

    def status(self, handles: Iterable[str]) -> dict[str, Status]:
        """A run whose supervisor is gone can be taken over by another one: its ranks go on for a while without it."""
        found = super().status(handles)
        return {
            handle: status if status.alive else replace(status, interrupted=True, survivors=True)
            for handle, status in found.items()
        }

    def execute(self, command: Beside) -> tuple[int, str]:
        from muster.engines.ssh import exec

        return exec.execute(command)

    def open_connection(self, place: Place, port: int, carriers: Carriers) -> socket.socket:
        from muster.engines.ssh import ports

        return carriers.open((self.home, place.run_id, place.node), lambda: ports.carrier(place), port)

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        hosts: HostsOptions = job.hosts
        argv = [*early.program(order.agent), "supervise", order.run_dir, "--code", order.code]
        argv += ["--python", early.program("")[0], "--site", "ssh"]
        if not hosts.namespaces:
            argv += ["--namespaces", "off"]
        return Request(tuple(argv), "/", f"{order.run_dir}/supervisor.log", environment)
