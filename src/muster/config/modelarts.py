"""ModelArts' API of `muster serve`: which Pythons its engines are, and what the names of its flavors mean here."""

from __future__ import annotations

from muster.config.sections import Setting, TomlSection, TomlTable
from muster.dataclass import dataclass
from muster.job.kinds import Choice, Count, declared

FRAMEWORKS = ("command", "pytorch", "mindspore", "paddle", "tensorflow", "horovod", "mpi")
ANY_NAME = r"[\s\S]*"


@dataclass(frozen=True)
class Engine:
    """What runs jobs of an engine: `[modelarts.engines."pytorch_2.1.0-cuda_12.1"]`."""

    framework: str = declared(Choice(FRAMEWORKS), "command", "How its ranks find each other.")
    python: str = declared(Setting(), "", "The Python that runs boot files; without it that of the pool.")
    name: str = declared(Setting(), "", "The `engine_name` of clients; without it the id up to its first `_`.")
    version: str = declared(Setting(), "", "The `engine_version` of clients; without it the id.")
    setup: str = declared(Setting(), "", "Run by bash on each node before the ranks, such as `source /opt/cann/set_env.sh`.")


@dataclass(frozen=True)
class Flavor:
    """What a flavor means here: `[modelarts.flavors."modelarts.vm.gpu.v100"]`."""

    device: str = declared(Choice(("cpu", "nvidia", "ascend", "auto")), "auto", "The kind of its devices.")
    devices: int = declared(Count(1, 4000), 1, "How many each node gives.")
    pool: str = declared(Setting(), "", "The pool in which its jobs run; without it any.")


@dataclass(frozen=True)
class ModelArts:
    engines: dict[str, Engine] = declared(
        TomlTable(TomlSection(Engine), pattern=ANY_NAME), {}, "Engines by id; without any, those that ModelArts has."
    )
    flavors: dict[str, Flavor] = declared(
        TomlTable(TomlSection(Flavor), pattern=ANY_NAME), {}, "Flavors by id, beside those that the pools have."
    )


SECTION = TomlSection(ModelArts)
