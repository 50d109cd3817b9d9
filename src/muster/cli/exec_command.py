"""`muster exec`: run a command inside a rank's node, with the rank's environment."""

from __future__ import annotations

import subprocess

import click

from muster.cli import output
from muster.cli.options import WithWords, as_json, run_argument
from muster.launch import api, exec


@click.command("exec", cls=WithWords)
@run_argument()
@click.argument("bare", nargs=-1, metavar="")
@click.option("--rank", type=int, default=0, show_default=True, help="Beside which rank.")
@as_json
@click.pass_context
def command(ctx: click.Context, run: str, bare: tuple[str, ...], rank: int, json: bool) -> int:
    """Run a command beside a rank: in its node, its directory and its environment.

    The exit code is that of the command. With --json its output is collected and printed as one object.

    \b
    Examples:
      muster exec last --rank 3 -- nvidia-smi
      muster exec last -- bash
    """
    words: list[str] = [*bare, *ctx.meta.get("words", [])]
    if not words:
        raise click.UsageError("write the command behind `--`: muster exec last --rank 0 -- bash")
    found = api.get(run)
    code, text = exec.run(found, rank, words, subprocess.PIPE if json else None)
    if json:
        output.print_json({"run": found.id, "rank": rank, "code": code, "output": text})
    return code
