"""`muster exec`: run a command inside a rank's node, with the rank's environment."""

from __future__ import annotations

import click

from muster.cli import output, places
from muster.cli.options import WithWords, as_json, run_argument
from muster.launch import api, exec


@click.command("exec", cls=WithWords)
@run_argument()
@click.argument("bare", nargs=-1, metavar="")
@click.option("--rank", type=int, default=0, show_default=True, help="Beside which rank.")
@places.server_option
@as_json
@click.pass_context
def command(ctx: click.Context, run: str, bare: tuple[str, ...], rank: int, server: str | None, json: bool) -> int:
    """Run a command beside a rank: in its node, its directory and its environment.

    The exit code is that of the command. With --json its output is collected and printed as one object.

    \b
    Examples:
      muster exec last --rank 3 -- nvidia-smi
      muster exec last -- bash
      muster exec last --server=default -- bash
    """
    words: list[str] = [*bare, *ctx.meta.get("words", [])]
    if not words:
        raise click.UsageError("write the command behind `--`: muster exec last --rank 0 -- bash")
    if chosen := places.chosen(server):
        from muster.client import exec as remote_exec

        remote = places.opened(chosen).get(run)
        run_id, (code, text) = remote.id, remote_exec.run(remote, rank, words, collected=json)
    else:
        found = api.get(run)
        run_id, (code, text) = found.id, exec.run(found, rank, words, collected=json)
    if json:
        output.print_json({"run": run_id, "rank": rank, "code": code, "output": text})
    return code
