"""Headers between a browser and what a job serves: neither sees secrets of the other side, nor of the server."""

from collections.abc import Iterable
from http import HTTPStatus

Headers = list[tuple[bytes, bytes]]

HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
FORWARDED = {b"forwarded", b"via", b"x-real-ip"}
# Of a job they would say something of more than its own origin, or of the connection to the server.
NOT_FOR_JOBS = {b"clear-site-data", b"strict-transport-security", b"alt-svc", b"public-key-pins"}
TOKEN = b"x-muster-token"
PHRASES = {status.value: status.phrase for status in HTTPStatus}
COOKIE, SECURE_COOKIE = "muster-endpoint", "__Host-muster-endpoint"
OWN = (b"muster", b"__host-muster", COOKIE.encode(), SECURE_COOKIE.lower().encode())  # cookies that no job sees or sets


def value(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The value of a header that comes once; None where it is missing or comes several times."""
    found = [text for key, text in headers if key.lower() == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """The value of a cookie; nothing where there is none, or several of the name."""
    pairs = [part for key, text in headers if key.lower() == b"cookie" for part in text.split(b";")]
    found = [text for key, _, text in (pair.strip().partition(b"=") for pair in pairs) if key == name.encode()]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def for_job(headers: Headers, kind: str, token: str, scheme: str) -> Headers:
    """The headers of a request as the job gets them: without cookies of the server, with the token of the endpoint."""
    dropped = {*HOP_BY_HOP, *FORWARDED, *_named_by_connection(headers)}
    kept: Headers = []
    for name, text in headers:
        low = name.lower()
        if low in dropped or low.startswith((b"x-muster-", b"x-forwarded-")):
            continue
        if low == b"cookie":
            text = b"; ".join(part.strip() for part in text.split(b";") if not _is_own(part.partition(b"=")[0]))
            if not text:
                continue
        if low == b"authorization" and kind == "jupyter":
            continue
        kept.append((name, text))
    host = next((text for name, text in headers if name.lower() == b"host"), b"")
    kept += [(b"x-forwarded-proto", scheme.encode()), (b"x-forwarded-host", host)]
    if token:
        kept.append((b"authorization", b"token " + token.encode()) if kind == "jupyter" else (TOKEN, token.encode()))
    return kept


def for_browser(headers: Headers) -> Headers:
    """The headers of an answer as the browser gets them: cookies are those of this origin alone."""
    dropped = {*HOP_BY_HOP, *NOT_FOR_JOBS, *_named_by_connection(headers)}
    kept: Headers = []
    for name, text in headers:
        low = name.lower()
        if low in dropped or low.startswith(b"x-muster-"):
            continue
        if low == b"set-cookie":
            if _is_own(text.partition(b"=")[0]):
                continue
            parts = [part for part in text.split(b";") if part.strip().partition(b"=")[0].strip().lower() != b"domain"]
            text = b";".join(parts)
        kept.append((name, text))
    return kept


def _is_own(name: bytes) -> bool:
    return name.strip().lower() in OWN


def _named_by_connection(headers: Headers) -> set[bytes]:
    """Headers that `Connection` says are for the next machine alone."""
    named = {part.strip().lower() for name, text in headers if name.lower() == b"connection" for part in text.split(b",")}
    return named - {b"cookie", b"host", b"content-length"}


def is_from_own_page(headers: Headers, origin: str, method: str) -> bool:
    """True if a request comes from a page of the same origin, or from a person who goes there.

    Endpoints of other runs are of the same site, so that SameSite does not keep their pages out.
    """
    given = value(headers, b"origin")
    site, mode = value(headers, b"sec-fetch-site"), value(headers, b"sec-fetch-mode")
    if given is not None and given != origin:
        return False
    if site in (None, "same-origin", "none"):
        return given is not None or method in ("GET", "HEAD", "OPTIONS")
    return method == "GET" and mode == "navigate" and value(headers, b"sec-fetch-dest") == "document"
