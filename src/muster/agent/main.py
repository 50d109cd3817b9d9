"""The entry of the zipapp: `supervise RUN_DIR --code DIR [--command FD] [--namespaces off]`."""

from __future__ import annotations

import sys
from typing import List

from muster.agent.supervisor import Supervisor


def main(argv: List[str]) -> int:
    word, path, *options = argv
    if word != "supervise":
        print("unknown: %s" % word, file=sys.stderr)
        return 2
    given = dict(zip(options[::2], options[1::2]))
    command = int(given["--command"]) if "--command" in given else None
    Supervisor(path, given["--code"], given.get("--namespaces") != "off", command).carry_out()
    return 0
