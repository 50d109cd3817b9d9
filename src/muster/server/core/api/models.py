"""What requests and answers of the API are made of."""

import hashlib
import json
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Header, Path, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from muster.tester.errors import Denied
from muster.tester.protocol import NAME

PREFIX = "/api/v1"
CHANGED = "somebody has changed this meanwhile; look at it again and repeat the change"
MAX_DEFAULTS = 8192  # bytes of a project's defaults as JSON
T = TypeVar("T")


def shown_text(text: str) -> str:
    """Refuses texts that no database takes: NUL, and halves of surrogate pairs."""
    if "\x00" in text or not text.isprintable():
        raise ValueError("holds characters that cannot be shown")
    return text


class Problem(BaseModel):
    """Why a request was rejected, and what to do."""

    reason: str
    retry_after: int | None = Field(None, description="Seconds to wait, with 429.")


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


# The ids of users and projects begin with `u-` and `p-`: no name does, so that a path may hold either.
ACCOUNT_NAME = "^([A-Za-oq-tv-z0-9][A-Za-z0-9._-]{0,63}|[up]([A-Za-z0-9._][A-Za-z0-9._-]{0,62})?)$"
AccountName = Annotated[str, Field(pattern=ACCOUNT_NAME, description="Up to 64 letters, digits, `.`, `_` or `-`.")]
Label = Annotated[str, Field(min_length=1, max_length=64, description="A name in words of yours."), AfterValidator(shown_text)]
Password = Annotated[str, Field(max_length=256), AfterValidator(shown_text)]
Key = Annotated[str, Path(pattern=f"^{NAME.pattern}$", description="A name or an id.")]
Role = Literal["administrator", "member"]
ProjectRole = Literal["manager", "member", "viewer"]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the page before.")]
Filter = Annotated[str | None, Query(max_length=200), AfterValidator(lambda text: text if text is None else shown_text(text))]
IfMatch = Annotated[str | None, Header(description="The ETag that the change is based on; 412 if it has changed since.")]
IfNoneMatch = Annotated[str | None, Header(description="The ETag of what the caller has; 304 if it is still the same.")]


class NotModified(Exception):
    """What is asked for is what the caller has."""

    def __init__(self, tag: str) -> None:
        self.tag = tag


def etag(value: Any) -> str:
    """Returns the version of something as it is shown."""
    data = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return f'"{hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:20]}"'


def tagged(response: Response, value: T, if_none_match: str | None = None, tag: str = "") -> T:
    """Adds the ETag of an answer to its headers. Raises NotModified where the caller has that version."""
    tag = tag or etag(value)
    if if_none_match is not None and (if_none_match.strip() == "*" or tag in tags_of(if_none_match)):
        raise NotModified(tag)
    response.headers["ETag"] = tag
    return value


def tags_of(header: str) -> list[str]:
    """The ETags of a header; a proxy that compresses marks them as weak."""
    return [tag.strip().removeprefix("W/") for tag in header.split(",")]


def check_match(if_match: str | None, value: Any) -> None:
    """Raises Denied where somebody has changed a thing since the caller looked."""
    if if_match is not None and if_match.strip() != "*" and etag(value) not in tags_of(if_match):
        raise Denied(412, CHANGED)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route in the OpenAPI document; every route may answer the first four and the last two."""
    return {status: {"model": Problem, "description": MEANINGS[status]} for status in (400, 413, *statuses, 503, 507)}


UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "It is still what the caller has."}}


MEANINGS = {
    400: "The request is not valid.",
    401: "Nobody is logged in, or the token is not valid.",
    403: "Your role or your token does not allow this.",
    404: "There is no such thing, or you may not see it.",
    409: "This does not fit to what is there.",
    412: "Somebody has changed it meanwhile.",
    413: "The body is too large.",
    429: "Too many failed logins.",
    503: "The database does not answer.",
    507: "The disk is full.",
}
