"""`muster connect`: a connection to an endpoint, a port or the ssh server of a running run."""

from __future__ import annotations

from collections.abc import Callable

import click

from muster.cli import connecting, output, places
from muster.cli.connecting import Duplex, SocketDuplex
from muster.cli.options import run_argument
from muster.launch import api

A_PORT = click.IntRange(1, 65535)


@click.command("connect")
@run_argument()
@click.option("--endpoint", metavar="NAME", help="An endpoint of the job, such as jupyter.")
@click.option("--port", type=A_PORT, help="Any port at which a program of the run listens.")
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="With --port, or for logins: on whose node.")
@click.option(
    "--listen", type=click.IntRange(0, 65535), metavar="PORT", help="Open a port of this machine; 0 takes a free one."
)
@places.server_option
def command(run: str, endpoint: str | None, port: int | None, rank: int, listen: int | None, server: str | None) -> None:
    """Connect to a port of a running run, wherever it is.

    Without --listen, standard input and output are the connection, as ssh's ProxyCommand wants it. Without --endpoint
    and --port it leads to the run's own ssh server (`login: true` in the job).

    \b
    Examples:
      muster connect last --endpoint jupyter --listen 8888   then open the address that it prints
      muster connect last --port 8000 --rank 3 --listen 0    a service of the job's own
      ssh -o ProxyCommand='muster connect last' run          see `muster ssh --help` for the keys
    """
    if endpoint and port:
        raise click.UsageError("--endpoint and --port are two ways to say where to; keep one")
    opened = _remote(run, endpoint, port, rank, server) or _here(run, endpoint, port, rank)
    first = opened()
    if listen is None:
        connecting.through_standard_streams(first)
        return
    first.close()
    with connecting.bound(listen) as listener:
        number = listener.getsockname()[1]
        query = f"?token={first.token}" if first.token and endpoint in ("jupyter", "tensorboard") else ""
        click.echo(f"http://localhost:{number}/{query}" if endpoint or port else f"localhost:{number}")
        output.say("others on this machine reach this port, too, while this command runs; Ctrl-C ends it")
        connecting.serve(listener, opened, output.say)


def _here(run: str, endpoint: str | None, port: int | None, rank: int) -> Callable[[], Duplex]:
    """Opens connections to a run of this machine."""
    from muster.engines.carriers import Carriers
    from muster.launch import connections

    found, carriers = api.get(run), Carriers()

    def opened() -> Duplex:
        if endpoint:
            target = connections.target(found, endpoint)
        else:
            node = connections.node_of(found, rank)
            target = connections.Target(node, port) if port else connections.login_target(found, node)
        return SocketDuplex(connections.open_connection(found, target.node, target.port, carriers), target.token)

    return opened


def _remote(run: str, endpoint: str | None, port: int | None, rank: int, server: str | None) -> Callable[[], Duplex] | None:
    """Opens connections to a run of a server; None where none is chosen."""
    chosen = places.chosen(server)
    if chosen is None:
        return None
    from muster.client.web_sockets import Connection

    remote = places.opened(chosen).get(run)
    return lambda: Connection(remote, endpoint=endpoint, port=port, rank=rank)
