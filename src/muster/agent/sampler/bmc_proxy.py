"""`power NODE_DIR FD`: queries the BMC for a sampler, whose memory a rank can read, so that it must not have the password."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any, Callable

from muster.agent.sampler import power
from muster.agent.sampler.polling import describe
from muster.agent.sampler.power import Bmc
from muster.devices import Unmeasured
from muster.linux import keys
from muster.records.files import read_object
from muster.records.layout import NodeDir

MOST = 1 << 16  # bytes of a message
GONE = "the process that asks the BMC is gone"


class BmcClient:
    """A BMC that the other process queries."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._request("open")

    def watts(self) -> float:
        return float(self._request("watts"))

    def close(self) -> None:
        """Has the connection to the BMC closed, which has few sessions."""
        self._request("close")
        self._socket.close()

    def _request(self, what: str) -> Any:
        try:
            self._socket.send(json.dumps([self.name, what]).encode())
            answer = json.loads(self._socket.recv(MOST) or json.dumps({"missing": GONE}))
        except OSError as error:
            raise Unmeasured(f"{GONE} ({error})") from None
        if "missing" in answer:
            raise Unmeasured(answer["missing"])
        return answer["found"]


def main(argv: list[str]) -> int:
    folder, descriptor = argv
    settings = power.settings(keys.take().get(keys.POWER, ""), read_object(NodeDir(folder).facts))
    openers = power.bmc_openers(settings)
    opened: dict[str, Bmc] = {}
    client = socket.socket(fileno=int(descriptor))
    while request := client.recv(MOST):
        name, what = json.loads(request)
        client.send(json.dumps(_answer(openers, opened, name, what)).encode())
    return 0


def _answer(openers: Mapping[str, Callable[[], Bmc]], opened: dict[str, Bmc], name: str, what: str) -> dict[str, Any]:
    try:
        if what == "open":
            opened[name] = openers[name]()
        elif what == "watts":
            return {"found": opened[name].watts()}
        elif name in opened:
            opened.pop(name).close()
        return {"found": None}
    except Exception as error:  # the sampler writes down the reason
        return {"missing": describe(error)}
