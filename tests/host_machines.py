"""Hosts that share nothing, on one machine: a network namespace each, with its own address, home, /tmp and sshd."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PROGRAMS = ("sshd", "ssh", "ssh-keygen", "ip", "unshare", "setpriv")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
LIMIT = 30.0
USER = "trainer"  # an ordinary user of the hosts
UID = 4711

SSHD = """
ListenAddress 0.0.0.0
Port 22
HostKey {place}/host_key
AuthorizedKeysFile {place}/authorized_keys
PidFile none
UsePAM no
StrictModes no
UseDNS no
PasswordAuthentication no
PermitRootLogin yes
PermitUserEnvironment yes
MaxStartups 200
MaxSessions 200
KexAlgorithms curve25519-sha256
"""

# What a host sees: its own home over the machine's, its own /tmp and /run, a user more than the machine has. An interface
# answers for its own address alone: with two on one wire, others would remember the wrong one. A killed sshd is started again.
START = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
hostname {name}
ip link set lo up
echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore
mount --bind {folder} /root
mkdir -p /root/trainer
chown {uid} /root/trainer
chmod 711 /root
mount --bind /root/passwd /etc/passwd
mount --bind /root/hosts /etc/hosts
mount -t tmpfs tmpfs /tmp
chmod 1777 /tmp
mount -t tmpfs tmpfs /run
mkdir /run/sshd
cd /
while :; do
  {sshd} -D -e -f /root/sshd_config </dev/null >>/root/sshd.log 2>&1 || true
  sleep 0.5
done
"""


