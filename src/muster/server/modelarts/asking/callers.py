"""Who sends a request of this API: a signature with an access key, or a token in X-Auth-Token. And for which project."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security.http import HTTPAuthorizationCredentials

from muster.server.core.access import Caller, Principal, demand
from muster.server.core.accounts import projects
from muster.server.core.accounts.projects import Project
from muster.server.core.authentication import BAD_TOKEN, Context, address_of, by_token
from muster.server.core.store_access import StoreAccess
from muster.server.modelarts.asking import signature
from muster.server.modelarts.asking.fields import raw_body
from muster.server.modelarts.asking.problems import INVALID, NOT_ALLOWED, NOT_KNOWN, Refused
from muster.server.modelarts.asking.signature import BadSignature, Signed
from muster.tester.errors import Denied

NOBODY = "sign the request with an access key (SDK-HMAC-SHA256), or send a token in X-Auth-Token"
NO_PROJECT = "there is no such project, or you may not see it; name one of yours by its id or its name as the project id"
UNFILLED = "the client sent no project id; give it one, which is the id or the name of a project of this server"
OTHER_PROJECT = "X-Project-Id names another project than the path; send the same"


@dataclass(frozen=True)
class Sender:
    """Who sends a request, and what tells it from all others, where it was signed."""

    caller: Caller
    signature: str | None


RawBody = Annotated[bytes, Depends(raw_body)]


def sender(request: Request, context: Context, body: RawBody) -> Sender:
    """Returns who sends a request. Raises Refused."""
    signed = _signed(request, body)
    try:
        found, sent = _by_signature(context, signed) if signature.is_signed(signed) else (_by_token(request, context), None)
    except BadSignature as error:
        raise Refused(NOT_KNOWN, f"the request is not authenticated: {error}", 401) from None
    request.state.user = found.name
    return Sender(Caller(found.name, address_of(request), found), sent)


Sent = Annotated[Sender, Depends(sender)]


def caller(sent: Sent) -> Caller:
    return sent.caller


Asking = Annotated[Caller, Depends(caller)]


def project(request: Request, context: Context, asking: Asking, project_id: str) -> Project:
    """The project of a path, by id or name, if the caller may see it. Raises Refused."""
    if project_id == "{project_id}":
        raise Refused(INVALID, UNFILLED)
    if request.headers.get("x-project-id", project_id) != project_id:
        raise Refused(INVALID, OTHER_PROJECT)
    with context.database.read() as connection:
        found = projects.find(connection, project_id) if "\x00" not in project_id else None
    try:
        if found is None:
            raise Denied(404, NO_PROJECT)
        demand(asking.principal, "projects.read", found.id, NO_PROJECT)
    except Denied as error:
        raise Refused(NOT_ALLOWED, str(error), 403) from None
    return found


Within = Annotated[Project, Depends(project)]


def _signed(request: Request, body: bytes) -> Signed:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    headers = tuple((key.decode("latin-1").lower(), _text(value)) for key, value in request.headers.raw)
    query = request.scope["query_string"].decode("latin-1")
    return Signed(request.method, raw.decode("latin-1"), query, headers, body)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _by_signature(context: Context, signed: Signed) -> tuple[Principal, str]:
    store = StoreAccess(context.database, context.vault)
    owners: dict[str, Principal] = {}

    def secret_of(access_key: str) -> str | None:
        found = store.find_key(access_key)
        if found is None:
            return None
        owners[access_key] = found[1]
        return found[0]

    key = signature.authenticate(signed, secret_of, time.time())
    return owners[key], signature.claimed(signed).signature


def _by_token(request: Request, context: Context) -> Principal:
    token = request.headers.get("x-auth-token")
    if token is None:
        raise Refused(NOT_KNOWN, NOBODY, 401)
    with context.database.read() as connection:
        try:
            found, note = by_token(connection, HTTPAuthorizationCredentials(scheme="Bearer", credentials=token))
        except Denied:
            raise Refused(NOT_KNOWN, BAD_TOKEN, 401) from None
    if note is not None and context.ownership.answers:
        with context.database.begin() as connection:
            note(connection)
    return found
