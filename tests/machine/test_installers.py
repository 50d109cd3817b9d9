"""The scripts that install what tests use, on a machine that is made up: its apt-get only tells what it was asked."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TOOLS = ("bash", "cat", "chmod", "mv", "rm", "sh")
SLURM = ("munged", "slurmctld", "slurmd", "sbatch", "slurmdbd", "mariadbd", "mpirun")
APT_GET = """#!/bin/sh
echo "apt-get $*" >> {told}
case "$*" in *install*) [ ! -e {policy} ] || {{ cat {policy}; {policy}; echo "policy $?"; }} >> {told} ;; esac
exit {code}
"""


class Machine:
    """Programs and system directories of a machine that has nothing but what a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.root, self.told = folder / "bin", folder / "root", folder / "told"
        self.policy = self.root / "usr/sbin/policy-rc.d"
        self.policy.parent.mkdir(parents=True)
        self.bin.mkdir()
        for name in TOOLS:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        self.program("id", "echo 0")

    def program(self, name: str, text: str = "true") -> None:
        path = self.bin / name
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def apt_get(self, code: int = 0) -> None:
        self.program("apt-get", APT_GET.format(told=self.told, policy=self.policy, code=code))

    def install(self, script: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "DESTDIR": str(self.root)}
        return subprocess.run([SCRIPTS / script], capture_output=True, text=True, env=env)

    @property
    def calls(self) -> list[str]:
        return self.told.read_text().splitlines() if self.told.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def have_slurm(machine: Machine) -> None:
    for name in SLURM:
        machine.program(name, "echo slurm 22.05")
    library = machine.root / "usr/lib/any-linux-gnu/pmix2/lib/libpmix.so"
    library.parent.mkdir(parents=True)
    library.touch()


def have_hosts(machine: Machine) -> None:
    for name in ("sshd", "ssh", "ip", "faketime", "tcsh", "fish"):
        machine.program(name)


def have_browser(machine: Machine) -> None:
    machine.program("chromium")


Have = Callable[[Machine], None]


@pytest.mark.parametrize(("script", "have"), [("slurm.sh", have_slurm), ("browser.sh", have_browser), ("hosts.sh", have_hosts)])
def test_nothing_is_done_where_all_is_there(machine: Machine, script: str, have: Have) -> None:
    machine.apt_get()
    have(machine)
    done = machine.install(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(machine.bin) in done.stdout
    assert machine.calls == []


@pytest.mark.parametrize(
    ("script", "package"), [("slurm.sh", "slurmctld"), ("browser.sh", "chromium"), ("hosts.sh", "iproute2")]
)
def test_without_root_or_apt_get_it_says_what_to_do(machine: Machine, script: str, package: str) -> None:
    nowhere = machine.install(script)
    machine.apt_get()
    machine.program("id", "echo 1000")
    nobody = machine.install(script)
    for done in (nowhere, nobody):
        assert (done.returncode, done.stdout) == (1, "")
        assert "apt-get install " in done.stderr and package in done.stderr
    assert machine.calls == []
    assert not machine.policy.exists()


def test_a_browser_is_installed_with_a_font(machine: Machine) -> None:
    machine.apt_get()
    assert machine.install("browser.sh").returncode == 0
    update, install = machine.calls
    assert update.endswith(" update")
    assert install.endswith(" install chromium fonts-noto-cjk")


@pytest.mark.parametrize("before", [None, "#!/bin/sh\nexit 104\n"])
@pytest.mark.parametrize("code", [0, 100])
def test_slurm_is_installed_while_services_are_forbidden_and_then_as_before(
    machine: Machine, before: str | None, code: int
) -> None:
    machine.apt_get(code)
    machine.program("systemctl", f"echo systemctl $* >> {machine.told}")
    have_slurm(machine)
    (machine.bin / "slurmd").unlink()
    (machine.bin / "munged").unlink()
    if before:
        machine.policy.write_text(before)
        machine.policy.chmod(0o755)
    assert machine.install("slurm.sh").returncode == code
    assert (machine.policy.read_text() if machine.policy.exists() else None) == before
    if code == 0:
        assert machine.calls[1].endswith(" install munge slurmd")
        assert machine.calls[2:] == ["#!/bin/sh", "exit 101", "policy 101", "systemctl --quiet disable munge slurmd"]


def test_an_ssh_server_is_installed_while_services_are_forbidden(machine: Machine) -> None:
    machine.apt_get()
    have_hosts(machine)
    (machine.bin / "sshd").unlink()
    assert machine.install("hosts.sh").returncode == 0
    assert machine.calls[1].endswith(" install openssh-server")
    assert machine.calls[2:] == ["#!/bin/sh", "exit 101", "policy 101"]
    assert not machine.policy.exists()


def test_a_machine_with_postgres_gets_nothing(machine: Machine) -> None:
    program = machine.root / "usr/lib/postgresql/15/bin/postgres"
    program.parent.mkdir(parents=True)
    program.touch()
    machine.apt_get()
    done = machine.install("postgres.sh")
    assert (done.returncode, machine.calls) == (0, [])
    assert str(program) in done.stdout


def test_postgres_is_installed_without_a_database_or_service_of_its_own(machine: Machine) -> None:
    machine.program("mkdir", f'#!/bin/sh\nexec {shutil.which("mkdir")} "$@"\n')
    machine.apt_get()
    assert machine.install("postgres.sh").returncode == 0
    assert machine.calls[-1] == "policy 101" and machine.calls[1].endswith("install postgresql")
    assert not machine.policy.exists()
    assert (machine.root / "etc/postgresql-common/createcluster.conf").read_text() == "create_main_cluster = false\n"


def test_without_root_postgres_says_what_to_do(machine: Machine) -> None:
    machine.program("id", "echo 1000")
    done = machine.install("postgres.sh")
    assert (done.returncode, "apt-get install postgresql" in done.stderr) == (1, True)
