"""A worker of the job: the first of the processes that the service starts on a node is the node, the others wait for it.

It runs commands for the supervisor, as an sshd would, until the first worker says that the run is over.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from muster.agent.supervisor import device_locks
from muster.dataclass import dataclass
from muster.engines.modelarts.node.inside import line
from muster.engines.modelarts.node.inside.given import FILE, GIVEN, Given
from muster.records.files import delete_tree, read_object, write_bytes, write_json

OVER = b"over "
FIRST_LIMIT = 3600.0  # for the first worker to reach this one: images may take long to come
SILENT_LIMIT = 300.0  # beside the grace of ranks, for the first worker to be heard of again
GREETERS = 64  # connections at a time that have not proved anything

# What the service's own launchers set, by which the ranks of Muster's would take themselves for others.
_LAUNCHERS = frozenset(
    """
RANK LOCAL_RANK NODE_RANK GROUP_RANK ROLE_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR
MASTER_PORT RANK_ID RANK_SIZE RANK_TABLE_FILE MINDSPORE_HCCL_CONFIG_PATH DEVICE_ID DEVICE_NUM ASCEND_DEVICE_ID JOB_ID
TF_CONFIG MA_RUN_METHOD HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK HOROVOD_LOCAL_SIZE
""".split()
)
_FAMILIES = ("MUSTER_", "muster_", "OMPI_", "PMI_", "PMIX_", "PADDLE_", "MS_", "TORCHELASTIC_", "SSH_")


@dataclass(frozen=True)
class Worker:
    given: Given
    index: int
    hosts: Sequence[str]  # of all workers
    base: str  # a directory of this job's own, under the same name on all workers
    words: Sequence[str]  # of the boot file

    @property
    def home(self) -> str:
        """What this worker alone writes, where several are on one machine, too."""
        return f"{self.base}/worker-{self.index}"

    @property
    def key_file(self) -> str:
        return f"{self.home}/key"

    def place(self, name: str) -> str:
        """The directory or file that the service has made of an input or output. Raises SystemExit."""
        passed = [word.partition("=")[2] for word in self.words if word.startswith(f"--{name}=")]
        found = os.environ.get(name) or (passed[-1] if passed else "")
        if not found:
            raise SystemExit(f"muster: the service has not passed `{name}`, neither as a parameter nor as a variable")
        return os.path.abspath(found)

    def carry_out(self) -> int:
        """The whole life of the node; returns the exit code."""
        os.makedirs(self.home, 0o700, exist_ok=True)
        write_bytes(self.key_file, self.given.key)
        listener = Listener(self.given.key, self.index)
        say(f"worker {self.index} of {len(self.hosts)} is up")
        try:
            if self.index == 0:
                from muster.engines.modelarts.node.inside import first

                return first.carry_out(self)
            signal.signal(signal.SIGTERM, lambda *_: say("told to end; the first worker says when"))
            return listener.wait(self.given.job.grace + SILENT_LIMIT)
        finally:
            for path in (self.home, f"{self.base}/hosts" if self.index == 0 else f"{self.base}/hosts/nodes/{self.index}"):
                with suppress(OSError):  # another worker on this machine is quicker
                    delete_tree(path)


class Listener:
    """Runs commands of workers that know the key, and notices when the run is over."""

    def __init__(self, key: bytes, worker: int) -> None:
        self._key = key
        self._worker = worker
        self._environment = environment(os.environ)
        self._socket = line.listen(key, worker)
        self._greeters = threading.BoundedSemaphore(GREETERS)
        self._changed = threading.Condition()
        self._sessions = 0
        self._until = time.monotonic() + FIRST_LIMIT
        self._code: int | None = None  # with which this worker ends, once it was told
        self._closed = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def wait(self, patience: float) -> int:
        """Waits until the run is over; returns the exit code."""
        self._patience = patience
        with self._changed:
            while self._code is None:
                left = self._until - time.monotonic()
                if not self._sessions and left <= 0:
                    say("the first worker is not heard of any more")
                    return 1
                self._changed.wait(max(0.01, min(left, 60.0)) if not self._sessions else 60.0)
            return self._code

    _patience = SILENT_LIMIT

    def close(self) -> None:
        """Listens no more."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(0.1)  # too many open files
                continue
            if not self._greeters.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                line.keep_alive(connection)
                command = line.welcome(connection, self._key, self._worker)
            except (OSError, line.Refused):
                return
            finally:
                self._greeters.release()
            if command.startswith(OVER):
                self._note(0, int(command[len(OVER) :]))
                return
            self._note(1)
            try:
                self._run(connection, command)
            finally:
                self._note(-1)

    def _run(self, connection: socket.socket, command: bytes) -> None:
        (peer, port), (own, own_port) = connection.getpeername()[:2], connection.getsockname()[:2]
        variables = {**self._environment, "SSH_CONNECTION": f"{peer} {port} {own} {own_port}"}
        number, words = connection.fileno(), ["/bin/sh", "-c", os.fsdecode(command)]
        subprocess.run(words, stdin=number, stdout=number, env=variables, cwd="/")

    def _note(self, sessions: int, code: int | None = None) -> None:
        with self._changed:
            self._sessions += sessions
            self._until = time.monotonic() + self._patience
            self._code = self._code if code is None else code
            self._changed.notify_all()


def environment(found: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker without what says who else its processes are."""
    kept = {name: value for name, value in found.items() if name not in _LAUNCHERS and not name.startswith(_FAMILIES)}
    kept.setdefault("HOME", os.path.expanduser("~"))  # Open MPI needs one, and a server's runs have none
    held = "MUSTER_RUN" in found  # by the run that the job is on a pool of Muster's
    return {**kept, device_locks.GIVEN: "1"} if held else kept


def say(text: str) -> None:
    """Says something in the service's log of this worker."""
    print(f"muster: {text}", flush=True)


def main(words: list[str]) -> int:
    """What the boot file becomes; returns the exit code of the node for each of its processes."""
    folder = next((word.partition("=")[2] for word in words if word.startswith(f"--{GIVEN}=")), "")
    folder = os.environ.get(GIVEN) or folder
    if not folder:
        raise SystemExit(f"muster: the service has not passed `{GIVEN}`, of which `muster run --engine modelarts` tells it")
    given = Given.read(f"{folder}/{FILE}")
    hosts = [host for host in os.environ.get("VC_WORKER_HOSTS", "").split(",") if host]
    index = int(os.environ.get("VC_TASK_INDEX") or 0)
    hosts = hosts if len(hosts) == given.job.nodes else ["127.0.0.1"] * given.job.nodes
    place = next(folder for folder in ("/cache", tempfile.gettempdir()) if os.access(folder, os.W_OK))
    base = f"{place}/muster-{hashlib.sha256(given.key).hexdigest()[:16]}"
    os.makedirs(base, 0o700, exist_ok=True)
    with open(f"{base}/worker-{index}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the others wait here, until the first has ended
        state = f"{base}/worker-{index}.json"
        if not os.path.exists(state):
            write_json(state, {"code": 1})  # where it is killed
            write_json(state, {"code": Worker(given, index, hosts, base, words).carry_out()})
        return int(read_object(state).get("code", 1))
