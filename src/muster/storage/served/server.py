"""The S3 server of a served store: HTTP in, files out. It has what Muster's own client asks for.

It is our own because servers from packages are on no machine that only submits jobs, and it asks for no keys: it listens at a
socket of the run's own, for the user of the run alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import socketserver
import struct
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from itertools import islice
from typing import BinaryIO
from urllib.parse import parse_qsl, quote_plus, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from muster.storage.errors import InvalidRequest, NotFound, StorageError, as_storage_error, from_os
from muster.storage.model import Progress
from muster.storage.s3 import checksum
from muster.storage.s3.responses import OF_SERVED
from muster.storage.served import wire
from muster.storage.served.objects import Listed, Objects
from muster.storage.served.parts import MOST_PARTS, Parts, written
from muster.storage.transfer import partial

PAGE = 1000  # keys of one answer
BLOCK = 1 << 20
MOST_XML = 8 << 20  # bytes of a request that is read whole
DRAINED = 64 << 20  # bytes of a body that are read although they are refused: else the client does not see why
IDLE = 3600.0  # seconds for which a connection may be silent
KEEP_ALIVE = 2.0  # seconds between two signs of life while parts are joined
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?")
_STATUS = {"NoSuchBucket": 404, "NoSuchKey": 404, "AccessDenied": 403, "InsufficientStorage": 507}  # of codes; others 409


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves a listening Unix socket, each connection in a thread of its own."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, objects: Objects, parts: Parts) -> None:
        socketserver.BaseServer.__init__(self, "", _Handler)
        self.socket = listener
        self.objects = objects
        self.parts = parts

    def verify_request(self, request: object, client_address: object) -> bool:
        assert isinstance(request, socket.socket)
        _, user, _ = struct.unpack("iII", request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return user in (os.getuid(), 0)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Stays silent: the client says what went wrong."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._head)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    # -- requests

    def _answer(self, action: Callable[[], None]) -> None:
        """Carries out a request; what goes wrong is an answer, too."""
        parts = urlsplit(self.path)
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.bucket, _, self.key = unquote(parts.path, errors="surrogateescape").lstrip("/").partition("/")
        length = self.headers.get("content-length", "0")
        self.left = int(length) if length.isascii() and length.isdigit() else 0  # of the body
        try:
            action()
        except StorageError as error:
            self._fail(error)
        except OSError as error:
            if isinstance(error, (ConnectionError, socket.timeout)):
                raise
            self._fail(from_os(error, f"{self.bucket}/{self.key}"))

    def _fail(self, error: StorageError) -> None:
        if self.left > DRAINED:
            self.close_connection = True
        else:
            for _ in self._body():
                pass
        code = _code(error)
        self._xml(_error(code, error), _STATUS.get(code, 409))

    def _get(self) -> None:
        if not self.bucket:
            self._buckets()
        elif "uploadId" in self.query:
            self.server.parts.find(self.bucket, self.key, self.query["uploadId"])
            self._xml("<ListPartsResult/>")
        elif not self.key:
            self._list()
        elif self._is_marker():
            self._head()
        else:
            with self.server.objects.open(self.bucket, self.key) as file:
                self._send_file(file)

    def _head(self) -> None:
        if self._is_marker():
            self._head_of(0, time.time(), hashlib.md5().hexdigest())
            return
        with self.server.objects.open(self.bucket, self.key) as file:
            info = os.fstat(file.fileno())
            self._head_of(info.st_size, info.st_mtime, _etag(info))

    def _is_marker(self) -> bool:
        """True for the key of a directory, which ends with a slash. Raises NotFound where there is none."""
        if not self.key.endswith("/"):
            return False
        if not self.server.objects.is_folder(self.bucket, self.key):
            raise NotFound(f"{self.bucket}/{self.key} is not there; check the name")
        return True

    def _put(self) -> None:
        objects = self.server.objects
        if "partNumber" in self.query:
            folder, _ = self.server.parts.find(self.bucket, self.key, self.query.get("uploadId", ""))
            self._stored(self.server.parts.store(folder, _number(self.query["partNumber"]), self._body()))
        elif "x-amz-copy-source" in self.headers:
            self._copy(unquote(self.headers["x-amz-copy-source"]))
        elif not self.key or self.key.endswith("/"):
            objects.make_folder(self.bucket, self.key)
            self._stored(hashlib.md5().hexdigest())
        else:
            store, path = objects.find(self.bucket, self.key, write=True)
            store.prepare(path)
            with partial.replacing(path, self._mtime()) as descriptor, os.fdopen(os.dup(descriptor), "wb") as file:
                digest = written(file, self._body())
            self._stored(digest)

    def _copy(self, source: str) -> None:
        bucket, _, key = source.lstrip("/").partition("/")
        here, src = self.server.objects.find(bucket, key)
        there, dst = self.server.objects.find(self.bucket, self.key, write=True)
        there.copy(here, src, dst, Progress())
        self._xml(f"<CopyObjectResult><ETag>{_etag(os.stat(dst))}</ETag></CopyObjectResult>")

    def _post(self) -> None:
        if "delete" in self.query:
            self._delete_many()
        elif "uploads" in self.query:
            self.server.objects.find(self.bucket, self.key, write=True)
            upload = self.server.parts.begin(self.bucket, self.key, self._mtime())
            self._xml(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>")
        elif "uploadId" in self.query:
            self._complete(self.query["uploadId"])
        else:
            raise InvalidRequest("this request is not known here")

    def _complete(self, upload: str) -> None:
        """Joins the parts of an object. Signs of life go first, for that may take a while; an error comes behind them."""
        folder, mtime = self.server.parts.find(self.bucket, self.key, upload)
        listed = [
            (_number(part.findtext("PartNumber", "")), part.findtext("ETag", "").strip('"').lower())
            for part in islice(self._parsed().iter("Part"), MOST_PARTS)
        ]
        store, path = self.server.objects.find(self.bucket, self.key, write=True)
        store.prepare(path)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(b"\n")
        try:
            with as_storage_error(store.url(path)), partial.replacing(path, mtime) as target:
                said = time.monotonic()
                for _ in self.server.parts.join(folder, listed, target):
                    if time.monotonic() - said > KEEP_ALIVE:
                        said = time.monotonic()
                        self._chunk(b"\n")
            self.server.parts.forget(folder)
            etag = checksum.of_parts([digest for _, digest in listed])
            answer = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        except StorageError as error:
            answer = _error(_code(error), error)
        self._chunk(answer.encode())
        self._chunk(b"")

    def _delete(self) -> None:
        if "uploadId" in self.query:
            self.server.parts.forget(self.server.parts.find(self.bucket, self.key, self.query["uploadId"])[0])
        else:
            self.server.objects.delete(self.bucket, self.key)
        self._empty(204)

    def _delete_many(self) -> None:
        keys = [found.findtext("Key", "") for found in islice(self._parsed().iter("Object"), PAGE)]
        refused = []
        for key in keys:
            try:
                self.server.objects.delete(self.bucket, key)
            except StorageError as error:
                refused.append(f"<Error><Key>{escape(key)}</Key><Message>{escape(str(error))}</Message></Error>")
        self._xml(f"<DeleteResult>{''.join(refused)}</DeleteResult>")

    # -- listings

    def _buckets(self) -> None:
        found = self.server.objects.buckets()
        entries = (
            f"<Bucket><Name>{escape(name)}</Name><CreationDate>{wire.iso_date(at)}</CreationDate></Bucket>"
            for name, at in found
        )
        self._xml(f"<ListAllMyBucketsResult><Buckets>{''.join(entries)}</Buckets></ListAllMyBucketsResult>")

    def _list(self) -> None:
        asked = self.query
        most = max(1, min(PAGE, _number(asked.get("max-keys", str(PAGE)))))
        recursive = asked.get("delimiter") != "/"
        found = self.server.objects.list(self.bucket, asked.get("prefix", ""), asked.get("marker", ""), recursive)
        page = list(islice(found, most + 1))
        entries = "".join(_listed(entry, recursive, asked.get("prefix", "")) for entry in page[:most])
        more = f"<NextMarker>{_quoted(page[most - 1].key)}</NextMarker>" if page[most:] else ""
        truncated = str(bool(more)).lower()
        head = f"<EncodingType>url</EncodingType><IsTruncated>{truncated}</IsTruncated>{more}"
        self._xml(f"<ListBucketResult>{head}{entries}</ListBucketResult>")

    # -- bodies

    def _body(self) -> Iterator[bytes]:
        """The body of the request, piece by piece."""
        while self.left:
            piece = self.rfile.read(min(BLOCK, self.left))
            if not piece:
                raise ConnectionResetError("the client is gone")
            self.left -= len(piece)
            yield piece

    def _parsed(self) -> ElementTree.Element:
        if self.left > MOST_XML:
            raise InvalidRequest(f"a list has at most {MOST_XML} bytes")
        text = b"".join(self._body())
        try:
            return wire.parse_xml(text)
        except ValueError:
            raise InvalidRequest("a list is plain XML") from None

    def _mtime(self) -> int | None:
        """The time of the content, where that is more precise than a second: a client recognizes its file by it."""
        found = re.fullmatch(r"([0-9]{1,12})\.([0-9]{9})", self.headers.get("x-amz-meta-mtime", ""))
        return int(found[1]) * 10**9 + int(found[2]) if found and found[2][:3] != "000" else None

    def _send_file(self, file: BinaryIO) -> None:
        info = os.fstat(file.fileno())
        wanted = self.headers.get("if-match", "").strip('"')
        if wanted and wanted != _etag(info):
            self._empty(412)
            return
        start, end = 0, info.st_size
        found = _RANGE.fullmatch(self.headers.get("range", ""))
        if found:
            start, end = int(found[1]), min(end, int(found[2]) + 1 if found[2] else end)
            if start >= end:
                self._empty(416)
                return
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{info.st_size}")
        self._describe(end - start, info.st_mtime, _etag(info))
        self.wfile.flush()
        if self.connection.sendfile(file, start, end - start) < end - start:
            self.close_connection = True  # it was truncated meanwhile

    def _head_of(self, size: int, mtime: float, etag: str) -> None:
        self.send_response(200)
        self._describe(size, mtime, etag)

    def _describe(self, size: int, mtime: float, etag: str) -> None:
        self.send_header("Content-Length", str(size))
        self.send_header("Last-Modified", wire.http_date(mtime))
        self.send_header("ETag", f'"{etag}"')
        self.end_headers()

    def _stored(self, digest: str) -> None:
        self.send_response(200)
        self.send_header("ETag", f'"{digest}"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _empty(self, status: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def _xml(self, text: str, status: int = 200) -> None:
        data = text.encode("utf-8", "surrogateescape")
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def _code(error: StorageError) -> str:
    return next(code for code, kind in OF_SERVED.items() if isinstance(error, kind))


def _error(code: str, error: StorageError) -> str:
    return f"<Error><Code>{code}</Code><Message>{escape(str(error))}</Message></Error>"


def _etag(info: os.stat_result) -> str:
    """A name for the version of a file; it is no checksum, and does not look like one."""
    return f"v-{info.st_ino:x}-{info.st_size:x}-{info.st_mtime_ns:x}"


def _listed(entry: Listed, recursive: bool, prefix: str) -> str:
    key = _quoted(entry.key)
    if entry.info is None and not recursive and entry.key != prefix:
        return f"<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>"
    size, at, etag = (0, 0.0, "") if entry.info is None else (entry.info.st_size, entry.info.st_mtime, _etag(entry.info))
    dated = f"<LastModified>{wire.iso_date(at)}</LastModified>"
    return f"<Contents><Key>{key}</Key><Size>{size}</Size>{dated}<ETag>{etag}</ETag></Contents>"


def _quoted(key: str) -> str:
    return quote_plus(key, errors="surrogateescape")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise InvalidRequest("a number is not one")
    return int(text)
