"""The options of a job on ModelArts, beside those of `[modelarts]` in config.toml.

They are declared here once, for the job's `modelarts:`, the JSON Schema and docs/job-file.md.
"""

from __future__ import annotations

import re
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds import Choice, Count, Item, Kind, Line, Pairs, Section, Size, Wrong, declared, each, numbered

FETCH = 1 << 30
ANNOTATIONS = Pairs("annotation", r"^[A-Za-z0-9][\w.\-/ ]{0,127}$", "letters, digits, `_`, `.`, `-` and `/`", "{owner: vision}")


class StoreUrl(Line):
    """A folder of the store that the service reads."""

    words = "a URL such as `obs://bucket/folder`"
    types = "string"
    pattern = r"^(obs|s3)://(?!.*/\.{1,2}(/|$))[A-Za-z0-9][A-Za-z0-9._\-]*(/[^\x00-\x1f\x7f]*)?$"

    def read(self, item: Item) -> str:
        text = super().read(item)
        if not re.fullmatch(self.pattern, text):
            raise Wrong(f"{item.shown} is not {self.words}", "the service reads code and data from OBS alone")
        return text


@dataclass(frozen=True)
class Volume:
    """A share of NFS that the service mounts."""

    server: str = declared(Line(), "", "Address and path of the share, such as `10.0.0.5:/data`.")
    path: str = declared(Line(), "", "Where the program finds it.")
    access: str = declared(Choice(("read", "write")), "read", "Whether the program may write to it.")


VOLUME = Section(Volume, "{server: '10.0.0.5:/data', path: /mnt/data}")


class Volumes(Kind):
    """Shares of NFS."""

    words = "a list such as `[{server: '10.0.0.5:/data', path: /mnt/data}]`"

    def read(self, item: Item) -> tuple[Volume, ...]:
        if not isinstance(item.value, list):
            raise Wrong(f"is {item.shown}; it takes {self.words}", "write a dash before each of them")
        return tuple(each(numbered(item), self._volume))

    def _volume(self, name: str, item: Item) -> Volume:
        volume: Volume = VOLUME.read(item)
        if not re.fullmatch(r"[^:\s]+:/[^\s]*", volume.server) or not volume.path.startswith("/"):
            raise Wrong(f"{item.shown} is no share with a path", "write `{server: '10.0.0.5:/data', path: /mnt/data}`")
        return volume

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": VOLUME.schema()}


@dataclass(frozen=True)
class ModelArtsOptions:
    """What is empty is left to `[modelarts]` in config.toml."""

    api: str = declared(
        Choice(("v1", "v2")), "", "The version of the API; without it `v1` with `compat: modelarts-v1`, else `v2`."
    )
    pool: str = declared(Line(), "", "The id of a dedicated resource pool; without it the public one.")
    flavor: str = declared(Line(), "", "The flavor of each node, such as `modelarts.vm.gpu.v100`; with `v1` a spec.")
    engine: str = declared(Line(), "", "The engine that runs `boot`: its id, with `v1` also its number.")
    image: str = declared(Line(), "", "A custom image, which jobs with a `command` need.")
    workspace: str = declared(Line(), "", "The id of a workspace.")
    store: str = declared(StoreUrl(), "", "Where code, local data and local outputs are put, by digest and by run.")
    code_dir: str = declared(
        StoreUrl(), "", "A folder of its own for the code, for services with a fixed one: what lies there is replaced."
    )
    volumes: tuple[Volume, ...] = declared(Volumes(), (), "Shares of NFS that the service mounts.")
    priority: int | None = declared(Count(1, 3), None, "The priority of the job in its pool: 1 to 3.")
    annotations: dict[str, str] = declared(ANNOTATIONS, {}, "Annotations of the job.")
    fetch: int = declared(
        Size(), FETCH, "How many bytes of outputs are brought into the run directory; the rest stays in the store."
    )


class Options(Section):
    """The same; its record has volumes as mappings."""

    def from_json(self, data: Any) -> ModelArtsOptions:
        found = super().from_json({**data, "volumes": []})
        volumes = tuple(Volume(**one) for one in data.get("volumes") or ())
        return ModelArtsOptions(**{**vars_of(found), "volumes": volumes})


def vars_of(options: ModelArtsOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ModelArtsOptions.__annotations__}


OPTIONS = Options(ModelArtsOptions, "{pool: pool7c1, flavor: modelarts.vm.gpu.v100, engine: pytorch_1.8.0-...}")
