"""The application of `muster tester serve`: the results section alone, with its pages."""

import json

from fastapi import FastAPI

from muster import __version__
from muster.server.core.context import ServerContext
from muster.server.core.web.middleware import SecurityMiddleware
from muster.server.core.web.responses import add_responses
from muster.server.pages import assets, login
from muster.server.pages import results as pages
from muster.server.results.context import ResultsContext
from muster.server.results.web import api

ABOUT = "Holds test plans, takes in results of benchmarks, verifies and ranks them. Programs authenticate with a bearer token."


def make(context: ServerContext | None, results: ResultsContext | None) -> FastAPI:
    app = FastAPI(title="Muster tester", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    app.state.context, app.state.results = context, results
    for module in (api, pages, login, assets):
        app.include_router(module.router)
    app.add_api_route("/", pages.results, include_in_schema=False)  # its start page
    add_responses(app)
    app.add_middleware(SecurityMiddleware)
    return app


def protocol() -> str:
    """Returns the protocol as an OpenAPI document, which `make docs` writes."""
    return json.dumps(make(None, None).openapi(), indent=2, ensure_ascii=False) + "\n"
