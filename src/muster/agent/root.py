"""The file system of a simulated node: that of the machine, with directories of the node's own at some places.

The root is made anew in memory and the machine's directories are shown in it, so that a directory that the machine does
not have, such as /cache, can be there all the same, and nothing is created outside.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Dict, Iterable, List, Tuple

from muster.agent import system
from muster.job import Job
from muster.plan import compat

PRIVATE = ("/cache", "/tmp", "/home/work", "/home/ma-user")  # of every simulated node
MADE_HERE = ("ib_config", ".npu")  # what a platform writes into the user's home
_MACHINE = "/.machine"  # where the machine's own root is while the new one is filled
_IN_TMP = re.compile(r"/tmp/([^/\s:;,'\"=]+)")


@dataclass(frozen=True)
class Root:
    """What a node sees instead of the machine's own: real directories, by the path at which they appear."""

    folder: str  # an empty directory of the node, over which the root is made
    own: Dict[str, str]
    visible: Tuple[str, ...] = ()  # what of the machine's /tmp stays visible
    home: str = ""  # where the user's home appears as well, with a layer of the run's own

    @property
    def left(self) -> List[str]:
        """The directories that are the machine's after all, because something that the run needs lies in them."""
        return [path for path in PRIVATE if path not in self.own]


def plan(job: Job, user: str, node: str, attempt: str, needed: Iterable[str]) -> Root:
    """The root of a node; `needed` are paths that a run cannot do without."""
    platform = compat.of(job)
    needed = [path for path in needed if path.startswith("/")]
    own = {path: node + "/root" + path for path in (*PRIVATE, *platform.private) if path == "/tmp" or not _used(path, needed)}
    own.update({path: attempt + "/root" + path for path in platform.shared})
    home = platform.user_home(user)
    if home:
        own[home] = attempt + "/root" + home
    named = " ".join([*needed, *_texts(job)])
    visible = sorted({"/tmp/" + name for name in _IN_TMP.findall(named)})
    return Root(node + "/rootfs", own, tuple(path for path in visible if os.path.exists(path)), home)


def _used(path: str, needed: Iterable[str]) -> bool:
    return any(name.startswith(path + "/") and os.path.exists(name) for name in needed)


def _texts(job: Job) -> List[str]:
    """Everything in a job that may name a path."""
    command = [job.command] if isinstance(job.command, str) else list(job.command)
    data = [data.url for data in (*job.inputs.values(), *job.outputs.values())]
    return [*command, *job.parameters.values(), *job.env.values(), *data, job.log_url, job.setup]


def enter(root: Root) -> None:
    """Makes this the root of the namespace that this process is in."""
    for path in (root.folder, *root.own.values()):
        os.makedirs(path, exist_ok=True)
    if "/tmp" in root.own:
        os.chmod(root.own["/tmp"], 0o1777)
    home = os.path.realpath(os.path.expanduser("~"))
    system.mount_memory(root.folder)
    os.mkdir(root.folder + _MACHINE)
    system.change_root(root.folder, root.folder + _MACHINE)
    os.chdir("/")
    _fill("", root.own)
    for path in root.visible:
        _show(_MACHINE + path, path)
    if root.home:
        for name in os.listdir(_MACHINE + home):
            if name not in MADE_HERE:
                _show("%s%s/%s" % (_MACHINE, home, name), "%s/%s" % (root.home, name))
    system.unmount(_MACHINE)
    os.rmdir(_MACHINE)
    os.rmdir(root.folder)


def _fill(folder: str, own: Dict[str, str]) -> None:
    """Shows what the machine has in a directory, and the node's own directories in and below it."""
    machine = set(os.listdir(_MACHINE + (folder or "/"))) if os.path.isdir(_MACHINE + folder) else set()
    inside = {path[len(folder) + 1 :].partition("/")[0] for path in own if path.startswith(folder + "/")}
    for name in (machine | inside) - {_MACHINE[1:]}:
        path = "%s/%s" % (folder, name)
        if path in own:
            os.mkdir(path)
            system.bind_tree(_MACHINE + own[path], path)
        elif name in inside:
            os.mkdir(path)
            _fill(path, own)
        else:
            _show(_MACHINE + path, path)


def _show(source: str, target: str) -> None:
    """Lets a file or directory appear at a second place; several nodes may do so at once."""
    try:
        mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), target)
            return
        if stat.S_ISDIR(mode):
            os.makedirs(target, exist_ok=True)
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o600))
        system.bind_tree(source, target)
    except FileExistsError:
        pass  # a link that another node made
    except FileNotFoundError:
        pass  # it has just been deleted
