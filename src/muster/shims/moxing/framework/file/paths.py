"""Paths as scripts write them: which ones lie in a store, and one spelling for each."""

import os
import re
from typing import Any, Tuple

_URL = re.compile(r"(obs|s3):/+(.*)", re.DOTALL)
_SCHEMES = ("obs:/", "s3:/")


def is_url(path: Any) -> bool:
    """True if a path lies in a store; `obs:/bucket` is what pathlib makes of `obs://bucket`."""
    text = os.fspath(path) if hasattr(path, "__fspath__") else path
    return isinstance(text, str) and text.startswith(_SCHEMES)


def clean(path: Any) -> str:
    """One spelling for each path: no doubled slashes in a URL, which come from joining `obs://bucket/` and `/name`."""
    text = os.fsdecode(path) if path is not None else ""
    if not text:
        raise ValueError("the path is empty; check what was passed as --data_url or --train_url")
    if text.startswith("file://"):
        return text[len("file://") :]
    found = _URL.match(text)
    return "{}://{}".format(found.group(1), re.sub("/+", "/", found.group(2))) if found else text


def absolute(path: str) -> str:
    """A path that means the same in another process; a closing slash, which asks for a directory, stays."""
    if is_url(path):
        return path
    return os.path.abspath(path) + ("/" if path.endswith("/") and path.strip("/") else "")


def relative(name: Any) -> str:
    """A name of a file list: it must stay in the directory that is copied."""
    found = os.path.normpath(os.fsdecode(name)).lstrip("/")
    if found.split("/")[0] in ("..", ""):
        raise ValueError(f"{name} does not lie in the directory that is copied; name files relative to it")
    return found


def join(folder: str, name: str) -> str:
    return folder.rstrip("/") + "/" + name if is_url(folder) else os.path.join(folder, name)


def split_bucket(url: str) -> Tuple[str, str]:
    """`obs://bucket` and the key."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key
