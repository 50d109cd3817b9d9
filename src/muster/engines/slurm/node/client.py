"""What Slurm is asked from inside a job, and what it answers, as data."""

from __future__ import annotations

import math
import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from muster.records.failure_text import size

ANSWER_LIMIT = 10.0  # for a controller that is busy; without an answer the run goes on as well as it can
KILL_WAIT = 30.0  # Slurm's own default
MARGIN = 2.0  # seconds that agents need for themselves after their ranks are gone
# One agent per node, whatever becomes of the others: they stop each other, and with the grace that the job asks for.
FIXED = "--ntasks-per-node=1 --kill-on-bad-exit=0 --wait=0 --mpi=none --cpu-bind=none --export=ALL --input=none"
# What a job step has to be told again, by the variable in which the batch script finds it.
AGAIN = {"SLURM_CPUS_PER_TASK": "--cpus-per-task", "SLURM_MEM_PER_NODE": "--mem", "SLURM_MEM_PER_CPU": "--mem-per-cpu"}
AGAIN["SLURM_GPUS_PER_NODE"] = "--gpus-per-node"


# States of a job that goes on, also while Slurm sends it a signal; all others are on the way to its end.
GOING_ON = ("RUNNING", "SIGNALING", "RESIZING", "CONFIGURING", "SUSPENDED", "STOPPED")
# Why Slurm ends a job, in the words that it leaves in the output of the batch script, and what that is to a run.
ENDS = {
    "PREEMPTION": ("preempted", "Slurm preempted the job"),
    "NODE FAILURE": ("terminated", "a node of the job failed"),
    "TIME LIMIT": ("time_limit", "it came to the time limit of its Slurm job"),
    "JOB REQUEUE": ("terminated", "Slurm ended the job to start it again"),
}
# What is said when the controller does not answer.
SILENT = re.compile("unable to contact|timed out|connect|try again", re.IGNORECASE)
# What belongs to a job and not to the one who submitted it; the rest tells Slurm's programs which Slurm is meant.
OF_THE_JOB = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI_", "PMIX_")
OF_THE_SITE = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")

# What a node does first: an agent that it cannot see cannot tell of it.
LOOK = """\
unfit() { echo "muster: $SLURMD_NODENAME: $1" >&2; sleep 1; exit 75; }  # srun may tell of an end before it tells what was said
python=$1
shift
test -e "$1" || unfit "this node does not see $1; MUSTER_HOME has to lie where all nodes see it"
command -v "$python" >/dev/null || unfit "this node has no $python; set \\`python\\` below [slurm] in config.toml"
exec "$python" -I -S "$@"
"""


class SlurmError(Exception):
    """A question that Slurm did not answer."""


class NoAnswer(SlurmError):
    """One to which nobody said anything: what was asked for may have happened all the same."""


@dataclass(frozen=True)
class Machine:
    """A node as Slurm knows it."""

    name: str
    address: str
    state: str = ""


@dataclass(frozen=True)
class Allocation:
    """The machines of an attempt, in the order of their numbers, and how long Slurm waits before it kills."""

    nodes: tuple[Machine, ...]
    kill_wait: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Allocation:
        return cls(tuple(Machine(**node) for node in data["nodes"]), data["kill_wait"])


@dataclass(frozen=True)
class Meaning:
    """What Slurm means by a signal, and in how many seconds it ends the job."""

    cause: str
    words: str
    seconds: float = 0.0


def meaning(job: Mapping[str, str], signal: str, now: float, near: float, grace_time: float = math.inf) -> Meaning:
    """What a signal to a job means that `scontrol show job` shows like this; its end is near in the last `near` seconds.

    Of a job without a time limit it does not show when a preemption ends it: that is after the GraceTime of its partition.
    """
    if not job:
        return Meaning("terminated", f"the job was told to end ({signal}), and Slurm does not say why")
    preempted = _moment(job.get("PreemptTime", ""))
    if job.get("JobState") not in GOING_ON:
        return Meaning(*ENDS["PREEMPTION"]) if preempted else Meaning("terminated", f"Slurm ended the job ({signal})")
    end = _moment(job.get("EndTime", ""))
    left = max(0.0, end - now) if end else math.inf
    if preempted:
        return Meaning(*ENDS["PREEMPTION"], left if end else max(0.0, preempted + grace_time - now))
    if left <= near:
        return Meaning(*ENDS["TIME LIMIT"], left)
    return Meaning("stop", f"somebody told the job to end ({signal})", left)


def meaning_of(ends: str) -> Meaning | None:
    """What it means that Slurm ends a job for such a reason, if it is one that is known."""
    return next((Meaning(*meant) for words, meant in ENDS.items() if ends.startswith(words)), None)


