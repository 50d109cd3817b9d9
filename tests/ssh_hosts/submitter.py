"""An ordinary user of this machine, with a home, a key and known hosts of their own, who runs commands as from a shell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from host_machines import PATH, Machines

NAME, UID = "submitter", 4712
HOME = "/mnt/home"  # as they see it: directories of tests are closed to them
SOURCES = Path(__file__).parents[2]
SSH_CONFIG = "Host {name}\n  HostName {address}\n"


class Submitter:
    def __init__(self, machines: Machines, folder: Path) -> None:
        self._folder = folder
        self.home = folder / "home"
        ssh = self.home / ".ssh"
        ssh.mkdir(parents=True)
        shutil.copy(machines.folder / "key", ssh / "id_ed25519")
        shutil.copy(machines.folder / "key.pub", ssh / "id_ed25519.pub")
        shutil.copy(machines.folder / "known_hosts", ssh / "known_hosts")
        hosts = "".join(SSH_CONFIG.format(name=name, address=machines.address(name)) for name in machines.names)
        (ssh / "config").write_text(hosts)
        ssh.chmod(0o700)
        (folder / "passwd").write_text(f"{Path('/etc/passwd').read_text()}{NAME}:x:{UID}:{UID}::{HOME}:/bin/sh\n")
        folder.chmod(0o755)
        self.own()

    def own(self) -> None:
        """Gives the user what lies in their home."""
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, UID, UID)

    def bash(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a script in their home, with the real ssh and the muster of these tests on the PATH."""
        environment = {
            "HOME": HOME,
            "USER": NAME,
            "LANG": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:{PATH}",
            "PYTHONDONTWRITEBYTECODE": "1",
            **env,
        }
        switch = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
        inner = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "bash", "-euc", script]
        lines = ["set -e", "mount --make-rprivate /", *_opened([sys.base_prefix, sys.prefix, str(SOURCES)], self._folder)]
        lines += [f"mount --bind {self._folder} /mnt", "mount --bind /mnt/passwd /etc/passwd", f"cd {HOME}"]
        lines.append(f"exec {shlex.join([*switch, *inner])}")
        words = ["unshare", "--mount", "sh", "-c", "\n".join(lines)]
        return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=110)


def _opened(paths: list[str], folder: Path) -> list[str]:
    """Shell lines that let everybody reach directories whose parents are closed, in this mount namespace alone."""
    closed: dict[Path, list[Path]] = {}
    for path in map(Path, paths):
        parents = [parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001]
        if parents:
            closed.setdefault(parents[0], []).append(path)
    lines = []
    for parent, inside in closed.items():
        kept = {path: folder / f"kept-{number}" for number, path in enumerate(inside)}
        lines += [f"mkdir -p {place} && mount --bind {path} {place}" for path, place in kept.items()]
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {parent}")
        lines += [f"mkdir -p {path} && mount --bind {place} {path}" for path, place in kept.items()]
    return lines
