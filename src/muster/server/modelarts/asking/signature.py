"""Checks requests that were signed with SDK-HMAC-SHA256, as the SDKs of ModelArts sign theirs. Pure: a request in, a key out.

What is signed is what the server goes on to read: the path and the query are encoded again from what they mean here, and the
hash of the body is that of the bytes that came.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qsl, quote, unquote

ALGORITHM = "SDK-HMAC-SHA256"
SKEW = 15 * 60.0
UNSIGNED = "UNSIGNED-PAYLOAD"
DATE, HASH, TOKEN = "x-sdk-date", "x-sdk-content-sha256", "x-security-token"
NEEDED = ("host", DATE)  # headers without which a signature would fit other servers and other times
_STAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_FIELD = re.compile(r"(Access|SignedHeaders|Signature)=([^,\s]+)")
_HEX = re.compile(r"[0-9a-f]{64}")


class BadSignature(Exception):
    """A request that nobody signed, or that was changed since; the text says what is wrong with it."""


@dataclass(frozen=True)
class Signed:
    """A request as it came."""

    method: str
    path: str  # as on the request line, without the query
    query: str
    headers: Sequence[tuple[str, str]]  # names in lower case
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header. Raises BadSignature where it came twice: nobody knows which one was meant."""
        found = [value for key, value in self.headers if key == name]
        if len(found) > 1:
            raise BadSignature(f"the header {name} is there twice; send it once")
        return found[0].strip() if found else None


@dataclass(frozen=True)
class Claim:
    """What a request says of its signature."""

    access_key: str
    names: tuple[str, ...]  # of the headers that are signed
    signature: str
    stamp: str


def is_signed(request: Signed) -> bool:
    return any(key == "authorization" and value.startswith(ALGORITHM) for key, value in request.headers)


def authenticate(request: Signed, secret_of: Callable[[str], str | None], now: float) -> str:
    """The access key that signed a request; `secret_of` knows the secrets. Raises BadSignature."""
    claim = claimed(request)
    _check_moment(claim.stamp, now)
    if request.header(TOKEN) is not None:
        raise BadSignature("there are no temporary keys here; send no X-Security-Token")
    usable = claim.access_key.isascii() and len(claim.access_key) <= 128
    secret = secret_of(claim.access_key) if usable else None
    if secret is None:
        raise BadSignature("there is no such access key, or it was revoked; `muster keys add` makes one")
    if not hmac.compare_digest(signature(request, claim, secret).encode(), claim.signature.encode()):
        hint = "check the secret key, and that no proxy changes Host, User-Agent or the path"
        raise BadSignature(f"the signature is not that of this request; {hint}")
    return claim.access_key


def claimed(request: Signed) -> Claim:
    """Reads what the headers say. Raises BadSignature."""
    kind, _, rest = (request.header("authorization") or "").partition(" ")
    fields = dict(_FIELD.findall(rest))
    if kind != ALGORITHM or len(fields) != 3:
        raise BadSignature(f"the signature is none of {ALGORITHM}; it has Access, SignedHeaders and Signature")
    names = tuple(fields["SignedHeaders"].split(";"))
    stamp = request.header(DATE) or ""
    if missing := [name for name in NEEDED if name not in names]:
        raise BadSignature(f"the header {missing[0]} is not signed; sign at least {' and '.join(NEEDED)}")
    own = [key for key, _ in request.headers if key.startswith("x-sdk-") or key == "x-project-id"]
    if unsigned := [name for name in own if name not in names]:
        raise BadSignature(f"the header {unsigned[0]} is not signed; sign all that begin with x-sdk-, and x-project-id")
    if not _HEX.fullmatch(fields["Signature"]):
        raise BadSignature("the signature is not a hexadecimal number of 64 digits")
    return Claim(fields["Access"], names, fields["Signature"], stamp)


def signature(request: Signed, claim: Claim, secret: str) -> str:
    """The signature that a secret gives a request."""
    lines = "".join(f"{name}:{_value(request, name)}\n" for name in sorted(claim.names))
    parts = (request.method.upper(), _path(request.path), _query(request.query), lines, ";".join(sorted(claim.names)))
    canonical = "\n".join((*parts, _body_hash(request)))
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    return hmac.digest(secret.encode(), f"{ALGORITHM}\n{claim.stamp}\n{digest}".encode(), "sha256").hex()


def _value(request: Signed, name: str) -> str:
    value = request.header(name)
    if value is None:
        raise BadSignature(f"the header {name[:80]} is signed and did not come; a proxy may have taken it away")
    return value


def _path(path: str) -> str:
    found = "/".join(
        quote(part, safe="~", errors="surrogateescape") for part in unquote(path, errors="surrogateescape").split("/")
    )
    return found if found.endswith("/") else found + "/"


def _query(query: str) -> str:
    pairs = sorted(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))
    return "&".join("=".join(quote(text, safe="~", errors="surrogateescape") for text in pair) for pair in pairs)


def _body_hash(request: Signed) -> str:
    found = hashlib.sha256(request.body).hexdigest()
    said = request.header(HASH)
    if not request.body or said is None:
        return found
    if said != UNSIGNED and said != found:
        raise BadSignature(f"{HASH} is not the hash of the body that came; a proxy may have changed it")
    return said


def _check_moment(stamp: str, now: float) -> None:
    try:
        moment = datetime.strptime(stamp + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp() if _STAMP.fullmatch(stamp) else None
    except ValueError:
        moment = None
    if moment is None:
        raise BadSignature("X-Sdk-Date is no date such as 20260131T120000Z; sign the request with one")
    if abs(moment - now) > SKEW:
        raise BadSignature("the clocks differ by more than 15 minutes; set the one of the client")
