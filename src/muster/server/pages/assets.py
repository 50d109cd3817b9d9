"""The style sheet and the script of all pages, which need no login."""

from fastapi import APIRouter, Response

from muster.server.pages import templating

router = APIRouter(include_in_schema=False)


@router.get("/style.css")
def style() -> Response:
    return Response(templating.style(), media_type="text/css")


@router.get("/script.js")
def script() -> Response:
    return Response(templating.script(), media_type="text/javascript")
