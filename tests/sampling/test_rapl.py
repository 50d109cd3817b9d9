"""Energy of CPU packages from a tree such as the kernel shows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sampled import Start
from sampled import archive as archive
from sampled import sample as sample

from conftest import until
from muster.agent.sampler.rapl import Rapl
from muster.agent.sampler.sample_writer import Sample
from muster.devices import Unmeasured

RANGE = 262_143_328_850


class Counters:
    """Domains of a machine with two packages, with parts and with more than them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "sys/class/powercap"
        names = {"intel-rapl:0": "package-0", "intel-rapl:1": "package-1", "intel-rapl:0:0": "core", "intel-rapl:2": "psys"}
        for domain, name in {**names, "intel-rapl-mmio:0": "package-0"}.items():
            (self.folder / domain).mkdir(parents=True)
            (self.folder / domain / "name").write_text(name + "\n")
            (self.folder / domain / "max_energy_range_uj").write_text(f"{RANGE}\n")
            self.set(domain, 7_000_000_000)

    def set(self, domain: str, microjoules: int) -> None:
        (self.folder / domain / "energy_uj").write_text(f"{microjoules}\n")


@pytest.fixture
def counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counters:
    monkeypatch.setenv("MUSTER_DEVICE_ROOT", str(tmp_path / "root"))
    return Counters(tmp_path / "root")


@pytest.fixture
def rapl(counters: Counters) -> Iterator[Rapl]:
    source = Rapl()
    yield source
    source.close()


def test_power_is_what_the_counters_of_all_packages_grew_by(counters: Counters, rapl: Rapl) -> None:
    assert rapl.read(10.0) == Sample(energy={"rapl": 14000.0})
    counters.set("intel-rapl:0", 7_000_000_000 + 90_000_000)
    counters.set("intel-rapl:1", 7_000_000_000 + 30_000_000)
    counters.set("intel-rapl:2", 9_000_000_000)
    counters.set("intel-rapl:0:0", 9_000_000_000)
    assert rapl.read(12.0) == Sample(energy={"rapl": 14120.0}, power={"rapl": 60.0})


def test_a_counter_that_begins_again_goes_on(counters: Counters, rapl: Rapl) -> None:
    rapl.read(0.0)
    counters.set("intel-rapl:0", RANGE - 1_000_000)
    high = rapl.read(1.0).energy["rapl"]
    counters.set("intel-rapl:0", 4_000_000)
    sample = rapl.read(2.0)
    assert sample.energy["rapl"] == pytest.approx(high + 5)
    assert sample.power == {"rapl": 5.0}


def test_without_counters_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DEVICE_ROOT", str(tmp_path))
    with pytest.raises(Unmeasured, match="no counters of CPU packages"):
        Rapl()


NOBODY = """
import os
from muster.agent.sampler.rapl import Rapl  # before the change of user, who may not read this code
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Rapl()
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_counters_that_only_root_can_read_are_told_to_be_so() -> None:
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        counters = Counters(Path(place))
        for file in counters.folder.glob("*/energy_uj"):
            file.chmod(0o400)
        env = {**os.environ, "MUSTER_DEVICE_ROOT": place}
        said = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True, env=env)
    assert said.stdout == "Unmeasured the counters of CPU packages can be read by root alone\n", said.stderr


def test_a_sampler_writes_power_and_counter_with_every_sample(sample: Start, counters: Counters) -> None:
    sampled = sample(MUSTER_POWER='{"source": "rapl"}')
    until(lambda: sampled.system)
    sampled.start_ranks()
    counters.set("intel-rapl:1", 8_000_000_000)
    assert sampled.end() == 0
    assert sampled.header["power"] == ["rapl"]
    assert not {"rapl", "ipmi", "power"} & set(sampled.header["missing"])
    assert sampled.samples[0]["energy"]["rapl"] >= 14000.0
    assert sampled.samples[-1]["energy"]["rapl"] == 15000.0
    joules = sampled.samples[-1]["energy"]["rapl"] - sampled.samples[0]["energy"]["rapl"]
    moments = [line["t"] for line in sampled.samples]
    powers = [line["power"]["rapl"] for line in sampled.samples[1:]]
    spent = sum(power * (b - a) for power, a, b in zip(powers, moments, moments[1:], strict=False))
    assert spent == pytest.approx(joules, abs=1 + 0.001 * sum(powers))  # moments are whole milliseconds
