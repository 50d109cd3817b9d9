"""Rendering pages: the templates here within one frame, in the look of reports, in English and Chinese."""

import hashlib
import json
import time
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup

from muster.bench.report import figures
from muster.bench.report.formats import as_html
from muster.bench.report.phrase import Phrase, both, same
from muster.records.text import units
from muster.server.core.access import Caller
from muster.server.core.authentication import csrf_token
from muster.server.pages import assets, navigation
from muster.server.pages.texts import TEXTS, said, say

LANGUAGE, THEME = "muster-language", "muster-theme"  # cookies that scripts write
THEMES = ("system", "light", "dark")


@cache
def templates() -> Environment:
    found = as_html.environment("muster.server.pages")
    found.globals |= {"both": both, "t": say, "same": same, "asset": assets.url, "complete": assets.complete, "texts": TEXTS}
    found.filters |= {
        "figure": figures.figure,
        "percent": figures.percent,
        "size": figures.size,
        "moment": figures.moment,
        "length_of_time": units.duration,
        "when": when,
        "state": state,
        "as_json": lambda data: json.dumps(data, ensure_ascii=False, indent=2),
    }
    return found


def page(
    request: Request,
    template: str,
    title: Phrase,
    caller: Caller | None,
    values: Mapping[str, Any],
    section: str = "",
    modules: tuple[str, ...] = (),
    status: int = 200,
) -> HTMLResponse:
    """Renders a whole page, with navigation for a user who is logged in; `modules` are scripts of the page's own."""
    body = Markup(fragment(request, template, {**values, "caller": caller}))
    frame = {
        "body": body,
        "title": title,
        "caller": caller,
        "section": section,
        "sections": navigation.sections(request, caller.principal) if caller else [],
        "parts": navigation.parts(request, section),
        "account": "/account" in getattr(request.app.state, "paths", ()),
        "modules": modules,
        "path": request.url.path,
        "csrf": csrf_token(request, request.app.state.context) if caller and caller.principal.session else "",
        "theme": preferred_theme(request),
        "themes": THEMES,
    }
    return HTMLResponse(fragment(request, "frame.html", frame), status)


def fragment(request: Request, template: str, values: Mapping[str, Any]) -> str:
    """Renders a template without the frame, in the language of the viewer."""
    language = preferred_language(request)
    return templates().get_template(template).render(values, language=language, said=partial(said, language))


def part(request: Request, template: str, values: Mapping[str, Any]) -> Response:
    """Renders a part of a page that its script puts in place of the one that is there, unless that is the same."""
    text = fragment(request, template, values)
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:20]}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag})
    return HTMLResponse(text, headers={"ETag": tag})


def preferred_language(request: Request) -> str:
    """Returns the language that the viewer chose, else the first in Accept-Language that the pages have."""
    accepted = request.headers.get("accept-language", "").lower().split(",")
    tags = (tag.strip()[:2] for tag in [request.cookies.get(LANGUAGE, ""), *accepted])
    return next((tag for tag in tags if tag in ("en", "zh")), "en")


def preferred_theme(request: Request) -> str:
    chosen = request.cookies.get(THEME, "")
    return chosen if chosen in THEMES else "system"


def when(seconds: float | None, exact: bool = False) -> Markup:
    """A time, which scripts show in the zone of the viewer; with seconds where it is `exact`."""
    if seconds is None:
        return Markup("–")
    utc = time.gmtime(seconds)
    iso, shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", utc), time.strftime("%Y-%m-%d %H:%M UTC", utc)
    return Markup('<time datetime="{}"{}>{}</time>').format(iso, Markup(" data-seconds") if exact else "", shown)


def state(name: str) -> Markup:
    """The state of a run, attempt or rank."""
    known = name if f"state.{name}" in TEXTS else "unknown"
    return Markup('<span class="state {}" data-state="{}">{}</span>').format(known, known, say(f"state.{known}"))
