"""Whether hosts are fit for runs, or for a job: pure functions over what they said."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.dataclass import replace
from muster.devices import KINDS, shortage
from muster.engines.local import requirements
from muster.engines.ssh.options import HostsOptions
from muster.engines.ssh.report import Accelerators, Disk, Report
from muster.job import Job
from muster.records.text.units import duration, size

Problem = tuple[str, str, str]
"""Why a job cannot run: field, message, hint."""

NEEDED = 64 << 20  # bytes that agent, records and logs of a run take on a host at least
LITTLE = 1 << 30
FAR_OFF = 1.0  # seconds by which a clock may be wrong without a word
STORES_REFUSE = 900.0  # S3 and OBS refuse requests from clocks that are further off
NAMED = 5  # hosts that are named together


def in_the_way(report: Report, hosts: HostsOptions, code: int = 0) -> list[str]:
    """What prevents a run on a host, with what to do; `code` are the bytes of the job's code."""
    if report.problem:
        return [report.problem]
    found = [
        *_disk_in_the_way(report.directory, NEEDED + 2 * code, "free some, or name another with `directory`"),
        *_disk_in_the_way(report.tmp, 0, "see to it that your user can write there"),
    ]
    if not report.address:
        found.append(report.no_address or "it has no route to the other hosts; name a network that they share with `interface`")
    return found


def _disk_in_the_way(disk: Disk, needed: int, hint: str) -> list[str]:
    if disk.problem:
        return [f"{disk.path} cannot be written: {disk.problem}; {hint}"]
    if disk.free < needed:
        return [f"{disk.path} has {size(disk.free)} free, and {size(needed)} are needed; {hint}"]
    return []


def notes(report: Report, hosts: HostsOptions) -> list[str]:
    """What a user should know of a host that can be used."""
    if report.problem:
        return []
    found = [f"{kind.kind}: {kind.trouble}" for kind in report.accelerators if kind.trouble]
    if (ascend := report.of_kind("ascend").devices) and not any(device.ip for device in ascend):
        found.append("its devices have no addresses; rank tables need /etc/hccn.conf, see `hccn_tool`")
    for disk in (report.directory, report.tmp):
        if not disk.problem and disk.free < LITTLE:
            found.append(f"{disk.path} has only {size(disk.free)} free")
    if report.namespaces and hosts.namespaces:
        found.append(f"no namespaces ({report.namespaces}); its node shares directories and processes with the host")
    if report.ssh:
        found.append(f"no logins between nodes: {report.ssh}")
    if report.logout:
        found.append(
            f"its logind kills what runs in a session when that ends (KillUserProcesses=yes in {report.logout}): ranks do not"
            " outlive a lost connection; let its administrator name your user in KillExcludeUsers there"
        )
    ahead = abs(report.clock)
    if ahead - report.clock_error > FAR_OFF:
        refused = "; stores may refuse its requests" if ahead > STORES_REFUSE else ""
        found.append(f"its clock is {duration(ahead)} {'ahead' if report.clock > 0 else 'behind'}{refused}")
    return found


def differences(reports: Sequence[Report]) -> list[str]:
    """In what hosts differ, so that one program may not run on all of them, or not as fast."""
    there = [report for report in reports if not report.problem]
    return [
        *_difference("CPU architectures", there, lambda report: report.machine),
        *_difference("Pythons of the job", there, lambda report: report.job_python_version),
        *_difference("devices", there, _devices),
        *(found for kind in KINDS for found in _different_drivers(there, kind)),
    ]


def _different_drivers(reports: Sequence[Report], kind: str) -> list[str]:
    having = [report for report in reports if report.of_kind(kind).driver]
    return _difference(f"{kind} drivers", having, lambda report: report.of_kind(kind).driver)


def _devices(report: Report) -> str:
    return described(report) or "none"


def described(report: Report) -> str:
    """The devices of a host on one line; nothing where there are none."""
    return ", ".join(
        f"{count} × {name}" if kind.kind in name.lower() else f"{count} × {kind.kind} {name}".rstrip()
        for kind in report.accelerators
        for name, count in kind.models.items()
    )


def _difference(what: str, reports: Sequence[Report], value: Callable[[Report], str]) -> list[str]:
    having: dict[str, list[str]] = {}
    for report in reports:
        having.setdefault(value(report), []).append(report.host)
    if len(having) < 2:
        return []
    return [f"hosts have different {what}: " + "; ".join(f"{found or 'none'} on {_named(on)}" for found, on in having.items())]


def _named(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - NAMED} more" if hosts[NAMED:] else ""
    return ", ".join(hosts[:NAMED]) + more


