"""`muster exec`: run a command inside a rank's node, with the rank's environment."""

from __future__ import annotations

import click

from muster.cli.options import run_argument
from muster.launch import api, beside


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@run_argument()
@click.option("--rank", type=int, default=0, show_default=True, help="Beside which rank.")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
def command(run: str, rank: int, words: tuple[str, ...]) -> int:
    """Run a command beside a rank: in its node, its directory and its environment.

    \b
    Examples:
      muster exec last --rank 3 -- nvidia-smi
      muster exec last -- bash
    """
    found = api.get(run)
    if words[0] == "--":
        words = words[1:]
    return beside.run(found, rank, words)
