"""The content of a request: its body decoded piece by piece, and checked by whatever the client sent to check it with.

Nothing of it may be stored before the end was read without an error.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from muster.server.store.errors import StoreError
from muster.server.store.protocol import signatures
from muster.server.store.protocol.http import BUFFER, Body, ChunkedBody
from muster.server.store.protocol.signatures import Caller, ChunkSigner

_CHUNK = re.compile(rb"([0-9a-fA-F]{1,10})(?:;chunk-signature=([0-9a-f]{64}))?")
MOST_TRAILERS = 16
Piece = memoryview


class _Sum(Protocol):
    def update(self, data: Piece, /) -> None: ...
    def digest(self) -> bytes: ...


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Piece) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


# The checksums of the standard library; others (crc32c, crc64nvme) are not looked at.
CHECKSUMS: dict[str, Callable[[], _Sum]] = {"crc32": _Crc32, "sha1": hashlib.sha1, "sha256": hashlib.sha256}


def length(headers: dict[str, str], body: Body) -> int | None:
    """The size of the content; None where it is not known. Raises StoreError where it has to be."""
    text = headers.get("x-amz-decoded-content-length")
    if text is not None:
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise StoreError("InvalidArgument", "x-amz-decoded-content-length is not a number")
        return int(text)
    return None if isinstance(body, ChunkedBody) else body.left


def pieces(headers: dict[str, str], body: Body, caller: Caller) -> Iterator[Piece]:
    """Yields the content; each piece is good until the next. Raises StoreError at the end of one that is not as announced."""
    trailers: dict[str, str] = {}
    content = _decoded(body, caller, trailers)
    sums = _expected(headers, caller)
    wanted = [name.strip().lower() for name in headers.get("x-amz-trailer", "").split(",") if name.strip()]
    trailing = {
        name: made() for name, made in ((name, CHECKSUMS.get(name.removeprefix("x-amz-checksum-"))) for name in wanted) if made
    }
    announced, received = length(headers, body), 0
    for piece in content:
        received += len(piece)
        if announced is not None and received > announced:
            raise StoreError("IncompleteBody", "the body is longer than it said; send it again")
        for found, _, _ in sums:
            found.update(piece)
        for late in trailing.values():
            late.update(piece)
        yield piece
    if announced is not None and received != announced:
        raise StoreError("IncompleteBody", "the body is shorter than it said; send it again")
    for found, expected, code in sums:
        if not hmac.compare_digest(found.digest(), expected):
            raise StoreError(code, "the content does not have the checksum that was sent with it; send it again")
    for name, late in trailing.items():
        if _base64(trailers.get(name, ""), len(late.digest())) != late.digest():
            raise StoreError("BadDigest", "the content does not have the checksum that was sent behind it; send it again")


def _expected(headers: dict[str, str], caller: Caller) -> list[tuple[_Sum, bytes, str]]:
    """Sums to compute, with what they have to be and the code for those that are not."""
    found: list[tuple[_Sum, bytes, str]] = []
    if signatures.SHA256.fullmatch(caller.payload):
        found.append((hashlib.sha256(), bytes.fromhex(caller.payload), "XAmzContentSHA256Mismatch"))
    if "content-md5" in headers:
        found.append((hashlib.md5(usedforsecurity=False), _base64(headers["content-md5"], 16), "BadDigest"))
    for name, made in CHECKSUMS.items():
        if (text := headers.get(f"x-amz-checksum-{name}")) is not None:
            sum = made()
            found.append((sum, _base64(text, len(sum.digest())), "BadDigest"))
    return found


def _base64(text: str, size: int) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != size:
        raise StoreError("InvalidDigest", "a checksum of the content is not one")
    return found


def _decoded(body: Body, caller: Caller, trailers: dict[str, str]) -> Iterator[Piece]:
    if caller.payload == signatures.CHUNKS:
        return _chunks(body, caller.signer, None)
    if caller.payload == signatures.CHUNKS_TRAILER:
        return _chunks(body, caller.signer, trailers)
    if caller.payload == signatures.UNSIGNED_TRAILER:
        return _chunks(body, None, trailers)
    return _plain(body)


def _plain(body: Body) -> Iterator[Piece]:
    while piece := body.read(BUFFER):
        yield piece


def _chunks(body: Body, signer: ChunkSigner | None, trailers: dict[str, str] | None) -> Iterator[Piece]:
    """The chunks of a body (aws-chunked); with a signer each is checked at its end."""
    previous = signer.seed if signer else ""
    while True:
        match = _CHUNK.fullmatch(body.line())
        if not match or (signer and not match[2]):
            raise StoreError("IncompleteBody", "the chunks of the body are not well formed; send it again")
        left = size = int(match[1], 16)
        digest = hashlib.sha256()
        while left:
            piece = body.read(min(left, BUFFER))
            if not piece:
                raise StoreError("IncompleteBody", "the body ends within a chunk; send it again")
            left -= len(piece)
            if signer:
                digest.update(piece)
            yield piece
        if signer:
            previous = _checked(signer.chunk(previous, digest.hexdigest()), match[2])
        if not size:
            break
        if body.line():
            raise StoreError("IncompleteBody", "a chunk of the body is longer than it said; send it again")
    if trailers is None:
        if body.line():
            raise StoreError("IncompleteBody", "something follows the last chunk of the body")
    else:
        _read_trailers(body, signer, previous, trailers)
    if body.read(1):
        raise StoreError("IncompleteBody", "something follows the last chunk of the body")


def _read_trailers(body: Body, signer: ChunkSigner | None, previous: str, trailers: dict[str, str]) -> None:
    signed = b""
    while line := body.line():
        name, _, value = line.partition(b":")
        text = name.decode("latin-1").lower()
        trailers[text] = value.strip().decode("latin-1")
        if len(trailers) > MOST_TRAILERS:
            raise StoreError("IncompleteBody", "too many lines follow the body")
        if text != "x-amz-trailer-signature":
            signed += line.strip() + b"\n"
    if signer:
        digest = hashlib.sha256(signed).hexdigest()
        _checked(signer.trailer(previous, digest), trailers.get("x-amz-trailer-signature", "").encode("latin-1"))


def _checked(expected: str, found: bytes) -> str:
    if not hmac.compare_digest(expected.encode(), found):
        raise StoreError("SignatureDoesNotMatch", "a chunk of the body does not have the signature that was sent with it")
    return expected
