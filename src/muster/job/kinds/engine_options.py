"""Options of one engine, declared by it in `muster.engines.NAME.options`, which is imported when they are needed.

That module has `OPTIONS`, the section of a job, and `Site`, the dataclass of the section of config.toml.
"""

from __future__ import annotations

import importlib
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds.item import Item
from muster.job.kinds.mappings import Section
from muster.job.kinds.texts import Kind


def job_options(engine: str) -> Section:
    """The options that a job can give to an engine."""
    section: Section = importlib.import_module(f"muster.engines.{engine}.options").OPTIONS
    return section


def site_options(engine: str) -> type[Any]:
    """The dataclass of an engine's options in config.toml."""
    site: type[Any] = importlib.import_module(f"muster.engines.{engine}.options").Site
    return site


@dataclass(frozen=True)
class EngineOptions(Kind):
    """The options of a job for one engine."""

    engine: str

    @property
    def words(self) -> str:  # type: ignore[override]
        return job_options(self.engine).words

    def read(self, item: Item) -> Any:
        return job_options(self.engine).read(item)

    def put(self, outer: Item, inner: str, item: Item) -> Item:
        return job_options(self.engine).put(outer, inner, item)

    def schema(self) -> dict[str, Any]:
        return job_options(self.engine).schema()
