"""`muster ranktable`: an HCCL rank table from a list of servers, without running anything."""

from __future__ import annotations

import json as json_format
from collections import Counter
from pathlib import Path
from typing import Any

import click

from muster.job.source import JobError, Problem
from muster.plan.ranktable import FORMATS, Server, render
from muster.plan.world import Device

MOST_ID = 64  # characters in the name of a server


@click.command("ranktable")
@click.argument("servers", type=click.Path())
@click.option("--format", "format", type=click.Choice(FORMATS), default="1.0", show_default=True, help="Which format to print.")
@click.option("--json", is_flag=True, help="JSON is what is printed in any case.")
def command(servers: str, format: str, json: bool) -> None:
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


def _read(path: str) -> list[Server]:
    try:
        data = json_format.loads(Path(path).read_bytes())
    except OSError as error:
        raise JobError([Problem(path, None, "", f"cannot be read: {(error.strerror or str(error)).lower()}")]) from None
    except (ValueError, RecursionError) as error:
        raise JobError([Problem(path, getattr(error, "lineno", None), "", f"is not JSON: {error}")]) from None
    if not isinstance(data, list) or not data:
        raise JobError([Problem(path, None, "", "is not a list of servers", "see `muster ranktable --help`")])
    problems: list[Problem] = []
    servers = [_server(entry, f"server {index}", path, problems) for index, entry in enumerate(data)]
    for host, count in Counter(server.id for server in servers).items():
        if host and count > 1:
            hint = "put all devices of a server into one entry"
            problems.append(Problem(path, None, host, "stands for several servers", hint))
    if problems:
        raise JobError(problems)
    return servers


def _server(entry: Any, where: str, path: str, problems: list[Problem]) -> Server:
    fields = entry if isinstance(entry, dict) else {}
    host, devices, pod = fields.get("host"), fields.get("devices"), fields.get("pod", "")
    if not isinstance(host, str) or not host.strip():
        problems.append(Problem(path, None, where, "has no `host`", 'such as "host": "192.168.3.6"'))
        host = ""
    elif len(host) > MOST_ID:
        problems.append(Problem(path, None, where, f"has a `host` of more than {MOST_ID} characters, which HCCL cannot read"))
    if not isinstance(devices, list) or not devices:
        problems.append(Problem(path, None, where, "has no `devices`", 'such as [{"id": "0", "ip": "192.168.10.1"}]'))
        devices = []
    if not isinstance(pod, str):
        problems.append(Problem(path, None, where, "has a `pod` that is not a name"))
    found = [_device(device, f"{where}, device {index}", path, problems) for index, device in enumerate(devices)]
    for id, count in Counter(device.id for device in found).items():
        if id and count > 1:
            problems.append(Problem(path, None, where, f"has {count} devices with the id {id}"))
    return Server(host, tuple(found), str(pod))


def _device(entry: Any, where: str, path: str, problems: list[Problem]) -> Device:
    fields = entry if isinstance(entry, dict) else {}
    id, ip = fields.get("id"), fields.get("ip")
    number = str(id) if isinstance(id, str | int) and not isinstance(id, bool) else ""
    if not (number.isascii() and number.isdigit()):
        problems.append(Problem(path, None, where, "has no `id`", 'the number of the device on its server, such as "id": "0"'))
        number = ""
    if not isinstance(ip, str) or not ip.strip():
        problems.append(Problem(path, None, where, "has no `ip`", 'the address of its own port, such as "ip": "192.168.10.1"'))
        ip = ""
    return Device(number, ip)
