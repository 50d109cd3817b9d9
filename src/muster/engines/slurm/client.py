"""Slurm's own programs: what each is asked, how long it may take, and what its refusals mean."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from muster.engines.base import EngineError, Refused
from muster.engines.slurm import refusals
from muster.engines.slurm.options import clean

PATIENCE = 60.0  # for a controller that is busy
NAMES = ("sbatch", "squeue", "scancel", "sinfo")
# What is said when nobody answers, in the words of different versions.
SILENT = re.compile(
    r"unable to contact|connect(ion)? (failure|refused|timed out)|socket timed out|zero bytes were transmitted"
    r"|backup controller|unable to establish|communication|configuration source|authentication|munge|transport endpoint"
    r"|try again|name or service not known|no route to host|network is (down|unreachable)|talking to the database|slurmdbd",
    re.IGNORECASE,
)
UNKNOWN = re.compile(r"invalid job id|already completed|no such", re.IGNORECASE)
HANDLE = re.compile(r"^[0-9]+(?:;\S+)?$", re.MULTILINE)  # `12`, or `12;west` of a cluster with a name
QUEUE = "%A|%T|%Q|%P|%u|%l|%S|%e|%r|%j"  # the name last: it may hold anything
ENDS = "JobIDRaw,State,ExitCode,NodeList"


@dataclass(frozen=True)
class Queued:
    """A job as the controller shows it."""

    id: str
    state: str
    priority: int
    partitions: tuple[str, ...]
    user: str
    limit: str
    starts: float  # or started; 0 where nobody knows
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


def submit(argv: Iterable[str], script: str, environment: Mapping[str, str]) -> str:
    """Hands in a script; returns the id of the job, with its cluster where that has a name of its own."""
    done = _call([*argv], environment, script)
    if done.returncode != 0:
        raise Refused(refusals.explained(_lines(done), script, _rights))
    numbers = HANDLE.findall(done.stdout)  # a site's own sbatch may say more
    if not numbers:
        raise EngineError("sbatch took the script and told no number of a job; `sbatch --parsable` by hand may tell more")
    return str(numbers[-1])


def queue(cluster: str = "") -> list[Queued]:
    """All jobs that the controller shows, ended ones of the last minutes included: one question for any number of runs."""
    done = _call(["squeue", "--noheader", "--all", "--states=all", f"--format={QUEUE}", *_of(cluster)])
    if done.returncode != 0:
        raise EngineError(f"squeue does not work: {_words(done)}; `squeue` by hand may tell more")
    return [found for line in done.stdout.splitlines() if (found := _queued(line)) is not None]


def returns(cluster: str = "") -> dict[str, int]:
    """How often Slurm has put each waiting job of this user back into the queue."""
    asked = ["--states=PENDING", f"--user={os.getuid()}", "--Format=JobID:20,RestartCnt:12", *_of(cluster)]
    rows = [line.split() for line in _call(["squeue", "--noheader", *asked]).stdout.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def accounted(ids: Iterable[str], cluster: str = "") -> dict[str, End]:
    """How jobs ended, by accounting; nothing where the site keeps none."""
    argv = ["sacct", "--noheader", "--parsable2", "--allocations", f"--format={ENDS}", f"--jobs={','.join(ids)}", *_of(cluster)]
    try:
        done = _call(argv)
    except Missing:
        return {}
    if done.returncode != 0:  # `Slurm accounting storage is disabled`
        return {}
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return {row[0]: _end(*row[1:]) for row in rows if len(row) == 4}


def remembered(cluster: str = "") -> dict[str, End]:
    """How jobs ended that the controller has not forgotten yet."""
    jobs = _fields(_call(["scontrol", "--oneliner", "show", "jobs", *_of(cluster)]))
    return {
        job["JobId"]: _end(job.get("JobState", ""), job.get("ExitCode", ""), job.get("NodeList", ""))
        for job in jobs
        if "JobId" in job
    }


def cancel(job: str, *options: str, cluster: str = "") -> None:
    done = _call(["scancel", *options, *_of(cluster), job])
    if done.returncode != 0 and not UNKNOWN.search(done.stderr):
        raise EngineError(f"scancel does not work: {_words(done)}; `scancel {job}` by hand may tell more")


def nodes(format: str) -> str | None:
    """What sinfo says of each node, in fields of fixed width; None where this Slurm does not know one of the fields.

    Nothing is said where users may not look.
    """
    done = _call(["sinfo", "--noheader", "--all", "--Node", f"--Format={format}"])
    if "format specification" in done.stderr:
        return None
    if "permission denied" in done.stderr.lower():  # PrivateData: the nodes are nobody's business
        return ""
    if done.returncode != 0:
        raise EngineError(f"sinfo does not work: {_words(done)}; `sinfo` by hand may tell more")
    return done.stdout


@cache
def hides_jobs(cluster: str = "") -> bool:
    """Whether users of the site see no jobs but their own."""
    shown = _call(["scontrol", "show", "config", *_of(cluster)]).stdout
    return re.search(r"^PrivateData +=.*\bjobs\b", shown, re.MULTILINE) is not None


def gives_cpus(partitions: Collection[str]) -> bool:
    """Whether the site gives CPUs to jobs that ask for none: whole nodes, or some for each GPU."""
    shown = _call(["scontrol", "show", "config"]).stdout
    if re.search(r"^SelectType +=.*linear|^JobDefaults +=.*DefCpuPerGPU", shown, re.MULTILINE):
        return True
    found = _fields(_call(["scontrol", "--oneliner", "show", "partition"]))
    meant = [one for one in found if (one["PartitionName"] in partitions if partitions else one.get("Default") == "YES")]
    return bool(meant) and all("DefCpuPerGPU" in one.get("JobDefaults", "") for one in meant)


def pmi_kinds() -> list[str]:
    """The kinds of PMI that srun has; it says so on its error output in older versions."""
    done = _call(["srun", "--mpi=list"])
    said = re.sub(r"^srun: ", "", f"{done.stdout}\n{done.stderr}", flags=re.MULTILINE)
    versions = re.findall(r"versions available: *(.*)", said)
    words = [line.strip() for line in said.splitlines() if line.strip() and not re.search(r"[:.]", line)]
    return sorted({*words, *re.findall(r"[\w-]+", " ".join(versions))} - {"none"})


class Missing(EngineError):
    """One of Slurm's programs is not there."""


