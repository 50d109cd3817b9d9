"""The entry of the zipapp: `supervise RUN_DIR --code DIR --python PATH ...`, and helpers of nodes."""

from __future__ import annotations

import sys
from typing import List


def main(argv: List[str]) -> int:
    word, *rest = argv
    if word == "storage":
        from muster.storage.helper import main as storage

        return storage(rest)
    if word == "sample":
        from muster.agent.sampler.main import main as sample

        return sample(rest)
    if word == "sshd":
        from muster.agent.sshd import serve

        return serve(int(rest[0]), rest[1])
    if word == "login":
        from muster.agent.login import login

        login(int(rest[0]))
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
