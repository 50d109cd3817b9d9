"""`power NODE_DIR FD`: asks the BMC for a sampler that must not have its password, which a rank could read from its memory."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from muster.agent.sampler import power
from muster.agent.sampler.pace import why
from muster.devices import Unmeasured
from muster.records import keys
from muster.records.files import read_json
from muster.records.layout import NodeDir

MOST = 1 << 16  # bytes of a message


class Asked:
    """A source of power that another process reads."""

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self._line = socket.socket(fileno=os.dup(line))
        self._ask("open")

    def watts(self) -> float:
        return float(self._ask("watts"))

    def close(self) -> None:
        """Has the source closed: a BMC has few sessions."""
        self._ask("close")
        self._line.close()

    def _ask(self, what: str) -> Any:
        try:
            self._line.send(json.dumps([self.name, what]).encode())
            told = json.loads(self._line.recv(MOST) or b'{"missing": "the process that asks the BMC is gone"}')
        except OSError as error:
            raise Unmeasured(f"the process that asks the BMC is gone ({error})") from None
        if "missing" in told:
            raise Unmeasured(told["missing"])
        return told["found"]


def main(argv: list[str]) -> int:
    folder, number = argv
    settings = power.settings(keys.take().get(keys.POWER, ""), read_json(NodeDir(folder).facts) or {})
    makers = power.makers(settings)
    opened: dict[str, Any] = {}
    line = socket.socket(fileno=int(number))
    while True:
        said = line.recv(MOST)
        if not said:
            return 0
        name, what = json.loads(said)
        line.send(json.dumps(_answer(makers, opened, name, what)).encode())


def _answer(makers: Mapping[str, Any], opened: dict[str, Any], name: str, what: str) -> dict[str, Any]:
    try:
        if what == "open":
            opened[name] = makers[name]()
        elif what == "watts":
            return {"found": opened[name].watts()}
        elif name in opened:
            opened.pop(name).close()
        return {"found": None}
    except Exception as error:  # whatever happens in here is a reason for the sampler to write down
        return {"missing": why(error)}
