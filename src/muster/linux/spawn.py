"""Starts programs that this process reaps itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence


def spawn(
    argv: Sequence[str],
    environment: Mapping[str, str],
    output: int,
    keep: Sequence[int] = (),
    cwd: str = "/",
    before: Callable[[], None] | None = None,
    executable: str | None = None,
) -> int:
    """Starts a program in a session of its own, without input and with both outputs to one descriptor; returns its id.

    It has the descriptors `keep`; `before` is called in the child. Raises OSError or SubprocessError.
    """
    child = subprocess.Popen(
        list(argv),
        executable=executable,
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=before,
        pass_fds=keep,
    )
    child.returncode = 0  # subprocess must not reap it
    return child.pid
