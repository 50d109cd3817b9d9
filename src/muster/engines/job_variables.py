"""The variables of a job that runs as another user, apart from those of the programs that root starts for it.

A job may name variables such as LD_PRELOAD: no program of root's is started with them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from muster.linux import keys
from muster.records import submissions

# Variables that no job can name.
MADE_HERE = frozenset(("MUSTER_HOME", "MUSTER_POWER", submissions.VARIABLE, keys.STORAGE, keys.POWER))


def apart(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The variables that this process has as well, with its PATH, and all others."""
    own = {name: value for name, value in environment.items() if os.environ.get(name) == value or name in MADE_HERE}
    others = {name: value for name, value in environment.items() if name not in own}
    return {**own, "PATH": os.environ.get("PATH", os.defpath)}, others
