"""The MD5 sums by which S3 stores name what they hold (ETag), computed here to compare."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import BinaryIO

BLOCK = 1 << 20
PART = 8 << 20
MOST_PARTS = 5000  # stores take 10,000
SUMMED_MOST = 256 << 20  # one sum over more takes longer than moving it
_PLAIN = re.compile(r"[0-9a-f]{32}")
_PARTS = re.compile(r"[0-9a-f]{32}-([0-9]+)")


def part_size(size: int) -> int:
    """The size of the parts of an upload: a function of the file size, so that its ETag can be computed again."""
    part = PART
    while size > part * MOST_PARTS:
        part *= 2
    return part


def is_plain(etag: str) -> bool:
    """True if an ETag has the form of the MD5 sum of a whole object."""
    return _PLAIN.fullmatch(etag) is not None


def of_parts(etags: Sequence[str]) -> str:
    """The ETag of an object in parts; empty where the ETags of its parts are no checksums."""
    if not all(map(is_plain, etags)):
        return ""
    return f"{hashlib.md5(b''.join(map(bytes.fromhex, etags))).hexdigest()}-{len(etags)}"


def matches(path: str, size: int, etag: str) -> bool:
    """True if the ETag is the checksum of a local file; False also for ETags that are no checksums."""
    parts = _PARTS.fullmatch(etag)
    if not is_plain(etag) and not parts:
        return False
    with open(path, "rb") as file:
        if not parts:
            return _md5(file, size).hexdigest() == etag
        part = part_size(size)
        count = -(-size // part)
        if count != int(parts.group(1)):
            return False
        return of_parts([_md5(file, part).hexdigest() for _ in range(count)]) == etag


def _md5(file: BinaryIO, size: int) -> hashlib._Hash:
    found = hashlib.md5()
    while size > 0 and (block := file.read(min(BLOCK, size))):
        found.update(block)
        size -= len(block)
    return found
