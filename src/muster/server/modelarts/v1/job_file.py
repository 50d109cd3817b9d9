"""A job of version 1 as a job file: `config` has the code, its data as URLs for MoXing, and numbers for specs and engines."""

from __future__ import annotations

import re
from typing import Any

from muster.server.modelarts import engines, flavors
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.asking.problems import BAD_FIELD, INVALID, NO_ENGINE, NO_FLAVOR, Refused
from muster.server.modelarts.engines import Chosen
from muster.server.modelarts.flavors import Offer
from muster.server.modelarts.job_file import MOST_NODES, NAME, beneath, url
from muster.server.runs.platform import Platform

KINDS = ("cpu", "nvidia", "ascend")
STEP = 10_000  # between the numbers of specs of two kinds


def spec_number(offer: Offer) -> int:
    """The number of a flavor, which is the same as long as there is that kind."""
    return (KINDS.index(offer.kind) + 1) * STEP + offer.devices


def job_file(platform: Platform, offered: list[Offer], name: str, config: Fields) -> tuple[dict[str, Any], str]:
    """The fields of the job file, and the pool. Raises Refused."""
    if not re.fullmatch(NAME, name):
        raise Refused(BAD_FIELD, "`job_name` is not made of 1 to 64 letters, digits, `_` and `-`; choose another")
    for field, why in (
        ("model_id", "built-in algorithms are not offered here; name app_url and boot_file_url"),
        ("volumes", "volumes are not mounted here; put what they hold into the store"),
        ("dataset_id", "datasets are not offered here; name a data_url"),
    ):
        if config.has(field):
            raise Refused(INVALID, f"`config.{field}` is given, and {why}")
    wanted = flavors.choose(platform, offered, _flavor(offered, config), config.text("pool_id"))
    fields: dict[str, Any] = {"name": name, "compat": "modelarts-v1", "device": wanted.kind, "devices": wanted.devices}
    fields["nodes"] = config.number("worker_server_num", 1, MOST_NODES) or 1
    fields.update(_program(platform, config))
    fields["inputs"] = {"data_url": url(data, "config.data_url")} if (data := _data(config)) else {}
    if train := config.text("train_url"):
        fields["outputs"] = {"train_url": url(train, "config.train_url")}
    if log := config.text("log_url"):
        fields["log_url"] = url(log, "config.log_url")
    labels = [(one.needed("label", "name the parameter"), one.written("value")) for one in config.objects("parameter")]
    fields["env" if config.has("user_command") else "parameters"] = dict(labels)
    return {field: value for field, value in fields.items() if value not in ("", None, {})}, wanted.pool


def _flavor(offered: list[Offer], config: Fields) -> str:
    number = config.number("spec_id", 0, 10 * STEP)
    if number is None:
        return config.text("spec_code")
    found = next((offer.id for offer in offered if spec_number(offer) == number), None)
    if found is None:
        raise Refused(NO_FLAVOR, f"there is no spec {number}; `GET /v1/PROJECT/job/resource-specs` lists them")
    return found


def _data(config: Fields) -> str:
    sources = list(config.objects("data_source"))
    if len(sources) > 1 or any(one.text("type", "obs") != "obs" for one in sources):
        raise Refused(INVALID, "`config.data_source` has more than one place, or a dataset; name one data_url")
    return config.text("data_url") or next((one.text("data_url") for one in sources), "")


def _program(platform: Platform, config: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    code, boot, command = config.text("app_url"), config.text("boot_file_url"), config.text("user_command")
    if code:
        found["code"] = url(code, "config.app_url")
    if command:
        return {**found, "framework": "command", "command": command}
    if not code or not boot:
        raise Refused(BAD_FIELD, f"`config.{'boot_file_url' if code else 'app_url'}` is missing; name both, or user_command")
    settings = engine_of(platform, config).settings
    found["boot"] = beneath(found["code"], url(boot, "config.boot_file_url"))
    return {**found, "framework": settings.framework, "python": settings.python, "setup": settings.setup}


def engine_of(platform: Platform, config: Fields) -> Chosen:
    known = engines.listed(platform.modelarts)
    number = config.number("engine_id", 1, 1_000_000)
    if number is None or number > len(known):
        raise Refused(NO_ENGINE, "`config.engine_id` is no number of an engine; `GET /v1/PROJECT/job/ai-engines` lists them")
    return known[number - 1]
