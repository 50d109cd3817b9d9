"""A process that verifies bundles for the server, one after the other, so that no bundle can harm the server.

It reads the arguments of `_verify` from stdin, a JSON object per line, and writes one verification per line to stdout; it exits
when its stdin closes.
It ignores the signals that stop the server, which reach it as well: a bundle must not be refused because of a Ctrl-C.
"""

import errno
import json
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.linux.held_signals import HELD, release

MEMORY = 8 << 30  # bytes of address space: a bundle that needs more fails here and not on the machine
TIME_LIMIT = 600  # seconds for one bundle, after which SIGALRM ends this process
# Errors of the machine, not of the bundle.
MACHINE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True)
class Verification:
    """The answer of a worker about a bundle."""

    passed: bool
    problems: list[str] = field(default_factory=list)
    signature: str = "none"
    signed_by: str | None = None
    result: Mapping[str, Any] | None = None
    bench: Mapping[str, Any] | None = None
    machine_error: str = ""  # why it could not be verified, where that is not the bundle's fault


def main() -> None:
    for number in HELD:
        signal.signal(number, signal.SIG_IGN)
    release()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most), most))
    for line in sys.stdin:
        signal.alarm(TIME_LIMIT)
        print(json.dumps(vars(_verify(**json.loads(line)))), flush=True)
        signal.alarm(0)


def _verify(path: str, signers: str | None, most: int) -> Verification:
    """Verifies the bundle at this path, which may have so many bytes when it is unpacked."""
    from muster.bench.bundle.check import verify
    from muster.bench.errors import BundleError

    try:
        found = verify(Path(path), Path(signers) if signers else None, most)
    except BundleError as error:
        return Verification(False, [str(error).replace(path, "it")])  # a submitter must not see paths of the server
    except OSError as error:
        if error.errno not in MACHINE_ERRORS:
            raise
        return Verification(False, machine_error=str(error.strerror).lower())
    signed_by, result = found.signed_by or found.key, found.result.to_json() if found.result else None
    return Verification(found.passed, found.problems, found.signature, signed_by, result, found.bench)


if __name__ == "__main__":
    main()
