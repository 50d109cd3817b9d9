"""Settings of a Slurm site: `[slurm]`, the options that its jobs have unless they say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.config.errors import ConfigError

TEXTS = ("partition", "account", "qos", "constraint", "reservation", "comment", "python", "mpi")
FLAGS = ("exclusive", "gpus_per_node", "ssh", "namespaces")
LISTS = ("options", "shared")
GRES = {"nvidia": "gpu", "ascend": "npu"}  # how most sites call their devices
FIELDS = (*TEXTS, *FLAGS, *LISTS, "gres")


@dataclass(frozen=True)
class Slurm:
    """What is told of a site."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    comment: str = ""
    python: str = ""  # the one that runs the agent on the nodes
    mpi: str = ""  # the kind of PMI with which srun starts the ranks of MPI programs; nothing for mpirun over ssh
    exclusive: bool = False
    gpus_per_node: bool = False
    ssh: bool = False  # whether nodes of a run may reach each other by ssh
    namespaces: bool = True  # whether agents may wall off their nodes, so that nothing of a run outlives them
    options: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()  # directories that all nodes see
    gres: Mapping[str, str] = field(default_factory=lambda: dict(GRES))  # by kind of device


def check(section: Mapping[str, Any], path: Path) -> None:
    """Refuses settings that are not known or cannot be meant."""
    for name, value in section.items():
        shown = f"{path}: `slurm.{name}`"
        if name not in FIELDS:
            raise ConfigError(f"{shown} is not known; there are {', '.join(FIELDS)}")
        if name in TEXTS and not _line(value):
            raise ConfigError(f"{shown} is not a text on one line; put it into quotes")
        if name in FLAGS and not isinstance(value, bool):
            raise ConfigError(f"{shown} is neither true nor false; write one of them, without quotes")
        if name in LISTS and not (isinstance(value, list) and all(_line(entry) for entry in value)):
            raise ConfigError(f'{shown} is not a list of texts; write one such as ["..."]')
    for entry in section.get("shared", ()):
        if not entry.startswith(("/", "~")):
            raise ConfigError(f"{path}: `slurm.shared` names `{entry}`; write a path that starts with `/`")
    _check_gres(section.get("gres", {}), f"{path}: `slurm.gres`")


def _check_gres(names: Any, shown: str) -> None:
    if not isinstance(names, dict) or not all(_line(name) for name in names.values()):
        raise ConfigError(f'{shown} is not a table of names; write one such as {{ascend = "npu"}}')
    for unknown in set(names) - set(GRES):
        raise ConfigError(f"{shown} has `{unknown}`, which is not a kind of device; there are {', '.join(GRES)}")


def _line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value.strip())


def read(section: Mapping[str, Any]) -> Slurm:
    """The settings of a section that was checked."""
    lists = {name: tuple(section[name]) for name in LISTS if name in section}
    return Slurm(**{**section, **lists, "gres": {**GRES, **section.get("gres", {})}})
