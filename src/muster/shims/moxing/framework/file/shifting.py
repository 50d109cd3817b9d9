"""`shift('os', 'mox')`: lets Python's own functions take paths in a store. Local paths go where they always went."""

import builtins
import functools
import glob
import os
import shutil
from typing import Any, Callable, Dict, List, Tuple

from . import file_io
from .paths import clean, is_url

_SUPPORTED = [os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids]
_originals: Dict[Tuple[Any, str], Callable[..., Any]] = {}


def shift(source: str, target: str) -> None:
    """Turns it on, `shift('os', 'mox')`, and off again, `shift('mox', 'os')`."""
    if (source, target) == ("os", "mox"):
        for module, name, paths, function in _FUNCTIONS:
            if (module, name) not in _originals:
                original = _originals[module, name] = getattr(module, name)
                setattr(module, name, _either(original, function, paths))
    elif (source, target) == ("mox", "os"):
        for (module, name), original in _originals.items():
            setattr(module, name, original)
        _originals.clear()
    else:
        raise ValueError(f"shift({source!r}, {target!r}) is not known; there are shift('os', 'mox') and shift('mox', 'os')")


def _either(original: Callable[..., Any], function: Callable[..., Any], paths: int) -> Callable[..., Any]:
    """Returns a function that takes paths of both kinds, as its first `paths` arguments."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(is_url(path) for path in (*args, *kwargs.values())[:paths]):
            return function(*args, **kwargs)
        return original(*args, **kwargs)

    for supported in _SUPPORTED:  # shutil looks its functions up there
        if original in supported:
            supported.add(call)
    return call


def _open(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **settings: Any) -> Any:
    settings.update(zip(("encoding", "errors", "newline"), text))
    return file_io.File(file, mode, **settings)


def _copyfile(src: Any, dst: Any, **unused: Any) -> Any:
    file_io.copy(src, dst)
    return dst


def _copytree(src: Any, dst: Any, *unused: Any, **ignored: Any) -> Any:
    file_io.copy_parallel(src, dst)
    return dst


# Module, name, how many paths it takes, and what is called for a URL, under the parameter names of the original.
_FUNCTIONS: List[Tuple[Any, str, int, Callable[..., Any]]] = [
    (builtins, "open", 1, _open),
    (os, "listdir", 1, lambda path: file_io.list_directory(path)),
    (os, "makedirs", 1, lambda name, mode=0o777, exist_ok=False: file_io.make_dirs(name)),
    (os, "mkdir", 1, lambda path, mode=0o777, **unused: file_io.mk_dir(path)),
    (os, "remove", 1, lambda path, **unused: file_io.remove(path)),
    (os, "rename", 2, lambda src, dst, **unused: file_io.rename(src, dst)),
    (os, "scandir", 1, lambda path: file_io.scan_dir(path)),
    (os, "stat", 1, lambda path, **unused: file_io.stat(path).as_system()),
    (os, "walk", 1, lambda top, topdown=True, onerror=None, followlinks=False: file_io.walk(top, topdown, onerror)),
    (os.path, "exists", 1, lambda path: file_io.exists(path)),
    (os.path, "isdir", 1, lambda s: file_io.is_directory(s)),
    (os.path, "getsize", 1, lambda filename: file_io.get_size(filename)),
    (os.path, "abspath", 1, lambda path: clean(path)),
    (os.path, "realpath", 1, lambda path, **unused: clean(path)),
    (glob, "glob", 1, lambda pathname, recursive=False, **unused: file_io.glob(pathname, recursive=recursive)),
    (shutil, "copyfile", 2, _copyfile),
    (shutil, "copytree", 2, _copytree),
    (shutil, "rmtree", 1, lambda path, ignore_errors=False, onerror=None, **unused: file_io.remove(path, recursive=True)),
]
