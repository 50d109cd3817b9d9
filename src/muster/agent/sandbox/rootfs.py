"""The file system of a simulated node: that of the machine, with directories of the node's own at some places.

The root is made anew in memory and the machine's directories are shown in it, so that a directory that the machine does
not have, such as /cache, can be there all the same, and nothing is created outside.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from muster.dataclass import dataclass
from muster.job import Job
from muster.job.data import local_path
from muster.linux import syscalls
from muster.linux.proc import listed
from muster.plan import compat

PRIVATE = ("/cache", "/tmp", "/home/work", "/home/ma-user")  # of every simulated node
# What platforms put into these directories: never that of the machine, unless the run itself lies there.
MADE_HERE = ("ib_config", ".npu", "user-job-dir", "run_train.sh", "modelarts", "rank_table", "pip-packages")
# What shells read at their start, and which may write to the home that it is made for, as pyenv's does.
OF_SHELLS = tuple(".bashrc .bash_profile .bash_login .bash_logout .profile .zshenv .zprofile .zshrc .zlogin .zlogout".split())
_MACHINE = "/.machine"  # where the machine's own root is while the new one is filled


@dataclass(frozen=True)
class Root:
    """The root directory of a node."""

    folder: str  # an empty directory of the node, over which the root is made
    own: dict[str, str]  # real directories, by the path at which they appear
    shown: dict[str, str]  # what of the machine appears, by path: the paths on the machine
    owner: tuple[int, int] | None = None  # the user and group of directories that are made, where not this process'


def plan(
    job: Job,
    user: str,
    node: str,
    attempt: str,
    needed: list[str],
    named: list[str],
    private: Sequence[str] = PRIVATE,
    home: str = "~",
) -> Root:
    """The root of a node; `needed` are paths that a run cannot do without, `named` texts that may name what it wants.

    `home` is the home of the user on the machine.
    """
    platform = compat.of(job)
    node, common = os.path.realpath(node), os.path.realpath(attempt + "/root")  # links lead elsewhere while the root is filled
    own = {path: node + "/root" + path for path in (*private, *platform.private)}
    own.update({path: common + path for path in platform.shared})
    visible = [path for path in _named(own, (*_texts(job), *named)) if os.path.basename(path) not in MADE_HERE]
    folders = {path: os.path.realpath(os.path.dirname(path)) for path in (*visible, *_named(own, needed))}  # not by links
    shown = {path: os.path.join(folder, os.path.basename(path)) for path, folder in folders.items()}
    real = os.path.realpath(os.path.expanduser(home))
    given = platform.user_home(user)
    if given:
        own[given] = common + given
    if given or real in own:
        left_out = OF_SHELLS if given not in ("", real) else ()
        names = [name for name in listed(real) if name not in (*MADE_HERE, *left_out)]  # not everybody has a home
        shown.update({f"{given or real}/{name}": f"{real}/{name}" for name in names})
    return Root(node + "/rootfs", own, {**machine(own, [*needed, *named, real]), **shown})


def own_folders(job: Job, user: str) -> list[str]:
    """The directories that a simulated node, or a run, has for itself."""
    platform = compat.of(job)
    return list(filter(None, (*PRIVATE, *platform.private, *platform.shared, platform.user_home(user))))


def machine(own: Collection[str], known: Iterable[str] = ()) -> dict[str, str]:
    """Paths of the machine beside a node's own directories; `known` names entries of those that cannot be listed."""
    above = {"/", *(folder for path in own for folder in _above(path))}
    made = {*above, *own, _MACHINE}
    found = {}
    for folder in above:
        real = os.path.realpath(folder)  # some machines have a link for /home
        found.update({os.path.join(folder, name): os.path.join(real, name) for name in _listed(real, known)})
    return {path: source for path, source in found.items() if path not in made}


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _listed(folder: str, known: Iterable[str]) -> set[str]:
    """The names in a directory. On a machine with many users, /home may not be listable."""
    try:
        return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except PermissionError:
        inside = folder.rstrip("/") + "/"
        return {path[len(inside) :].partition("/")[0] for path in known if path.startswith(inside)} - {"", ".", ".."}


def _named(folders: Iterable[str], texts: Iterable[str]) -> set[str]:
    """The entries of these directories that texts name, be it as a whole or among other words, and the machine has."""
    above = "|".join(map(re.escape, folders))
    entry = re.compile(rf"(?:{above})/(?!\.\.?(?:/|\Z))[^/]+")
    among = re.compile(rf"(?:{above})/(?!\.\.?(?:[/\s:;,'\"=]|\Z))[^/\s:;,'\"=]+")
    found: set[str] = set()
    for text in texts:
        found.update(among.findall(text))
        for path in (os.path.normpath(local_path(text)), os.path.realpath(local_path(text))):
            found.update(match.group() for match in [entry.match(path)] if match)
    return {path for path in found if os.path.lexists(path)}


def _texts(job: Job) -> list[str]:
    """All texts of a job that may name a path."""
    command = [job.command] if isinstance(job.command, str) else list(job.command)
    data = [data.url for data in (*job.inputs.values(), *job.outputs.values())]
    return [*command, *job.parameters.values(), *job.env.values(), *data, job.log_url, job.setup]


def enter(root: Root) -> None:
    """Makes this the root of the namespace that this process is in."""
    for path in (root.folder, *root.own.values()):
        _make(path, root.owner)
    if "/tmp" in root.own:
        os.chmod(root.own["/tmp"], 0o1777)
    syscalls.mount_memory(root.folder)
    os.mkdir(root.folder + _MACHINE)
    syscalls.change_root(root.folder, root.folder + _MACHINE)
    os.chdir("/")
    for path in sorted(root.own):
        os.makedirs(path, exist_ok=True)
        syscalls.bind(_MACHINE + root.own[path], path)
    for path, source in root.shown.items():
        _show(_MACHINE + source, path)
    syscalls.unmount(_MACHINE)
    os.rmdir(_MACHINE)
    os.rmdir(root.folder)


def _make(path: str, owner: tuple[int, int] | None) -> None:
    """Makes a directory and those above it that are missing; several nodes may do so at once."""
    if owner is None:
        os.makedirs(path, exist_ok=True)
        return
    missing = [folder for folder in (path, *_above(path)) if not os.path.lexists(folder)]
    for folder in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(folder)
            os.chown(folder, *owner)


def _show(source: str, target: str) -> None:
    """Bind-mounts source onto target; several nodes may do so at once."""
    try:
        mode = os.lstat(source).st_mode
    except OSError:
        return  # it has just been deleted, or cannot be read, such as a mount whose server is gone
    try:
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), target)
            return
        if stat.S_ISDIR(mode):
            os.makedirs(target, exist_ok=True)
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o600))
        syscalls.bind(source, target)
    except (FileExistsError, FileNotFoundError):
        pass  # a link that another node made, or just deleted as well
