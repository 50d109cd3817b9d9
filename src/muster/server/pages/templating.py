"""Rendering pages: the templates here, within the page and style of reports, in English and Chinese."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from muster.bench import report

ASSETS = report.Assets(style="/style.css", script="/script.js")


@cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("muster.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["both"] = report.both
    environment.filters.update(figure=report.figure, moment=report.moment, minute=_minute)
    return environment


def style() -> str:
    """Returns the report's style sheet with the additions of these pages."""
    return report.style() + resources.files("muster.server.pages").joinpath("templates", "tester.css").read_text("utf-8")


def page(
    request: Request, template: str, title: tuple[str, str], reader: str | None, values: Mapping[str, Any], status: int = 200
) -> HTMLResponse:
    """Renders a whole page, with navigation for a reader who is logged in."""
    language = preferred_language(request)
    body = Markup(templates().get_template(template).render(values))
    nav = Markup(templates().get_template("nav.html").render(reader=reader))
    return HTMLResponse(report.page(body, title[language == "zh"], language, nav, ASSETS), status)


def _minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def preferred_language(request: Request) -> str:
    """Returns the first language in Accept-Language that the pages have; the reader may switch."""
    accepted = request.headers.get("accept-language", "").lower().split(",")
    tags = (tag.strip()[:2] for tag in accepted)
    return next((tag for tag in tags if tag in ("en", "zh")), "en")
