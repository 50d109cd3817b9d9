"""One request: what it asks for, whichever way its bucket is named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from muster.server.store.errors import StoreError
from muster.server.store.protocol.http import Head

MOST_PARAMETERS = 64
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Request:
    """A request. `path` and `pairs` (of the query) are as they were sent, but for percent-encoding in the pairs."""

    method: str
    path: str
    pairs: Sequence[tuple[str, str]]
    query: dict[str, str]
    headers: dict[str, str]
    bucket: str
    key: str
    virtual: bool  # the bucket stands in the name of the host


def parse(head: Head, domains: Sequence[str]) -> Request:
    """Takes a request apart. Raises StoreError for an address that names nothing."""
    path, _, text = head.target.partition("?")
    if not path.startswith("/") or _BAD_ESCAPE.search(head.target):
        raise StoreError("InvalidURI", "the address of the request is not a path")
    pairs = []
    for pair in text.split("&", MOST_PARAMETERS) if text else ():
        name, _, value = pair.partition("=")
        pairs.append((_decoded(name.replace("+", " ")), _decoded(value.replace("+", " "))))
    if len(pairs) > MOST_PARAMETERS:
        raise StoreError("InvalidURI", f"a query has at most {MOST_PARAMETERS} parameters")
    decoded = _decoded(path)[1:]
    host = head.headers.get("host", "").rpartition(":")[0] or head.headers.get("host", "")
    bucket = next((host[: -len(domain) - 1] for domain in domains if host.lower().endswith("." + domain)), "").lower()
    if bucket:
        return Request(head.method, path, pairs, dict(pairs), head.headers, bucket, decoded, True)
    bucket, _, key = decoded.partition("/")
    if len(_decoded(path[1:].partition("/")[0])) > len(bucket):  # no client sends this; what it names must be what is signed
        raise StoreError("InvalidURI", "the slash behind the name of a bucket is percent-encoded; write it as it is")
    return Request(head.method, path, pairs, dict(pairs), head.headers, bucket, key, False)


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise StoreError("InvalidURI", "the address of the request is not UTF-8") from None
