"""Why Slurm signals or ends a job: from what it shows of the job, and what it leaves in the output of the batch script."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from muster.engines.slurm.node.parsing import moment
from muster.records.run_view import Cause, Stop

# States of a job that goes on, also while Slurm sends it a signal; all others are on the way to its end.
GOING_ON = ("RUNNING", "SIGNALING", "RESIZING", "CONFIGURING", "SUSPENDED", "STOPPED")
# Why Slurm ends a job, in the words that it leaves in the output of the batch script: the cause for the run, and a reason.
ENDS = {
    "PREEMPTION": (Cause.PREEMPTED, "Slurm preempted the job"),
    "NODE FAILURE": (Cause.TERMINATED, "a node of the job failed"),
    "TIME LIMIT": (Cause.TIME_LIMIT, "it came to the time limit of its Slurm job"),
    "JOB REQUEUE": (Cause.TERMINATED, "Slurm ended the job to start it again"),
}


def meaning(job: Mapping[str, str], signal: str, now: float, near: float, grace_time: float = math.inf) -> Stop:
    """Returns why Slurm signals a job that `scontrol show job` shows like this, and in how many seconds it ends the job.

    The end is near in the last `near` seconds. Of a job without a time limit Slurm does not show when a preemption ends it:
    that is after the GraceTime of its partition.
    """
    if not job:
        return Stop(Cause.TERMINATED, f"the job was told to end ({signal}), and Slurm does not say why")
    preempted = moment(job.get("PreemptTime", ""))
    if job.get("JobState") not in GOING_ON:
        return Stop(*ENDS["PREEMPTION"]) if preempted else Stop(Cause.TERMINATED, f"Slurm ended the job ({signal})")
    end = moment(job.get("EndTime", ""))
    left = max(0.0, end - now) if end else math.inf
    if preempted:
        return Stop(*ENDS["PREEMPTION"], left if end else max(0.0, preempted + grace_time - now))
    if left <= near:
        return Stop(*ENDS["TIME LIMIT"], left)
    return Stop(Cause.STOP, f"somebody told the job to end ({signal})", left)


def meaning_of(ends: str) -> Stop | None:
    """Returns the cause of the end of a job by the reason that Slurm gives; None for an unknown one."""
    return next((Stop(*meant) for words, meant in ENDS.items() if ends.startswith(words)), None)


def ends(log: str, job: str) -> str:
    """Why Slurm ends a job, as the output of its batch script says; nothing of one that is cancelled, or only warned."""
    found = re.findall(rf"\*\*\* JOB {re.escape(job)} ON \S+ CANCELLED AT \S+(?: DUE TO (.+?))? \*\*\*", log)
    return str(found[-1]) if found else ""
