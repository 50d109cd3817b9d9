"""The options of a run for Slurm: those of the job over those of the site over what the user's shell exports for sbatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

from muster.config.slurm import Slurm as Site
from muster.job import Job, SlurmOptions

# Options that Muster sets itself, with where else a user says them.
OURS = {
    "nodes": "`nodes`",
    "ntasks": "`nodes`",
    "ntasks-per-node": "`nodes`",
    "array": "several runs",
    "cpus-per-task": "`cpus`",
    "mem": "`memory`",
    "mem-per-cpu": "`memory`",
    "gres": "`devices` and `slurm.gres`",
    "gpus": "`devices`",
    "gpus-per-node": "`devices` and `slurm.gpus_per_node`",
    "time": "`time_limit`",
    "partition": "`slurm.partition`",
    "account": "`slurm.account`",
    "qos": "`slurm.qos`",
    "constraint": "`slurm.constraint`",
    "reservation": "`slurm.reservation`",
    "exclusive": "`slurm.exclusive`",
    "comment": "`slurm.comment`",
    "job-name": "`name`",
    "signal": "`grace`",
    "requeue": "",
    "no-requeue": "",
    "no-kill": "",
    "output": "",
    "error": "",
    "input": "",
    "open-mode": "",
    "export": "",
    "export-file": "",
    "chdir": "",
    "wrap": "",
    "wait": "",
    "parsable": "",
    "test-only": "",
    "clusters": "",
}
# What sbatch takes from the environment, as people's profiles set it; the script would not win over these.
EXPORTED = ("partition", "account", "qos", "constraint", "reservation")


@dataclass(frozen=True)
class Chosen(SlurmOptions):
    """What a run asks of Slurm beside its nodes and devices; what is empty nobody has said."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """Those that may take the job; none for the site's default."""
        return tuple(name for name in self.partition.split(",") if name)


def choose(site: Site, job: Job, environment: Mapping[str, str]) -> Chosen:
    own = job.slurm or SlurmOptions()
    exported = {name: environment.get(f"SBATCH_{name.upper()}", "") for name in EXPORTED}
    found: dict[str, object] = {}
    for field in fields(Chosen):
        given = getattr(own, field.name)
        told = getattr(site, field.name)
        found[field.name] = given if given not in ("", None) else told or exported.get(field.name, told)
    found["gres"] = own.gres or site.gres.get(job.device, "") if job.device != "cpu" else ""
    found["options"] = (*site.options, *own.options)
    return Chosen(**found)  # type: ignore[arg-type]


def with_mpi(site: Site, job: Job) -> Job:
    """The job with the site's kind of PMI, which its agents have to know, unless it says its own."""
    own = job.slurm or SlurmOptions()
    return replace(job, slurm=replace(own, mpi=site.mpi)) if job.framework == "mpi" and site.mpi and not own.mpi else job


def refused(options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Extra options that cannot be given, each with what to do instead."""
    for option in options:
        name, _, _ = option.removeprefix("--").partition("=")
        if not option.startswith("--") or not name:
            yield option, "write long options, each as one word, such as `--nice=100`"
        elif ours := next((known for known in OURS if known.startswith(name)), ""):  # sbatch takes the beginning of a name, too
            yield option, f"use {OURS[ours]}" if OURS[ours] else "remove it: Muster sets it itself"
