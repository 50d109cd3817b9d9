"""A real Slurm for tests: one private site on this machine, munge, controller and nodes included, in a directory of its own."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_site import cgroups as kernel
from slurm_site import machine
from slurm_site.accounting import Accounting, slurm_settings
from slurm_site.configuration import Nodes, Partition, Setting, devices, gres_conf, slurm_conf
from slurm_site.ports import Block, claim

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "unshare", "setpriv")
LIMIT = 60.0
EVERYTHING = Partition("main", default=True)
# A dead node is noticed after 7 seconds instead of minutes. Only for tests of that: a busy machine may be slower to answer.
SOON_NOTICED: dict[str, Setting] = {"SlurmdTimeout": 4, "MessageTimeout": 4, "TCPTimeout": 1}


class Cluster:
    """A site that is up. Settings of slurm.conf are given by their names there: `Cluster(Nodes("a", 2), KillWait=5)`."""

    def __init__(
        self,
        *groups: Nodes,
        partitions: Sequence[Partition] = (EVERYTHING,),
        accounting: bool = False,  # whether there are a database and a slurmdbd
        cgroups: bool = False,  # whether the kernel keeps the memory of jobs; then names of nodes must be the test's own
        **settings: Setting,
    ) -> None:
        groups = groups or (Nodes(),)
        self.nodes = [name for group in groups for name in group.names]
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: sockets have names of 107 bytes at most
        self._munged: subprocess.Popen[bytes] | None = None
        self._controller: subprocess.Popen[bytes] | None = None
        self._accounting: Accounting | None = None
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            block = claim(1 + len(self.nodes) + 1)
            if cgroups:
                (self.folder / "cgroup.conf").write_text(kernel.CONF)
                settings = {**kernel.SETTINGS, **settings}
            if accounting:
                settings = {**slurm_settings(self.folder, block.ports[-1]), **settings}
            with block.held:
                self._write(block, groups, slurm_conf(self.folder, block, groups, partitions, settings))
                self._start_munge(block)
            if accounting:
                self._start_accounting(block.ports[-1])
            self.start_controller()
            for name in self.nodes:
                self._boot(name)
            self.wait_idle()
            on_failure.pop_all()

    @property
    def env(self) -> dict[str, str]:
        """The variables by which Slurm's programs find this site; give them to the process under test."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *words: object, **env: str) -> str:
        """What one of Slurm's programs says when all goes well."""
        done = self.call(*words, **env)
        assert done.returncode == 0, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def call(self, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a program as a user at a login node does."""
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH_", "SRUN_"))}
        return subprocess.run(
            [str(word) for word in words],
            env={**outside, **self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def job(self, number: object) -> dict[str, str]:
        """`scontrol show job` as names and values."""
        shown = self.run("scontrol", "show", "job", "--oneliner", number)
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def jobs(self) -> dict[int, dict[str, Any]]:
        """`squeue --json`, by job number; it knows jobs that have ended, too, for MinJobAge."""
        return {job["job_id"]: job for job in json.loads(self.run("squeue", "--json"))["jobs"]}

    def clear(self) -> None:
        """Cancels every job and waits until nothing of them is left."""
        self.run("scancel", "--user", getpass.getuser())
        self.until(lambda: not self.run("squeue", "--noheader"), "jobs were left")
        self.wait_idle()

    def kill_node(self, name: str) -> None:
        """The machine is gone at once with all that ran on it; the controller finds out by and by."""
        machine.kill(self._machines.pop(name))

    def start_node(self, name: str) -> None:
        """The machine is up again, and the controller knows."""
        self._boot(name)
        self.until(lambda: self.states()[name] in ("idle", "mixed", "allocated"), f"{name} did not come back")

    def stop_controller(self) -> None:
        if self._controller:
            machine.end(self._controller)
        self._controller = None

    def start_controller(self) -> None:
        """Starts it and waits until it answers."""
        self._controller = machine.start(["slurmctld", "-D", "-f", self.env["SLURM_CONF"]], self.folder / "slurmctld.out")
        self.until(lambda: self.call("scontrol", "ping").returncode == 0, "the controller did not start")

    @contextmanager
    def database_down(self) -> Iterator[None]:
        """The site goes on without its accounts for a while."""
        assert self._accounting
        self._accounting.stop()
        try:
            yield
        finally:
            self._accounting.start()
        self.until(lambda: self.call("sacctmgr", "show", "cluster").returncode == 0, "slurmdbd did not come back")

    def restart_controller(self) -> None:
        self.stop_controller()
        self.start_controller()

    def wait_idle(self) -> None:
        """All nodes are up and no job uses any."""
        self.until(lambda: set(self.states().values()) == {"idle"}, "the nodes did not become idle")

    def states(self) -> dict[str, str]:
        """What the controller thinks of each node: idle, mixed, allocated, completing, down; `down*` does not answer."""
        shown = self.call("sinfo", "--noheader", "--Node", "--format=%N %T").stdout
        return dict.fromkeys(self.nodes, "unknown") | dict(line.split() for line in shown.splitlines())

    def processes(self) -> list[str]:
        """What runs on behalf of this site: `PID: command`."""
        found = [pid for daemon in self._daemons() for pid in (daemon.pid, *machine.descendants(daemon.pid))]
        return [f"{pid}: {machine.command(pid)}" for pid in found]

    def until(self, condition: Callable[[], object], otherwise: str, limit: float = LIMIT) -> None:
        """Waits for something of the site; what its daemons logged is part of the failure."""
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline, f"{otherwise}\n{self._logs()}"
            time.sleep(0.05)

    def close(self) -> None:
        """Ends all of it and removes its directory."""
        for name in list(self._machines):
            self.kill_node(name)
        kernel.remove(self.nodes)
        self.stop_controller()  # in order: killed, it leaves a helper to whoever adopts it
        if self._accounting:
            self._accounting.close()
        if self._munged:
            machine.end(self._munged)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _write(self, block: Block, groups: Sequence[Nodes], configuration: str) -> None:
        folder = self.folder
        folder.chmod(0o755)
        (folder / "state").mkdir()
        (folder / "dev").mkdir()
        for name in self.nodes:
            (folder / f"tmp-{name}").mkdir()
            (folder / f"tmp-{name}").chmod(0o1777)
        for name in devices(groups):
            (folder / "dev" / name).symlink_to("/dev/null")  # Slurm wants character devices, and never opens them
        (folder / "munge.key").touch(mode=0o600)
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "plugstack.conf").touch()
        (folder / "slurm.conf").write_text(configuration)
        (folder / "gres.conf").write_text(gres_conf(folder, groups))
        known = Path("/etc/hosts").read_text()
        (folder / "hosts").write_text(known + "".join(f"{block.address(n)} {name}\n" for n, name in enumerate(self.nodes)))

    def _start_munge(self, block: Block) -> None:
        ends = {"key-file": "key", "socket": "socket", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
        words = ["munged", "--foreground", *(f"--{option}={self.folder / f'munge.{end}'}" for option, end in ends.items())]
        self._munged = machine.start(words, self.folder / "munge.out", block.held.fileno())
        self.until((self.folder / "munge.socket").exists, "munge did not start")

    def _start_accounting(self, port: int) -> None:
        """Starts the accounts of the site, in which its administrator, who runs the tests, has the account `root`."""
        self._accounting = accounts = Accounting(self.folder, port)
        self.until(accounts.socket.exists, "the database did not start")
        accounts.start()
        self.until(lambda: self.call("sacctmgr", "-i", "add", "cluster", "site").returncode == 0, "slurmdbd did not start")

    def _boot(self, name: str) -> None:
        words = ["slurmd", "-D", "-N", name, "-f", self.env["SLURM_CONF"]]
        self._machines[name] = machine.boot(name, self.folder / "hosts", words, self.folder / f"{name}.out")

    def _daemons(self) -> list[subprocess.Popen[bytes]]:
        accounts = self._accounting.daemons if self._accounting else []
        return [*filter(None, [self._munged, self._controller]), *accounts, *self._machines.values()]

    def _logs(self) -> str:
        files = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        return "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in files)


def unavailable(*more: str) -> str | None:
    """Why there can be no site on this machine, if so; `more` are programs beyond those of every site."""
    path = machine.environment()["PATH"]
    if missing := [name for name in (*PROGRAMS, *more) if not shutil.which(name, path=path)]:
        return f"there is no Slurm ({', '.join(missing)}); `make slurm` installs it"
    return machine.unavailable()


def need_slurm(*more: str) -> None:
    """Skips a test where there can be no site; in CI that is a failure."""
    if reason := unavailable(*more):
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """One site of four nodes with eight NPUs each for all tests of this process. Without Slurm, a failure in CI."""
    need_slurm()
    site = Cluster()
    yield site
    site.close()


@pytest.fixture
def slurm_site() -> Iterator[Callable[..., Cluster]]:
    """Makes sites of a test's own: `slurm_site(Nodes("a", 2, gres="gpu:4"), KillWait=5)`."""
    need_slurm()
    with ExitStack() as sites:

        def make(*groups: Nodes, **options: Any) -> Cluster:
            site = Cluster(*groups, **options)
            sites.callback(site.close)
            return site

        yield make
