"""The first program on a host: it finds a Python there, takes the agent in where the host lacks it, and runs a word of it.

The shell of the host's user is given one quoted text for /bin/sh, whatever it is itself: csh takes no lines and exclamation
marks in quotes as they are, fish no backslashes, so there are none.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

MARK = b"MUSTER-HOST "  # before it, a host's shell may have written anything
NO_PYTHON = "no-python"
# Tried in this order; the first that is 3.9 or newer is taken.
PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 8, -1)), "/usr/bin/python3")

# Asked for its version alone, a Python answers before it imports anything.
_NEW_ENOUGH = 'case "$("$python" -V 2>/dev/null)" in "Python 3.9"*|"Python 3."[1-9][0-9]*) true;; *) false;; esac'
_SHELL = (
    "for python in {pythons}; do"
    ' if command -v "$python" >/dev/null 2>&1 && {new_enough};'
    ' then exec "$python" -I -S -c {program} {words}; fi;'
    " done;"
    ' echo; echo \'{mark}{{"error": "{no_python}"}}\'; exit 69'
)

_PROGRAM = """
import hashlib, json, os, sys
MARK = {mark}
root, digest = os.path.expanduser(sys.argv[1]), sys.argv[2]
path = root + "/blobs/" + digest
def say(**data):
    os.write(1, b"\\n" + MARK + json.dumps(data).encode() + b"\\n")
def read(count):
    data = b""
    while len(data) < count:
        data += os.read(0, min(count - len(data), 1 << 20)) or sys.exit(1)
    return data
def known():
    try:
        with open(path, "rb") as file:
            os.utime(path)
            return hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False
def unsafe(place):
    found = os.stat(place)
    if found.st_uid not in (0, os.getuid()):
        return "%s belongs to user %d" % (place, found.st_uid)
    if found.st_mode & 0o022:
        return "others may write to %s" % place
try:
    mask = os.umask(0o077)
    os.makedirs(root + "/blobs", exist_ok=True)
    os.umask(mask)
    reason = unsafe(root) or unsafe(root + "/blobs")
    if reason:
        say(unsafe=reason)
        sys.exit(77)
    here = known()
    say(agent=here)
    if not here:
        data = read(int.from_bytes(read(8), "big"))
        if hashlib.sha256(data).hexdigest() != digest:
            sys.exit(1)
        temporary = path + "." + os.urandom(8).hex() + ".tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
            os.rename(temporary, path)
        except OSError:
            os.path.exists(temporary) and os.unlink(temporary)
            raise
        say(agent=True)
except OSError as error:
    say(error="%s: %s" % (error.strerror, error.filename or root))
    sys.exit(73)
sys.path.insert(0, path)
sys.argv[0] = path
from muster.agent.main import main
sys.exit(main(["engine", "ssh", sys.argv[3], root] + sys.argv[4:]))
""".replace("{mark}", repr(MARK))


def answer(**data: Any) -> None:
    """Says something on standard output, as the bootstrap does before it."""
    os.write(1, b"\n" + MARK + json.dumps(data).encode() + b"\n")


def command(root: str, agent: str, python: str, *words: object) -> str:
    """The text for the shell of a host, which ends as `words` of the engine's node side.

    `agent` is the digest of the packed agent, `python` a path there or empty.
    """
    script = _SHELL.format(
        pythons=" ".join(map(shlex.quote, (python,) if python else PYTHONS)),
        new_enough=_NEW_ENOUGH,
        program=shlex.quote(f'exec(bytes.fromhex("{_PROGRAM.encode().hex()}"))'),
        words=" ".join(map(shlex.quote, (root, agent, *map(str, words)))),
        mark=MARK.decode(),
        no_python=NO_PYTHON,
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"
