"""How the tester's pages are made: the report's look around templates of the tester's own, in both languages at once."""

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
    """The report's style sheet and what the tester's own pages add to it."""
    return report.style() + resources.files("muster.server.pages").joinpath("templates", "tester.css").read_text("utf-8")


def shown(
    request: Request, template: str, title: tuple[str, str], reader: str | None, values: Mapping[str, Any], status: int = 200
) -> HTMLResponse:
    """A whole page. Its head line leads to the others, for those who may read them."""
    language = spoken(request)
    body = Markup(templates().get_template(template).render(values))
    nav = Markup(templates().get_template("nav.html").render(reader=reader))
    return HTMLResponse(report.page(body, title[language == "zh"], language, nav, ASSETS), status)


def _minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def spoken(request: Request) -> str:
    """The first language of the browser's that the pages have; the reader may switch."""
    wanted = request.headers.get("accept-language", "").lower().split(",")
    found = (tag.strip()[:2] for tag in wanted)
    return next((tag for tag in found if tag in ("en", "zh")), "en")
