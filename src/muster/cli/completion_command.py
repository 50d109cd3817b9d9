"""`muster completion`: the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from muster.cli import output
from muster.cli.options import as_json


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@as_json
def command(shell: str, json: bool) -> None:
    """Print the completion script for a shell; commands, options and run ids are completed.

    \b
    Examples:
      muster completion bash >> ~/.bashrc
      muster completion zsh  >> ~/.zshrc
      muster completion fish >  ~/.config/fish/completions/muster.fish
    """
    from muster.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, "muster", "_MUSTER_COMPLETE").source()
    output.show(json, {"shell": shell, "script": script}, script)
