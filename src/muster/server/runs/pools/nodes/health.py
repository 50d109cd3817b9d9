"""Whether a node passes its check: pure functions over what it said of itself, and what was known of it before."""

import errno
import os
import time

from muster.config.pools import Pool as Settings
from muster.dataclass import replace
from muster.engines.ssh import fitness
from muster.engines.ssh.fitness import STORES_REFUSE
from muster.engines.ssh.options import HostsOptions
from muster.engines.ssh.report import Disk, Report
from muster.records.text.units import duration, size
from muster.server.runs.pools.nodes.state import Device, NodeState

FULL = tuple(os.strerror(number).lower() for number in (errno.ENOSPC, errno.EDQUOT))


def judged(report: Report, hosts: HostsOptions, settings: Settings, before: NodeState) -> NodeState:
    """The node after a check. What a node had before stays known where it does not answer now."""
    now = time.time()
    if report.problem:
        return before.failed(report.problem, now)
    silent = _silent(report, before)
    kept = tuple(device for device in before.devices if device.kind in silent)
    return NodeState(
        before.name,
        _problem(report, hosts, settings, silent),
        before.unreached,
        now,
        tuple(fitness.notes(report, hosts)),
        report.cpus or None,
        report.memory or None,
        report.memory_free,
        report.directory.free,
        report.clock,
        (*kept, *(device for device in _devices(report, before) if device.kind not in silent)),
        seen=True,
        short=_short(report, settings),
    )


def _problem(report: Report, hosts: HostsOptions, settings: Settings, silent: dict[str, str]) -> str:
    """The first reason for which nothing should start on a node until somebody sees to it; empty where there is none."""
    spacious = replace(report, directory=_with_space(report.directory), tmp=_with_space(report.tmp))
    found = [
        *fitness.in_the_way(spacious, hosts),
        *(f"its {kind} devices do not answer: {said}" for kind, said in silent.items()),
    ]
    if abs(report.clock) - report.clock_error > STORES_REFUSE:
        found.append(f"its clock is {duration(abs(report.clock))} {'ahead' if report.clock > 0 else 'behind'}; set it by NTP")
    return found[0] if found else ""


def _short(report: Report, settings: Settings) -> str:
    """What a node lacks until a run there ends or somebody frees some; empty where there is nothing."""
    found = [*_little(report.directory, settings.disk_free), *_little(report.tmp, 0)]
    if report.memory_free < settings.memory_free:
        found.append(f"it has {size(report.memory_free)} of memory free, and {size(settings.memory_free)} are needed")
    return found[0] if found else ""


def _with_space(disk: Disk) -> Disk:
    return replace(disk, free=max(disk.free, fitness.NEEDED), problem="" if disk.problem in FULL else disk.problem)


def _little(disk: Disk, needed: int) -> list[str]:
    if disk.problem in FULL:
        return [f"{disk.path} is full; free some"]
    if disk.free >= needed:
        return []
    return [f"{disk.path} has {size(disk.free)} free, and {size(needed)} are needed; free some"]


def _silent(report: Report, before: NodeState) -> dict[str, str]:
    """Kinds of devices that the node has or had, and whose driver does not answer."""
    had = {device.kind for device in before.devices} | {one.kind for one in report.accelerators if one.devices}
    said = {one.kind: one.trouble for one in report.accelerators if one.trouble and not one.devices}
    return {kind: why for kind, why in {**said, **(report.unanswered or {})}.items() if kind in had}


def _devices(report: Report, before: NodeState) -> list[Device]:
    """The devices of a node. Holders of locks that were known are not told again."""
    holders = {device.lock: device for device in before.devices if device.lock}
    uses = {(use.kind, use.id): use for use in report.uses or ()}
    found = []
    for accelerators in report.accelerators:
        for device in accelerators.devices:
            kind, use = accelerators.kind, uses.get((accelerators.kind, device.id))
            if use is None:
                found.append(Device(kind, int(device.id), device.name))
                continue
            known = holders.get(use.lock)
            who, run = (use.who, use.run) if use.who or known is None else (known.who, known.run)
            found.append(Device(kind, int(device.id), device.name, use.lock, who or "another run", run))
    return found
