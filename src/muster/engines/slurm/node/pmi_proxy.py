"""The PMI proxy of a node: starts the ranks as processes of the node, each with the PMI of its srun task; and such a task.

srun waits for all tasks, whatever becomes of one. So a rank that fails ends the proxy, from which the agent learns of it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import time
from typing import NoReturn

from muster.agent.node.processes import why_not_started
from muster.channel.directory import DirectoryNode
from muster.engines.slurm.node import pmi_launcher
from muster.linux.signals import reap
from muster.linux.spawn import spawn
from muster.records.files import write_once
from muster.records.layout import AttemptDir

BACKLOG = 1024
MOST_FILES = 4
NOT_STARTED = 127
STOP_LIMIT = 10.0  # for the agents to stop the gang after a rank has failed
OPEN_LIMIT = 30.0  # for a proxy that is being started
PAUSE = 0.1
PASSED = ("PMI", "SLURM", "OMPI_", "MPI_", "PALS_")  # variables by which MPI finds out its rank


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
                    _RankProcess(own, connection, attempt, node).run()


def is_ours(connection: socket.socket) -> bool:
    """True if the other end belongs to this user: any user can connect to an abstract socket, or open one."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())


class _RankProcess:
    """A child of the proxy that starts one rank and waits for it."""

    def __init__(self, proxy: int, connection: socket.socket, attempt: AttemptDir, node: int) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        self.proxy = proxy
        self.connection = connection
        self.channel = DirectoryNode(attempt, node)
        self.folder = attempt.node(node)

    def run(self) -> NoReturn:
        """Starts the rank, waits for it, and sends its exit code to its task."""
        try:
            argv, variables, files = self._receive()
            status = self._wait(argv, variables, files)
            if status != 0:
                self._report(variables["SLURM_PROCID"], status)
            self.connection.sendall(b"%d" % (128 - status if status < 0 else status))
        except OSError:
            pass  # the task is gone
        finally:
            os._exit(0)

    def _receive(self) -> tuple[list[str], dict[str, str], list[int]]:
        """The argv of a rank, the variables that are its task's, and the descriptors that they speak of."""
        first, files, _, _ = socket.recv_fds(self.connection, 1, MOST_FILES)
        with self.connection.makefile("rb") as reader:
            request = json.loads(first + reader.read())
        return request["argv"], request["env"], files

    def _wait(self, argv: list[str], variables: dict[str, str], files: list[int]) -> int:
        """Runs a rank; returns its exit code, or the signal that killed it as a negative number."""
        env = dict(os.environ, **variables)
        env.update(MUSTER_RANK=variables["SLURM_PROCID"], MUSTER_LOCAL_RANK=variables["SLURM_LOCALID"])
        env["MUSTER_LAUNCHED"] = "1"  # by which the agent knows which processes to signal when the run is stopped
        if files:
            env["PMI_FD"] = str(files[0])
        with open(self.folder.log("rank-" + variables["SLURM_PROCID"]), "ab", buffering=0) as output:
            try:
                rank = spawn(argv, env, output.fileno(), files, cwd=".")
            except (OSError, ValueError) as error:
                output.write((f"muster: {why_not_started(argv[0], env, error)}\n").encode())
                return NOT_STARTED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who signals this process signals the rank as well
        for file in files:
            os.close(file)
        return os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])

    def _report(self, rank: str, status: int) -> None:
        """Tells the agent of a failure before srun ends, whose exit code says less."""
        end = {"kind": "signal", "signal": -status, "code": None} if status < 0 else {"kind": "exit", "code": status}
        write_once(self.folder.failure, dict(end, process="rank-" + rank, rank=int(rank)))
        if os.getppid() == self.proxy:  # no other rank has ended it yet
            os.kill(self.proxy, signal.SIGUSR1)
        deadline = time.monotonic() + STOP_LIMIT
        while self.channel.announced("stop") is None and time.monotonic() < deadline:
            time.sleep(PAUSE)
            self.channel.listen()


def stand_for(run: str, attempt: int, argv: list[str]) -> int:
    """The program of an srun task: has the PMI proxy of its node start a rank; returns the exit code of the rank."""
    for number in (signal.SIGTERM, signal.SIGINT):  # the agents end the ranks, and MPI needs their tasks as long as they live
        signal.signal(number, signal.SIG_IGN)
    node = os.environ["SLURMD_NODENAME"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        if not _reached(connection, pmi_launcher.address(run, attempt, node)):
            print(f"muster: {node}: no agent waits here for a rank", file=sys.stderr)
            return NOT_STARTED
        _send(connection, argv)
        said = connection.recv(16)
    return int(said) if said else NOT_STARTED


def _reached(connection: socket.socket, name: str) -> bool:
    """True if the PMI proxy of this node is at the other end; it may have been started just now."""
    deadline = time.monotonic() + OPEN_LIMIT
    while connection.connect_ex("\0" + name) != 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return is_ours(connection)


def _send(connection: socket.socket, argv: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name.startswith(PASSED)}
    request = json.dumps({"argv": argv, "env": env}).encode()
    files = [int(env["PMI_FD"])] if env.get("PMI_FD", "").isdigit() else []
    socket.send_fds(connection, [request[:1]], files)
    connection.sendall(request[1:])
    connection.shutdown(socket.SHUT_WR)
