"""What a host tells of its networks is checked before it is used, and chooses nothing that others cannot reach."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engines.ssh.node import addresses
from muster.engines.ssh.node.addresses import Interface, Place, Unsuitable

GOOD = {"network": "boot net", "reached": "10.0.0.1", "interfaces": [["eth0", "10.0.0.1", 24], ["ib0", "", 32]]}


def place(network: str, reached: str, *interfaces: tuple[str, int]) -> Place:
    return Place(network, reached, tuple(Interface(f"eth{number}", *each) for number, each in enumerate(interfaces)))


def test_what_a_host_tells_of_its_networks_is_read_as_it_was_told() -> None:
    assert Place.from_json(GOOD).to_json() == GOOD
    here = addresses.here()
    assert Place.from_json(here.to_json()) == here
    assert "lo" in {interface.name for interface in here.interfaces}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {**GOOD, "reached": "elsewhere"},
        {**GOOD, "reached": None},
        {**GOOD, "interfaces": None},
        {**GOOD, "interfaces": 7},
        {**GOOD, "interfaces": [["eth0", "10.0.0.1"]]},
        {**GOOD, "interfaces": [["eth0", "10.0.0.999", 24]]},
        {**GOOD, "interfaces": [["eth0", "10.0.0.1", 99]]},
        {**GOOD, "interfaces": [["eth0", "10.0.0.1", None]]},
    ],
)
def test_what_is_no_place_in_a_network_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Place.from_json(wrong)


def test_of_endless_interfaces_the_first_count() -> None:
    many = [[f"veth{number}", "", 32] for number in range(100_000)]
    assert len(Place.from_json({**GOOD, "interfaces": many}).interfaces) == addresses.MOST


def test_nodes_of_one_machine_keep_the_addresses_at_which_they_were_reached() -> None:
    assert addresses.choose([place("m", "127.0.0.1"), place("m", "127.0.0.2")], "") == ["127.0.0.1", "127.0.0.2"]
    assert addresses.choose([place("m", "fd00::1")], "") == ["127.0.0.1"]


def test_hosts_that_were_reached_by_ipv6_use_a_network_of_ipv4_that_they_share() -> None:
    hosts = [place("a", "fd00::1", ("10.0.0.1", 24)), place("b", "fd00::2", ("10.1.0.2", 24), ("10.0.0.2", 24))]
    assert addresses.choose(hosts, "") == ["10.0.0.1", "10.0.0.2"]
    apart = [place("a", "fd00::1", ("10.0.0.1", 24)), place("b", "fd00::2", ("10.1.0.2", 24))]
    assert addresses.choose(apart, "") == ["", ""]
    with pytest.raises(Unsuitable, match="name one with `interface`"):
        addresses.peer(apart, 0)
