"""The job step of the agents: the srun that starts it, and what the log of srun says about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from muster.records.text.units import size

# One agent per node, whatever becomes of the others: they stop each other, and with the grace that the job asks for.
FIXED = "--ntasks-per-node=1 --kill-on-bad-exit=0 --wait=0 --mpi=none --cpu-bind=none --export=ALL --input=none"
# What a job step does not inherit from its job, by the variable that holds it in the batch script.
REPEATED = {
    "SLURM_CPUS_PER_TASK": "--cpus-per-task",
    "SLURM_MEM_PER_NODE": "--mem",
    "SLURM_MEM_PER_CPU": "--mem-per-cpu",
    "SLURM_GPUS_PER_NODE": "--gpus-per-node",
}
# What a node does before it starts an agent: one that it cannot see cannot say so.
CHECK = """\
unfit() { echo "muster: $SLURMD_NODENAME: $1" >&2; sleep 1; exit 75; }  # srun may report an end before the output
python=$1
shift
test -e "$1" || unfit "this node does not see $1; MUSTER_HOME has to lie where all nodes see it"
command -v "$python" >/dev/null || unfit "this node has no $python; set \\`python\\` below [slurm] in config.toml"
exec "$python" -I -S "$@"
"""


def srun(nodes: int, environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """The argv that starts one command on each node of a job. A step has the devices of its job without asking."""
    repeated = [f"{option}={environment[name]}" for name, option in REPEATED.items() if environment.get(name)]
    return ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", *FIXED.split(), *repeated, *command]


def agent(python: str, archive: str, words: Sequence[str]) -> list[str]:
    """The argv of an agent on a node that may lack what it needs."""
    return ["/bin/sh", "-c", CHECK, "sh", python, archive, *words]


def ended_tasks(log: str) -> dict[int, str]:
    """The tasks of which srun says that they did not end well, each with how."""
    found: dict[int, str] = {}
    for numbers, how in re.findall(r"^srun: error: \S+: tasks? ([\d,-]+): (.+)$", log, re.MULTILINE):
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            found.update({task: how.strip() for task in range(int(first), int(last or first) + 1)})
    return found


def over_memory(log: str) -> tuple[str, str] | None:
    """The node that used more memory than the job has there, and how much, as far as srun shows it; None if none did."""
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
    """Returns what the agent of a node wrote through srun before it had a log of its own."""
    found = re.findall(rf"^muster: {re.escape(name)}: (.+)$", log, re.MULTILINE)
    return found[-1] if found else None
