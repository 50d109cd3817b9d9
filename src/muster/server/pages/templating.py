"""Rendering pages: the templates here, within the page and style of reports, in English and Chinese."""

import time
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup

from muster.bench.report import figures
from muster.bench.report.formats import as_html
from muster.bench.report.phrase import both

ASSETS = {"style": "/style.css", "script": "/script.js"}


@cache
def templates() -> Environment:
    found = as_html.environment("muster.server.pages")
    found.globals["both"] = both
    found.filters.update(
        figure=figures.figure,
        moment=figures.moment,
        minute=lambda seconds: time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)),
    )
    return found


def style() -> str:
    """Returns the report's style sheet with the additions of these pages."""
    return as_html.style() + resources.files("muster.server.pages").joinpath("templates", "tester.css").read_text("utf-8")


def script() -> str:
    return as_html.script()


def page(
    request: Request, template: str, title: tuple[str, str], reader: str | None, values: Mapping[str, Any], status: int = 200
) -> HTMLResponse:
    """Renders a whole page, with navigation for a reader who is logged in."""
    language = preferred_language(request)
    body = Markup(templates().get_template(template).render(values))
    nav = Markup(templates().get_template("nav.html").render(reader=reader))
    return HTMLResponse(as_html.page(body, title[language == "zh"], language, nav, ASSETS), status)


def preferred_language(request: Request) -> str:
    """Returns the first language in Accept-Language that the pages have; the reader may switch."""
    accepted = request.headers.get("accept-language", "").lower().split(",")
    tags = (tag.strip()[:2] for tag in accepted)
    return next((tag for tag in tags if tag in ("en", "zh")), "en")
