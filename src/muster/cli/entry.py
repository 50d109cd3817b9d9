"""The entry of the program `muster`: starts what takes long, and imports the command line meanwhile."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        from muster.launch.start.early import begin

        begin(sys.argv[2:])
    from muster.cli.main import main as run_command_line

    run_command_line()
