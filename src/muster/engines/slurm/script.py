"""Renders the batch script of a run: a pure function of the job, the order and the chosen options."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator

from muster.engines.base import Order
from muster.engines.slurm.node.allocation import BATCH_LOG
from muster.engines.slurm.options import Chosen
from muster.job import Job

RECORDING = 10  # seconds that agents and supervisor have beside the ranks' grace to write down how it ended
EARLY = 60  # Slurm may send a signal this many seconds before its time
LATEST = 65535  # the most that sbatch takes for --signal

SCRIPT = """\
#!/bin/sh
{directives}
for python in {pythons}; do
  "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
  exec "$python" -I -S {agent} supervise {run_dir} --code {code} --python "$(command -v "$python")" --site slurm{more}
done
echo "muster: $(hostname) has no Python 3.9 or newer, not even" {pythons} '- set `python` below [slurm] in config.toml' >&2
exit 127
"""


def render(
    job: Job,
    order: Order,
    chosen: Chosen,
    python: str,
    longest: float = math.inf,
    namespaces: bool = True,
    account: str = "",
) -> str:
    """The complete script; `python` is the one that runs the submitter's command, `longest` what the site gives to a job.

    `account` is the user whose processes the ranks are, where the job is root's.
    """
    more = "" if namespaces else " --namespaces off"
    more += f" --account {shlex.quote(account)} --variables environment" if account else ""
    pythons = [chosen.python] if chosen.python else [python, "python3"]
    asked = [f"--{name}" if value is None else f"--{name}={value}" for name, value in _asked(job, order, chosen, longest)]
    lines = [f"#SBATCH {_quoted(option)}" for option in (*asked, *chosen.options)]
    return SCRIPT.format(
        directives="\n".join(lines),
        pythons=shlex.join(pythons),
        agent=shlex.quote(order.agent),
        run_dir=shlex.quote(order.run_dir),
        code=shlex.quote(order.code),
        more=more,
    )


def _asked(job: Job, order: Order, chosen: Chosen, longest: float) -> Iterator[tuple[str, str | None]]:
    """The options of sbatch with their values, None for those without one."""
    yield "job-name", os.path.basename(order.run_dir)
    yield "nodes", str(job.nodes + job.ps)
    yield "ntasks-per-node", "1"
    if job.cpus:
        yield "cpus-per-task", str(job.cpus)
    if job.memory:
        yield "mem", f"{math.ceil(job.memory / (1 << 20))}M"
    if devices := requested(job, chosen):
        yield "gpus-per-node" if chosen.gpus_per_node else "gres", devices
    if job.time_limit:
        yield "time", _time(min(longest, job.time_limit + warning(job) + 2 * EARLY))
    for name in ("partition", "account", "qos", "constraint", "reservation", "comment"):
        if value := getattr(chosen, name):
            yield name, value
    if chosen.exclusive:
        yield "exclusive", None
    yield "requeue", None
    yield "signal", f"B:TERM@{warning(job)}"
    yield "chdir", "/"
    yield "output", order.run_dir.replace("%", "%%") + f"/{BATCH_LOG}"
    yield "open-mode", "append"
    yield "export", "ALL"


def requested(job: Job, chosen: Chosen) -> str:
    """The devices of a node as a GRES: `npu:8`; nothing where they are simulated."""
    name = chosen.gres.partition(":")[2] if chosen.gpus_per_node else chosen.gres
    return ":".join(filter(None, [name, str(job.devices)])) if chosen.gres else ""


def warning(job: Job) -> int:
    """How many seconds before its time limit a run gets SIGTERM."""
    return min(LATEST, math.ceil(job.grace) + RECORDING)


def _time(seconds: float) -> str:
    """A time as Slurm writes it; it counts in minutes."""
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02d}:{minutes % 60:02d}:00"


def _quoted(value: str) -> str:
    """Quotes an option for an #SBATCH line, where backslashes escape inside of quotes, too."""
    if not set(value) & set(" \"'\\#"):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
