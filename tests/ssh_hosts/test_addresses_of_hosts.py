"""The addresses that ranks get: of the named interface, or of a network in which all hosts reach each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob
from host_machines import Machines

RunJson = Callable[..., dict[str, Any]]
OnHosts = Callable[..., None]

pytestmark = pytest.mark.long

# Rank 1 sends a word to rank 0 at the address that both were told.
MEET = """
import json, os, socket, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(address) as server:
        print(server.accept()[0].recv(9).decode())
else:
    while True:
        try:
            with socket.create_connection(address, 10) as line:
                line.sendall(b"met")
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
print(json.dumps({"master": address[0], "hosts": os.environ["MUSTER_HOSTS"]}))
"""
FIELDS = {"python": "python3", "nodes": 2, "framework": "pytorch"}


def met(view: dict[str, Any], *addresses: str) -> None:
    """Asserts that two ranks met, and that all were told these addresses."""
    assert view["state"] == "succeeded", view["reason"]
    logs = [Path(rank["log"]).read_text().splitlines() for rank in view["attempts"][0]["ranks"]]
    assert logs[0][0] == "met"
    for lines in logs:
        assert json.loads(lines[-1]) == {"master": addresses[0], "hosts": ",".join(addresses)}
    assert [node["address"] for node in view["attempts"][0]["nodes"]] == [*addresses]


def test_the_address_of_the_named_interface_is_that_of_the_ranks(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", interface="ib0")
    net = machines.network(78)
    for name in ("h1", "h2"):
        machines.add_interface(name, "ib0", f"{net}.{name[1:]}/24")
    met(run_json(write_job(FIELDS, **{"train.py": MEET})), f"{net}.1", f"{net}.2")


WRONG = {
    "missing": ((), "it has no network interface `ib0` that is up; it has lo, eth0"),
    "ipv6": (("fd00:77::2/64",), "its network interface `ib0` has no IPv4 address, which ranks need"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_host_without_the_named_interface_or_with_ipv6_alone_is_named(
    how: str, machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", interface="ib0")
    machines.add_interface("h1", "ib0", f"{machines.network(78)}.1/24")
    given, words = WRONG[how]
    if given:
        machines.add_interface("h2", "ib0", *given)
    view = run_json(write_job({"command": "true", "nodes": 2}))
    assert (view["state"], view["reason"]) == ("failed", f"h2: {words}")


def test_hosts_that_are_reached_at_their_own_loopback_use_the_network_that_they_share(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    """As through a jump host that is the host itself. A bridge with the same address on both is no common network."""
    through = "".join(
        f"Host l{name[1:]}\n  HostName 127.0.0.1\n  ProxyJump {name}\n  HostKeyAlias {name}\n" for name in ("h1", "h2")
    )
    for name in ("h1", "h2"):
        machines.add_interface(name, "br0", "172.17.0.1/16")
    on_hosts("l1", "l2")
    with machines.configured(through):
        met(run_json(write_job(FIELDS, **{"train.py": MEET})), machines.address("h1"), machines.address("h2"))


def test_hosts_that_are_reached_in_different_networks_use_one_that_they_share(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    shared, other = machines.network(78), machines.network(79)
    for name in ("h1", "h2"):
        machines.add_interface(name, "ib0", f"{shared}.{name[1:]}/24")
    machines.add_interface("h2", "mg0", f"{other}.2/24")
    on_hosts("h1", "m2")
    aside = f"Host m2\n  HostName {other}.2\n  HostKeyAlias h2\n"
    own = f"{machines.address('h2')}/24"
    machines.ip("h2", "addr", "del", own, "dev", "eth0")
    try:
        with machines.configured(aside, f"{other}.254/24"):
            met(run_json(write_job(FIELDS, **{"train.py": MEET})), f"{shared}.1", f"{shared}.2")
    finally:
        machines.ip("h2", "addr", "add", own, "dev", "eth0")


def test_hosts_in_different_networks_use_the_addresses_of_the_route_between_them(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    other = machines.network(80)
    machines.add_interface("h2", "mg0", f"{other}.2/24")
    machines.ip("h1", "route", "add", f"{other}.0/24", "dev", "eth0")
    own = f"{machines.address('h2')}/24"
    machines.ip("h2", "addr", "del", own, "dev", "eth0")
    machines.ip("h2", "route", "add", f"{machines.network(77)}.0/24", "dev", "mg0")
    on_hosts("h1", "m2")
    try:
        with machines.configured(f"Host m2\n  HostName {other}.2\n  HostKeyAlias h2\n", f"{other}.254/24"):
            met(run_json(write_job(FIELDS, **{"train.py": MEET})), machines.address("h1"), f"{other}.2")
    finally:
        machines.ip("h2", "addr", "add", own, "dev", "eth0")
        machines.ip("h1", "route", "del", f"{other}.0/24", "dev", "eth0")


def test_hosts_without_any_network_in_common_are_told_so(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    other = machines.network(81)
    machines.add_interface("h2", "mg0", f"{other}.2/24")
    own = f"{machines.address('h2')}/24"
    machines.ip("h2", "addr", "del", own, "dev", "eth0")
    on_hosts("h1", "m2")
    try:
        with machines.configured(f"Host m2\n  HostName {other}.2\n  HostKeyAlias h2\n", f"{other}.254/24"):
            view = run_json(write_job({"command": "true", "nodes": 2}))
    finally:
        machines.ip("h2", "addr", "add", own, "dev", "eth0")
    assert view["state"] == "failed"
    assert view["reason"] == "h1: it has no route to the others; name a network that they share with `interface`"
