"""Turns Slurm's states and reasons of a job into a Status: pure functions."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable

from muster.engines.slurm.cluster import seconds
from muster.engines.slurm.node.parsing import End, Queued
from muster.engines.slurm.refusals import spelled
from muster.records.status import Status
from muster.records.text.units import duration

SETTLING = 60.0  # seconds in which what a node wrote last may not yet be seen everywhere on a shared file system
FAILED = ("FAILED", "LAUNCH_FAILED", "REVOKED")
OVER = (*FAILED, "COMPLETED", "CANCELLED", "TIMEOUT", "DEADLINE", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "PREEMPTED")
UNWRITABLE = "0:53"  # how a job ends whose output file cannot be opened
QUEUED = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"),
    *("RESV_DEL_HOLD", "POWER_UP_NODE", "EXPEDITING"),  # of some versions
)

# Why a job waits, by Slurm's reason.
WAITING = {
    "None": "Slurm has not looked at it yet",
    "Resources": "waiting: its nodes are in use by others",
    "Dependency": "waiting for a job that it depends on",
    "DependencyNeverSatisfied": "it can never start: a job that it depends on did not end as it must",
    "BeginTime": "waiting until the time at which Slurm may start it",
    "JobHeldUser": "held by its user; `scontrol release` lets it go",
    "JobHeldAdmin": "held by an administrator, who alone can release it",
    "ReqNodeNotAvail": "waiting: nodes that it needs are down, drained or reserved",
    "NodeDown": "waiting: a node that it needs is down",
    "PartitionDown": "waiting: its partition is down",
    "PartitionInactive": "waiting: its partition starts no jobs at present",
    "PartitionNodeLimit": "the request can never be met: it asks for more or fewer nodes than its partition gives to a job",
    "PartitionTimeLimit": "the request can never be met: it asks for more time than its partition gives to a job",
    "PartitionConfig": "the request can never be met: its partition gives no job what it asks for",
    "BadConstraints": "the request can never be met: no node has what it asks for",
    "AccountNotAllowed": "the request can never be met: its account may not use this partition",
    "QOSNotAllowed": "the request can never be met: its QOS may not use this partition",
    "Reservation": "waiting for its reservation to begin",
    "ReservationDeleted": "it can never start: its reservation is gone",
    "Licenses": "waiting for a licence",
    "Prolog": "its nodes are being prepared",
    "Cleaning": "Slurm clears up after its last start",
    "InvalidAccount": "the request can never be met: its account is not valid",
    "InvalidQOS": "the request can never be met: its QOS is not valid",
    "JobArrayTaskLimit": "waiting for others of its array",
    "SchedDefer": "Slurm looks at it when it has time",
    "launch failed requeued held": "held: it could not be started; `scontrol release` tries again",
    "job requeued in held state": "back in the queue and held; `scontrol release` lets it go",
    "Nodes required for job are DOWN": "waiting: nodes that it needs are down, drained or reserved",
}
COMPETING = ("None", "Priority", "Resources")  # others wait for something that is theirs alone


def status(job: Queued, everybody: Iterable[Queued], now: float | None = None) -> Status:
    """The status of a job that the controller knows."""
    if job.state in QUEUED:
        return Status(True, _waiting(job, everybody), "pending")
    if job.state in OVER:
        return ended(job, End(job.state, "", ""), now)
    if job.state in ("SUSPENDED", "STOPPED"):
        return Status(True, halted="Slurm has suspended it")
    return Status(True)


def ended(job: Queued | str, end: End, now: float | None = None) -> Status:
    """The status of a job that has ended; `job` is its id alone where only accounting knows it."""
    number = job if isinstance(job, str) else job.id
    its = f"its Slurm job {number}"
    on = f" on {end.place}" if end.place else ""
    if end.state == "COMPLETED":
        moment = time.time() if now is None else now
        if isinstance(job, Queued) and moment - job.ended < SETTLING:
            return Status(True, f"{its} has ended, and its record is on its way", settling=True)
        return Status(False, f"{its} ended, and its run directory does not say how", "lost")
    if end.state == "CANCELLED":
        by = f"by {end.by}" if end.by else "from outside of Muster (scancel)"
        return Status(False, f"{its} was cancelled {by}", "stopped")
    if end.state == "TIMEOUT":
        limit = f" of {duration(seconds(job.limit))}" if isinstance(job, Queued) and seconds(job.limit) < math.inf else ""
        return Status(False, f"Slurm ended it at the time limit{limit} of {its}", "failed")
    if end.state == "DEADLINE":
        return Status(False, f"Slurm ended it at the deadline of {its}", "failed")
    if end.state == "OUT_OF_MEMORY":
        return Status(False, f"{its} used more memory than it had asked for; raise `memory`", "failed")
    if end.state in ("NODE_FAIL", "BOOT_FAIL"):
        return Status(False, f"a node of {its} failed{f' ({end.place})' if end.place else ''}", "lost")
    if end.state == "PREEMPTED":
        return Status(False, f"{its} was preempted: its nodes went to a job that comes first", "lost")
    if end.code == UNWRITABLE:
        return Status(False, f"{its} could not write into its run directory{on}; the node may not see it", "lost")
    code, _, killed = end.code.partition(":")
    how = f" (signal {killed})" if killed not in ("", "0") else f" (code {code})" if code else ""
    return Status(False, f"{its} failed{how}{on}", "lost")


def gone(job: str) -> Status:
    """The status of a job that neither the controller nor accounting know any more."""
    return Status(False, f"Slurm no longer knows its job {job}, and its run directory does not say how it ended", "lost")


def _waiting(job: Queued, everybody: Iterable[Queued]) -> str:
    if job.state in ("CONFIGURING", "POWER_UP_NODE"):
        return "its nodes are being prepared"
    if job.state == "RESV_DEL_HOLD":
        return "held: its reservation is gone; `scontrol update` gives it another, `scontrol release` lets it go"
    if job.state in ("REQUEUED", "REQUEUE_FED", "EXPEDITING"):
        return "Slurm has put it back into the queue"
    if job.state in ("REQUEUE_HOLD", "SPECIAL_EXIT"):
        return "Slurm has put it back into the queue and holds it; `scontrol release` lets it go"
    if job.reason == "Priority":
        return _behind(job, everybody)
    if job.reason == "BeginTime" and job.starts:
        begins = time.strftime("%H:%M:%S", time.localtime(job.starts))
        times = f"{job.returns} times" if job.returns != 1 else "once"
        back = f"; it was put back into the queue {times}" if job.returns else ""
        return f"waiting: Slurm may start it at {begins}{back}"
    if job.reason.startswith(("QOS", "Assoc", "MaxCpu", "MaxGRES", "MaxMem", "MaxNode", "MaxJobs", "MaxSubmit")):
        what = "QOS" if job.reason.startswith("QOS") else "account"
        return f"waiting: a limit of its {what} is reached ({spelled(job.reason)})"
    reason, _, more = job.reason.partition(",")
    nodes = f" ({more.strip()})" if ":" in more else ""  # `UnavailableNodes:node3`
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", job.reason).replace("_", " ")
    return f"{WAITING[reason]}{nodes}" if reason in WAITING else f"waiting: {apart}"


def _behind(job: Queued, everybody: Iterable[Queued]) -> str:
    """How many jobs are ahead, where the site lets users see the jobs of others."""
    rivals = [other for other in everybody if other.state == "PENDING" and other.reason in COMPETING]
    ahead = sum(1 for other in rivals if _rank(other) < _rank(job) and {*other.partitions} & {*job.partitions})
    if not ahead:
        return "waiting: other jobs have a higher priority"
    return f"waiting: {ahead:,} job{'s' * (ahead != 1)} ahead with higher priority"


def _rank(job: Queued) -> tuple[int, int]:
    """The scheduling order of jobs: by priority, then the oldest first."""
    return -job.priority, int(job.id)
