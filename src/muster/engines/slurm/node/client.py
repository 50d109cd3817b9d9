"""The Slurm client: runs Slurm's own programs, for submitters and inside of jobs; `parsing.py` reads the longer answers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping

from muster.engines import EngineError
from muster.engines.slurm.node import parsing
from muster.engines.slurm.node.parsing import End, Queued, SlurmNode

# Variables of a job, or of a user's shell, that would change what Slurm's programs do; the exceptions say which Slurm is meant.
OF_A_JOB = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "PMI_", "PMIX_")
OF_THE_SITE = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
UNKNOWN = ("invalid job id", "already completed", "no such")  # errors of scancel about a job that is over
QUEUE = "%A|%T|%Q|%P|%u|%l|%S|%e|%r|%j"  # the name last: it may hold anything
ENDS = "JobIDRaw,State,ExitCode,NodeList"
SUBMIT = ("sbatch", "--parsable")


class NoAnswer(EngineError):
    """Slurm did not respond; the command may have succeeded."""


class Missing(EngineError):
    """One of Slurm's programs is not installed here."""


class Rejected(EngineError):
    """Slurm rejected a batch script, for the reasons in `lines`."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what a surrounding job or a user's shell sets for Slurm's programs."""
    return {name: value for name, value in environment.items() if name in OF_THE_SITE or not name.startswith(OF_A_JOB)}


def user() -> str:
    """The user as Slurm shows it: by name, or by number where there is none."""
    return parsing.user_name(str(os.getuid()))


