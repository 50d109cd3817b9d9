"""Engines by name. An engine is imported when it is first asked for."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from muster.engines import EngineError

if TYPE_CHECKING:  # commands that only need the names do not wait for these
    from muster.config import Config
    from muster.engines.base import Engine
    from muster.linux.accounts import Account
    from muster.records.layout import RunDir

ENGINES = {
    "local": "muster.engines.local.engine:Local",
    "slurm": "muster.engines.slurm.engine:Slurm",
    "ssh": "muster.engines.ssh.engine:Ssh",
    "modelarts": "muster.engines.modelarts.engine:ModelArts",
}
NAMES = tuple(ENGINES)


def get(
    name: str,
    home: str,
    settings: Config | None = None,
    agent: Callable[[], bytes] | None = None,
    account: Account | None = None,
) -> Engine:
    """Returns the engine with this name, for runs of a home. `agent` packs the agent; `account` is whose ranks are.

    Raises EngineError for unknown names, and for an account that the engine does not take.
    """
    if name not in ENGINES:
        raise EngineError(f"`{name}` is not an engine; known are {', '.join(NAMES)}")
    module, _, kind = ENGINES[name].partition(":")
    engine: Engine = getattr(importlib.import_module(module), kind)(home, settings, agent, account)
    return engine


def engine_of(run: RunDir) -> Engine:
    """The engine of a run, with the account that the run was started as."""
    account = account_of(run)
    return get(engine_name(run), run.home) if account is None else get(engine_name(run), run.home, account=account)


def account_of(run: RunDir) -> Account | None:
    """The account that a run was started as. It is on record in a file of root's, which no job can write."""
    from muster.records.files import read_object

    text = read_object(run.run).get("account")
    if text is None or os.lstat(run.run).st_uid != 0:
        return None
    from muster.linux.accounts import Account, AccountError

    try:
        return Account.from_text(str(text))
    except AccountError as error:
        raise EngineError(f"the record of {run.id} is damaged: {error}") from None


def engine_name(run: RunDir) -> str:
    """The name of the engine of a run. If its record is damaged, the script that was submitted says which site it is for."""
    from muster.records.files import read_object
    from muster.records.untrusted import LARGEST, read_if_regular

    name = read_object(run.run).get("engine")
    if name not in NAMES:
        found = re.search(rb" --site (\w+)", read_if_regular(run.script, LARGEST))
        name = found[1].decode() if found else "local"
    return name if name in NAMES else "local"
