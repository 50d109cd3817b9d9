"""Which ranks a node has: those that its agent started, and those that a launcher such as mpirun started through ssh."""

from __future__ import annotations

from muster.agent.sampler.trees import Trees
from muster.linux import proc
from muster.records.files import read_json, read_object
from muster.records.layout import NodeDir

PATIENCE = 10  # looks at a process that a login started, until it has become a rank


class Ranks:
    def __init__(self, folder: NodeDir, trees: Trees) -> None:
        self._folder = folder
        self._trees = trees
        self._told = False
        self._launched = False  # whether ranks may come through ssh
        self._looks: dict[int, int] = {}  # left for processes that may become one
        self._through_ssh: set[str] = set()
        self.first: dict[str, int] = {}  # the first process of each rank

    def look(self) -> None:
        """Learns of ranks that have started since the last look."""
        found = self._of_agent() if not self._told else self._of_launcher() if self._launched else {}
        if found:
            self.first.update(found)
            self._trees.tell(self.first)

    def _of_agent(self) -> dict[str, int]:
        found = read_json(self._folder.pids)
        if found is None:
            return {}
        self._told = True
        self._launched = bool(read_object(self._folder.plan).get("ssh"))
        return dict(found)

    def _of_launcher(self) -> dict[str, int]:
        """A rank of a launcher says so in its environment, once it has become the program that it is to run."""
        self._looks.update(dict.fromkeys(self._trees.newcomers, PATIENCE))
        found: dict[str, int] = {}
        for pid, left in sorted(self._looks.items()):
            environment = proc.environment(pid)
            rank = environment.get("MUSTER_RANK", "") if environment.get("MUSTER_LAUNCHED") else ""
            if rank and rank not in self._through_ssh:
                found.setdefault(rank, pid)  # what it starts has the same environment, and a later number
            self._looks[pid] = 0 if rank else left - 1
        self._looks = {pid: left for pid, left in self._looks.items() if left > 0}
        self._through_ssh.update(found)
        return found
