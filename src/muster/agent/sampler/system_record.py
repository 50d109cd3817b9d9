"""Writes system.json: the hardware of a node and the software of its job, as soon as each is known."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from muster.agent.sampler import hardware
from muster.agent.sampler.polling import BackgroundTask, BackgroundThread
from muster.agent.sampler.process_tree import ProcessTree
from muster.devices import Meter
from muster.linux import proc
from muster.records.files import read_json, read_object, write_json
from muster.records.layout import NodeDir

PYTHON_LOOKS = 5  # at the processes of a rank, until one is a Python
RANK_LOOKS = 10  # at a process that came through ssh, until it is a rank
NOT_YET = "the run was over before it could be asked"


class Ranks:
    """The ranks of a node: those that its agent started, and those that a launcher such as mpirun started through ssh."""

    def __init__(self, folder: NodeDir, tree: ProcessTree) -> None:
        self._folder = folder
        self._tree = tree
        self._agent_is_done = False  # it has written the pids of its ranks
        self._launched = False  # ranks may come through ssh
        self._looks_left: dict[int, int] = {}  # by pid of processes that may become a rank
        self._through_ssh: set[str] = set()
        self.pids: dict[str, int] = {}  # of the first process of each rank

    def refresh(self) -> None:
        """Finds ranks that have started since the last call."""
        found = self._of_agent() if not self._agent_is_done else self._of_launcher() if self._launched else {}
        if found:
            self.pids.update(found)
            self._tree.set_ranks(self.pids)

    def _of_agent(self) -> dict[str, int]:
        found = read_json(self._folder.pids)
        if found is None:
            return {}
        self._agent_is_done = True
        self._launched = bool(read_object(self._folder.plan).get("ssh"))
        return dict(found)

    def _of_launcher(self) -> dict[str, int]:
        """Finds ranks by the environment that they have once they execute their program."""
        self._looks_left.update(dict.fromkeys(self._tree.new_pids, RANK_LOOKS))
        found: dict[str, int] = {}
        for pid, left in sorted(self._looks_left.items()):
            environment = proc.environment(pid)
            rank = environment.get("MUSTER_RANK", "") if environment.get("MUSTER_LAUNCHED") else ""
            if rank and rank not in self._through_ssh:
                found.setdefault(rank, pid)  # its children have the same environment, and higher pids
            self._looks_left[pid] = 0 if rank else left - 1
        self._looks_left = {pid: left for pid, left in self._looks_left.items() if left > 0}
        self._through_ssh.update(found)
        return found


class SystemRecord:
    def __init__(self, folder: NodeDir, tree: ProcessTree, background: BackgroundThread) -> None:
        self._folder = folder
        self._tree = tree
        self._background = background
        self._found: dict[str, Any] = {}
        self._missing: dict[str, str] = {}
        self._ranks = Ranks(folder, tree)
        self._looks = 0
        self._asked = False

    def begin(self, meter: Meter | None) -> None:
        """Writes the hardware; the software follows later."""
        self._found, self._missing = hardware.describe()
        self._found["host"] = read_object(self._folder.facts).get("host")  # the node's name, which a platform may set
        self._found.update(devices=[], driver=None, runtime=None, python=None, packages={}, environment={})
        self._missing.update(dict.fromkeys(("python", "packages", "environment"), NOT_YET))
        if meter is not None:
            self._set_devices(meter)
        else:
            self._missing.update(dict.fromkeys(("driver", "runtime"), "the node has no devices that are measured"))
        self.write()

    def add_devices(self, meter: Meter) -> None:
        """Adds the devices of a slow meter once it has read them."""
        if not self._found["devices"]:
            self._set_devices(meter)
            self.write()

    def _set_devices(self, meter: Meter) -> None:
        devices = [device._asdict() for device in meter.describe()]
        self._found.update(devices=devices, driver=meter.driver, runtime=meter.runtime)
        for name in ("driver", "runtime"):
            self._missing.pop(name, None)
            if self._found[name] is None:
                self._missing[name] = f"{meter.name} does not report it"

    def refresh(self) -> None:
        """Finds new ranks, and once the software of the first one: at once, or when its script has started a Python."""
        self._ranks.refresh()
        if self._ranks.pids and not self._asked:
            self._find_software(self._ranks.pids)

    def _find_software(self, ranks: dict[str, int]) -> None:
        from muster.agent.sampler import software  # imports the Job, which is not needed before

        rank = min(ranks, key=int)
        self._looks += 1
        programs = software.pythons([ranks[rank], *self._tree.pids(rank)])
        if not programs and self._looks < PYTHON_LOOKS:
            return
        self._asked = True
        program = programs[0] if programs else software.python_on_path(ranks[rank])
        secrets: list[str] = read_object(self._folder.plan).get("secrets", [])
        if program.environment:
            self._found["environment"] = software.variables(program.environment, secrets)
            del self._missing["environment"]
        task = BackgroundTask("packages", lambda: software.packages(program), self._add_packages, self._note_missing, 0)
        self._background.add(task)

    def _add_packages(self, moment: float, found: dict[str, Any]) -> None:
        self._found.update(found)
        for name in ("python", "packages"):
            self._missing.pop(name, None)
        self.write()

    def _note_missing(self, name: str, reason: str) -> None:
        self._missing.update(python=reason, packages=reason)
        self.write()

    def write(self) -> None:
        """Writes what is known by now; at the end, also what was found since, such as the environment without a Python."""
        with suppress(OSError):  # a full disk: metrics.jsonl says so
            write_json(self._folder.system, dict(self._found, missing=self._missing))
