"""`config.json` and `system.json` of a package: the planned test, the address of its tester, and the system under test.

The structure of `config.json` is not documented, so every spelling that was seen is accepted.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.aisbench.config.values import ConfigValue, Findings, parse_json, read_text

# The names of each field, in lower case without punctuation.
SPELLINGS = {
    "test_id": ("testid", "testcaseid", "id"),
    "mode": ("mode", "testmode"),
    "model": ("model", "modelname"),
    "division": ("division", "divsion"),
    "scenario": ("scenario",),
    "object_type": ("testobjecttype", "objecttype", "testobject"),
    "host": ("testerserverip", "testerip", "serverip", "testerhost", "testerserver", "ip", "host"),
    "port": ("testerserverport", "testerport", "serverport", "port"),
}
PORT = 9527


@dataclass(frozen=True)
class PlannedTest:
    """The test that a package answers, in the words of its `config.json`, and the address of its tester."""

    test_id: str = ""
    mode: str = ""
    model: str = ""
    division: str = ""
    scenario: str = ""
    object_type: str = ""
    host: str = ""
    port: str = ""

    @property
    def url(self) -> str:
        """The address of the tester; empty where none is named."""
        if not self.host or "://" in self.host:
            return self.host
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port or PORT}"

    def shown(self) -> str:
        """The line that AISBench prints at its start, with its spelling."""
        return (
            f"testid:{self.test_id}, Mode:{self.mode}, Model:{self.model}, Divsion:{self.division}, Scenario:{self.scenario}, "
            f"test_object_type:{self.object_type}, tester_server_ip:{self.host}, tester_server_port:{self.port}"
        )


def read(path: str, findings: Findings) -> PlannedTest:
    """Reads the planned test of a `config.json`."""
    flat = dict(_flat(read_object(path, findings) or {}))
    fields = {}
    for field, names in SPELLINGS.items():
        exact = next((flat[name] for name in names if name in flat), None)
        value = exact if exact is not None else next((value for key, value in flat.items() if key.endswith(names[0])), "")
        fields[field] = str(value)
    return PlannedTest(**fields)


def read_object(path: str, findings: Findings) -> dict[str, Any] | None:
    """Reads a JSON object; None where the file is empty, or with a problem where it is none."""
    text = read_text(path, findings)
    data = parse_json(text, path, findings) if text and text.strip() else None
    if data is not None and not isinstance(data, dict):
        findings.problem(ConfigValue(None, path), "", "is not a JSON object", 'write fields such as {"testid": "..."}')
        return None
    return data


def _flat(data: Mapping[str, Any], above: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yields every plain value under its path and under its own name; of equal names the last wins."""
    for key, value in data.items():
        name = re.sub(r"[^a-z0-9]", "", str(key).lower())
        if isinstance(value, dict) and depth < 10:
            yield from _flat(value, above + name, depth + 1)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            if above:
                yield above + name, value
            yield name, value