def _call(
    argv: list[str], environment: Mapping[str, str] | None = None, script: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs one of Slurm's programs; raises EngineError when there is none or nobody answers it."""
    asking = {**clean(os.environ), "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            argv,
            env=asking if environment is None else environment,
            cwd="/",
            input=script,
            stdin=subprocess.DEVNULL if script is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            start_new_session=True,  # Ctrl-C is for the command, and no reason to leave a question open
        )
    except FileNotFoundError:
        message = f"there is no {argv[0]} on your PATH; log in to a machine of the cluster, or load its module"
        raise Missing(message) from None
    except subprocess.TimeoutExpired:
        raise EngineError(f"Slurm did not answer {argv[0]} within {PATIENCE:.0f} seconds; try again later") from None
    if done.returncode != 0 and SILENT.search(done.stderr):
        raise EngineError(f"Slurm cannot be reached: {_words(done)}; try again later, `scontrol ping` tells whether it is up")
    return done


def user() -> str:
    """Whom Slurm takes this process to belong to, whatever its environment says; it shows the number of one without a name."""
    return _user(str(os.getuid()))


def _rights() -> dict[str, list[str]]:
    """The accounts of this user, each with its QOS, as far as accounting tells."""
    where = [f"user={user()}", "format=Account,QOS"]
    try:
        done = _call(["sacctmgr", "--noheader", "--parsable2", "show", "associations", "where", *where])
    except EngineError:
        return {}
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return {row[0]: row[1].split(",") for row in rows if len(row) == 2}


def _words(done: subprocess.CompletedProcess[str]) -> str:
    return "; ".join(_lines(done))


def _lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What a program said last, without its name and its own word for an error."""
    lines = [re.sub(r"^\w+: (error: |fatal: )?", "", line.strip()) for line in done.stderr.splitlines() if line.strip()]
    return list(dict.fromkeys(lines[-3:])) or [f"it ended with code {done.returncode} and no word"]


def _fields(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """What scontrol shows of each thing on a line of its own."""
    lines = [line for line in done.stdout.splitlines() if "=" in line]
    return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]


def _of(cluster: str) -> list[str]:
    return [f"--clusters={cluster}"] if cluster else []


def _queued(line: str) -> Queued | None:
    fields = line.split("|", 9)
    if len(fields) != 10 or not fields[0].isdigit():  # the second line of somebody's odd name
        return None
    job, state, priority, partitions, user, limit, starts, ended, reason, name = fields
    level = int(priority) if priority.isdigit() else 0
    names, words = tuple(partitions.split(",")), reason.strip("()")
    return Queued(job, state, level, names, user, limit, _moment(starts), _moment(ended), words, name)


def _moment(text: str) -> float:
    return float(text) if text.isdigit() else 0.0


def _end(state: str, code: str, place: str) -> End:
    state, _, by = state.partition(" by ")
    return End(state.split(" ")[0].rstrip("+"), code, "" if place in ("(null)", "None assigned") else place, _user(by))


def _user(number: str) -> str:
    """The name of a user who is known by a number."""
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (ValueError, KeyError):
        return number
