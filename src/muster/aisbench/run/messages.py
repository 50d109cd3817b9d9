"""Messages that AISBench's tools print while a job runs and when it is stopped, for a run of Muster."""

import time

from muster.aisbench.config.mode import OFFLINE, V2
from muster.launch.run import Run
from muster.plan.compat.modelarts import job_id, resource_id
from muster.records.run_view import RunView, State

# The names of a run's state in both versions of the platform.
STATUS = {
    "pending": ("JOBSTAT_WAITING", "Pending"),
    "starting": ("JOBSTAT_INIT", "Creating"),
    "running": ("JOBSTAT_RUNNING", "Running"),
    "stopping": ("JOBSTAT_KILLING", "Terminating"),
    "succeeded": ("JOBSTAT_COMPLETED", "Completed"),
    "failed": ("JOBSTAT_FAILED", "Failed"),
    "stopped": ("JOBSTAT_KILLED", "Terminated"),
    "lost": ("JOBSTAT_LOST", "Abnormal"),
    "damaged": ("JOBSTAT_LOST", "Abnormal"),
}


def identity(run: Run, kind: str) -> str:
    """The id that the platform would give the run."""
    return job_id(run.id) if kind == V2 else run.id if kind == OFFLINE else resource_id(run.id)


def status(state: str, kind: str) -> str:
    old, new = STATUS[state]
    return f"phase {new}" if kind == V2 else f"status {old}"


def created(run: Run, kind: str, version: int) -> str:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    if kind == V2:
        head = f"create job sucess. job_id:{identity(run, kind)}  job name:{run.job.name}"
        return f"{head} create_time:{now} job_log_prefix:{run.job.log_url}"
    return f"create sucess job_id:{run.id} resource_id:{identity(run, kind)} version_name:V{version:04d} create_time:{now}"


def waiting(state: str, kind: str, seconds: float) -> str:
    return f"waiting for task, {status(state, kind)}, total time: {seconds:.0f}(s)"


def ended(view: RunView, kind: str, seconds: float) -> str:
    if view.state is State.SUCCEEDED:
        return f"task succeeded, total time {seconds:.0f}(s)"
    return f"task failed, {status(view.state, kind)}, please check the logs in log/: {view.reason}"


def stopped(run: Run, kind: str, version: int, state: str) -> str:
    """The message after a stop; `state` is that of the run before."""
    if kind == V2:
        return f"job stop status: {STATUS[run.state][1]}"
    done = f"jobstatus:{STATUS[state][0]} stop status:{{'is_success': {run.ended}}}"
    outcome = "no need stop" if State(state).ended else done
    return f"jobname:{run.job.name} jobid:{identity(run, kind)} preversionid:{version} {outcome}"
