"""`muster ssh`: a shell beside a rank, and the configuration with which ssh and editors log in."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from muster.cli import places
from muster.cli.options import run_argument
from muster.launch import api, exec
from muster.records.files import write_text
from muster.records.layout import home

SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")
BLOCK = """\
Host {run}
  ProxyCommand muster connect {run}{server}
  User {user}
  IdentityFile {key}
  IdentitiesOnly yes
  HostKeyAlias muster
  UserKnownHostsFile {known}
  StrictHostKeyChecking yes
"""


@click.command("ssh")
@run_argument()
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="Beside which rank.")
@click.option("--config", is_flag=True, help="Print a block for ~/.ssh/config instead (the job needs `login: true`).")
@places.server_option
def command(run: str, rank: int, config: bool, server: str | None) -> int:
    """Open a shell beside a rank: in its node, its directory and its environment.

    It needs nothing in the job. For editors and ssh itself, write `login: true` into the job and add the block that
    --config prints to ~/.ssh/config; its key is that of this run alone, and ends with it.

    \b
    Examples:
      muster ssh last
      muster ssh last --rank 3 --server=default
      muster ssh last --config >> ~/.ssh/config     then `ssh RUN`, or Remote-SSH of an editor
    """
    chosen = places.chosen(server)
    if config:
        _print_config(run, chosen)
        return 0
    if chosen:
        from muster.client import exec as remote_exec

        return remote_exec.run(places.opened(chosen).get(run), rank, SHELL)[0]
    return exec.run(api.get(run), rank, SHELL)[0]


def _print_config(run: str, server: str | None) -> None:
    """Writes the keys of a run below MUSTER_HOME, and prints how ssh uses them."""
    if server:
        remote = places.opened(server).get(run)
        name, keys = remote.id, remote.server.client.post("runs", remote.id, "login")
    else:
        from muster.launch import connections

        found = api.get(run)
        name, keys = found.id, connections.login_keys(found)
    folder = Path(home(), "logins", name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text(str(folder / "key"), keys["key"])
    write_text(str(folder / "known_hosts"), f"muster {keys['host']}\n")
    given = f" --server={shlex.quote(server)}" if server else " --server=none"
    quoted = {"key": f'"{folder / "key"}"', "known": f'"{folder / "known_hosts"}"'}
    click.echo(BLOCK.format(run=name, server=given, user=keys["user"] or os.environ.get("USER", ""), **quoted), nl=False)
