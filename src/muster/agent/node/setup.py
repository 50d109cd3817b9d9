"""The setup of a node: a text that bash runs once, and the environment that it leaves behind for the ranks."""

from __future__ import annotations

import os
import shlex
import shutil

from muster.agent.node import environment
from muster.linux import keys

NO_WORD = "it ended without showing what it exports (by `exec`, a trap on EXIT, or too large a variable)"

# Runs the text and shows its environment at the end, also when it exits early or sets a trap of its own.
# It has no variables: under the text's `set -a` they would be exported.
SCRIPT = """trap {quoted_show} EXIT
eval {text}
set -- $?; {show}; exit $1
"""


class Setup:
    """One run of a setup text; `before` is the environment that it starts with."""

    def __init__(self, text: str, before: dict[str, str]) -> None:
        self.before = before
        self.dump = keys.memory_file()  # the environment may hold secrets
        show = f"{shlex.quote(shutil.which('env') or 'env')} -0 >&{self.dump}"
        script = SCRIPT.format(show=show, quoted_show=shlex.quote(show), text=shlex.quote(text))
        self.argv: list[str] = ["bash", "-c", script, "setup"]

    def exported(self) -> dict[str, str] | None:
        """The variables that it exported, once it has ended; None when it did not show them."""
        os.lseek(self.dump, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self.dump), "rb") as file:
            dumped = file.read()
        return environment.exported(self.before, dumped) if dumped else None

    def close(self) -> None:
        os.close(self.dump)
