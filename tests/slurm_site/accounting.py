"""The accounts of a site: a database on a socket and a slurmdbd, both in the folder of the site."""

from __future__ import annotations

import getpass
import subprocess
from pathlib import Path

from slurm_site import machine

PROGRAMS = ("mariadbd", "slurmdbd")
TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")
# Quick to start and small: what it holds need not survive anything.
DATABASE = "--skip-grant-tables --innodb-log-file-size=4M --innodb-buffer-pool-size=16M --innodb-flush-log-at-trx-commit=0"


def slurmdbd_conf(folder: Path, port: int) -> str:
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder / 'munge.socket'}",
        "DbdHost": "localhost",
        "DbdPort": port,
        "SlurmUser": getpass.getuser(),
        "LogFile": folder / "slurmdbd.log",
        "PidFile": folder / "slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "slurm",
        "StorageLoc": "slurm",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def slurm_settings(folder: Path, port: int) -> dict[str, str | int]:
    """What slurm.conf says of a site that keeps accounts."""
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": port,
        "AccountingStoragePass": str(folder / "munge.socket"),
    }


class Accounting:
    """The two daemons: the database first, then slurmdbd."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        path = folder / "slurmdbd.conf"
        path.touch(mode=0o600)  # slurmdbd wants nobody else to read it
        path.write_text(slurmdbd_conf(folder, port))
        _make_database(folder)
        words = [*_mariadbd(folder), f"--socket={self.socket}", "--skip-networking"]
        self.daemons = [machine.start(words, folder / "database.log")]

    @property
    def socket(self) -> Path:
        return self.folder / "database.socket"

    def start(self) -> None:
        """Starts slurmdbd, once the database listens."""
        where = [f"MYSQL_UNIX_PORT={self.socket}", f"SLURM_CONF={self.folder / 'slurm.conf'}"]
        self.daemons.append(machine.start(["env", *where, "slurmdbd", "-D"], self.folder / "slurmdbd.out"))

    def stop(self) -> None:
        """Ends slurmdbd; the database stays."""
        machine.end(self.daemons.pop())

    def close(self) -> None:
        while self.daemons:
            machine.end(self.daemons.pop())


def _make_database(folder: Path) -> None:
    """The tables that a database needs for procedures, which slurmdbd makes."""
    (folder / "database").mkdir()
    text = f"create database mysql;\nuse mysql;\n{TABLES.read_text()}"
    with (folder / "database.log").open("ab") as log:
        words = [*_mariadbd(folder), "--bootstrap"]
        subprocess.run(words, input=text.encode(), stdout=log, stderr=log, env=machine.environment(), check=True)


def _mariadbd(folder: Path) -> list[str]:
    """Root's database has to be told that this is meant."""
    return ["mariadbd", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={folder / 'database'}", *DATABASE.split()]
