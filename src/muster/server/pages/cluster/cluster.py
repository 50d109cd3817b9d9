"""The cluster: pools with their nodes and devices, the queue, and who used how much in the last weeks."""

from typing import Any

from fastapi import APIRouter, Request, Response

from muster.server.core.access import may
from muster.server.core.authentication import Asking, Context
from muster.server.pages import templating
from muster.server.pages.cluster import picture, used, waiting
from muster.server.pages.texts import say
from muster.server.runs.api.models import Shared
from muster.server.runs.api.queue import pools
from muster.server.runs.api.queue.waiting import Offset

router = APIRouter(include_in_schema=False)
WEEKS = (1, 4, 12)


@router.get("/cluster")
def cluster(
    request: Request,
    context: Context,
    platform: Shared,
    caller: Asking,
    offset: Offset = 0,
    weeks: used.Weeks = 4,
    part: bool = False,
) -> Response:
    """The page; with `part`, pools and queue alone, which its script puts in place of those that are there."""
    queue, more = waiting.entries(context, platform, caller, offset)
    names = [one["pool"] for one in pools.list_pools(context, platform, caller).items]
    values: dict[str, Any] = {
        "pools": [pools.get_pool(context, platform, caller, name) for name in names],
        "kinds": picture.kinds,
        "queue": queue,
        "offset": offset,
        "before": max(0, offset - waiting.PAGE),
        "after": offset + waiting.PAGE if more else None,
        "drains": may(caller.principal, "pools.drain"),
        "orders": may(caller.principal, "queue.order"),
        "viewer": caller.name,
    }
    if part:
        return templating.part(request, "cluster/parts.html", values)
    values |= {"seq": platform.changes.last, "weeks": weeks, "choices": WEEKS, **used.tables(context, caller, weeks)}
    modules = ("cluster/page.js", "cluster/usage.js")
    return templating.page(request, "cluster/cluster.html", say("cluster.title"), caller, values, "cluster", modules)
