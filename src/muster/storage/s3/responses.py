"""Responses of a store: its errors as StorageErrors, and its listings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from muster.storage.errors import (
    AccessDenied,
    InvalidName,
    InvalidRequest,
    NoSpace,
    NoSuchBucket,
    NotFound,
    StorageError,
    Unreachable,
)
from muster.storage.settings import Access

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_HTTP_DATE = re.compile(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d:\d\d:\d\d) GMT", re.ASCII)
_ISO_DATE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z?", re.ASCII)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
MISSING = frozenset(("NoSuchKey", "NoSuchVersion", "NoSuchUpload"))  # the bucket is there
_HTTPS = re.compile(r"HTTP request to an HTTPS server|plain HTTP request was sent to HTTPS port", re.IGNORECASE)
FULL = frozenset(("InsufficientStorage", "InsufficientStorageSpace", "QuotaExceeded", "XMinioStorageFull", "EntityTooLarge"))
# What a store that Muster serves itself says in whole sentences, by its codes.
OF_SERVED = {
    "NoSuchBucket": NoSuchBucket,
    "NoSuchKey": NotFound,
    "AccessDenied": AccessDenied,
    "InsufficientStorage": NoSpace,
    "InvalidName": InvalidName,
    "InvalidRequest": InvalidRequest,
    "Failed": StorageError,
}


@contextmanager
def _readable() -> Iterator[None]:
    """Raises StorageError for an answer that is not the XML of a store."""
    try:
        yield
    except (SyntaxError, LookupError, OverflowError, ValueError):  # ParseError is a SyntaxError
        raise StorageError("the server's answer is not that of an S3 store; check the endpoint") from None


class ListedObject(NamedTuple):
    """One object of a listing."""

    key: str
    size: int
    mtime: float
    etag: str


class Page(NamedTuple):
    """A part of a listing; `following` names the last key of it where there is more."""

    objects: list[ListedObject]
    prefixes: list[str]
    following: str


def failure(status: int, text: str, shown: str, access: Access, method: str = "GET") -> StorageError:
    """The StorageError for an error response of a store."""
    bucket, _, key = shown.rpartition("://")[2].partition("/")
    code = "".join(_CODE.findall(text)[:1])
    message = "".join(_MESSAGE.findall(text)[:1]).strip().rstrip(".") or code or f"status {status}"
    if access.socket and code in OF_SERVED:
        from xml.sax.saxutils import unescape  # with urllib.request, which takes longer than all else here

        return OF_SERVED[code](unescape(message))
    if code == "NoSuchBucket":
        return NoSuchBucket(f"there is no bucket `{bucket}` at {access.endpoint}; create it first")
    if status == 404 and code not in MISSING and (method in ("PUT", "POST") or not key):
        found = f"there is no bucket `{bucket}` at {access.endpoint}, or that is no S3 store: it answers with status 404"
        return NoSuchBucket(f"{found}; create the bucket, or check the endpoint")
    if status == 404:
        return NotFound(f"{shown} is not there; check the name")
    if status == 412:
        return StorageError(f"{shown} was changed while it was copied; copy it again")
    if status == 400 and access.endpoint.startswith("http:") and _HTTPS.search(text):
        return no_http(access)
    if status == 507 or code in FULL:
        return NoSpace(f"{access.endpoint} has no room for {shown}: {message}; free some, or choose another place")
    if status in (401, 403) or (status == 400 and not access.access_key):
        missing = "give keys, by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or in config.toml"
        advice = "check the keys and what they may do" if access.access_key else missing
        return AccessDenied(f"{access.endpoint} refuses access to {shown}: {message}; {advice}")
    if status >= 500 or status == 429:
        return Unreachable(f"{access.endpoint} cannot serve {shown}: {message}; try again later")
    advice = "check name and settings"
    if status == 400 and not text and access.endpoint.startswith("http:"):  # the answer to HEAD has no words
        advice += ", and whether it speaks https"
    return StorageError(f"{access.endpoint} does not take the request for {shown}: {message}; {advice}")


def unreachable(access: Access, reason: str) -> Unreachable:
    return Unreachable(f"{access.endpoint} does not answer: {reason}; check the endpoint and the network")


def no_https(access: Access) -> Unreachable:
    plain = "http://{}".format(access.endpoint.partition("://")[2])
    return Unreachable(f"{access.endpoint} does not answer in TLS: it speaks http and not https; write {plain}")


def no_http(access: Access) -> Unreachable:
    secure = "https://{}".format(access.endpoint.partition("://")[2])
    return Unreachable(f"{access.endpoint} does not take plain requests: it speaks https and not http; write {secure}")


def etag(text: str | None) -> str:
    """An ETag without its quotes; empty where there is none that a header of a request could hold."""
    found = (text or "").strip('"').lower()
    return found if found.isascii() and found.isprintable() else ""


def check_version(found: str | None, expected: str, shown: str) -> None:
    """Raises StorageError where a response is of another version than asked for: some servers ignore If-Match."""
    if expected and etag(found) not in ("", expected):
        raise StorageError(f"{shown} was changed while it was copied; copy it again")


@_readable()
def page(text: bytes) -> Page:
    """One answer to a request for a listing."""
    root = _without_namespaces(text)
    plain = unquote_plus if root.findtext("EncodingType") == "url" else str
    objects = [
        ListedObject(
            plain(found.findtext("Key", "")),
            int(found.findtext("Size", "0")),
            moment(found.findtext("LastModified", "")),
            etag(found.findtext("ETag")),
        )
        for found in root.iter("Contents")
    ]
    prefixes = [plain(found.findtext("Prefix", "")) for found in root.iter("CommonPrefixes")]
    if root.findtext("IsTruncated") != "true":
        return Page(objects, prefixes, "")
    last = plain(root.findtext("NextMarker", ""))
    return Page(objects, prefixes, last or max([*prefixes, *(found.key for found in objects)], default=""))


@_readable()
def buckets(text: bytes) -> list[tuple[str, float]]:
    """The names of buckets, and since when they exist."""
    root = _without_namespaces(text)
    return [(found.findtext("Name", ""), moment(found.findtext("CreationDate", ""))) for found in root.iter("Bucket")]


@_readable()
def refusals(text: bytes) -> list[tuple[str, str]]:
    """The keys that could not be deleted, each with its reason."""
    root = _without_namespaces(text)
    return [(found.findtext("Key", ""), found.findtext("Message", "")) for found in root.iter("Error")]


@_readable()
def upload_id(text: bytes) -> str:
    """The name of an upload in parts that was begun."""
    return _without_namespaces(text).findtext("UploadId", "")


@_readable()
def completed(text: bytes, shown: str, access: Access) -> str:
    """The ETag of a completed upload. Raises StorageError for an error in the body, which some stores send with status 200."""
    root = _without_namespaces(text)
    if root.tag == "Error":
        raise failure(500, text.decode("utf-8", "replace"), shown, access, "POST")
    return etag(root.findtext("ETag"))


def http_date(text: str | None) -> float | None:
    """The time of a header such as Last-Modified; None where there is none."""
    found = _HTTP_DATE.fullmatch(text or "")
    if not found:
        return None
    day, month, year, clock = found.groups()
    try:
        return moment(f"{year}-{MONTHS.index(month) + 1:02}-{day}T{clock}")
    except ValueError:
        return None


def retry_after(text: str | None) -> float:
    """The seconds that a busy server asks to wait; 0 where it does not."""
    return float(text) if text and text.isascii() and text.isdigit() else 0.0


def moment(text: str) -> float:
    """A time such as 2026-11-15T10:25:44.963Z, to the millisecond."""
    found = _ISO_DATE.fullmatch(text)
    if not found:
        return 0.0
    return datetime.fromisoformat(found.group(1) + "+00:00").timestamp() + float(found.group(2) or 0)


def _without_namespaces(text: bytes) -> Element:
    from xml.etree import ElementTree  # here, because copying one file does without

    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root
