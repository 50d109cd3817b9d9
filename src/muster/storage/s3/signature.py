"""Signatures of S3 requests (AWS signature version 4): a pure function of the request, the keys and the time."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

from muster.storage.settings import Access


def quoted(key: str) -> str:
    """A key as it stands in the path of a request; every other byte is encoded, as the signature demands."""
    return quote(key, safe="/-_.~")


def query(parameters: Mapping[str, str]) -> str:
    """The parameters of a request in the order in which they are signed."""
    return "&".join(
        "{}={}".format(quote(name, safe="-_.~"), quote(parameters[name], safe="-_.~")) for name in sorted(parameters)
    )


def signed(
    access: Access, method: str, host: str, path: str, query: str, headers: Mapping[str, str], digest: str, now: float
) -> dict[str, str]:
    """The headers of a request with its signature among them; without keys the request stays anonymous."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    complete = {name.lower(): value for name, value in headers.items()}
    complete.update({"host": host, "x-amz-date": stamp, "x-amz-content-sha256": digest})
    if access.token:
        complete["x-amz-security-token"] = access.token
    if not access.access_key:
        return complete
    names = sorted(complete)
    listed = ";".join(names)
    lines = "".join(["{}:{}\n".format(name, " ".join(complete[name].split())) for name in names])
    request = "\n".join((method, path, query, lines, listed, digest))
    scope = f"{stamp[:8]}/{access.region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    found = hmac.digest(_signing_key(access.secret_key, stamp[:8], access.region), text.encode(), "sha256").hex()
    complete["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={access.access_key}/{scope}, SignedHeaders={listed}, Signature={found}"
    )
    return complete


@lru_cache(maxsize=16)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for word in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    return key
