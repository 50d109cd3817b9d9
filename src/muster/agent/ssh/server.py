"""The ssh server of a node: keys of the run's own, a port that is open before others know it, and one `sshd` for each
connection.

The process that accepts connections is started with the environment of the node and so is what logins take it from: no
secret is on a disk or on a command line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import zlib

from muster.linux.signals import reap
from muster.plan import PlanError, ssh
from muster.records.files import write_text

PORTS = range(32000, 32768)  # between the ports that frameworks get and Linux' ephemeral ones
FILES = ("user", "user.pub", "host", "host.pub", "known_hosts")
CANDIDATES = 16
BACKLOG = 1024
PRIVILEGED = "/run/sshd"  # an empty directory that root's sshd wants to see; its package makes it when the machine starts


def listen(address: str, run: str, attempt: int) -> dict[int, socket.socket]:
    """Sockets that listen on the node's own address, by port, one of which its ssh server will get.

    The ports are the same on all nodes of an attempt, and hardly those of another run.
    """
    first = zlib.crc32(f"{run}/{attempt}".encode())
    listeners = {}
    for number in (PORTS[(first + offset) % len(PORTS)] for offset in range(CANDIDATES)):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind((address, number))
            listener.listen(BACKLOG)
            listeners[number] = listener
        except OSError:
            listener.close()
    return listeners


def listen_once(address: str) -> dict[int, socket.socket]:
    """The same for people alone, who learn the port from its record: any one that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(BACKLOG)
    return {listener.getsockname()[1]: listener}


def make_keys(folder: str) -> dict[str, str]:
    """Makes keys for the logins of an attempt and for its servers, which all have the same; returns them by file name."""
    os.makedirs(folder, 0o700, exist_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", ssh.ALIAS]
    keys = {}
    for name in ("user", "host"):
        try:
            subprocess.run([*words, "-f", f"{folder}/{name}"], check=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            raise PlanError(f"ssh-keygen made no keys ({error}): install the ssh client on this node") from None
        for file in (name, name + ".pub"):
            with open(f"{folder}/{file}", encoding="ascii") as opened:
                keys[file] = opened.read()
    return {**keys, "known_hosts": f"{ssh.ALIAS} {keys['host.pub']}"}


def write_keys(folder: str, keys: dict[str, str]) -> None:
    """Writes the keys of an attempt for one node."""
    os.makedirs(folder, 0o700)
    for name in (name for name in FILES if name in keys):
        write_text(f"{folder}/{name}", keys[name])


def main(argv: list[str]) -> int:
    """Starts an sshd for each connection; returns only when there is none to start."""
    listener_number, config = argv
    sshd = program()
    if os.geteuid() == 0:
        os.makedirs(PRIVILEGED, 0o755, exist_ok=True)
    checked = subprocess.run([sshd, "-t", "-f", config])
    if checked.returncode != 0:
        return checked.returncode
    login = [sys.executable, "-I", "-S", sys.argv[0], "login", str(os.getpid())]
    words = [sshd, "-i", "-e", "-f", config, "-o", "ForceCommand=" + " ".join(map(shlex.quote, login))]
    signal.signal(signal.SIGCHLD, reap)
    with socket.socket(fileno=int(listener_number)) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                child = subprocess.Popen(words, stdin=connection.fileno(), stdout=connection.fileno())
                child.returncode = 0  # reaped here, not by subprocess


def program() -> str:
    """The sshd of this machine, which refuses to start without its whole path."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which("sshd", path=path) or "/usr/sbin/sshd"
