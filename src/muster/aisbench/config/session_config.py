"""Reads the fields of `session_config` and `session_config_v2`, sections of modelarts_config.py."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.aisbench.config.mode import V2
from muster.aisbench.config.values import ConfigValue

WHOLE_NODE = 8  # cards that each node of several must have

# The number of cards in the name of an instance type; those without a number have one.
CARDS = (
    re.compile(r"\.(?:kat1|visual)\.(\d*)xlarge(?:\.public)?$"),
    re.compile(r"\.snt9b?\d*\.(?:\d*)xlarge\.(\d+)$"),
    re.compile(r"\.gpu\.(\d*)(?:p4|p100|v100|t4|tnt004|pnt004)$"),
)


def text(config: ConfigValue, name: str) -> str:
    """Returns a field that is a text; empty where it is not."""
    found = config.get(name)
    return found.value.strip() if found is not None and isinstance(found.value, str) else ""


def resource(config: ConfigValue, name: str) -> str:
    """Returns a pool or an instance type; people write None as a text, too."""
    value = text(config, name)
    return "" if value == "None" else value


def pairs(config: ConfigValue, kind: str) -> Iterator[tuple[str, ConfigValue]]:
    """Yields the valid parameters of the boot file."""
    found = config.get(parameters_name(kind))
    for entry in found.value if found is not None and isinstance(found.value, list) else []:
        label, value = entry.get(label_name(kind)), entry.get("value")
        if label and value and isinstance(label.value, str) and isinstance(value.value, str):
            yield label.value, value


def parameters_name(kind: str) -> str:
    """The key of the list of parameters."""
    return "parameters" if kind == V2 else "hyperparameters"


def label_name(kind: str) -> str:
    """The key of a parameter's name."""
    return "name" if kind == V2 else "label"


def boot_in_code(config: ConfigValue) -> str | None:
    """Returns the boot file relative to the code directory; None where it is outside."""
    boot, code = text(config, "boot_file"), text(config, "code_dir").rstrip("/") + "/"
    return boot[len(code) :] or None if boot.startswith(code) else None


def cards_per_node(flavor: str) -> int:
    """Returns the cards of an instance type; 0 where its name does not say."""
    for pattern in CARDS:
        if found := pattern.search(flavor):
            return int(found.group(1) or 1)
    return 0


def framework(engine: str) -> str:
    """Returns `mindspore` for Ascend, where there is a rank table and one rank per card, else `command`: one per node."""
    return "mindspore" if engine.lower() in ("", "ascend-powered-engine") else "command"
