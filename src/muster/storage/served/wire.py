"""What two S3 servers write and read alike: dates, and XML of clients within bounds."""

from __future__ import annotations

import time
from xml.etree import ElementTree

from muster.storage.s3.responses import MONTHS

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def iso_date(moment: float) -> str:
    """A time to the millisecond, rounded down as its reader does."""
    milliseconds = int(moment * 1000 + 1e-3)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000)) + f".{milliseconds % 1000:03}Z"


def http_date(moment: float) -> str:
    """A time as in Last-Modified."""
    found = time.gmtime(moment)
    return f"{_DAYS[found.tm_wday]}, {found.tm_mday:02} {MONTHS[found.tm_mon - 1]} {time.strftime('%Y %H:%M:%S', found)} GMT"


def parse_xml(text: bytes) -> ElementTree.Element:
    """The XML of a client, without namespaces. Raises ValueError for entities, which could grow without an end, too."""
    if b"<!" in text or b"\0" in text:
        raise ValueError("not plain XML")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, LookupError, RecursionError):
        raise ValueError("not plain XML") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root
