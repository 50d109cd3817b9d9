"""`muster wait`: wait for a run to end."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import Time, as_json, run_argument
from muster.launch import api


@click.command("wait")
@run_argument()
@click.option("--timeout", type=Time(), metavar="TIME", help="Give up after this long, such as 90s or 2h (exit code 124).")
@as_json
def command(run: str, timeout: float | None, json: bool) -> int:
    """Wait for a run to end. The exit code is that of `muster run`.

    \b
    Example:
      muster wait last && echo trained
    """
    found = api.get(run)
    state = found.wait(timeout, output.say)
    view = found.view
    output.show(json, output.brief(view), output.headline(view))
    return output.EXIT_CODES.get(state, 124)
