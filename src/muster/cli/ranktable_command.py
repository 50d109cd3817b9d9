"""`muster ranktable`: an HCCL rank table from a list of servers, without running anything."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Any

import click

from muster.job.source import JobError, Problem
from muster.plan.ranktable import FORMATS, Server, render
from muster.plan.world import Device


@click.command("ranktable")
@click.argument("servers", type=click.Path())
@click.option("--format", "format", type=click.Choice(FORMATS), default="1.0", show_default=True, help="Which format to print.")
@click.option("--json", is_flag=True, help="JSON is what is printed in any case.")
def command(servers: str, format: str, json: bool) -> int:
    """Print an HCCL rank table.

    SERVERS is a JSON file with a list of servers and their devices:

    \b
      [{"host": "192.168.3.6", "devices": [{"id": "0", "ip": "192.168.10.1"}]}]

    \b
    Examples:
      muster ranktable servers.json --format lab
      muster ranktable servers.json > rank_table_file.json
    """
    click.echo(render(format, _read(servers)), nl=False)
    return 0


def _read(path: str) -> list[Server]:
    try:
        data = json_format.loads(Path(path).read_bytes())
    except OSError as error:
        raise JobError([Problem(path, None, "", f"cannot be read: {(error.strerror or str(error)).lower()}")]) from None
    except ValueError as error:
        raise JobError([Problem(path, getattr(error, "lineno", None), "", f"is not JSON: {error}")]) from None
    problems: list[Problem] = []
    servers = [
        _server(entry, f"server {index}", path, problems) for index, entry in enumerate(data if isinstance(data, list) else [])
    ]
    if not servers:
        problems.append(Problem(path, None, "", "is not a list of servers", "see `muster ranktable --help`"))
    hosts = [server.id for server in servers]
    for host in sorted({host for host in hosts if hosts.count(host) > 1}):
        problems.append(Problem(path, None, host, "stands for several servers", "put all devices of a server into one entry"))
    if problems:
        raise JobError(problems)
    return servers


def _server(entry: Any, where: str, path: str, problems: list[Problem]) -> Server:
    host = entry.get("host") if isinstance(entry, dict) else None
    devices = entry.get("devices") if isinstance(entry, dict) else None
    if not isinstance(host, str) or not host:
        problems.append(Problem(path, None, where, "has no `host`", 'such as "host": "192.168.3.6"'))
    if not isinstance(devices, list) or not devices:
        problems.append(Problem(path, None, where, "has no `devices`", 'such as [{"id": "0", "ip": "192.168.10.1"}]'))
        devices = []
    found = []
    for device in devices:
        id, ip = (device.get("id"), device.get("ip", "")) if isinstance(device, dict) else (None, None)
        if not isinstance(id, str | int) or isinstance(id, bool) or str(id) == "" or not isinstance(ip, str):
            problems.append(Problem(path, None, where, "has a device without `id` and `ip`"))
        else:
            found.append(Device(str(id), ip))
    if len({device.id for device in found}) < len(found):
        problems.append(Problem(path, None, where, "has two devices with one id"))
    return Server(
        host if isinstance(host, str) else "",
        tuple(found),
        str(entry.get("pod", "")) if isinstance(entry, dict) else "",
    )
