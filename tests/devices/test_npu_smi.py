"""Reading Ascend NPUs from tables that npu-smi prints, as seen on three generations of machines. No chips are needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.devices.base import Reading
from muster.devices.npu_smi import table

FRAME = "+---------------------------+---------------+----------------------------------------------------+\n"
TOP = (
    "| npu-smi 23.0.rc2                 Version: 23.0.rc2                                             |\n"
    + FRAME
    + "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
)
PROCESSES = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 18411         | python3                  | 1234                    |
+===========================+===============+====================================================+
"""
A2 = (
    TOP
    + "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n"
    + "| 0     910B3               | OK            | 93.6        40                0    / 0             |\n"
    + "| 0                         | 0000:C1:00.0  | 12          0    / 0          4152 / 65536         |\n"
    + FRAME
    + "| 5     910B3               | Warning       | NA          41                0    / 0             |\n"
    + "| 0                         | 0000:01:00.0  | 0           592  / 15079      59807/ 65536         |\n"
    + PROCESSES
)
A3 = (
    TOP
    + "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n"
    + "| 2     Ascend910           | OK            | 176.3       36                0    / 0             |\n"
    + "| 0     4                   | 0000:95:00.0  | 100         0    / 0          3411 / 65536         |\n"
    + FRAME
    + "| 2     Ascend910           | OK            | -           35                0    / 0             |\n"
    + "| 1     5                   | 0000:97:00.0  | 0           0    / 0          3208 / 65536         |\n"
    + PROCESSES
)
INFERENCE = (
    TOP
    + "| Chip    Device            | Bus-Id        | AICore(%)   Memory-Usage(MB)                       |\n"
    + "| 3     310P3               | OK            | 17.2        44                0    / 0             |\n"
    + "| 0       1                 | 0000:02:00.0  | 7           1850 / 21527                           |\n"
    + PROCESSES
)


def test_each_npu_has_two_lines() -> None:
    chips = table(A2)
    assert list(chips) == ["0", "5"]
    assert chips["0"].reading == Reading(util=12.0, mem=4152 << 20, power=93.6, temp=40.0)
    assert (chips["0"].name, chips["0"].bus, chips["0"].memory) == ("910B3", "0000:C1:00.0", 65536 << 20)


def test_what_an_npu_does_not_tell_is_unknown_and_not_zero() -> None:
    assert table(A2)["5"].reading == Reading(util=0.0, mem=59807 << 20, power=None, temp=41.0)


def test_chips_of_one_npu_are_told_apart_by_their_device_files() -> None:
    chips = table(A3)
    assert {id: chip.reading.power for id, chip in chips.items()} == {"4": 176.3, "5": None}
    assert chips["4"].reading.util == 100.0


def test_npus_without_hbm_have_memory() -> None:
    assert table(INFERENCE)["1"].reading == Reading(util=7.0, mem=1850 << 20, power=17.2, temp=44.0)


@pytest.mark.parametrize("text", ["", "dcmi module initialize failed. ret is -8005\n", PROCESSES, "| 0 | | |\n| 0 x | y |\n"])
def test_anything_else_holds_no_chips(text: str) -> None:
    assert table(text) == {}


READ = """
import json
from muster.devices import Unmeasured, open_meter
meter = open_meter("ascend", ["0", "5"])
try:
    found = {id: reading.known() for id, reading in meter.read().items()}
except Unmeasured as error:
    found = str(error)
devices = [device._asdict() for device in meter.describe()]
print(json.dumps([found, devices, meter.driver, meter.runtime, meter.missing, meter.pause]))
"""


def ask(folder: Path, tool: str | None) -> list[Any]:
    (folder / "bin").mkdir()
    if tool is not None:
        (folder / "bin/npu-smi").write_text(tool)
        (folder / "bin/npu-smi").chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}/bin:/bin:/usr/bin", "MUSTER_DEVICE_ROOT": str(folder / "root")}
    found: list[Any] = json.loads(subprocess.check_output([sys.executable, "-c", READ], env=env))
    return found


def test_devices_are_read_with_one_call_and_described_with_their_versions(tmp_path: Path) -> None:
    driver = tmp_path / "root/usr/local/Ascend/driver/version.info"
    firmware = tmp_path / "root/usr/local/Ascend/firmware/version.info"
    toolkit = tmp_path / "root/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info"
    for path, text in ((driver, "Version=24.1.rc1\n"), (firmware, "Version=7.1\n"), (toolkit, "version=8.1.RC1\narch=x\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (tmp_path / "info").write_text(A2)
    tool = f'#!/bin/sh\n[ "$*" = info ] && echo >> {tmp_path}/calls && cat {tmp_path}/info\n'
    readings, devices, version, runtime, missing, pause = ask(tmp_path, tool)
    assert readings["0"] == {"util": 12.0, "mem": 4152 << 20, "power": 93.6, "temp": 40.0}
    assert (tmp_path / "calls").read_text() == "\n"
    common = {"name": "910B3", "memory": 65536 << 20, "driver": "24.1.rc1"}
    assert devices[0] == {"id": "0", "uuid": "0000:C1:00.0", **common}
    assert (version, runtime, pause) == ("24.1.rc1", "CANN 8.1.RC1", 5.0)
    assert missing == {"energy": "npu-smi shows no energy counter"}


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (None, "npu-smi is not on the PATH"),
        ("#!/bin/sh\necho nothing works\nexit 3\n", "npu-smi does not work: nothing works"),
        ("#!/bin/sh\necho hello\n", "npu-smi does not show NPU 0, 5"),
    ],
)
def test_a_tool_that_does_not_help_is_told(tmp_path: Path, tool: str | None, said: str) -> None:
    assert ask(tmp_path, tool)[:4] == [said, [], None, None]
