"""What the server runs with, for administrators."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from muster import __version__
from muster.server.core.access import demand
from muster.server.core.api.models import PREFIX, errors
from muster.server.core.authentication import Asking, Context
from muster.server.runs.api.models import Shared
from muster.server.settings import of_pools, of_server
from muster.server.settings.model import ServerSettings
from muster.server.settings.options import Settings

router = APIRouter(prefix=PREFIX + "/settings")


async def options_of(request: Request) -> Settings:
    found: Settings = request.app.state.settings
    return found


Options = Annotated[Settings, Depends(options_of)]


@router.get("", responses=errors(401, 403))
def get_settings(context: Context, caller: Asking, platform: Shared, options: Options) -> ServerSettings:
    """What the server has run with since it started, and where each setting is made. No secret is among it."""
    demand(caller.principal, "settings.read")
    config = platform.pools.settings
    sections = [*of_server.sections(options, context, config), *of_pools.sections(platform.pools)]
    return ServerSettings(__version__, str(Path(options.data, "config.toml")), sections)
