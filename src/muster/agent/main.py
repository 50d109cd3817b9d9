"""The entry of the zipapp: `supervise RUN_DIR --code DIR --python PATH ...`, and `storage ...` for the agent's helpers."""

from __future__ import annotations

import sys
from typing import List


def main(argv: List[str]) -> int:
    word, *rest = argv
    if word == "storage":
        from muster.storage.helper import main as storage

        return storage(rest)
    if word != "supervise":
        print("unknown: %s" % word, file=sys.stderr)
        return 2
    from muster.agent.storing import Tools
    from muster.agent.supervisor import Supervisor

    path, *options = rest
    given = dict(zip(options[::2], options[1::2]))
    command = int(given["--command"]) if "--command" in given else None
    tools = Tools(given["--python"], sys.argv[0])
    Supervisor(path, given["--code"], given.get("--namespaces") != "off", command, tools).carry_out()
    return 0
