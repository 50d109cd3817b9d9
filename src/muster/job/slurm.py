"""What a job says to Slurm beyond what it says to every engine: the kinds of values of `slurm:`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from muster.job.bench import Part
from muster.job.kinds import Flag, Item, Kind, Text, Wrong, each, numbered, word


@dataclass(frozen=True)
class SlurmOptions:
    """A job's own options for Slurm; what is empty is left to the settings of the site."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    comment: str = ""
    exclusive: bool | None = None
    gres: str = ""
    gpus_per_node: bool | None = None
    options: tuple[str, ...] = ()
    python: str = ""
    mpi: str = ""


class Line(Text):
    """A text that fits on one line of a batch script."""

    words = "text on one line"
    pattern = r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$"

    def read(self, item: Item) -> str:
        return one_line(super().read(item))

    def schema(self) -> dict[str, Any]:
        return dict(super().schema(), pattern=self.pattern)


class Gres(Line):
    """The name of a generic resource, with its type where the site has several."""

    words = "the name of a GRES such as `npu` or `gpu:a100`"
    pattern = r"^[A-Za-z][\w.\-]*(:[A-Za-z][\w.\-]*)?$"

    def read(self, item: Item) -> str:
        text = super().read(item)
        if not re.fullmatch(self.pattern, text):
            raise Wrong(f"{item.said} is not {self.words}", "leave the count out: `devices` says how many")
        return text


class Pmi(Line):
    """How srun tells the ranks of an MPI program about each other."""

    words = "one of the kinds that `srun --mpi=list` shows, such as `pmix`"
    pattern = r"^[A-Za-z][\w\-]*$"

    def read(self, item: Item) -> str:
        text = super().read(item)
        if not re.fullmatch(self.pattern, text) or text == "none":
            raise Wrong(f"{item.said} is not {self.words}", "leave it out for ranks that are started over ssh")
        return text


class Options(Kind):
    """Options of sbatch that Muster has no name for."""

    words = "a list of options of sbatch such as `--nice=100`"
    pattern = r"^--[a-z][a-z0-9\-]*(=[^\x00-\x1f\x7f]*)?$"

    def read(self, item: Item) -> tuple[str, ...]:
        if not isinstance(item.value, list):
            raise Wrong(f"is {item.said}; it takes {self.words}", "such as `[--nice=100]`")
        return tuple(each(numbered(item), self._option))

    def _option(self, name: str, item: Item) -> str:
        text = one_line(word(item))
        if not re.fullmatch(self.pattern, text):
            raise Wrong(f"{item.said} is not a long option", "write it as one word, such as `--nice=100`")
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string", "pattern": self.pattern}}


def one_line(text: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise Wrong("holds a line break or another control character", "write it on one line")
    return text


SLURM = Part(
    {
        "partition": (Line(), "The partition, or several by comma."),
        "account": (Line(), "The account that is charged."),
        "qos": (Line(), "The quality of service."),
        "constraint": (Line(), "Features that the nodes must have."),
        "reservation": (Line(), "The reservation whose nodes are used."),
        "comment": (Line(), "A comment that Slurm shows with the job."),
        "exclusive": (Flag(), "Whether the nodes are for this job alone."),
        "gres": (Gres(), "The name of the GRES that the devices are, with a type where the site has several."),
        "gpus_per_node": (Flag(), "Whether devices are asked for with `--gpus-per-node` instead of `--gres`."),
        "options": (Options(), "More options of sbatch, each as one word."),
        "python": (Line(), "The Python, 3.9 or newer, that runs Muster's agent on the nodes."),
        "mpi": (Pmi(), "With `framework: mpi`: srun starts the ranks, with this kind of PMI, and no ssh is needed."),
    },
    "{partition: train, account: vision}",
)


class Slurming(Kind):
    """A job's options for Slurm."""

    words = SLURM.words

    def read(self, item: Item) -> SlurmOptions:
        return SlurmOptions(**SLURM.read(Item({}) if item.value is None else item))

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [SLURM.schema(), {"type": "null"}]}
