"""Objects put and got through obstore, the one place that imports it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from muster.storage.errors import StorageError
from muster.storage.s3 import responses
from muster.storage.s3.checksum import part_size
from muster.storage.settings import Access

if TYPE_CHECKING:
    from obstore.store import S3Store

PARTS_AT_ONCE = 4
TRIES = 4
CONNECT = 10.0
_STATUS = re.compile(r"status code: (\d+)(.*?)(?:\n\nDebug source|\Z)", re.DOTALL)
# What obstore prints of its causes, and what it means; the first that is found.
_SIGNS = (
    ("ConnectionRefused", "connection refused"),
    ("Certificate", "its certificate is not trusted"),
    ("TimedOut", "it stopped answering"),
    ("kind: Timeout", "it stopped answering"),
    ("dns error", "its name is not known"),
    ("HTTP error", "it closed the connection in the middle"),
    ("Http(", "it closed the connection in the middle"),
    ("reqwest", "it closed the connection in the middle"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def speaks(key: str) -> bool:
    """Whether obstore takes a key as it is: it refuses control characters, and drops slashes at the end."""
    return not _CONTROL.search(key) and not key.endswith("/")


class Bucket:
    """One bucket as obstore sees it."""

    def __init__(self, access: Access, name: str) -> None:
        self._access = access
        self._store: S3Store = _opened(access, name)

    def put(self, key: str, data: bytes, attributes: dict[str, str], shown: str) -> str:
        """Stores bytes under a key and returns the ETag."""
        part = part_size(len(data))
        with _Told(self._access, shown, "PUT"):
            result = self._store.put(key, data, attributes=attributes, chunk_size=part, max_concurrency=PARTS_AT_ONCE)
        return _etag(result)

    def put_parts(self, key: str, feed: Feed, part: int, attributes: dict[str, str], shown: str) -> str:
        """Stores what a feed yields, in parts of a fixed size, and returns the ETag."""
        with _Told(self._access, shown, "PUT", feed):
            result = self._store.put(
                key, iter(feed), attributes=attributes, chunk_size=part, max_concurrency=PARTS_AT_ONCE, use_multipart=True
            )
        return _etag(result)

    def get(self, key: str, shown: str) -> tuple[memoryview, str]:
        """A whole object and its ETag."""
        with _Told(self._access, shown, "GET"):
            result = self._store.get(key)
            return memoryview(result.bytes()), _etag(result.meta)


class Feed:
    """Blocks on their way to a store; an error of whoever yields them is kept, for obstore would hide it."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._blocks
        except BaseException as error:
            self.error = error
            raise


class _Told:
    """Turns an error of obstore into one of storage."""

    def __init__(self, access: Access, shown: str, method: str, feed: Feed | None = None) -> None:
        self._access, self._shown, self._method, self._feed = access, shown, method, feed

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._feed is not None and self._feed.error is not None:
            raise self._feed.error
        if isinstance(error, Exception):
            raise _in_words(error, self._shown, self._access, self._method) from None


def _in_words(error: Exception, shown: str, access: Access, method: str) -> StorageError:
    text = str(error)
    status = _STATUS.search(text)
    if status:
        return responses.failure(int(status.group(1)), status.group(2), shown, access, method)
    if "InvalidContentType" in text:  # plain text where TLS was expected
        return responses.no_https(access)
    for sign, reason in _SIGNS:
        if sign in text:
            return responses.unreachable(access, reason)
    return StorageError("{} cannot be used: {}; check the settings of storage".format(shown, text.split("\n")[0].strip()))


def _etag(meta: Any) -> str:
    return responses.etag(meta["e_tag"])


def _opened(access: Access, bucket: str) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError:
        raise StorageError(f"{access.endpoint} needs the package obstore; install it with `pip install obstore`") from None
    virtual = access.virtual(bucket)
    scheme, _, host = access.endpoint.partition("://")
    config: dict[str, Any] = {
        "endpoint": f"{scheme}://{bucket}.{host}" if virtual else access.endpoint,
        "virtual_hosted_style_request": virtual,
        "region": access.region,
    }
    if access.access_key:
        config.update(access_key_id=access.access_key, secret_access_key=access.secret_key)
        if access.token:
            config["session_token"] = access.token
    else:
        config["skip_signature"] = True
    silence = timedelta(seconds=access.timeout)
    client: dict[str, Any] = {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=min(CONNECT, access.timeout)),
        "read_timeout": silence,
        "timeout": 10 * silence,
    }
    if access.ca:
        with open(access.ca, encoding="ascii") as file:
            client["root_certificate"] = file.read()
    retry: Any = {"max_retries": TRIES, "retry_timeout": 2 * silence}
    return S3Store(bucket, config=config, client_options=client, retry_config=retry)  # type: ignore[arg-type]