def lacking() -> str:
    """Why there can be no such hosts here; empty where there can."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if missing:
        return f"there is no {', '.join(missing)}; `make hosts` installs them"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    made = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    return made.stderr.strip() if made.returncode else ""


def free_net() -> int:
    """The number of a network that no other process has, and makes its bridge."""
    for number in range(250):
        net = 1 + (os.getpid() + number) % 250
        words = ["ip", "link", "add", f"mb{net}", "type", "bridge"]
        if subprocess.run(words, capture_output=True, env={"PATH": PATH}).returncode == 0:
            return net
    raise AssertionError("no bridge can be made")


class Machines:
    """`count` hosts that are up: `h1`, `h2` and so on, known to the `ssh` in `bin`."""

    def __init__(self, folder: Path, count: int, net: int) -> None:
        self.folder = folder
        self.names = [f"h{number}" for number in range(1, count + 1)]
        self.bin = folder / "bin"
        self._net = net
        self._bridge = f"mb{net}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._interfaces: list[tuple[str, str]] = []
        # A bridge without an address of its own takes the lowest of its ports, and another one with each new port.
        self._call("ip", "link", "set", self._bridge, "address", f"02:77:00:00:00:{net:02x}")
        self._call("ip", "addr", "add", f"{self.submitter}/24", "dev", self._bridge)
        self._call("ip", "link", "set", self._bridge, "up")
        self._call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key")
        self._write_client()
        for name in self.names:
            self._wire(name)
            self._furnish(name)
            self.boot(name)
        (folder / "known_hosts").write_text(
            "".join(f"{name},{self.address(name)} {(self.home(name) / 'host_key.pub').read_text()}" for name in self.names)
        )

    def address(self, name: str) -> str:
        return f"10.77.{self._net}.{name[1:]}"

    @property
    def submitter(self) -> str:
        """The address of the submitter's machine."""
        return f"10.77.{self._net}.254"

    def home(self, name: str) -> Path:
        """The directory that the host sees as /root."""
        return self.folder / "hosts" / name

    def records(self, name: str, run: str) -> list[Path]:
        """What a host keeps of a run."""
        return list(self.home(name).glob(f".muster/nodes/*/runs/{run}"))

    def _namespace(self, name: str) -> str:
        return f"mn{self._net}-{name}"

    def _call(self, *words: object) -> None:
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, env={**os.environ, "PATH": PATH})
        assert done.returncode == 0, f"{words}: {done.stderr}"

    def _write_client(self) -> None:
        """An `ssh` of the test's own: the real one ignores $HOME, and nothing in the user's own directory is touched."""
        self.bin.mkdir()
        hosts = "".join(f"Host {name}\n  HostName {self.address(name)}\n" for name in self.names)
        (self.folder / "ssh_config").write_text(
            f"{hosts}Host *\n  IdentityFile {self.folder}/key\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  HashKnownHosts no\n"
            "  KexAlgorithms curve25519-sha256\n"
        )
        (self.bin / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"\n')
        (self.bin / "ssh").chmod(0o755)

    def _wire(self, name: str) -> None:
        space, link = self._namespace(name), f"mv{self._net}-{name}"
        self._call("ip", "netns", "add", space)
        self._call("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        self._call("ip", "link", "set", link, "master", self._bridge, "up")
        self._call("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        self._call("ip", "-n", space, "link", "set", "eth0", "up")

    def _furnish(self, name: str) -> None:
        home = self.home(name)
        home.mkdir(parents=True)
        self._call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "host_key")
        shutil.copy(self.folder / "key.pub", home / "authorized_keys")
        (home / "authorized_keys").chmod(0o644)
        (home / "sshd_config").write_text(SSHD.format(place="/root"))
        (home / "passwd").write_text(
            f"root:x:0:0::/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/bin/false\n{USER}:x:{UID}:{UID}::/root/trainer:/bin/sh\n"
        )
        known = "".join(f"{self.address(other)} {other}\n" for other in self.names)
        (home / "hosts").write_text(f"127.0.0.1 localhost\n{known}")

    def boot(self, name: str) -> None:
        """Starts a host, or starts it again after its power was cut."""
        script = START.format(name=name, folder=self.home(name), sshd=shutil.which("sshd", path=PATH), uid=UID)
        space = ["ip", "netns", "exec", self._namespace(name)]
        with (self.folder / "boot.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*space, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": PATH},
                start_new_session=True,
            )
        deadline = time.monotonic() + LIMIT
        while "Server listening" not in _text(self.home(name) / "sshd.log"):
            assert time.monotonic() < deadline, _text(self.folder / "boot.log") + _text(self.home(name) / "sshd.log")
            time.sleep(0.02)

    def power_off(self, name: str) -> None:
        """Kills everything on a host at once."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        (self.home(name) / "sshd.log").unlink(missing_ok=True)
        deadline = time.monotonic() + LIMIT
        while self.pids(name):
            assert time.monotonic() < deadline, f"{name} is still up"
            time.sleep(0.02)

    def pids(self, name: str) -> list[int]:
        """The processes of a host, as the machine sees them."""
        done = subprocess.run(
            ["ip", "netns", "pids", self._namespace(name)], capture_output=True, text=True, env={"PATH": PATH}
        )
        return [int(word) for word in done.stdout.split()]

    def left(self) -> list[str]:
        """What runs on the hosts beside their ssh servers, in words."""
        found = []
        for name in self.names:
            for pid in self.pids(name):
                words = _text(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")
                state = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1]
                if words and "sshd" not in words and state != ["Z"] and not words.startswith(("unshare", "ip netns")):
                    found.append(f"{name}: {pid} {words[:200]}")
        return found

    def set_environment(self, name: str, **variables: str) -> None:
        """Sets variables of all new sessions of a host's users, until the test ends."""
        for folder in self._ssh_folders(name):
            folder.mkdir(exist_ok=True)
            with (folder / "environment").open("a") as file:
                file.writelines(f"{variable}={value}\n" for variable, value in variables.items())

    def _ssh_folders(self, name: str) -> tuple[Path, Path]:
        return self.home(name) / ".ssh", self.home(name) / "trainer/.ssh"

    def add_interface(self, name: str, interface: str, *addresses: str) -> None:
        """Gives a host another interface on the same wire, until the test ends."""
        space, link = self._namespace(name), f"mx{self._net}-{name}{interface}"[:15]
        self._call("ip", "link", "add", link, "type", "veth", "peer", "name", interface, "netns", space)
        self._interfaces.append((name, interface))
        self._call("ip", "link", "set", link, "master", self._bridge, "up")
        self.ip(name, "link", "set", interface, "up")
        for address in addresses:
            self.ip(name, "addr", "add", address, "dev", interface)

    def ip(self, name: str, *words: str) -> None:
        """Calls `ip` on a host."""
        self._call("ip", "-n", self._namespace(name), *words)

    def network(self, number: int) -> str:
        """The first three numbers of a network of this worker's own; another test takes another one, for caches outlive it."""
        return f"10.{number}.{self._net}"

    @contextmanager
    def configured(self, text: str, *here: str) -> Iterator[None]:
        """More settings of the submitter's `ssh`, and addresses that it has on the wire as well."""
        config = self.folder / "ssh_config"
        before = config.read_text()
        config.write_text(text + before)
        try:
            for address in here:
                self._call("ip", "addr", "add", address, "dev", self._bridge)
            yield
        finally:
            config.write_text(before)
            for address in here:
                subprocess.run(["ip", "addr", "del", address, "dev", self._bridge], capture_output=True, env={"PATH": PATH})

    def restore(self) -> None:
        """Takes back what a test has given to hosts."""
        for name, interface in self._interfaces:
            self.ip(name, "link", "delete", interface)
        self._interfaces = []
        for folder in (folder for name in self.names for folder in self._ssh_folders(name)):
            (folder / "environment").unlink(missing_ok=True)

    def cut(self, name: str) -> None:
        """Cuts a host off the network."""
        self._call("ip", "-n", self._namespace(name), "link", "set", "eth0", "down")

    def mend(self, name: str) -> None:
        self._call("ip", "-n", self._namespace(name), "link", "set", "eth0", "up")

    def silence(self, name: str) -> None:
        """Lets nothing that a host sends arrive, without a word to anybody, as a firewall does."""
        self.ip(name, "route", "add", "blackhole", self.submitter)

    def unsilence(self, name: str) -> None:
        self.ip(name, "route", "del", "blackhole", self.submitter)

    def freeze(self, name: str) -> None:
        """Lets a host stand still, as a virtual machine that is paused."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: signal.Signals) -> None:
        for pid in self.pids(name):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def break_connections(self, name: str) -> None:
        """Kills the sessions of a host's ssh server, not the server itself."""
        for pid in self.named(name, "sshd"):
            if "listener" not in _text(Path(f"/proc/{pid}/cmdline")):
                _kill(pid)

    def kill_sshd(self, name: str) -> None:
        """Kills a host's ssh server with all of its sessions; it listens again in a moment."""
        for pid in self.named(name, "sshd"):
            _kill(pid)

    def named(self, name: str, program: str) -> list[int]:
        """The processes of a host whose name begins so."""
        return [pid for pid in self.pids(name) if _text(Path(f"/proc/{pid}/comm")).startswith(program)]

    @contextmanager
    def without_python(self, name: str) -> Iterator[None]:
        """Takes every Python from a host."""
        found = "/usr/bin/python* /usr/local/bin/python*"
        self._call(self.bin / "ssh", name, f"for path in {found}; do [ -e $path ] && mount --bind /dev/null $path; done; true")
        try:
            yield
        finally:
            self._call(self.bin / "ssh", name, f"for path in {found}; do umount $path 2>/dev/null; done; true")

    def close(self) -> None:
        for name in list(self._processes):
            self.power_off(name)
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", self._namespace(name)], capture_output=True, env={"PATH": PATH})
        subprocess.run(["ip", "link", "delete", self._bridge], capture_output=True, env={"PATH": PATH})


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture(scope="session")
def machines_of_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """The hosts of this worker: four of them, used by one test after the other."""
    if reason := lacking():
        assert not os.environ.get("CI"), f"CI has hosts: {reason}"
        pytest.skip(f"no hosts of the tests' own: {reason}")
    folder = tmp_path_factory.mktemp("machines")
    folder.chmod(0o755)
    machines = Machines(folder, 4, free_net())
    yield machines
    machines.close()


@pytest.fixture
def machines(machines_of_worker: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Hosts that are up; afterwards nothing of the test may run on them."""
    monkeypatch.setenv("PATH", f"{machines_of_worker.bin}:{os.environ['PATH']}")
    yield machines_of_worker
    deadline = time.monotonic() + LIMIT
    while left := machines_of_worker.left():
        assert time.monotonic() < deadline, "left on hosts:\n" + "\n".join(left)
        time.sleep(0.05)
    machines_of_worker.restore()


@pytest.fixture
def on_hosts(machines: Machines, home: Path) -> Callable[..., None]:
    """Writes the settings of a group of all hosts."""

    def write(*names: str, **options: object) -> None:
        home.mkdir(parents=True, exist_ok=True)
        shown = "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())
        nodes = json.dumps(names or machines.names)
        (home / "config.toml").write_text(f'engine = "ssh"\n[hosts.lab]\nnodes = {nodes}\n{shown}')

    return write
