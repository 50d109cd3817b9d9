"""Power from a BMC through ipmitool, which is a fake that shows how it was called."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sampled import IDLE, Start
from sampled import archive as archive
from sampled import sample as sample

from conftest import until
from muster.agent.sampler.ipmi import parse
from muster.devices import Unmeasured

ANSWER = """
    Instantaneous power reading:                   {watts} Watts
    Minimum during sampling period:                 17 Watts
    Maximum during sampling period:                312 Watts
    Average power reading over sample period:      219 Watts
    IPMI timestamp:                           Wed Feb 15 12:49:51 2017
    Sampling period:                          01131466 Seconds.
    Power reading state is:                   activated
"""
PROGRAM = """#!/bin/sh
printf '%s\\n' "$IPMI_PASSWORD" "$@" > {folder}/called.new
mv {folder}/called.new {folder}/called
cat {folder}/answer
exit {code}
"""


class Ipmitool:
    """A folder for the PATH. The program answers once and writes down how it was called."""

    def __init__(self, folder: Path, answer: str, code: int = 0) -> None:
        folder.mkdir()
        self.called = folder / "called"
        (folder / "answer").write_text(answer)
        (folder / "ipmitool").write_text(PROGRAM.format(folder=folder, code=code))
        (folder / "ipmitool").chmod(0o755)
        self.path = f"{folder}:{os.environ['PATH']}"

    def until_called(self) -> tuple[str, list[str]]:
        """The password that it had in its environment, and its arguments."""
        password, *words = str(until(lambda: self.called.exists() and self.called.read_text())).splitlines()
        return password, words


def root_with_bmc(folder: Path) -> str:
    (folder / "dev").mkdir(parents=True)
    (folder / "dev" / "ipmi0").touch()
    return str(folder)


def test_the_bmc_of_the_machine_is_asked_without_a_password(sample: Start, tmp_path: Path) -> None:
    tool = Ipmitool(tmp_path / "bin", ANSWER.format(watts=220))
    sampled = sample(IDLE, PATH=tool.path, MUSTER_DEVICE_ROOT=root_with_bmc(tmp_path / "root"))
    assert tool.until_called() == ("", ["dcmi", "power", "reading"])
    sampled.until_slow_things_are_done()
    assert sampled.end() == 0
    assert sampled.header["power"] == ["ipmi"]
    found = [line for line in sampled.samples if "power" in line]
    assert found and all(line["power"] == {"ipmi": 220.0} for line in found)
    assert all(set(line) == {"t", "power"} for line in found)  # a line of its own, with the time of the reading
    times = [line["t"] for line in sampled.samples]
    assert times == sorted(times)


def test_a_bmc_on_the_network_gets_its_password_in_the_environment_alone(sample: Start, tmp_path: Path) -> None:
    tool = Ipmitool(tmp_path / "bin", ANSWER.format(watts=220))
    told = {"source": "ipmi", "ipmi_host": "bmc.example", "user": "reader", "password": "hush-hush"}
    sampled = sample(IDLE, PATH=tool.path, MUSTER_POWER=json.dumps(told))
    password, words = tool.until_called()
    assert password == "hush-hush"
    assert words == ["-I", "lanplus", "-H", "bmc.example", "-U", "reader", "-E", "dcmi", "power", "reading"]
    assert "hush-hush" not in Path(f"/proc/{sampled.pid}/cmdline").read_text()
    sampled.until_slow_things_are_done()
    assert sampled.end() == 0
    for file in Path(sampled.node.path).iterdir():
        assert "hush-hush" not in file.read_text()


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (ANSWER.format(watts=0), 0, "the BMC reports 0 W: it does not measure power"),
        ("Invalid data field in request\n", 0, "ipmitool reports no power"),
        ("Could not open device at /dev/ipmi0\n", 1, "ipmitool does not work: Could not open device at /dev/ipmi0"),
    ],
)
def test_a_bmc_that_tells_no_power_is_named_as_the_reason(
    answer: str, code: int, said: str, sample: Start, tmp_path: Path
) -> None:
    tool = Ipmitool(tmp_path / "bin", answer, code)
    root = root_with_bmc(tmp_path / "root")
    sampled = sample(IDLE, PATH=tool.path, MUSTER_DEVICE_ROOT=root, MUSTER_POWER='{"source": "ipmi"}')
    sampled.until_slow_things_are_done()
    assert sampled.end() == 0
    assert sampled.header["missing"]["ipmi"] == said
    assert sampled.header["power"] == []
    assert not [line for line in sampled.samples if "power" in line]


def test_a_machine_without_a_bmc_says_so(sample: Start, tmp_path: Path) -> None:
    tool = Ipmitool(tmp_path / "bin", ANSWER.format(watts=220))
    sampled = sample(PATH=tool.path, MUSTER_DEVICE_ROOT=str(tmp_path))
    until(lambda: sampled.system)
    sampled.start_ranks()
    assert sampled.end() == 0
    assert "no BMC of its own" in sampled.header["missing"]["ipmi"]
    assert not tool.called.exists()


def test_the_power_of_this_moment_is_read_and_not_an_average() -> None:
    assert parse(ANSWER.format(watts=1234)) == 1234.0
    with pytest.raises(Unmeasured):
        parse("Average power reading over sample period:      219 Watts")
