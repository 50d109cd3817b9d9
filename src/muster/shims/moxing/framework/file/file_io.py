"""The functions of `moxing.file`. Local paths are handled here, URLs by Muster's storage server."""

import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union, cast

from . import local, objects, remote
from .entries import AnyEntry, Stat
from .errors import MoxFileNotExistsException
from .paths import clean, is_url, relative

__all__ = [
    "File",
    "append",
    "append_remote",
    "copy",
    "copy_parallel",
    "exists",
    "get_size",
    "glob",
    "is_directory",
    "list_directory",
    "make_dirs",
    "mk_dir",
    "read",
    "remove",
    "rename",
    "scan_dir",
    "set_auth",
    "stat",
    "walk",
    "write",
]

# Switches that MoXing's manual describes. Muster chooses the number of its connections itself.
_LARGE_FILE_METHOD = 1
_LARGE_FILE_TASK_NUM = 1
_NUMBER_OF_PROCESSES = 1
NUMBER_OF_PROCESSES = 1

F = TypeVar("F", bound=Callable[..., Any])
Data = Union[str, bytes]


def _mox_errors(function: F) -> F:
    """Raises MoXing's exception for a missing local file, as for a missing object."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MoxFileNotExistsException:
            raise
        except FileNotFoundError as error:
            raise MoxFileNotExistsException(f"there is nothing at {error.filename or error}; check the path") from None

    return cast(F, call)


def _do(what: str, urls: Sequence[Any], *more: Any) -> Any:
    """Calls a function of `remote` for paths of which one lies in a store, else its namesake of `local`."""
    paths = [clean(url) for url in urls]
    return getattr(remote if any(map(is_url, paths)) else local, what)(*paths, *more)


@_mox_errors
def File(name: Any, mode: str = "r", client_id: Any = None, **settings: Any) -> Any:
    """Opens a file: any of Python's modes, in MoXing's spelling (`br+`) too. `flush` puts what was written into the store."""
    path = clean(name)
    return objects.open_file(path, mode, is_url(path), **settings)


@_mox_errors
def read(url: Any, client_id: Any = None, binary: bool = False, **settings: Any) -> Any:
    """All that a file holds, as text or as bytes."""
    with File(url, "rb" if binary else "r") as file:
        return file.read()


@_mox_errors
def write(url: Any, data: Data, binary: bool = False, client_id: Any = None, **settings: Any) -> None:
    """Writes a file anew."""
    with File(url, "wb" if binary or isinstance(data, bytes) else "w") as file:
        file.write(data)


@_mox_errors
def append(url: Any, data: Data, binary: bool = False, client_id: Any = None, **settings: Any) -> None:
    """Adds to the end of a file, which need not exist yet."""
    with File(url, "ab" if binary or isinstance(data, bytes) else "a") as file:
        file.write(data)


@_mox_errors
def append_remote(src_url: Any, dst_url: Any, client_id: Any = None, **settings: Any) -> None:
    """Adds what one file holds to the end of another."""
    _do("append", [src_url, dst_url])


@_mox_errors
def copy(src_url: Any, dst_url: Any, client_id: Any = None, **settings: Any) -> None:
    """Copies one file, to a name or into a directory. The source stays as it is."""
    _do("copy", [src_url, dst_url])


@_mox_errors
def copy_parallel(
    src_url: Any,
    dst_url: Any,
    file_list: Optional[Sequence[str]] = None,
    threads: int = 16,
    is_processing: bool = True,
    use_queue: bool = True,
    **settings: Any,
) -> None:
    """Copies what is in a directory into another, or a single file. The source stays as it is.

    Only what is missing or has changed is moved. How many connections serve that is Muster's choice, whatever `threads` says.
    """
    _do("copy_tree", [src_url, dst_url], None if file_list is None else [relative(name) for name in file_list])


def exists(url: Any, client_id: Any = None, **settings: Any) -> bool:
    return bool(_do("exists", [url]))


def is_directory(url: Any, client_id: Any = None, **settings: Any) -> bool:
    return bool(_do("is_directory", [url]))


@_mox_errors
def list_directory(
    url: Any,
    recursive: bool = False,
    remove_sep: bool = True,
    skip_file: bool = False,
    skip_dir: bool = False,
    client_id: Any = None,
    **settings: Any,
) -> List[str]:
    """The names in a directory, as `os.listdir` gives them; directories end in a slash when `remove_sep` is false."""
    found = []
    for entry in _do("entries", [url], recursive):
        if skip_dir if entry.is_dir() else skip_file:
            continue
        found.append(entry.name + ("/" if entry.is_dir() and not remove_sep else ""))
    return found


def glob(url: Any, client_id: Any = None, **settings: Any) -> List[str]:
    """The paths that match a pattern: URLs, and absolute paths of local files."""
    return cast(List[str], _do("glob", [url], bool(settings.get("recursive"))))


def walk(
    url: Any,
    topdown: bool = True,
    onerror: Optional[Callable[[OSError], Any]] = None,
    followlinks: bool = False,
    client_id: Any = None,
    **settings: Any,
) -> Iterator[Tuple[str, List[str], List[str]]]:
    """Goes through a directory and those below it, as `os.walk` does."""
    return cast(Iterator[Tuple[str, List[str], List[str]]], _do("walk", [url], topdown, onerror, followlinks))


@_mox_errors
def scan_dir(url: Any, client_id: Any = None, **settings: Any) -> Iterator[AnyEntry]:
    """The entries of a directory, as `os.scandir` gives them."""
    return cast(Iterator[AnyEntry], _do("scan", [url]))


@_mox_errors
def make_dirs(url: Any, client_id: Any = None, **settings: Any) -> None:
    """Makes a directory and those above it."""
    _do("make_dir", [url], True)


@_mox_errors
def mk_dir(url: Any, client_id: Any = None, **settings: Any) -> None:
    """Makes a directory in one that exists."""
    _do("make_dir", [url], False)


def remove(url: Any, recursive: bool = False, client_id: Any = None, **settings: Any) -> None:
    """Removes a file, or a directory with all in it when `recursive` is true; otherwise does nothing."""
    _do("remove", [url], recursive)


@_mox_errors
def rename(src_url: Any, dst_url: Any, client_id: Any = None, **settings: Any) -> None:
    """Moves a file or a directory, also between this machine and a store."""
    _do("rename", [src_url, dst_url])


@_mox_errors
def stat(url: Any, client_id: Any = None, **settings: Any) -> Stat:
    """The `length`, `mtime_nsec` and `is_directory` of a file or directory."""
    return cast(Stat, _do("stat", [url]))


@_mox_errors
def get_size(url: Any, recursive: bool = False, client_id: Any = None, **settings: Any) -> int:
    """The size of a file, or of all in a directory when `recursive` is true."""
    return int(_do("size", [url], recursive))


def set_auth(
    ak: Optional[str] = None,
    sk: Optional[str] = None,
    server: Optional[str] = None,
    port: Optional[int] = None,
    is_secure: Optional[bool] = None,
    ssl_verify: Optional[bool] = None,
    long_conn_mode: Optional[bool] = None,
    path_style: Optional[bool] = None,
    retry: Optional[int] = None,
    retry_wait: Optional[float] = None,
    client_timeout: Optional[float] = None,
    list_max_keys: Optional[int] = None,
    **settings: Any,
) -> None:
    """Takes other keys or another server for the later requests of this process; without either, nothing changes.

    Retries, time limits and connections are Muster's own.
    """
    if not (ak or server):
        return
    given: Dict[str, Any] = {
        "ak": ak,
        "sk": sk,
        "token": settings.get("security_token"),
        "server": server,
        "port": port,
        "is_secure": is_secure,
        "ssl_verify": ssl_verify,
        "path_style": path_style,
    }
    remote.set_auth({name: value for name, value in given.items() if value is not None})
