"""The page behind a one-time link: the first administrator, and users after a reset, set their password there."""

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from muster.bench.report.phrase import Phrase
from muster.server.core.accounts import links, passwords
from muster.server.core.api.login import redeem
from muster.server.core.api.models import ACCOUNT_NAME
from muster.server.core.authentication import Context, check_own_site
from muster.server.pages import templating
from muster.server.pages.forms import body, fields
from muster.tester.errors import Denied
from muster.tester.protocol import ALLOWED

PATH = "/set-password"
router = APIRouter(include_in_schema=False)
TITLE = Phrase("Set a password", "设置密码")
SHORT = f"密码至少需要 {passwords.MIN_LENGTH} 个字符，且不能过于简单。"
DIFFERENT = ("the two passwords differ; type them again", "两次输入的密码不一致，请重新输入。")
BAD_NAME = (f"this cannot be a name; {ALLOWED}", "用户名最多 64 个字符，只能包含字母、数字、点、短横线和下划线。")


@router.get(PATH)
def ask(request: Request, context: Context, token: str = "") -> HTMLResponse:
    with context.database.read() as connection:
        link = links.find(connection, token)
    return _page(request, token, link.name, "admin", None)


@router.post(PATH)
def answer(request: Request, context: Context, body: Annotated[bytes, Depends(body)]) -> HTMLResponse:
    check_own_site(request, context)
    given = fields(body)
    token, name = given.get("token", ""), given.get("name", "admin")
    with context.database.read() as connection:
        known = links.find(connection, token).name
    if given.get("password", "") != given.get("again", ""):
        return _page(request, token, known, name, DIFFERENT)
    if not re.fullmatch(ACCOUNT_NAME, name):
        return _page(request, token, known, name, BAD_NAME)
    try:
        set_for = redeem(request, context, token, name, given.get("password", ""))
    except Denied as error:
        if error.status != 400:
            raise
        return _page(request, token, known, name, (str(error), SHORT))
    return templating.page(request, "accounts/password_set.html", TITLE, None, {"name": set_for, "url": context.url})


def _page(request: Request, token: str, known: str | None, name: str, problem: tuple[str, str] | None) -> HTMLResponse:
    values = {"token": token, "known": known, "name": name, "problem": problem, "least": passwords.MIN_LENGTH}
    return templating.page(request, "accounts/set_password.html", TITLE, None, values, status=400 if problem else 200)
