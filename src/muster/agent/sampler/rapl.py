"""Energy of the CPU packages, from the kernel's RAPL counters, which also cover AMD."""

from __future__ import annotations

import glob
import os

from muster.agent.sampler.polling import describe
from muster.agent.sampler.sample_writer import Sample
from muster.devices import Unmeasured, real_path
from muster.linux.proc import read_text


class Package:
    """The energy counter of one package, without the wraparound of the kernel's."""

    def __init__(self, folder: str) -> None:
        with open(folder + "/max_energy_range_uj", encoding="utf-8") as file:
            self._range = int(file.read())
        self._file = os.open(folder + "/energy_uj", os.O_RDONLY | os.O_CLOEXEC)
        self._last = self._raw()
        self.total = self._last

    def read(self) -> int:
        """Returns the microjoules so far."""
        now = self._raw()
        self.total += now - self._last if now >= self._last else now - self._last + self._range
        self._last = now
        return self.total

    def close(self) -> None:
        os.close(self._file)

    def _raw(self) -> int:
        return int(os.pread(self._file, 32, 0))


class Rapl:
    name = "rapl"

    def __init__(self) -> None:
        self._packages = _open_packages()
        self._last: tuple[float, float] | None = None

    def read(self, moment: float) -> Sample:
        joules = sum(package.read() for package in self._packages) / 1e6
        last, self._last = self._last, (moment, joules)
        sample = Sample(energy={self.name: round(joules, 3)})
        if last is not None and moment > last[0]:
            sample.power[self.name] = round((joules - last[1]) / (moment - last[0]), 2)
        return sample

    def close(self) -> None:
        for package in self._packages:
            package.close()


def _open_packages() -> list[Package]:
    """Opens the counters of whole packages; cores and memory controllers are parts of them, `psys` counts more than CPUs."""
    found = sorted(glob.glob(real_path("sys/class/powercap/intel-rapl:*")))
    folders = [folder for folder in found if read_text(folder + "/name").startswith("package")]
    if not folders:
        raise Unmeasured("the kernel shows no counters of CPU packages in /sys/class/powercap")
    try:
        return [Package(folder) for folder in folders]
    except PermissionError:
        raise Unmeasured("the counters of CPU packages can be read by root alone") from None
    except (OSError, ValueError) as error:
        raise Unmeasured(f"the counters of CPU packages cannot be read: {describe(error)}") from None