def ends(log: str, job: str) -> str:
    """Why Slurm ends a job, as the output of its batch script says; nothing of one that is cancelled, or only warned."""
    found = re.findall(rf"\*\*\* JOB {re.escape(job)} ON \S+ CANCELLED AT \S+(?: DUE TO (.+?))? \*\*\*", log)
    return str(found[-1]) if found else ""


def _moment(text: str) -> float:
    """A time as Slurm writes it; 0 for none."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0


def submit(script: str, environment: Mapping[str, str]) -> str:
    """Hands in a script from inside of a job, with the environment of who submitted that; returns the id of the new one."""
    kept = {name: value for name, value in environment.items() if name in OF_THE_SITE or not name.startswith(OF_THE_JOB)}
    said = ask("sbatch", "--parsable", script, environment=kept)
    numbers = re.findall(r"^[0-9]+(?:;\S+)?$", said, re.MULTILINE)  # a site's own sbatch may say more
    if not numbers:
        raise SlurmError(f"sbatch told no number of a job: {said.strip()}")
    return str(numbers[-1])


def ask(*words: str, environment: Mapping[str, str] | None = None) -> str:
    """What one of Slurm's programs prints."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_LIMIT, env=environment)
    except OSError as error:
        raise SlurmError(f"{words[0]} does not work: {error}") from None
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(f"{words[0]} does not work: {error}") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"code {done.returncode}"
        kind = NoAnswer if SILENT.search(said) else SlurmError
        raise kind(f"{words[0]} does not work: {said}")
    return done.stdout.decode("utf-8", "replace")


def fields(line: str) -> dict[str, str]:
    """The `Name=value` pairs of a line that scontrol prints with --oneliner."""
    return dict(re.findall(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)", line))


def machines(shown: str) -> list[Machine]:
    """The nodes that `scontrol show node --oneliner` shows."""
    found = [fields(line) for line in shown.splitlines() if line.startswith("NodeName=")]
    return [Machine(node["NodeName"], node.get("NodeAddr", node["NodeName"]), node.get("State", "")) for node in found]


def kill_wait(shown: str) -> float:
    """KillWait as `scontrol show config` shows it."""
    match = re.search(r"^KillWait\s*=\s*(\d+)", shown, re.MULTILINE)
    return float(match.group(1)) if match else KILL_WAIT


def grace_time(shown: str) -> float:
    """GraceTime as `scontrol show partition` shows it; where it is none, that of a QOS may count, which nobody tells."""
    match = re.search(r"\bGraceTime=(\d+)", shown)
    return float(match.group(1)) if match and match.group(1) != "0" else math.inf


def resolved(address: str) -> str:
    """A node's address as a number: ranks may not be able to look names up."""
    try:
        return socket.gethostbyname(address)
    except OSError:
        return address


def srun(nodes: int, environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """The argv that starts one command on each node of a job. Devices need no word: a step has all that the job has."""
    again = [f"{option}={environment[name]}" for name, option in AGAIN.items() if environment.get(name)]
    return ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", *FIXED.split(), *again, *command]


def agent(python: str, archive: str, words: Sequence[str]) -> list[str]:
    """The argv of an agent on a node that may lack what it needs."""
    return ["/bin/sh", "-c", LOOK, "sh", python, archive, *words]


def ended_tasks(log: str) -> dict[int, str]:
    """The tasks of which srun says that they did not end well, each with how."""
    found: dict[int, str] = {}
    for numbers, how in re.findall(r"^srun: error: \S+: tasks? ([\d,-]+): (.+)$", log, re.MULTILINE):
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            found.update({task: how.strip() for task in range(int(first), int(last or first) + 1)})
    return found


def over_memory(log: str) -> tuple[str, str] | None:
    """The node that used more memory than the job has there, as far as srun tells, and how much, if one did."""
    killed = re.search(r"^slurmstepd-?(\S*): error: StepId=\S+ exceeded memory limit \((\d+) > (\d+)\)", log, re.MULTILINE)
    if killed:
        name, used, limit = killed.groups()
        return name, f"used {size(int(used))}, more than the {size(int(limit))} that the job has there"
    killed = re.search(r"^srun: error: (\S+): tasks? [\d,-]+: Out Of Memory", log, re.MULTILINE)
    return (killed.group(1), "used more memory than the job has there") if killed else None


def unreached(log: str) -> list[str]:
    """The nodes on which srun could not start anything."""
    return re.findall(r"^srun: error: Task launch for \S+ failed on node (\S+): ", log, re.MULTILINE)


def own_words(log: str, name: str) -> str | None:
    """What the agent of a node said through srun before it had a log of its own."""
    found = re.findall(rf"^muster: {re.escape(name)}: (.+)$", log, re.MULTILINE)
    return found[-1] if found else None
