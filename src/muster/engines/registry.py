"""Engines by name. An engine is imported when it is first asked for."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from muster.engines import EngineError

if TYPE_CHECKING:  # commands that only need the names do not wait for these
    from muster.config import Config
    from muster.engines.base import Engine
    from muster.records.layout import RunDir

ENGINES = {
    "local": "muster.engines.local.engine:Local",
    "slurm": "muster.engines.slurm.engine:Slurm",
    "ssh": "muster.engines.ssh.engine:Ssh",
}
NAMES = tuple(ENGINES)


def get(name: str, home: str, settings: Config | None = None) -> Engine:
    """Returns the engine with this name, for runs of a home. Raises EngineError for unknown names."""
    if name not in ENGINES:
        raise EngineError(f"`{name}` is not an engine; known are {', '.join(NAMES)}")
    module, _, kind = ENGINES[name].partition(":")
    engine: Engine = getattr(importlib.import_module(module), kind)(home, settings)
    return engine


def engine_of(run: RunDir) -> Engine:
    """The engine of a run."""
    return get(engine_name(run), run.home)


def engine_name(run: RunDir) -> str:
    """The name of the engine of a run. If its record is damaged, the script that was submitted says which site it is for."""
    from muster.records.files import read_object
    from muster.records.untrusted import LARGEST, read_if_regular

    name = read_object(run.run).get("engine")
    if name not in NAMES:
        found = re.search(rb" --site (\w+)", read_if_regular(run.script, LARGEST))
        name = found[1].decode() if found else "local"
    return name if name in NAMES else "local"
