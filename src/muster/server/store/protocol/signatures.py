"""Checks who signed a request: AWS4-HMAC-SHA256, "AWS" and "OBS" with HMAC-SHA1, each in a header or in the query.

A signature covers method, path and, with version 4, the host; every header of the store's own (x-amz-, x-obs-) must be part of
it. Headers of the other kind are not looked at.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from muster.server.store.errors import StoreError
from muster.server.store.protocol.request import Request
from muster.storage.s3.responses import http_date

SKEW = 15 * 60.0
LONGEST = 7 * 86400  # seconds for which a presigned address may be good
V4 = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SHA256 = re.compile(r"[0-9a-f]{64}")
_STAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_FIELD = re.compile(r"(Credential|SignedHeaders|Signature)=([^,\s]+)")
# Parameters that are part of what HMAC-SHA1 signs, in lower case: those of S3, and those that only OBS knows.
SUBRESOURCES = frozenset(
    "accelerate acl analytics append cors defaultobjectacl delete encryption inventory legal-hold length lifecycle location "
    "logging metadata metrics modify name notification object-lock partnumber policy position quota rename replication "
    "requestpayment response-cache-control response-content-disposition response-content-encoding response-content-language "
    "response-content-type response-expires restore retention select select-type storageclass storageinfo storagepolicy "
    "tagging torrent truncate uploadid uploads versionid versioning versions website".split()
)
FindKey = Callable[[str], "tuple[str, Any] | None"]


@dataclass(frozen=True)
class ChunkSigner:
    """Signs the chunks of a body, each with the signature of the one before."""

    key: bytes
    stamp: str
    scope: str
    seed: str

    def chunk(self, previous: str, digest: str) -> str:
        empty = hashlib.sha256(b"").hexdigest()
        return _hex(self.key, "\n".join((f"{V4}-PAYLOAD", self.stamp, self.scope, previous, empty, digest)))

    def trailer(self, previous: str, digest: str) -> str:
        return _hex(self.key, "\n".join((f"{V4}-TRAILER", self.stamp, self.scope, previous, digest)))


@dataclass(frozen=True)
class Caller:
    """Who signed. `prefix` is that of the headers which count; `payload` says how the body is signed."""

    principal: Any
    prefix: str
    payload: str
    signer: ChunkSigner | None = None


def authenticate(request: Request, find_key: FindKey, now: float) -> Caller:
    """The caller of a request. Raises StoreError for a request without a valid signature."""
    text = request.headers.get("authorization", "")
    if text.startswith(V4):
        return _v4_header(request, text, find_key, now)
    if text.startswith(("AWS ", "OBS ")):
        return _hmac_header(request, text, find_key, now)
    if text:
        raise StoreError("AuthorizationHeaderMalformed", f"sign with {V4}, AWS or OBS")
    if "X-Amz-Algorithm" in request.query:
        return _v4_query(request, find_key, now)
    if "Signature" in request.query:
        return _hmac_query(request, find_key, now)
    raise StoreError("AccessDenied", "the request is not signed; give an access key and its secret")


# -- version 4


def _v4_header(request: Request, text: str, find_key: FindKey, now: float) -> Caller:
    fields = dict(_FIELD.findall(text))
    if len(fields) != 3:
        raise StoreError("AuthorizationHeaderMalformed", "a signature has Credential, SignedHeaders and Signature")
    stamp = _stamp(request.headers)
    _check_skew(_moment(stamp), now)
    payload = request.headers.get("x-amz-content-sha256", "")
    known = payload in (UNSIGNED, CHUNKS, CHUNKS_TRAILER, UNSIGNED_TRAILER)
    if not known and not SHA256.fullmatch(payload):
        raise StoreError("InvalidRequest", "x-amz-content-sha256 is missing, or is none that is known here")
    return _v4_check(request, fields, stamp, payload, (), find_key)


def _v4_query(request: Request, find_key: FindKey, now: float) -> Caller:
    query = request.query
    stamp, expires = query.get("X-Amz-Date", ""), query.get("X-Amz-Expires", "")
    number = int(expires) if expires.isascii() and expires.isdigit() and len(expires) < 9 else 0
    if query["X-Amz-Algorithm"] != V4 or not _STAMP.fullmatch(stamp) or not 0 < number <= LONGEST:
        raise StoreError(
            "AuthorizationQueryParametersError", f"a signed address has {V4}, a date and at most {LONGEST} seconds"
        )
    begins = _moment(stamp)
    if begins - now > SKEW:
        raise StoreError("AccessDenied", "the address is not valid yet; check the clocks")
    if now > begins + number:
        raise StoreError("AccessDenied", "the address has expired; sign it again")
    names = {"Credential": "X-Amz-Credential", "SignedHeaders": "X-Amz-SignedHeaders", "Signature": "X-Amz-Signature"}
    fields = {name: query.get(there, "") for name, there in names.items()}
    payload = query.get("X-Amz-Content-Sha256") or request.headers.get("x-amz-content-sha256") or UNSIGNED
    if payload != UNSIGNED and not SHA256.fullmatch(payload):
        raise StoreError("InvalidRequest", "the body of a signed address comes whole")
    return _v4_check(request, fields, stamp, payload, ("X-Amz-Signature",), find_key)


def _v4_check(
    request: Request, fields: dict[str, str], stamp: str, payload: str, left_out: tuple[str, ...], find_key: FindKey
) -> Caller:
    access_key, _, scope = fields["Credential"].partition("/")
    parts = scope.split("/")
    if len(parts) != 4 or parts[0] != stamp[:8] or parts[2:] != ["s3", "aws4_request"]:
        raise StoreError(
            "AuthorizationHeaderMalformed", "the scope of a signature is DAY/REGION/s3/aws4_request, of the same day"
        )
    listed = fields["SignedHeaders"].split(";")
    headers = request.headers
    unsigned = [name for name in headers if name.startswith("x-amz-") and name not in listed]
    if "host" not in listed or any(name != "x-amz-content-sha256" for name in unsigned):
        raise StoreError("AccessDenied", "headers that must be signed are not; sign host and all that begin with x-amz-")
    secret, principal = _find(access_key, find_key)
    lines = "".join([f"{name}:{' '.join(headers.get(name, '').split())}\n" for name in listed])
    rest = f"{_canonical_query(request, left_out)}\n{lines}\n{fields['SignedHeaders']}\n{payload}"
    key = _signing_key(secret, parts[0], parts[1])
    for path in dict.fromkeys((request.path, quote(unquote(request.path), safe="/-_.~"))):
        digest = hashlib.sha256(f"{request.method}\n{path}\n{rest}".encode("latin-1")).hexdigest()
        found = _hex(key, "\n".join((V4, stamp, scope, digest)))
        if hmac.compare_digest(found.encode(), fields["Signature"].encode("latin-1", "replace")):
            _refuse_token(request)
            return Caller(principal, "x-amz-", payload, ChunkSigner(key, stamp, scope, found))
    raise _mismatch()


def _canonical_query(request: Request, left_out: tuple[str, ...]) -> str:
    if not request.pairs:
        return ""
    encoded = [(quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.pairs if name not in left_out]
    return "&".join([f"{name}={value}" for name, value in sorted(encoded)])


def _stamp(headers: dict[str, str]) -> str:
    """The date of a signature; clients of OBS send it as Date alone."""
    text = headers.get("x-amz-date") or headers.get("date", "")
    if _STAMP.fullmatch(text):
        return text
    moment = http_date(text)
    if moment is None:
        raise StoreError("AccessDenied", "the request has no valid date; send x-amz-date or Date")
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment))


@lru_cache(maxsize=64)
def _moment(stamp: str) -> float:
    try:
        return datetime.strptime(stamp + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
    except ValueError:
        raise StoreError("AccessDenied", "the request has no valid date; send x-amz-date or Date") from None


@lru_cache(maxsize=256)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for word in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, word.encode("latin-1"), "sha256")
    return key


def _hex(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode("latin-1"), "sha256").hex()


# -- HMAC-SHA1


def _hmac_header(request: Request, text: str, find_key: FindKey, now: float) -> Caller:
    kind, _, rest = text.partition(" ")
    prefix = "x-amz-" if kind == "AWS" else "x-obs-"
    access_key, _, signature = rest.strip().rpartition(":")
    stamped = request.headers.get(f"{prefix}date")
    date = stamped or request.headers.get("date", "")
    moment = _moment(date) if _STAMP.fullmatch(date) else http_date(date)
    if moment is None:
        raise StoreError("AccessDenied", f"the request has no valid date; send {prefix}date or Date")
    _check_skew(moment, now)
    return _hmac_check(request, prefix, access_key, signature, "" if stamped else date, find_key)


def _hmac_query(request: Request, find_key: FindKey, now: float) -> Caller:
    query = request.query
    prefix, access_key = (
        ("x-amz-", query["AWSAccessKeyId"]) if "AWSAccessKeyId" in query else ("x-obs-", query.get("AccessKeyId", ""))
    )
    expires = query.get("Expires", "")
    if not (expires.isascii() and expires.isdigit() and len(expires) < 13):
        raise StoreError("AuthorizationQueryParametersError", "a signed address has Expires, in seconds since 1970")
    if now > int(expires):
        raise StoreError("AccessDenied", "the address has expired; sign it again")
    return _hmac_check(request, prefix, access_key, query["Signature"], expires, find_key)


def _hmac_check(request: Request, prefix: str, access_key: str, signature: str, date: str, find_key: FindKey) -> Caller:
    secret, principal = _find(access_key, find_key)
    headers = request.headers
    own = "".join([f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith(prefix)])
    first = f"{request.method}\n{headers.get('content-md5', '')}\n{headers.get('content-type', '')}\n{date}\n{own}"
    path = f"/{request.bucket}{request.path}" if request.virtual else request.path
    bare = path.rstrip("/") or "/"
    for resource in (path,) if request.key else dict.fromkeys((path, bare, f"{bare}/")):
        text = first + resource + _subresources(request, prefix)
        found = base64.b64encode(hmac.digest(secret.encode(), text.encode("utf-8", "surrogateescape"), "sha1"))
        if hmac.compare_digest(found, signature.encode("latin-1", "replace")):
            _refuse_token(request)
            return Caller(principal, prefix, _hmac_payload(request, prefix))
    raise _mismatch()


def _hmac_payload(request: Request, prefix: str) -> str:
    """How the body comes, of a signature that does not cover it."""
    payload = request.headers.get("x-amz-content-sha256", UNSIGNED) if prefix == "x-amz-" else UNSIGNED
    if payload in (UNSIGNED, UNSIGNED_TRAILER) or SHA256.fullmatch(payload):
        return payload
    raise StoreError("InvalidRequest", f"chunks of a body are signed with {V4} alone")


def _subresources(request: Request, prefix: str) -> str:
    signed = sorted(
        (name, value) for name, value in request.pairs if name.lower() in SUBRESOURCES or name.lower().startswith(prefix)
    )
    text = "&".join(f"{name}={value}" if value else name for name, value in signed)
    return f"?{text}" if text else ""


# -- both


def _find(access_key: str, find_key: FindKey) -> tuple[str, Any]:
    found = find_key(access_key) if access_key.isascii() and len(access_key) <= 128 else None
    if found is None:
        raise StoreError("InvalidAccessKeyId", "there is no such access key, or it was revoked; create another")
    return found


def _check_skew(moment: float, now: float) -> None:
    if abs(moment - now) > SKEW:
        raise StoreError("RequestTimeTooSkewed", "the clocks differ by more than 15 minutes; set the one of the client")


def _refuse_token(request: Request) -> None:
    if "x-amz-security-token" in request.headers or "X-Amz-Security-Token" in request.query:
        raise StoreError("InvalidToken", "there are no temporary keys here; send no security token")


def _mismatch() -> StoreError:
    return StoreError("SignatureDoesNotMatch", "the signature is not that of this request; check the secret of the access key")
