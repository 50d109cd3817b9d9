"""`muster schema`: the JSON Schema of job files."""

from __future__ import annotations

import click

from muster.cli import output


@click.command("schema")
@click.option("--json", is_flag=True, help="JSON is what is printed in any case.")
def command(json: bool) -> None:
    """Print the JSON Schema of job files, for editors.

    \b
    Example:
      muster schema > .vscode/muster.schema.json
    """
    from muster.job.describe import schema

    output.print_json(schema())
