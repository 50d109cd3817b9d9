"""Reads the fields of `session_config` and `session_config_v2`, sections of modelarts_config.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.aisbench.config.mode import V2
from muster.aisbench.config.values import ConfigValue, Findings
from muster.aisbench.package import Package

WHOLE_NODE = 8  # cards that each node of several must have

# The number of cards in the name of an instance type; those without a number have one.
CARDS = (
    re.compile(r"\.(?:kat1|visual)\.(\d*)xlarge(?:\.public)?$"),
    re.compile(r"\.snt9b?\d*\.(?:\d*)xlarge\.(\d+)$"),
    re.compile(r"\.gpu\.(\d*)(?:p4|p100|v100|t4|tnt004|pnt004)$"),
)


@dataclass(frozen=True)
class Session:
    """A section of modelarts_config.py, of the version that the package is for."""

    config: ConfigValue
    package: Package
    findings: Findings

    def text(self, name: str) -> str:
        """Returns a field that is a text; empty where it is not."""
        found = self.config.get(name)
        return found.value.strip() if found is not None and isinstance(found.value, str) else ""

    def resource(self, name: str) -> str:
        """Returns a pool or an instance type; people write None as a text, too."""
        value = self.text(name)
        return "" if value == "None" else value

    def pairs(self) -> Iterator[tuple[str, ConfigValue]]:
        """Yields the valid parameters of the boot file."""
        found = self.config.get(parameters_name(self.package.kind))
        for entry in found.value if found is not None and isinstance(found.value, list) else []:
            label, value = entry.get(self.label), entry.get("value")
            if label and value and isinstance(label.value, str) and isinstance(value.value, str):
                yield label.value, value

    @property
    def label(self) -> str:
        """The key of a parameter's name."""
        return "name" if self.package.kind == V2 else "label"

    def boot_in_code(self) -> str | None:
        """Returns the boot file relative to the code directory; None where it is outside."""
        boot, code = self.text("boot_file"), self.text("code_dir").rstrip("/") + "/"
        return boot[len(code) :] or None if boot.startswith(code) else None

    def cards_per_node(self) -> int:
        """Returns the cards of the instance type; 0 where its name does not say."""
        matches = (pattern.search(self.resource("train_instance_type")) for pattern in CARDS)
        return next((int(found.group(1) or 1) for found in matches if found), 0)

    def framework(self) -> str:
        """Returns `mindspore` for Ascend, where there is a rank table and one rank per card, else `command`: one per node."""
        return "mindspore" if self.text("framework_type").lower() in ("", "ascend-powered-engine") else "command"


def parameters_name(kind: str) -> str:
    """The key of the list of parameters, in a version of ModelArts."""
    return "parameters" if kind == V2 else "hyperparameters"
