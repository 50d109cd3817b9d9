"""Addresses of objects in the server's store that anybody can read for a while, signed with AWS4-HMAC-SHA256."""

from __future__ import annotations

import hashlib
import hmac
import time
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"


def get_url(store: str, bucket: str, key: str, access_key: str, secret: str, seconds: int, now: float) -> str:
    """The address of an object, for so many seconds."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    scope = f"{stamp[:8]}/default/s3/aws4_request"
    path = "/" + quote(f"{bucket}/{key}", safe="/-_.~")
    fields = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    query = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(fields.items()))
    canonical = "\n".join(("GET", path, query, f"host:{urlsplit(store).netloc}\n", "host", "UNSIGNED-PAYLOAD"))
    signed = "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    secret_key = ("AWS4" + secret).encode()
    for word in scope.split("/"):
        secret_key = hmac.digest(secret_key, word.encode(), "sha256")
    return f"{store.rstrip('/')}{path}?{query}&X-Amz-Signature={hmac.digest(secret_key, signed.encode(), 'sha256').hex()}"
