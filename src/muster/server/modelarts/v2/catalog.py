"""Routes of what jobs may name: flavors, engines, quotas."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from muster.server.core.authentication import Context
from muster.server.modelarts import engines, flavors, stored
from muster.server.modelarts.asking.callers import Asking, Within
from muster.server.modelarts.asking.problems import Route
from muster.server.modelarts.flavors import TYPES, Offer
from muster.server.modelarts.telling import shown
from muster.server.modelarts.v2.paths import PROJECT
from muster.server.runs.api.models import Shared
from muster.server.runs.queue import quotas

router = APIRouter(route_class=Route, include_in_schema=False)
Text = Annotated[str | None, Query(max_length=200)]


@router.get(PROJECT + "/training-job-flavors")
def list_flavors(platform: Shared, asking: Asking, project: Within, flavor_type: Text = None) -> dict[str, Any]:
    found = [_flavor(offer) for offer in flavors.offers(platform, asking, project)]
    found += [_alias(name, alias.device, alias.devices, alias.pool) for name, alias in platform.modelarts.flavors.items()]
    wanted = [one for one in found if not flavor_type or one["flavor_type"].lower() == flavor_type.lower()]
    return {"total_count": len(wanted), "flavors": wanted}


@router.get(PROJECT + "/training-job-engines")
def list_engines(platform: Shared, project: Within) -> dict[str, Any]:
    items = [
        {
            "engine_id": one.id,
            "engine_name": one.name,
            "engine_version": one.version,
            "v1_compatible": False,
            "run_user": "",
            "image_info": {"cpu_image_url": "", "gpu_image_url": "", "image_version": ""},
        }
        for one in engines.listed(platform.modelarts)
    ]
    return {"total": len(items), "items": items}


@router.get(PROJECT + "/training-pool-flavors")
def show_most(
    platform: Shared, asking: Asking, project: Within, flavor_id: Text = None, pool_id: Text = None
) -> dict[str, Any]:
    """CPUs and memory of the largest node on which a flavor may run."""
    found = flavors.offers(platform, asking, project)
    wanted = flavors.choose(platform, found, flavor_id or "", pool_id or "")
    fitting = [
        offer
        for offer in found
        if wanted.pool in ("", offer.pool) and wanted.kind in ("auto", "cpu", offer.kind) and offer.devices >= wanted.devices
    ]
    cpus, memory = (max((getattr(one, name) for one in fitting), default=0) for name in ("cpus", "memory"))
    return {"cpu_core_num": cpus, "mem_size": memory >> 30}


@router.get(PROJECT + "/training-quotas")
def show_quotas(
    context: Context, platform: Shared, project: Within, user_id: Text = None, resource: Text = None
) -> dict[str, Any]:
    """How many jobs there may be, and the quotas of devices that the project has."""
    at_once = sum(pool.settings.runs for pool in platform.pools.serving(project.name))
    with context.database.read() as connection:
        most, used = stored.quota(connection, project.id, at_once)
        devices = [one for one in quotas.of_project(connection, project) if one.user is None]
    found: list[dict[str, Any]] = [{"resource": "job-num", "quota": most, "used": used}]
    found += [{"resource": f"{one.kind}-num", "quota": one.devices} for one in devices]
    return {"quotas": [one for one in found if resource in (None, one["resource"])]}


def _flavor(offer: Offer) -> dict[str, Any]:
    about = _alias(offer.id, offer.kind, offer.devices, offer.pool)
    about["flavor_info"] = shown.flavor_info(offer.kind, offer.devices, offer.model, offer.cpus, offer.memory)
    return {**about, "max_num": offer.nodes, "attributes": {"model": offer.model} if offer.model else {}}


def _alias(name: str, kind: str, devices: int, pool: str) -> dict[str, Any]:
    return {
        "flavor_id": name,
        "flavor_name": name,
        "flavor_type": TYPES.get(kind, "CPU"),
        "max_num": 1,
        "billing": {"code": name, "unit_num": devices},
        "flavor_info": shown.flavor_info(kind, devices, "", 0, 0),
        "attributes": {},
        "pool_id": pool,
    }
