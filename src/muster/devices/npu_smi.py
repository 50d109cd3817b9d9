"""Use and power of Ascend NPUs, from the table that `npu-smi info` prints.

npu-smi is slow and costs CPU time, so one call serves all devices, at most every five seconds. It has no energy counter. An NPU
with two chips reports the power of both for the first one.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from muster.devices.base import Description, DriverError, Meter, Reading, Unmeasured, ask, real_path

PAUSE = 5.0
MEGABYTE = 1 << 20
LIMIT = 20.0  # seconds; with eight busy chips it takes some
DRIVER = "usr/local/Ascend/driver/version.info"
# Files with the version of CANN: of a toolkit, or in images of an older platform.
TOOLKITS = (
    "usr/local/Ascend/ascend-toolkit/latest/*/ascend_toolkit_install.info",
    "usr/local/Ascend/nnae/latest/*/ascend_nnae_install.info",
    "usr/local/Ascend/*/version.info",
    "usr/local/Ascend/version.info",
)
HARDWARE = ("driver", "firmware")  # directories whose version is not that of CANN


class Chip(NamedTuple):
    name: str
    bus: str
    memory: int | None
    reading: Reading


class NpuSmi(Meter):
    name = "npu-smi"
    pause = PAUSE

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__()
        self._ids = tuple(ids)
        self._chips: dict[str, Chip] = {}
        self.missing["energy"] = "npu-smi shows no energy counter"
        self.driver = _version([real_path(DRIVER)])
        self.runtime = _cann()

    def read(self, whole: bool = False) -> dict[str, Reading]:
        try:
            text = ask(["npu-smi", "info"], LIMIT)
        except DriverError as error:
            raise Unmeasured(str(error)) from None
        if not text:
            raise Unmeasured("npu-smi is not on the PATH")
        chips = table(text)
        self._chips = {id: chips[id] for id in self._ids if id in chips}
        if not self._chips:
            raise Unmeasured("npu-smi does not show NPU {}".format(", ".join(self._ids)))
        return {id: chip.reading for id, chip in self._chips.items()}

    def describe(self) -> list[Description]:
        return [Description(id, chip.name, chip.bus, chip.memory, self.driver) for id, chip in self._chips.items()]


def table(text: str) -> dict[str, Chip]:
    """Parses the output of `npu-smi info` into chips, by the number of their device file.

    Each chip has two lines: NPU and name | health | power, temperature, pages, then chip | bus | use, memory (and HBM).
    """
    chips: dict[str, Chip] = {}
    numbered = False  # the second line has the number of the device file; else that of the NPU is used
    above: list[list[str]] | None = None
    for line in text.splitlines():
        cells = [cell.split() for cell in line.strip().strip("|").split("|")]
        if "Process" in line:
            break
        if len(cells) != 3 or not all(cells) or not line.lstrip().startswith("|"):
            continue
        if cells[0][0] == "Chip":
            numbered = len(cells[0]) > 1
        elif cells[0][0].isdigit() and above is None:
            above = cells
        elif cells[0][0].isdigit() and above is not None:
            id = cells[0][1] if numbered and len(cells[0]) > 1 else above[0][0]
            chips.setdefault(id, _chip(above, cells))
            above = None
    return chips


def _chip(above: list[list[str]], below: list[list[str]]) -> Chip:
    pairs = re.findall(r"(\d+)\s*/\s*(\d+)", " ".join(below[2]))
    used, total = (int(number) * MEGABYTE for number in pairs[-1]) if pairs else (None, None)  # the last is that of HBM
    power, temp = (_number(word) for word in (above[2] + ["", ""])[:2])
    reading = Reading(util=_number(below[2][0]), mem=used, power=power, temp=temp)
    return Chip(" ".join(above[0][1:]), below[1][0], total, reading)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:  # such as `NA` or `-`
        return None


def _cann() -> str | None:
    for pattern in TOOLKITS:
        paths = sorted(glob.glob(real_path(pattern)))
        found = _version([path for path in paths if path.split("/")[-2] not in HARDWARE])
        if found:
            return "CANN " + found
    return None


def _version(paths: list[str]) -> str | None:
    """The version in the first of these files that has one."""
    for path in paths:
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(r"^\s*version\s*=\s*(\S+)", file.read(), re.MULTILINE | re.IGNORECASE)
            if found:
                return found.group(1)
    return None
