"""Routes of logs: their newest part, their lines by number, and the address of the file in the store."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from muster.plan.compat.modelarts import job_id
from muster.server.core.authentication import Context
from muster.server.core.store_access import link_key
from muster.server.modelarts.asking.callers import Asking
from muster.server.modelarts.asking.problems import BAD_FIELD, NO_LOG, Refused, Route
from muster.server.modelarts.telling import presign, shown, task_log
from muster.server.modelarts.v2.paths import JOB, Seen, node_of
from muster.server.runs.api.models import Shared

router = APIRouter(route_class=Route, include_in_schema=False)
MOST = 5 << 20  # bytes of a preview
HOUR = 3600
NOT_THERE = "the logs of this job are not in the store: {}; logs/preview and logs/{} have what was written so far"


@router.get(JOB + "/tasks/{task_id}/logs/preview")
def preview(platform: Shared, job: Seen, task_id: str) -> dict[str, Any]:
    """The newest 5 MB of a log."""
    run, found = task_log.parts(platform, job, node_of(job, task_id))
    content = task_log.tail(run, found, MOST)
    size = sum(part.size for part in found)
    return {"content": content.decode("utf-8", "replace"), "current_size": len(content), "full_size": max(size, len(content))}


@router.get(JOB + "/logs/{task_id}")
def read_lines(
    platform: Shared,
    job: Seen,
    task_id: str,
    base_line: Annotated[str | None, Query(max_length=20)] = None,
    lines: Annotated[int, Query(ge=1, le=500)] = 50,
    order: Annotated[str, Query(max_length=20)] = "desc",
) -> dict[str, Any]:
    """Lines of a log: with `asc` those behind a line, with `desc` those before it, or the last."""
    run, found = task_log.parts(platform, job, node_of(job, task_id))
    base = line_number(base_line)
    if order not in ("asc", "desc"):
        raise Refused(BAD_FIELD, f"`order` is `{order}`; write asc or desc")
    part = task_log.after(run, found, base or 0, lines) if order == "asc" else task_log.before(run, found, base, lines)
    content = task_log.text_of(part.lines)
    return {"start_line": str(part.first), "end_line": str(part.last), "lines": len(part.lines), "content": content}


def line_number(text: str | None) -> int | None:
    """The number of a line; None where there is none. Raises Refused."""
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit()):
        raise Refused(BAD_FIELD, f"`base_line` is `{text}`; write the number of a line")
    return int(text)


@router.get(JOB + "/tasks/{task_id}/logs/url")
def address(request: Request, context: Context, asking: Asking, job: Seen, task_id: str) -> dict[str, str]:
    """An address at which the log can be read for an hour, once the job has saved it."""
    node_of(job, task_id)
    target = str(job.row.job.get("log_url") or "")
    if not target:
        raise Refused(NO_LOG, NOT_THERE.format("its spec names no log_export_path", task_id))
    if not shown.has_ended(job):
        raise Refused(NO_LOG, NOT_THERE.format("they are saved at its end", task_id))
    store = context.store_at(request.headers.get("host", ""))
    if store is None:
        raise Refused(NO_LOG, NOT_THERE.format("the server does not know at which address people reach its store", task_id))
    bucket, _, folder = target.partition("://")[2].partition("/")
    key = f"{folder.strip('/')}/modelarts-job-{job_id(job.run)}-{task_id}.log".lstrip("/")
    own = link_key(asking.principal.user_id)
    return {"obs_url": presign.get_url(store, bucket, key, own, context.vault.derived(own), HOUR, time.time())}
