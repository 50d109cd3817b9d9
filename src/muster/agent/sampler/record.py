"""system.json: what a node is and what its job runs on, written as soon as it is known."""

from __future__ import annotations

from typing import Any

from muster.agent.sampler import hardware
from muster.agent.sampler.ranks import Ranks
from muster.agent.sampler.slow import Chore, Slow
from muster.agent.sampler.trees import Trees
from muster.devices import Meter
from muster.records.files import read_object, write_json
from muster.records.layout import NodeDir

PATIENCE = 5  # looks at the processes of a rank, for one to become a Python
NOT_YET = "the run was over before it could be asked"


class System:
    def __init__(self, folder: NodeDir, trees: Trees, slow: Slow) -> None:
        self._folder = folder
        self._trees = trees
        self._slow = slow
        self._found: dict[str, Any] = {}
        self._missing: dict[str, str] = {}
        self._ranks = Ranks(folder, trees)
        self._looks = 0
        self._asked = False

    def begin(self, meter: Meter | None) -> None:
        """Writes what the machine is; the rest is left to be found."""
        self._found, self._missing = hardware.describe()
        self._found["host"] = read_object(self._folder.facts).get("host")  # a platform may call the node otherwise
        self._found.update(devices=[], driver=None, runtime=None, python=None, packages={}, environment={})
        self._missing.update(dict.fromkeys(("python", "packages", "environment"), NOT_YET))
        if meter is not None:
            self._take_devices(meter)
        else:
            self._missing.update(dict.fromkeys(("driver", "runtime"), "the node has no devices that are measured"))
        self._write()

    def show_devices(self, meter: Meter) -> None:
        """What a slow meter knows of the devices once it has read them."""
        if not self._found["devices"]:
            self._take_devices(meter)
            self._write()

    def _take_devices(self, meter: Meter) -> None:
        self._found.update(devices=meter.describe(), driver=meter.driver, runtime=meter.runtime)
        for name in ("driver", "runtime"):
            self._missing.pop(name, None)
            if self._found[name] is None:
                self._missing[name] = f"{meter.name} does not tell it"

    def look(self) -> None:
        """Learns of the ranks, and asks once for the Python of the first: at once, or when its script has started one."""
        self._ranks.look()
        if self._ranks.first and not self._asked:
            self._ask(self._ranks.first)

    def _ask(self, ranks: dict[str, int]) -> None:
        from muster.agent.sampler import software  # the Job comes with it; not before there is somebody to ask

        rank = min(ranks, key=int)
        self._looks += 1
        programs = software.pythons([ranks[rank], *self._trees.of(rank)])
        if not programs and self._looks < PATIENCE:
            return
        self._asked = True
        program = programs[0] if programs else software.at_hand(ranks[rank])
        secrets: list[str] = read_object(self._folder.plan).get("secrets", [])
        if program.environment:
            self._found["environment"] = software.variables(program.environment, secrets)
            del self._missing["environment"]
        self._slow.add(Chore("packages", lambda: software.packages(program), self._take_packages, self._lack, 0))

    def _take_packages(self, moment: float, found: dict[str, Any]) -> None:
        self._found.update(found)
        for name in ("python", "packages"):
            self._missing.pop(name, None)
        self._write()

    def _lack(self, name: str, reason: str) -> None:
        self._missing.update(python=reason, packages=reason)
        self._write()

    def end(self) -> None:
        """Writes what has been learned since, such as the environment of a job that has no Python."""
        self._write()

    def _write(self) -> None:
        try:
            write_json(self._folder.system, dict(self._found, missing=self._missing))
        except OSError:
            pass  # a full disk: the samples say so
