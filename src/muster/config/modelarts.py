"""ModelArts: the service that the engine `modelarts` submits to, and engines and flavors of the API of `muster serve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.config.sections import Setting, TomlSection, TomlTable
from muster.dataclass import dataclass, fields
from muster.job.kinds import Choice, Count, Duration, declared

FRAMEWORKS = ("command", "pytorch", "mindspore", "paddle", "tensorflow", "horovod", "mpi")
ANY_NAME = r"[\s\S]*"
KEYS = ("access_key", "secret_key", "token")
FILES = ("ca", "keys")


@dataclass(frozen=True)
class Service:
    """The ModelArts that runs jobs; None for settings that are not given. Jobs say others of the last ones in `modelarts:`."""

    region: str | None = declared(Setting(), None, "Its region, such as `cn-north-4`.")
    endpoint: str | None = declared(Setting(), None, "Its address; without it that of the region.")
    iam_endpoint: str | None = declared(Setting(), None, "The address of IAM, which finds the project where none is given.")
    project: str | None = declared(Setting(), None, "The id of the project.")
    access_key: str | None = declared(Setting(), None, "The access key; without it that of the store.")
    secret_key: str | None = declared(Setting(), None, "The secret key.")
    token: str | None = declared(Setting(), None, "The security token of temporary keys.")
    keys: str | None = declared(Setting(), None, "A file of keys like ~/.aws/credentials, which may change while jobs run.")
    ca: str | None = declared(Setting(), None, "The authority of its certificate.")
    timeout: float | None = declared(Duration(), None, "For how many seconds it may be silent.")
    every: float | None = declared(Duration(), None, "The time between two looks at a job.")
    store: str | None = declared(
        Setting(), None, "Where code, local data and local outputs are put, such as obs://bucket/muster."
    )
    api: str | None = declared(Choice(("v1", "v2")), None, "The version of its API.")
    pool: str | None = declared(Setting(), None, "The dedicated pool of jobs.")
    flavor: str | None = declared(Setting(), None, "The flavor of jobs.")
    engine: str | None = declared(Setting(), None, "The engine of jobs.")
    image: str | None = declared(Setting(), None, "The image of jobs.")
    workspace: str | None = declared(Setting(), None, "The workspace of jobs.")

    @property
    def has_keys(self) -> bool:
        return bool(self.access_key or self.secret_key or self.token)


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
class ModelArts(Service):
    engines: dict[str, Engine] = declared(
        TomlTable(TomlSection(Engine), pattern=ANY_NAME), {}, "Engines by id; without any, those that ModelArts has."
    )
    flavors: dict[str, Flavor] = declared(
        TomlTable(TomlSection(Flavor), pattern=ANY_NAME), {}, "Flavors by id, beside those that the pools have."
    )


SECTION = TomlSection(ModelArts)
SERVICE = TomlSection(Service)


def merged(sections: Sequence[Service], folder: Path) -> Service:
    """One section of several, of which a later one counts more; keys of two places do not belong together."""
    found: dict[str, object] = {}
    for section in sections:
        if section.keys is not None or section.access_key is not None:
            found = {name: value for name, value in found.items() if name not in (*KEYS, "keys")}
        given = {each.name: getattr(section, each.name) for each in fields(Service)}
        found.update({name: value for name, value in given.items() if value is not None})
    for name in FILES:
        if found.get(name):
            found[name] = str(folder / Path(str(found[name])).expanduser())
    return Service(**found)  # type: ignore[arg-type]
