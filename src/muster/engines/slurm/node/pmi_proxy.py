"""Where the ranks of a node are started that srun counts: as processes of the node, with what srun's PMI told their tasks.

srun waits for all tasks whatever becomes of one. A rank that fails ends the reception, and with that the agents know.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from typing import NoReturn

from muster.agent.node.processes import why_not_started
from muster.channel.directory import DirectoryNode
from muster.engines.slurm.node import pmi_launcher
from muster.linux.signals import reap
from muster.records.files import write_once
from muster.records.layout import AttemptDir

BACKLOG = 1024
MOST_FILES = 4
NOT_STARTED = 127
STOP_LIMIT = 10.0  # for the agents to stop the gang after a rank has failed
PAUSE = 0.1


def serve(name: str, attempt: AttemptDir, node: int) -> NoReturn:
    """Starts a rank for each task that comes, until one fails."""
    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGUSR1, lambda number, frame: os._exit(1))
    own = os.getpid()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0" + name)
        listener.listen(BACKLOG)
        while True:
            connection, _ = listener.accept()
            with connection:
                if is_ours(connection) and os.fork() == 0:
                    listener.close()
                    _Attendant(own, connection, attempt, node).attend()


def is_ours(connection: socket.socket) -> bool:
    """Whether the other end belongs to this user: everybody can knock at an abstract socket, or open one."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", told)
    return bool(user == os.getuid())


class _Attendant:
    """A process that looks after one rank."""

    def __init__(self, reception: int, connection: socket.socket, attempt: AttemptDir, node: int) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        self.reception = reception
        self.connection = connection
        self.channel = DirectoryNode(attempt, node)
        self.folder = attempt.node(node)

    def attend(self) -> NoReturn:
        """Starts the rank, waits for it, and tells its task how it ended."""
        try:
            argv, told, files = self._hear()
            status = self._run(argv, told, files)
            if status != 0:
                self._report(told["SLURM_PROCID"], status)
            self.connection.sendall(b"%d" % (128 - status if status < 0 else status))
        except OSError:
            pass  # the task is gone, and nobody has to be told
        finally:
            os._exit(0)

    def _hear(self) -> tuple[list[str], dict[str, str], list[int]]:
        """The argv of a rank, the variables that are its task's, and the descriptors that they speak of."""
        first, files, _, _ = socket.recv_fds(self.connection, 1, MOST_FILES)
        with self.connection.makefile("rb") as reader:
            request = json.loads(first + reader.read())
        return request["argv"], request["env"], files

    def _run(self, argv: list[str], told: dict[str, str], files: list[int]) -> int:
        """The status of a rank that has ended: its code, or the signal that killed it as a negative number."""
        env = dict(os.environ, **told)
        env.update(MUSTER_RANK=told["SLURM_PROCID"], MUSTER_LOCAL_RANK=told["SLURM_LOCALID"])
        env["MUSTER_LAUNCHED"] = "1"  # by which the agent knows whom to tell that the run is being stopped
        if files:
            env["PMI_FD"] = str(files[0])
        with open(self.folder.log("rank-" + told["SLURM_PROCID"]), "ab", buffering=0) as output:
            try:
                rank = subprocess.Popen(
                    argv,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=files,
                )
            except (OSError, ValueError) as error:
                output.write((f"muster: {why_not_started(argv[0], env, error)}\n").encode())
                return NOT_STARTED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # whoever tells this process to end tells the rank as well
        for file in files:
            os.close(file)
        return rank.wait()

    def _report(self, rank: str, status: int) -> None:
        """Has the agent learn of a failure before srun's end tells of it, and less."""
        end = {"kind": "signal", "signal": -status, "code": None} if status < 0 else {"kind": "exit", "code": status}
        write_once(pmi_launcher.failure(self.folder), dict(end, process="rank-" + rank, rank=int(rank)))
        if os.getppid() == self.reception:  # nobody else's rank has ended it yet
            os.kill(self.reception, signal.SIGUSR1)
        deadline = time.monotonic() + STOP_LIMIT
        while self.channel.announced("stop") is None and time.monotonic() < deadline:
            time.sleep(PAUSE)
            self.channel.listen()
