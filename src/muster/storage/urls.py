"""URLs taken apart. Names stand in them as they are, without percent-encoding."""

from __future__ import annotations

import os
import re

from muster.dataclass import dataclass
from muster.storage.errors import InvalidName, InvalidRequest

SCHEMES = ("obs", "s3")
SUBMITTER = "submitter"  # files of the machine that started a run, as its nodes name them elsewhere: submitter:///path
FILES = "_"  # their bucket, where that machine serves them
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Url:
    """A URL of a bucket (scheme obs or s3), or of the file system (scheme file, or none for a plain path)."""

    scheme: str
    bucket: str
    path: str  # the key, without slashes at its ends; for files the absolute path

    @property
    def is_file(self) -> bool:
        return self.scheme in ("", "file")


def is_url(text: str) -> bool:
    """True if a text is a URL, rather than a plain path."""
    return "://" in text


def parse(text: str) -> Url:
    """The parts of a URL or a path. Raises InvalidRequest for an invalid one, without repeating it: it may hold a key."""
    if "\0" in text:
        raise InvalidName(f"{text!r} holds a NUL byte; no name can")
    if not text:
        raise InvalidRequest("an empty name is neither a URL nor a path; name a file, or use . for this directory")
    if not is_url(text):
        _refuse_lost_slash(text)
        return Url("", "", os.path.abspath(text))
    scheme, _, rest = text.partition("://")
    if scheme == "file":
        if not rest.startswith("/"):
            raise InvalidRequest("a URL of file has no absolute path; write file:///path, with three slashes")
        return Url("file", "", os.path.normpath("/" + rest.lstrip("/")))
    if scheme == SUBMITTER and rest.startswith("/"):
        return Url(scheme, FILES, checked_key(rest, text))
    if scheme not in SCHEMES:
        known = "use obs://, s3://, file:// or a plain path"
        raise InvalidRequest(f"a URL begins with `{scheme[:20]}://`, a scheme that is not known; {known}")
    bucket, _, key = rest.partition("/")
    if "@" in bucket:
        raise InvalidRequest(f"a URL of {scheme} holds a name or a password; write it without, and keys in config.toml")
    if not _BUCKET.fullmatch(bucket) and (bucket or key):
        raise InvalidRequest(f"a URL of {scheme} does not begin with the name of a bucket; write {scheme}://bucket/name")
    return Url(scheme, bucket, checked_key(key, text))


def _refuse_lost_slash(text: str) -> None:
    """Raises InvalidRequest for obs:/bucket, which a typing error or a function for paths makes of obs://bucket."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme in (*SCHEMES, "file"):
        meant = "bucket/name" if ":" in rest or "@" in rest else rest.lstrip("/")
        raise InvalidRequest(f"a URL of {scheme} lacks a slash; write {scheme}://{meant}, or ./ in front of a path")


def checked_key(key: str, shown: str) -> str:
    """A key without the empty parts that joining URLs leaves behind. Raises InvalidName for `.` and `..`."""
    parts = [part for part in key.split("/") if part]
    if _dotted(parts):
        raise InvalidName(f"{shown} has a part `.` or `..` in its name and could leave its place; name it without")
    return "/".join(parts)


def checked_name(name: str, shown: str) -> str:
    """A relative name from a listing. Raises InvalidName for one that would leave the destination."""
    parts = name.split("/")
    if "" in parts:
        raise InvalidName(f"{shown} has an empty part in its name, which no directory can hold; rename it, or leave it out")
    if "\0" in name:
        raise InvalidName(f"{shown!r} holds a NUL byte, which no file name can; rename it, or leave it out")
    if _dotted(parts):
        raise InvalidName(f"{shown} has a part `.` or `..` in its name and could leave its place; rename it, or leave it out")
    return name


def join(url: str, name: str) -> str:
    """A URL with a relative name below it."""
    return url + name if url.endswith("/") else f"{url}/{name}"


def _dotted(parts: list[str]) -> bool:
    return ".." in parts or "." in parts
