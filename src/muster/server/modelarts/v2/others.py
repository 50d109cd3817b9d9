"""All other calls of the service: what is not offered here says so, in a body that clients know."""

from __future__ import annotations

import re

from fastapi import APIRouter

from muster.server.modelarts.asking.callers import Asking
from muster.server.modelarts.asking.problems import NO_API, NOT_OFFERED, Refused, Route

router = APIRouter(route_class=Route, include_in_schema=False)
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
# What the rest of a path begins with, behind the project, and what to do instead.
REFUSED = (
    (r"training-quotas", "quotas are set by administrators, with `muster projects quota`"),
    (r"training-jobs/[^/]+/route_plan", "ranks are numbered in the order of the nodes"),
    (r"training-jobs/[^/]+/tasks/[^/]+/reports", "reports of tasks are not taken; programs record with `muster.record`"),
    (r"training-jobs/[^/]+/tasks/[^/]+/save-image-job", "jobs run without images, so there is none to save"),
    (r"training-jobs/([^/]+/)?autosearch|search-algorithms", "parameters are not searched for here; submit a job for each set"),
    (r"training-jobs/[^/]+/ft-|training-jobs/", "this call is not offered here"),
    (r"training-job-configs", "configurations are not kept here; keep the body of the job, or a template of the portal"),
    (r"built-in-algorithms", "there are no built-in algorithms here; name app_url and boot_file_url"),
    (r"visualization-jobs", "TensorBoard is an endpoint of the run here, see docs/endpoints.md"),
    (r"modelarts-training-job", "jobs have no tags here; use annotations"),
    (r"training-experiment", "jobs are not grouped here; give them names that begin alike"),
    (r"training-event-categories", "events have no categories here"),
    (r"algorithms|gallery", "there are no stored algorithms here; name code_dir and boot_file in the job"),
    (r"pools|resourceflavors|events|images|workspaces", "pools are shown by `muster pools`, and made in config.toml"),
)


@router.api_route("/v2/{project_id}/{rest:path}", methods=METHODS)
@router.api_route("/v1/{project_id}/{rest:path}", methods=METHODS)
def refuse(asking: Asking, rest: str) -> None:
    for pattern, instead in REFUSED:
        if re.match(pattern, rest):
            raise Refused(NOT_OFFERED, f"Muster does not offer this call of ModelArts: {instead}", 501)
    raise Refused(NO_API, "there is no such call; docs/modelarts.md lists those that there are", 404)
