"""Parses the output of Slurm's programs: pure functions, in the formats that every version knows."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection

from muster.dataclass import dataclass
from muster.linux import proc

KILL_WAIT = 30.0  # Slurm's default
HANDLE = re.compile(r"^[0-9]+(?:;\S+)?$", re.MULTILINE)  # `12`, or `12;west` of a cluster with a name
# What is printed when the controller does not respond, in the words of different versions.
SILENT = re.compile(
    r"unable to (contact|connect)|connect(ion)? (failure|refused|timed out)|timed out|zero bytes were transmitted"
    r"|backup controller|unable to establish|communication|configuration source|authentication|munge|transport endpoint"
    r"|try again|name or service not known|no route to host|network is (down|unreachable)|talking to the database|slurmdbd",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Queued:
    """A job as the controller shows it."""

    id: str
    state: str
    priority: int
    partitions: tuple[str, ...]
    user: str
    limit: str
    starts: float  # or started; 0 where that is unknown
    ended: float  # or when it will have to end
    reason: str
    name: str
    returns: int = 0  # how often it was put back into the queue, where that was asked


@dataclass(frozen=True)
class End:
    """A job that is over, as accounting or the controller remember it."""

    state: str
    code: str  # of the batch script, with the signal: `1:0`
    place: str  # where it ran
    by: str = ""  # the user who cancelled it


@dataclass(frozen=True)
class SlurmNode:
    """A node as `scontrol show node` shows it."""

    name: str
    address: str
    state: str = ""


def fields(line: str) -> dict[str, str]:
    """The `Name=value` pairs of a line that scontrol prints with --oneliner."""
    return dict(re.findall(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)", line))


def error_lines(stderr: str, code: int) -> list[str]:
    """The last lines that a program wrote about an error, without its name."""
    lines = [re.sub(r"^\w+: (error: |fatal: )?", "", line.strip()) for line in stderr.splitlines() if line.strip()]
    return list(dict.fromkeys(lines[-3:])) or [f"it ended with code {code} and no word"]


def queued(line: str) -> Queued | None:
    """A line of squeue in the format QUEUE; None for the second line of a name with a line break."""
    values = line.split("|", 9)
    if len(values) != 10 or not values[0].isdigit():
        return None
    job, state, priority, partitions, user, limit, starts, ended, reason, name = values
    level = int(priority) if priority.isdigit() else 0
    names, words = tuple(partitions.split(",")), reason.strip("()")
    return Queued(job, state, level, names, user, limit, moment(starts), moment(ended), words, name)


def machines(shown: str) -> list[SlurmNode]:
    """The nodes that `scontrol show node --oneliner` shows."""
    found = [fields(line) for line in shown.splitlines() if line.startswith("NodeName=")]
    return [SlurmNode(node["NodeName"], node.get("NodeAddr", node["NodeName"]), node.get("State", "")) for node in found]


def kill_wait(config: str) -> float:
    """KillWait as `scontrol show config` shows it."""
    match = re.search(r"^KillWait\s*=\s*(\d+)", config, re.MULTILINE)
    return float(match.group(1)) if match else KILL_WAIT


def grace_time(partition: str) -> float:
    """GraceTime as `scontrol show partition` shows it; infinite for none, where that of a QOS may count."""
    match = re.search(r"\bGraceTime=(\d+)", partition)
    return float(match.group(1)) if match and match.group(1) != "0" else math.inf


def gives_cpus(config: str, shown: str, partitions: Collection[str]) -> bool:
    """True if `scontrol show config` and `partition` give whole nodes, or CPUs for each GPU, to jobs that ask for no CPUs."""
    if re.search(r"^SelectType +=.*linear|^JobDefaults +=.*DefCpuPerGPU", config, re.MULTILINE):
        return True
    found = [entry for line in shown.splitlines() if "PartitionName" in (entry := fields(line))]
    meant = [one for one in found if (one["PartitionName"] in partitions if partitions else one.get("Default") == "YES")]
    return bool(meant) and all("DefCpuPerGPU" in one.get("JobDefaults", "") for one in meant)


def pmi_kinds(shown: str) -> list[str]:
    """The kinds of PMI that `srun --mpi=list` shows; older versions show them on the error output."""
    said = re.sub(r"^srun: ", "", shown, flags=re.MULTILINE)
    versions = re.findall(r"versions available: *(.*)", said)
    words = [line.strip() for line in said.splitlines() if line.strip() and not re.search(r"[:.]", line)]
    return sorted({*words, *re.findall(r"[\w-]+", " ".join(versions))} - {"none"})


def moment(text: str) -> float:
    """A time, in seconds or as Slurm writes it by default; 0 for none."""
    if text.isdigit():
        return float(text)
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0


def user_name(number: str) -> str:
    """The name of a user who is known by a number."""
    return (proc.user_name(int(number)) if number.isdigit() else None) or number


def end(state: str, code: str, place: str) -> End:
    """How a job ended, from its state, such as `CANCELLED by 1000`, its exit code and its nodes."""
    state, _, by = state.partition(" by ")
    return End(state.split(" ")[0].rstrip("+"), code, "" if place in ("(null)", "None assigned") else place, user_name(by))
