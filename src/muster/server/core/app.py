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
from muster.server.modelarts import routes as modelarts
from muster.server.pages import assets, password
from muster.server.pages import login as login_page
from muster.server.pages import results as results_pages
from muster.server.pages.accounts import account, administration
from muster.server.pages.accounts import projects as project_pages
from muster.server.pages.cluster import cluster, used
from muster.server.pages.runs import home, job, jobs, submit
from muster.server.results.context import ResultsContext
from muster.server.results.web import api as results_api
from muster.server.runs.api import code, events, exec, files, history, logs, objects, record, runs, search, series, terminal
from muster.server.runs.api import endpoints as endpoints_api
from muster.server.runs.api.queue import pools, quotas, retention, templates, usage, versions, webhooks
from muster.server.runs.api.queue import waiting as queue
from muster.server.runs.endpoints.proxy import EndpointProxy, Endpoints
from muster.server.runs.platform import Platform
from muster.server.runs.retention.keeper import Keeper
from muster.server.settings import api as settings_api
from muster.server.settings.options import Settings

ABOUT = (
    'Accounts, projects and runs of a Muster server. Programs authenticate with a personal token; errors are `{"reason": ...}`.'
)

# Sections of the portal: the navigation shows those that are here.
PAGES = (
    home,
    jobs,
    job,
    submit,
    results_pages,
    cluster,
    used,
    project_pages,
    administration,
    account,
)


def make(
    context: ServerContext | None,
    platform: Platform | None = None,
    results: ResultsContext | None = None,
    settings: Settings | None = None,
    keeper: Keeper | None = None,
    endpoints: Endpoints | None = None,
) -> FastAPI:
    app = FastAPI(title="Muster", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    app.state.context = context
    app.state.platform = platform
    app.state.results = results
    app.state.keeper = keeper
    app.state.endpoints = endpoints
    app.state.settings = settings
    for module in (
        login,
        users,
        tokens,
        keys,
        projects,
        buckets,
        objects,
        audit,
        settings_api,
        quotas,
        code,
        queue,
        runs,
        logs,
        exec,
        endpoints_api,
        terminal,
        record,
        search,
        series,
        files,
        history,
        versions,
        events,
        pools,
        templates,
        webhooks,
        retention,
        usage,
        health,
        password,
    ):
        app.include_router(module.router)
    for router in modelarts.ROUTERS:
        app.include_router(router)
    for module in (results_api, login_page, assets, *PAGES):
        app.include_router(module.router)
    app.state.paths = {getattr(route, "path", "") for module in PAGES for route in module.router.routes}
    add_responses(app)
    app.add_middleware(SecurityMiddleware)
    app.add_middleware(RequestLog, metrics=context.metrics if context else Metrics())
    if endpoints is not None:
        app.add_middleware(EndpointProxy, endpoints=endpoints)
    if settings is not None and settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.trusted_proxies))
    return app


def protocol() -> str:
    """Returns the API as an OpenAPI document, which `make docs` writes."""
    return json.dumps(make(None).openapi(), indent=2, ensure_ascii=False) + "\n"