def common_kind(reports: Sequence[Report]) -> str:
    """The kind that `device: auto` means: one that all hosts have, `cpu` where none has any; empty where they differ."""
    having = {kind: sum(bool(report.of_kind(kind).devices) for report in reports) for kind in KINDS if kind != "cpu"}
    if any(report.problem for report in reports):
        return ""
    if not any(having.values()):
        return "cpu"
    return next((kind for kind, count in having.items() if count == len(reports)), "")


def lacking(job: Job, reports: Sequence[Report], code: int = 0) -> list[Problem]:
    """Why a job cannot run on hosts: of each host, everything."""
    found = [
        ("hosts", f"has {report.host}, which cannot be used: {reason}", "")
        for report in reports
        for reason in in_the_way(report, job.hosts, code)
    ]
    there = [report for report in reports if not report.problem]
    workers = [report for report in reports[: job.nodes] if not report.problem]
    if job.device == "auto" and workers and not common_kind(workers):
        [difference] = _difference("devices", workers, _devices)
        return [*found, ("device", f"is `auto`, and {difference}", "name the kind with `device`, and hosts that have it")]
    found += [problem for report in there for problem in _lacking_on(job, report, report in workers)]
    return found or _lacking_together(job, workers)


def _lacking_together(job: Job, workers: Sequence[Report]) -> list[Problem]:
    """What machines lack that are named more than once, by different names."""
    machines: dict[str, list[Report]] = {}
    for report in workers:
        if report.place is not None and report.place.network and job.device not in ("auto", "cpu"):
            machines.setdefault(report.place.network, []).append(report)
    hint = "name each machine once, or ask for fewer devices"
    return [
        ("hosts", f"has {same[1].host}, which is the same machine as {same[0].host}, and the job {lacking}", hint)
        for same in machines.values()
        if len(same) > 1
        and (lacking := shortage(job.device, same[0].of_kind(job.device).devices, len(same), job.devices, "it"))
    ]


def _lacking_on(job: Job, report: Report, worker: bool) -> list[Problem]:
    """What a host lacks for a job; parameter servers, which are no workers, have no devices."""
    found: list[Problem] = []
    if worker and job.device not in ("auto", "cpu"):
        kind = report.of_kind(job.device)
        trouble = [kind.trouble] if kind.trouble else []
        doctor = f"muster doctor --hosts {report.host}"
        found += requirements.lacking_devices(job, 1, kind.devices, trouble, report.host, doctor)
    if _lacks_python(job, report) and not _may_bring_programs(job):
        hint = "install it there, or name one that all hosts have"
        found.append(("python", f"is {job.python}, which {report.host} ({report.machine}) does not have", hint))
    found += [
        (
            "framework",
            f"is {job.framework}, and {report.host} has no {name} on its PATH",
            requirements.LAUNCHER[job.framework][1],
        )
        for name, path in (report.programs or {}).items()
        if not path
    ]
    if job.ssh and report.ssh:
        found.append(("ssh", f"asks for logins between the hosts, and on {report.host} {report.ssh}", ""))
    return found


def wanted_python(job: Job) -> str:
    """The Python that hosts must have for a job; a relative path leads into its code, which they do not have yet."""
    return job.python if job.boot and ("/" not in job.python or job.python.startswith("/")) else ""


def _lacks_python(job: Job, report: Report) -> bool:
    return bool(wanted_python(job)) and report.programs is not None and not report.job_python


def _may_bring_programs(job: Job) -> bool:
    return bool(job.setup) or "PATH" in job.env


def warnings(job: Job, reports: Sequence[Report]) -> list[str]:
    """What a job may run into on hosts on which it can run."""
    reports = [replace(report, accelerators=_of_job(job, report)) for report in reports]
    found = [f"{report.host}: {note}" for report in reports for note in notes(report, job.hosts)]
    for report in reports:
        if _lacks_python(job, report) and _may_bring_programs(job):
            found.append(f"{report.host} has no {job.python} yet; `setup` or `env` of the job has to bring it")
        if job.cpus and report.cpus and job.cpus > report.cpus:
            found.append(f"the job asks for {job.cpus} CPUs per node; {report.host} has {report.cpus}")
        if job.memory and report.memory and job.memory > report.memory:
            found.append(f"the job asks for {size(job.memory)} of memory per node; {report.host} has {size(report.memory)}")
    return found + differences(reports)


def _of_job(job: Job, report: Report) -> tuple[Accelerators, ...]:
    return tuple(kind for kind in report.accelerators if kind.kind == job.device)
