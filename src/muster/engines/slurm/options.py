"""The options of Slurm: what a job and a site can say, and what a run asks for.

They are declared here once, for the job's `slurm:`, `[slurm]` in config.toml, the JSON Schema and docs/job-file.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from muster.dataclass import dataclass, fields, replace
from muster.job.kinds import Flag, Item, Kind, Line, Section, Table, Wrong, declared, each, numbered, one_line, word

if TYPE_CHECKING:
    from muster.job import Job

DEVICES = {"nvidia": "gpu", "ascend": "npu"}  # how most sites call their devices


class Gres(Line):
    """The name of a generic resource, with its type where the site has several."""

    words = "the name of a GRES such as `npu` or `gpu:a100`"
    pattern = r"^[A-Za-z][\w.\-]*(:(?![0-9]+$)[\w.\-]+)?$"  # a type may be `910b`, a number is a count

    def read(self, item: Item) -> str:
        text = super().read(item)
        if not re.fullmatch(self.pattern, text):
            raise Wrong(f"{item.shown} is not {self.words}", "leave the count out: `devices` says how many")
        return text


class Pmi(Line):
    """How srun connects the ranks of an MPI program."""

    words = "one of the kinds that `srun --mpi=list` shows, such as `pmix`"
    pattern = r"^[A-Za-z][\w\-]*$"

    def read(self, item: Item) -> str:
        text = super().read(item)
        if not re.fullmatch(self.pattern, text) or text == "none":
            raise Wrong(f"{item.shown} is not {self.words}", "leave it out for ranks that are started over ssh")
        return text


class SbatchOptions(Kind):
    """Options of sbatch that Muster has no name for."""

    words = "a list of options of sbatch such as `--nice=100`"
    pattern = r"^--[a-z][a-z0-9\-]*(=[^\x00-\x1f\x7f]*)?$"

    def read(self, item: Item) -> tuple[str, ...]:
        if not isinstance(item.value, list):
            raise Wrong(f"is {item.shown}; it takes {self.words}", "such as `[--nice=100]`")
        return tuple(each(numbered(item), self._option))

    def _option(self, name: str, item: Item) -> str:
        text = one_line(word(item))
        if not re.fullmatch(self.pattern, text):
            raise Wrong(f"{item.shown} is not a long option", "write it as one word, such as `--nice=100`")
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string", "pattern": self.pattern}}


class Directories(Kind):
    """Absolute paths."""

    words = "a list of directories"

    def read(self, item: Item) -> tuple[str, ...]:
        if not isinstance(item.value, list):
            raise Wrong(f"is {item.shown}; it takes {self.words}", 'such as `["/shared"]`')
        return tuple(each(numbered(item), self._directory))

    def _directory(self, name: str, item: Item) -> str:
        text = Line().read(item)
        if not text.startswith(("/", "~")):
            raise Wrong(f"names `{text}`", "write a path that starts with `/`")
        return text


@dataclass(frozen=True)
class Common:
    """The options of a site for all of its jobs, and of a job for itself; an empty one is not set."""

    partition: str = declared(Line(), "", "The partition, or several by comma.")
    account: str = declared(Line(), "", "The account that is charged.")
    qos: str = declared(Line(), "", "The quality of service.")
    constraint: str = declared(Line(), "", "Features that the nodes must have.")
    reservation: str = declared(Line(), "", "The reservation whose nodes are used.")
    comment: str = declared(Line(), "", "A comment that Slurm shows with the job.")
    exclusive: bool | None = declared(Flag(), None, "Whether the nodes are for this job alone.")
    gpus_per_node: bool | None = declared(
        Flag(), None, "Whether devices are asked for with `--gpus-per-node` instead of `--gres`."
    )
    options: tuple[str, ...] = declared(SbatchOptions(), (), "More options of sbatch, each as one word.")
    python: str = declared(Line(), "", "The Python, 3.9 or newer, that runs Muster's agent on the nodes.")
    mpi: str = declared(Pmi(), "", "With `framework: mpi`: srun starts the ranks, with this kind of PMI, and no ssh is needed.")


@dataclass(frozen=True)
class SlurmOptions(Common):
    """A job's own options; what is empty is left to the site."""

    gres: str = declared(Gres(), "", "The name of the GRES that the devices are, with a type where the site has several.")


@dataclass(frozen=True)
class Site(Common):
    """The settings of a site: the options of its jobs unless they say otherwise, and what its nodes can do."""

    ssh: bool = declared(Flag(), False, "Whether nodes of a run may reach each other by ssh.")
    namespaces: bool = declared(Flag(), True, "Whether agents may put their nodes into namespaces.")
    shared: tuple[str, ...] = declared(Directories(), (), "Directories that all nodes see.")
    gres: Mapping[str, str] = declared(
        Table(Gres(), tuple(DEVICES), '{ascend = "npu"}'), DEVICES, "The names of the GRES that devices are, by kind."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "gres", {**DEVICES, **self.gres})


OPTIONS = Section(SlurmOptions, "{partition: train, account: vision}")

# What sbatch takes from the environment, as people's profiles set it; the script would not win over these.
EXPORTED = ("partition", "account", "qos", "constraint", "reservation")
# Options that Muster sets itself, with where else a user says them.
OURS = {
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), "`nodes`"),
    "array": "several runs",
    "cpus-per-task": "`cpus`",
    **dict.fromkeys(("mem", "mem-per-cpu"), "`memory`"),
    "gres": "`devices` and `slurm.gres`",
    "gpus": "`devices`",
    "gpus-per-node": "`devices` and `slurm.gpus_per_node`",
    "time": "`time_limit`",
    **{name: f"`slurm.{name}`" for name in (*EXPORTED, "exclusive", "comment")},
    "job-name": "`name`",
    "signal": "`grace`",
    **dict.fromkeys("requeue no-requeue no-kill output error input open-mode export export-file".split(), ""),
    **dict.fromkeys("chdir wrap wait parsable test-only clusters".split(), ""),
}


@dataclass(frozen=True)
class Chosen(SlurmOptions):
    """The options of a run beside its nodes and devices; an empty one is not set."""

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
        default = getattr(site, field.name)
        found[field.name] = given if given not in ("", None) else default or exported.get(field.name, default)
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
