"""A process that verifies bundles for the server, one after the other: what a bundle does to it harms nobody else.

It reads a JSON line per task from stdin and answers each with one on stdout; it ends with its stdin, that is with the server.
Signals that end the server reach it as well, and it goes on: a bundle must not be refused because somebody pressed Ctrl-C.
"""

from __future__ import annotations

import errno
import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from muster.linux.held_signals import HELD, release

MEMORY = 8 << 30  # bytes of address space: a bundle that takes more fails here and not on the machine
TIME_LIMIT = 600  # seconds for one bundle, after which the system ends this process, whatever it is doing
# What is wrong with the machine then, and not with the bundle.
NO_FAULT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)


def main() -> None:
    for number in HELD:
        signal.signal(number, signal.SIG_IGN)
    release()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most), most))
    for line in sys.stdin:
        signal.alarm(TIME_LIMIT)
        print(json.dumps(_verify(**json.loads(line))), flush=True)
        signal.alarm(0)


def _verify(path: str, signers: str | None, most: int) -> dict[str, Any]:
    from muster.bench.bundle.check import verify
    from muster.bench.errors import BundleError

    try:
        found = verify(Path(path), Path(signers) if signers else None, most)
    except BundleError as error:
        return {"passed": False, "problems": [str(error).replace(path, "it")]}  # where it lies is the server's affair
    except OSError as error:
        if error.errno not in NO_FAULT:
            raise
        return {"passed": False, "problems": [], "trouble": str(error.strerror).lower()}
    return {
        "passed": found.passed,
        "problems": found.problems,
        "signature": found.signature,
        "signed_by": found.signed_by or found.key,
        "result": found.result and found.result.to_json(),
        "bench": found.bench,
    }


if __name__ == "__main__":
    main()
