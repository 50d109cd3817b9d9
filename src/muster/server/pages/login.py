"""The login of browsers: with name and password, or with a token where the tester is served alone."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from muster.bench.report.phrase import Phrase
from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.accounts import sessions, tokens
from muster.server.core.accounts.random_secrets import hashed
from muster.server.core.api.login import begin_session, delete_cookie, set_cookie
from muster.server.core.authentication import Context, address_of, check_csrf_token, check_own_site, principal
from muster.server.pages import templating
from muster.server.pages.forms import body, fields
from muster.server.results.web.access import BAD_TOKEN, Section
from muster.tester.errors import Denied

router = APIRouter(include_in_schema=False)
TITLE = Phrase("Log in", "登录")
BAD_TOKEN_ZH = "该令牌无效或已被撤销；请向测试服务器管理员索取新的令牌。"
WRONG_ZH = "用户名或密码错误，或尝试次数过多；请稍后再试。"


def own_form(request: Request, context: Context) -> None:
    """Raises Denied for a form on a page of another site, so that none can log a user in or out."""
    if "origin" in request.headers or "sec-fetch-site" in request.headers:  # browsers send one of them
        check_own_site(request, context)


@router.get("/login")
def login(request: Request, section: Section, next: str = "/") -> HTMLResponse:
    return _page(request, section, local_path(next), None)


@router.post("/login", dependencies=[Depends(own_form)])
def log_in(request: Request, context: Context, section: Section, body: Annotated[bytes, Depends(body)]) -> Response:
    form = fields(body)
    target = local_path(form.get("next", "/"))
    try:
        if section.tester:
            secret = _session_of_token(request, context, form.get("token", "").strip())
        else:
            secret, _ = begin_session(request, context, form.get("name", ""), form.get("password", ""))
    except Denied as error:
        if error.status not in (401, 429):
            raise
        chinese = BAD_TOKEN_ZH if section.tester else WRONG_ZH
        return _page(request, section, target, (str(error), chinese), error.status)
    answer = RedirectResponse(target, 303)
    set_cookie(answer, context, secret)
    return answer


def _session_of_token(request: Request, context: Context, token: str) -> str:
    """Begins a session with a token, which reads and changes nothing; raises Denied where the token is not valid."""
    with context.database.read() as connection:
        found = tokens.find(connection, token)
    if found is None:
        raise Denied(401, BAD_TOKEN)
    address = address_of(request)
    with context.database.begin() as connection:
        who = principal(connection, found.user, "read", None, None)
        audit.record(connection, Caller(who.name, address, who), "session.begin", who.name)
        return sessions.begin(connection, found.user, address, "read")


@router.post("/logout", dependencies=[Depends(own_form)])
def log_out(request: Request, context: Context, body: Annotated[bytes, Depends(body)]) -> Response:
    secret = request.cookies.get(context.cookie, "")
    with context.database.begin() as connection:
        if (found := sessions.find(connection, secret)) is not None:
            check_csrf_token(request, context, fields(body).get("csrf", ""))
            who = principal(connection, found[0], found[1], None, found[2])
            audit.record(connection, Caller(who.name, address_of(request), who), "session.end", who.name)
        sessions.end(connection, hashed(secret))
    answer = RedirectResponse("/login", 303)
    delete_cookie(answer, context)
    return answer


def local_path(target: str) -> str:
    """Returns a path of this server; the front page instead of an address elsewhere."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


def _page(request: Request, section: Section, target: str, problem: tuple[str, str] | None, status: int = 200) -> HTMLResponse:
    values = {"next": target, "problem": problem, "tester": section.tester}
    return templating.page(request, "accounts/login.html", TITLE, None, values, status=status)
