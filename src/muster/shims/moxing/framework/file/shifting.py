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
        _turn_on()
    elif (source, target) == ("mox", "os"):
        _turn_off()
    else:
        raise ValueError(f"shift({source!r}, {target!r}) is not known; there are shift('os', 'mox') and shift('mox', 'os')")


def _turn_on() -> None:
    for place, name, function in _FUNCTIONS:
        if (place, name) not in _originals:
            original = getattr(place, name)
            _originals[place, name] = original
            setattr(place, name, _either(original, function, 2 if function in _OF_TWO_PATHS else 1))


def _turn_off() -> None:
    for (place, name), original in _originals.items():
        setattr(place, name, original)
    _originals.clear()


def _either(original: Callable[..., Any], function: Callable[..., Any], paths: int) -> Callable[..., Any]:
    """A function that takes paths of both kinds; its first arguments are paths."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        for path in args[:paths] if len(args) >= paths else (*args, *kwargs.values())[:paths]:
            if is_url(path):
                return function(*args, **kwargs)
        return original(*args, **kwargs)

    for supported in _SUPPORTED:  # shutil looks its functions up there
        if original in supported:
            supported.add(call)
    return call


def _open(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **settings: Any) -> Any:
    settings.update(zip(("encoding", "errors", "newline"), text))
    return file_io.File(file, mode, **settings)


def _listdir(path: Any) -> List[str]:
    return file_io.list_directory(path)


def _makedirs(name: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
    file_io.make_dirs(name)


def _mkdir(path: Any, mode: int = 0o777, **unused: Any) -> None:
    file_io.mk_dir(path)


def _remove(path: Any, **unused: Any) -> None:
    file_io.remove(path)


def _rename(src: Any, dst: Any, **unused: Any) -> None:
    file_io.rename(src, dst)


def _scandir(path: Any) -> Any:
    return file_io.scan_dir(path)


def _stat(path: Any, **unused: Any) -> os.stat_result:
    return file_io.stat(path).as_system()


def _walk(top: Any, topdown: bool = True, onerror: Any = None, followlinks: bool = False) -> Any:
    return file_io.walk(top, topdown, onerror, followlinks)


def _exists(path: Any) -> bool:
    return file_io.exists(path)


def _isdir(s: Any) -> bool:
    return file_io.is_directory(s)


def _same(path: Any, **unused: Any) -> str:
    return clean(path)


def _getsize(filename: Any) -> int:
    return file_io.get_size(filename)


def _glob(pathname: Any, recursive: bool = False, **unused: Any) -> List[str]:
    return file_io.glob(pathname, recursive=recursive)


def _copyfile(src: Any, dst: Any, **unused: Any) -> Any:
    file_io.copy(src, dst)
    return dst


def _copytree(src: Any, dst: Any, *unused: Any, **ignored: Any) -> Any:
    file_io.copy_parallel(src, dst)
    return dst


def _rmtree(path: Any, ignore_errors: bool = False, onerror: Any = None, **unused: Any) -> None:
    file_io.remove(path, recursive=True)


_OF_TWO_PATHS = (_rename, _copyfile, _copytree)
_FUNCTIONS: List[Tuple[Any, str, Callable[..., Any]]] = [
    (builtins, "open", _open),
    (os, "listdir", _listdir),
    (os, "makedirs", _makedirs),
    (os, "mkdir", _mkdir),
    (os, "remove", _remove),
    (os, "rename", _rename),
    (os, "scandir", _scandir),
    (os, "stat", _stat),
    (os, "walk", _walk),
    (os.path, "exists", _exists),
    (os.path, "isdir", _isdir),
    (os.path, "getsize", _getsize),
    (os.path, "abspath", _same),
    (os.path, "realpath", _same),
    (glob, "glob", _glob),
    (shutil, "copyfile", _copyfile),
    (shutil, "copytree", _copytree),
    (shutil, "rmtree", _rmtree),
]
