"""`muster wait`: wait for a run to end."""

from __future__ import annotations

import click

from muster.cli import output, places
from muster.cli.options import Time, as_json, run_argument


@click.command("wait")
@run_argument()
@click.option("--timeout", type=Time(), metavar="TIME", help="Give up after this long, such as 90s or 2h (exit code 124).")
@places.server_option
@as_json
def command(run: str, timeout: float | None, server: str | None, json: bool) -> int:
    """Wait for a run to end. The exit code is that of `muster run`.

    \b
    Example:
      muster wait last && echo trained
    """
    found = places.find(run, server)
    state = found.wait(timeout, output.say)
    view = found.view
    output.show(json, output.brief(view), output.headline(view))
    return output.EXIT_CODES.get(state, 124)
