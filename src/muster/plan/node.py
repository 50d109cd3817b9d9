"""The plan of one node: its files, its transfers and its processes, as data."""

from __future__ import annotations

from typing import Any

from muster.dataclass import asdict, dataclass, field
from muster.job.data import local_path


class PlanError(Exception):
    """A job that cannot be carried out in this world."""


@dataclass(frozen=True)
class Places:
    """Paths of a node."""

    node: str  # the node's own directory in the record
    work: str
    results: str
    shared: str
    ssh: str  # keys and configurations of its own, which are deleted with the attempt
    root: str = ""  # what stands before the fixed paths of a platform, where the node has no file system of its own
    common: str = ""  # the same for paths that all nodes of a run see

    @property
    def bin(self) -> str:
        """Programs that stand in for others on this node."""
        return self.node + "/bin"

    def at(self, path: str) -> str:
        """The place of a fixed path of a platform."""
        return self.root + path

    def common_at(self, path: str) -> str:
        """The place of a fixed path that all nodes see."""
        return self.common + path


@dataclass(frozen=True)
class Gate:
    """A port of the node whose first connection starts a process, and the address at which that process listens itself."""

    port: int
    host: str
    inner: int


@dataclass(frozen=True)
class Process:
    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str = ""  # that of the program where a framework does not say
    rank: int = -1  # -1: a helper such as a scheduler; the run does not wait for it
    local: int = -1
    gate: Gate | None = None


@dataclass(frozen=True)
class File:
    path: str
    text: str
    mode: int = 0o644


@dataclass(frozen=True)
class Transfer:
    """A directory of a node, and the URL that it comes from or goes to."""

    name: str
    url: str
    path: str

    @property
    def local(self) -> str:
        """The path that the URL names, where that is one of this machine."""
        return local_path(self.url)


@dataclass(frozen=True)
class NodePlan:
    node: int
    work: tuple[str, ...]  # directories that get a copy of the code
    processes: tuple[Process, ...]
    setup: str
    cwd: str  # where setup runs and ssh logins land
    setup_env: dict[str, str]
    secrets: tuple[str, ...]
    defaults: dict[str, str]  # variables of every process that the submitter's environment has not set
    prefix: dict[str, tuple[str, ...]]  # what stands first in variables that hold lists, such as PATH
    linked: dict[str, str] = field(default_factory=dict)  # directories whose entries are shown in another one, too
    folders: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    inputs: tuple[Transfer, ...] = ()
    outputs: tuple[Transfer, ...] = ()
    log: dict[str, tuple[str, ...]] = field(default_factory=dict)  # files for `log_url`, with the processes they are made of
    ssh: int = 0  # the port of its ssh server, if there is one
    together: bool = False  # whether ranks wait until the helpers of all nodes are up

    def to_json(self) -> dict[str, Any]:
        """All of it but what is None."""
        return asdict(self, dict_factory=lambda pairs: {name: value for name, value in pairs if value is not None})
