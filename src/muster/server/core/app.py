"""The ASGI application of `muster serve`: its routes."""

import json

from fastapi import FastAPI
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from muster import __version__
from muster.server.core.api import audit, buckets, health, keys, login, projects, tokens, users
from muster.server.core.context import ServerContext
from muster.server.core.web.logs import RequestLog
from muster.server.core.web.metrics import Metrics
from muster.server.core.web.middleware import SecurityMiddleware
from muster.server.core.web.responses import add_responses
from muster.server.pages import assets, password
from muster.server.pages import login as login_page
from muster.server.pages import routes as results_pages
from muster.server.results.context import ResultsContext
from muster.server.results.web import api as results_api
from muster.server.runs.api import code, events, exec, logs, record, runs
from muster.server.runs.platform import Platform

ABOUT = (
    'Accounts, projects and runs of a Muster server. Programs authenticate with a personal token; errors are `{"reason": ...}`.'
)


def make(
    context: ServerContext | None,
    platform: Platform | None = None,
    results: ResultsContext | None = None,
    proxies: tuple[str, ...] = (),
) -> FastAPI:
    app = FastAPI(title="Muster", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    app.state.context = context
    app.state.platform = platform
    app.state.results = results
    for module in (
        login,
        users,
        tokens,
        keys,
        projects,
        buckets,
        audit,
        code,
        runs,
        logs,
        exec,
        record,
        events,
        health,
        password,
    ):
        app.include_router(module.router)
    for section in (results_api, results_pages, login_page, assets):
        app.include_router(section.router)
    add_responses(app)
    app.add_middleware(SecurityMiddleware)
    app.add_middleware(RequestLog, metrics=context.metrics if context else Metrics())
    if proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))
    return app


def protocol() -> str:
    """Returns the API as an OpenAPI document, which `make docs` writes."""
    return json.dumps(make(None).openapi(), indent=2, ensure_ascii=False) + "\n"
