"""Starting a supervisor process before the job is read, where `muster run` will most likely need one.

Imported before the command line itself, so that both imports overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from muster.engines.local import early
from muster.launch.start import packed_agent
from muster.records.layout import home

_OTHERWISE = ("--check", "--dry-run", "--engine", "--server", "--help", "-h")


def begin(words: Sequence[str]) -> None:
    """Starts it, unless the words of `muster run` or config.toml say otherwise, or this home has no packed agent yet."""
    own = words[: words.index("--")] if "--" in words else words
    if any(word.startswith(_OTHERWISE) for word in own) or _runs_elsewhere(home()):
        return
    with suppress(OSError):
        if agent := packed_agent.unchanged(home()):
            early.start(agent)


def _runs_elsewhere(place: str) -> bool:
    """True if the settings may name another engine, or a server."""
    try:
        with open(f"{place}/config.toml", "rb") as file:
            text = file.read()
            return b"engine" in text or b"server" in text
    except FileNotFoundError:
        return False
    except OSError:
        return True
