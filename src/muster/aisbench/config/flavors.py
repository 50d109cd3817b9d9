"""What the types and engines of ModelArts are here: cards per node, and the framework that finds the ranks."""

from __future__ import annotations

import re

WHOLE = 8  # cards of a node that may be one of several

# The cards that each kind of type tells in its name; those without a number have one.
CARDS = (
    re.compile(r"\.(?:kat1|visual)\.(\d*)xlarge(?:\.public)?$"),
    re.compile(r"\.snt9b?\d*\.(?:\d*)xlarge\.(\d+)$"),
    re.compile(r"\.gpu\.(\d*)(?:p4|p100|v100|t4|tnt004|pnt004)$"),
)


def cards(flavor: str) -> int:
    """How many cards a node of this type has; 0 where its name does not tell."""
    for pattern in CARDS:
        if found := pattern.search(flavor):
            return int(found.group(1) or 1)
    return 0


def framework(engine: str) -> str:
    """How the ranks of an engine find each other: on Ascend, whatever the software, by the rank table, one rank per card.

    Other engines start the program once per node.
    """
    return "mindspore" if engine.lower() in ("", "ascend-powered-engine") else "command"