class Client:
    """Slurm's programs, with `limit` seconds for each answer; those of another cluster where it is named."""

    def __init__(self, limit: float, cluster: str = "") -> None:
        self._limit = limit
        self._cluster = [f"--clusters={cluster}"] if cluster else []

    # -- jobs

    def submit(self, script: str, environment: Mapping[str, str]) -> str:
        """Submits a batch script; returns the id of the job, with its cluster where that has a name. Raises Rejected."""
        done = self._call([*SUBMIT], clean(environment), script)
        if done.returncode != 0:
            raise Rejected(parsing.error_lines(done.stderr, done.returncode))
        numbers = parsing.HANDLE.findall(done.stdout)  # a site's own sbatch may print more
        if not numbers:
            raise EngineError("sbatch took the script and printed no job number; `sbatch --parsable` by hand may show more")
        return str(numbers[-1])

    def queue(self) -> list[Queued]:
        """All jobs that the controller shows, those that ended in the last minutes included."""
        shown = self._ask("squeue", "--noheader", "--all", "--states=all", f"--format={QUEUE}", *self._cluster)
        return [found for line in shown.splitlines() if (found := parsing.queued(line)) is not None]

    def restarts(self) -> dict[str, int]:
        """How often Slurm has put each waiting job of this user back into the queue."""
        asked = ["--states=PENDING", f"--user={os.getuid()}", "--Format=JobID:20,RestartCnt:12", *self._cluster]
        rows = [line.split() for line in self._call(["squeue", "--noheader", *asked]).stdout.splitlines()]
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}

    def accounted(self, ids: Iterable[str]) -> dict[str, End]:
        """How jobs ended, by accounting; nothing where the site keeps none."""
        asked = ["--allocations", f"--format={ENDS}", f"--jobs={','.join(ids)}", *self._cluster]
        try:
            done = self._call(["sacct", "--noheader", "--parsable2", *asked])
        except Missing:
            return {}
        rows = [line.split("|") for line in done.stdout.splitlines()] if done.returncode == 0 else []  # it may be disabled
        return {row[0]: parsing.end(*row[1:]) for row in rows if len(row) == 4}

    def remembered(self) -> dict[str, End]:
        """How jobs ended that the controller has not forgotten yet."""
        shown = self._call(["scontrol", "--oneliner", "show", "jobs", *self._cluster]).stdout
        jobs = [job for line in shown.splitlines() if "JobId" in (job := parsing.fields(line))]
        names = ("JobState", "ExitCode", "NodeList")
        return {job["JobId"]: parsing.end(*(job.get(name, "") for name in names)) for job in jobs}

    def job(self, number: str) -> dict[str, str]:
        """Returns the fields of a job as the controller shows them."""
        return parsing.fields(self._ask("scontrol", "--oneliner", "show", "job", number))

    def cancel(self, job: str, *options: str) -> None:
        done = self._call(["scancel", *options, *self._cluster, job])
        if done.returncode != 0 and not any(words in done.stderr.lower() for words in UNKNOWN):
            raise _failed(done, f"scancel {job}")

    def requeue(self, job: str) -> None:
        self._ask("scontrol", "requeue", job)

    def steps(self, job: str) -> list[str]:
        """The steps of a job that were started with srun."""
        shown = self._ask("squeue", "--noheader", "--steps", "--jobs", job, "--format=%i").split()
        return [step for step in shown if step.rpartition(".")[2].isdigit()]

    def kill_steps(self, steps: Iterable[str]) -> None:
        self._ask("scancel", "--quiet", "--signal=KILL", *steps)

    # -- the cluster

    def partition_nodes(self, format: str) -> str | None:
        """Returns what sinfo shows of each node, in fields of fixed width; None where this Slurm lacks one of the fields.

        Nothing is shown where users may not look (PrivateData).
        """
        done = self._call(["sinfo", "--noheader", "--all", "--Node", f"--Format={format}"])
        if "format specification" in done.stderr:
            return None
        if "permission denied" in done.stderr.lower():
            return ""
        if done.returncode != 0:
            raise _failed(done, "sinfo")
        return done.stdout

    def host_names(self, nodes: str) -> list[str]:
        """The names of the nodes in a list as Slurm writes it: `gpu[07-09]`."""
        return self._ask("scontrol", "show", "hostnames", nodes).split()

    def nodes(self, names: Collection[str]) -> list[SlurmNode]:
        """Returns nodes as Slurm shows them; none where it does not respond, or users may not look at them."""
        try:
            return parsing.machines(self._ask("scontrol", "--oneliner", "show", "node", ",".join(names))) if names else []
        except EngineError:
            return []

    def kill_wait(self) -> float:
        """The seconds between SIGTERM and SIGKILL when Slurm ends a job."""
        return parsing.kill_wait(self._ask("scontrol", "show", "config"))

    def grace_time(self, partition: str) -> float:
        """The seconds that the preempted jobs of a partition may go on."""
        return parsing.grace_time(self._ask("scontrol", "--oneliner", "show", "partition", partition))

    def hides_jobs(self) -> bool:
        """True if users of the site see no jobs but their own."""
        config = self._call(["scontrol", "show", "config", *self._cluster]).stdout
        return re.search(r"^PrivateData +=.*\bjobs\b", config, re.MULTILINE) is not None

    def gives_cpus(self, partitions: Collection[str]) -> bool:
        """True if the site gives CPUs to jobs that ask for none: whole nodes, or some for each GPU."""
        config = self._call(["scontrol", "show", "config"]).stdout
        return parsing.gives_cpus(config, self._call(["scontrol", "--oneliner", "show", "partition"]).stdout, partitions)

    def pmi_kinds(self) -> list[str]:
        """The kinds of PMI that srun has."""
        done = self._call(["srun", "--mpi=list"])
        return parsing.pmi_kinds(f"{done.stdout}\n{done.stderr}")

    def accounts(self) -> dict[str, list[str]]:
        """The accounts of this user, each with its QOS, as far as accounting shows them."""
        where = [f"user={user()}", "format=Account,QOS"]
        try:
            done = self._call(["sacctmgr", "--noheader", "--parsable2", "show", "associations", "where", *where])
        except EngineError:
            return {}
        rows = [line.split("|") for line in done.stdout.splitlines()]
        return {row[0]: row[1].split(",") for row in rows if len(row) == 2}

    # -- calls

    def _ask(self, *argv: str) -> str:
        """Returns the output of a program. Raises EngineError where it fails."""
        done = self._call([*argv])
        if done.returncode != 0:
            raise _failed(done, argv[0])
        return done.stdout

    def _call(
        self, argv: list[str], environment: Mapping[str, str] | None = None, script: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program. Raises Missing where there is none, and NoAnswer where Slurm does not respond."""
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
                timeout=self._limit,
                start_new_session=True,  # Ctrl-C is for Muster's command, and must not interrupt the question
            )
        except FileNotFoundError:
            message = f"there is no {argv[0]} on your PATH; log in to a machine of the cluster, or load its module"
            raise Missing(message) from None
        except OSError as error:
            raise EngineError(f"{argv[0]} does not work: {error}") from None
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"Slurm did not answer {argv[0]} within {self._limit:.0f} seconds; try again later") from None
        if done.returncode != 0 and parsing.SILENT.search(done.stderr):
            words = "; ".join(parsing.error_lines(done.stderr, done.returncode))
            raise NoAnswer(f"Slurm cannot be reached: {words}; try again later, `scontrol ping` shows whether it is up")
        return done


def _failed(done: subprocess.CompletedProcess[str], by_hand: str) -> EngineError:
    words = "; ".join(parsing.error_lines(done.stderr, done.returncode))
    return EngineError(f"{done.args[0]} does not work: {words}; `{by_hand}` by hand may show more")
