"""XML of responses and requests, as S3 clients write and read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from muster.server.store.accounts import Bucket
from muster.server.store.errors import StoreError
from muster.server.store.uploads import MOST_PARTS, Part, Upload
from muster.storage.served import wire

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
MOST_DELETED = 1000


def document(name: str, inner: str) -> str:
    return f'<{name} xmlns="{NAMESPACE}">{inner}</{name}>'


def tag(name: str, value: object) -> str:
    return f"<{name}>{text(str(value))}</{name}>"


def text(value: str) -> str:
    """A text for XML; carriage returns would otherwise be read as line feeds."""
    return escape(value, {"\r": "&#13;"})


def url(value: str) -> str:
    return quote(value, safe="/-_.~")


def error(code: str, message: str, resource: str, request: str) -> str:
    inner = tag("Code", code) + tag("Message", message) + tag("Resource", resource) + tag("RequestId", request)
    return f"<Error>{inner}{tag('HostId', 'muster')}</Error>"


def buckets(owner: str, found: Sequence[Bucket]) -> str:
    rows = "".join(
        f"<Bucket>{tag('Name', one.name)}{tag('CreationDate', wire.iso_date(one.created))}</Bucket>" for one in found
    )
    return document("ListAllMyBucketsResult", f"<Owner>{tag('ID', owner)}</Owner><Buckets>{rows}</Buckets>")


def parts(upload: Upload, page: Sequence[Part], after: int, most: int, more: bool) -> str:
    rows = "".join(
        f"<Part>{tag('PartNumber', part.number)}{tag('LastModified', wire.iso_date(part.mtime))}"
        f"{tag('ETag', quoted(part.etag))}{tag('Size', part.size)}</Part>"
        for part in page
    )
    following = page[-1].number if page else after
    head = tag("Bucket", upload.bucket) + tag("Key", upload.key) + tag("UploadId", upload.id) + tag("PartNumberMarker", after)
    head += tag("NextPartNumberMarker", following) + tag("MaxParts", most) + tag("IsTruncated", str(more).lower())
    return document("ListPartsResult", head + rows)


def quoted(etag: str) -> str:
    return f'"{etag}"'


def parse(data: bytes) -> ElementTree.Element:
    """The XML of a request. Raises StoreError for anything else."""
    try:
        return wire.parse_xml(data)
    except ValueError:
        raise StoreError("MalformedXML", "the body is not plain XML") from None


def completed_parts(root: ElementTree.Element) -> list[tuple[int, str]]:
    """Numbers and ETags of the parts of an object."""
    found = list(islice(root.iter("Part"), MOST_PARTS + 1))
    if len(found) > MOST_PARTS:
        raise StoreError("InvalidArgument", f"an object has at most {MOST_PARTS} parts")
    return [(_number(part.findtext("PartNumber", "")), part.findtext("ETag", "").strip().strip('"').lower()) for part in found]


def _number(value: str) -> int:
    value = value.strip()
    if not (value.isascii() and value.isdigit() and len(value) < 7):
        raise StoreError("MalformedXML", "the number of a part is not a number")
    return int(value)


@dataclass(frozen=True)
class Deleted:
    """An object of a batch; `unknown` is what is said of it that cannot be heeded."""

    key: str
    etag: str | None
    unknown: str


def deleted(root: ElementTree.Element) -> tuple[list[Deleted], bool]:
    """The objects of a batch, and True if only those that could not be deleted are asked for."""
    found = list(islice(root.iter("Object"), MOST_DELETED + 1))
    if not 0 < len(found) <= MOST_DELETED:
        raise StoreError("MalformedXML", f"a batch has 1 to {MOST_DELETED} objects")
    return list(map(_deleted, found)), root.findtext("Quiet", "").strip().lower() == "true"


def _deleted(one: ElementTree.Element) -> Deleted:
    plain = one.findtext("VersionId", "null").strip() in ("", "null")
    unknown = [child.tag for child in one if child.tag not in ("Key", "ETag") and not (child.tag == "VersionId" and plain)]
    return Deleted(one.findtext("Key", ""), one.findtext("ETag"), unknown[0][:40] if unknown else "")
