"""A job of the API as a job file of Muster's: what can be said there, and refusals of what would be missed silently."""

from __future__ import annotations

import json
import re
from typing import Any

from muster.config.modelarts import Engine
from muster.server.modelarts import engines, flavors
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.asking.problems import (
    BAD_FIELD,
    BAD_PATH,
    BOOT_FILE,
    CODE_DIR,
    INVALID,
    NO_ALGORITHM,
    TOO_MANY_NODES,
    Refused,
)
from muster.server.modelarts.engines import Chosen
from muster.server.modelarts.flavors import Offer, Wanted
from muster.server.runs.platform import Platform

NAME = r"[0-9A-Za-z_-]{1,64}"
PRIORITIES = {1: 100, 2: 150, 3: 200}
RETRIES = "fault-tolerance/job-retry-num"
MOST_NODES, MOST_HOURS, MOST_RETRIES, MOST_VARIABLES = 20_000, 720 * 24, 128, 100
LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}  # which YAML takes for ends of lines


def job_file(platform: Platform, offered: list[Offer], given: Fields) -> tuple[dict[str, Any], str]:
    """The fields of the job file, and the pool. Raises Refused."""
    _refuse_others(given)
    metadata, algorithm, spec = given.object("metadata"), given.object("algorithm"), given.object("spec")
    resource = spec.object("resource")
    wanted = flavors.choose(platform, offered, resource.text("flavor_id"), resource.text("pool_id"))
    fields = {"name": job_name(metadata), "compat": "modelarts-v2", **_program(platform, algorithm)}
    fields.update(_resources(resource, wanted))
    fields["parameters"] = _parameters(algorithm)
    fields["env"] = _variables(algorithm)
    fields["inputs"], fields["outputs"] = _data(algorithm, "inputs"), _data(algorithm, "outputs")
    if log := spec.object("log_export_path").text("obs_url"):
        fields["log_url"] = url(log, "spec.log_export_path.obs_url")
    fields.update(_schedule(spec))
    if (retries := _retries(metadata)) is not None:
        fields["retries"] = retries
    return {name: value for name, value in fields.items() if value not in ("", None, {})}, wanted.pool


def text_of(fields: dict[str, Any]) -> str:
    """The text of a job file: JSON, all of which is YAML, too."""
    text = json.dumps(fields, ensure_ascii=False, indent=1)
    for character, written in LINE_ENDS.items():
        text = text.replace(character, written)
    return text


def job_name(metadata: Fields) -> str:
    name = metadata.needed("name", "name the job")
    if not re.fullmatch(NAME, name):
        raise Refused(BAD_FIELD, f"`{metadata.at('name')}` is not made of 1 to 64 letters, digits, `_` and `-`; choose another")
    if len(metadata.text("description")) > 256:
        raise Refused(BAD_FIELD, f"`{metadata.at('description')}` has more than 256 characters; shorten it")
    return name


def url(text: str, field: str) -> str:
    """The URL of a place in the store, as `/bucket/key/` or `obs://bucket/key/`. Raises Refused."""
    if text.startswith(("obs://", "s3://")):
        return text
    if text.startswith("/") and text.strip("/"):
        return "obs:/" + text
    raise Refused(BAD_PATH, f"`{field}` is {json.dumps(text[:100])}; write `/bucket/folder/` or `obs://bucket/folder/`")


def _refuse_others(given: Fields) -> None:
    kind, algorithm, spec = given.text("kind") or "job", given.object("algorithm"), given.object("spec")
    if kind != "job":
        raise Refused(INVALID, f"`kind` is {json.dumps(kind[:40])}, and jobs of the kind `job` alone are offered here")
    if algorithm.has("id") or algorithm.has("subscription_id"):
        raise Refused(NO_ALGORITHM, "there are no stored algorithms here; write code_dir and boot_file into `algorithm`")
    elsewhere = "put what they hold into the store, and name it in `inputs`"
    for fields, name, why in (
        (given, "tasks", "jobs whose nodes differ are not offered here; submit one job for each"),
        (spec, "volumes", f"volumes are not mounted here; {elsewhere}"),
        (algorithm, "policies", "the search for parameters is not offered here; submit one job for each set of them"),
        (spec.object("resource"), "pool_group_id", "there are no groups of pools here; name a pool in pool_id"),
    ):
        if fields.has(name):
            raise Refused(INVALID, f"`{fields.at(name)}` is given, and {why}")


def _program(platform: Platform, algorithm: Fields) -> dict[str, Any]:
    """The code, what is run of it, and with what."""
    found: dict[str, Any] = {}
    code, boot, command = algorithm.text("code_dir"), algorithm.text("boot_file"), algorithm.text("command")
    if code:
        found["code"] = url(code, "algorithm.code_dir")
    engine = algorithm.object("engine")
    if command:
        return {**found, "framework": "command", "command": command}
    if not code or not boot:
        missing = "code_dir" if not code else "boot_file"
        raise Refused(BAD_FIELD, f"`algorithm.{missing}` is missing; name code_dir and boot_file, or a command")
    chosen = engine_of(platform, engine)
    settings = chosen.settings if chosen else Engine("command")
    found["boot"] = beneath(found["code"], url(boot, "algorithm.boot_file") if boot.startswith("/") else boot)
    return {**found, "framework": settings.framework, "python": settings.python, "setup": settings.setup}


def engine_of(platform: Platform, engine: Fields) -> Chosen | None:
    """The engine of a job; None for a custom image."""
    if engine.text("image_url") and not engine.has("engine_id") and not engine.has("engine_name"):
        return None
    return engines.choose(platform.modelarts, engine)


def beneath(code: str, boot: str) -> str:
    if not code.rstrip("/").removeprefix("obs://").removeprefix("s3://"):
        raise Refused(CODE_DIR, "`algorithm.code_dir` names no bucket; write `/bucket/folder/`")
    if "://" not in boot:
        return boot
    folder = code.partition("://")[2].rstrip("/") + "/"
    path = boot.partition("://")[2]
    if not path.startswith(folder) or path == folder:
        raise Refused(BOOT_FILE, "`algorithm.boot_file` is not beneath `algorithm.code_dir`; name a file inside it")
    return path.removeprefix(folder)


def _resources(resource: Fields, wanted: Wanted) -> dict[str, Any]:
    own = resource.object("main_container_customized_flavor")
    try:
        nodes = resource.number("node_count", 1, MOST_NODES)
    except Refused as error:
        raise Refused(TOO_MANY_NODES, str(error)) from None
    found: dict[str, Any] = {"nodes": nodes or 1, "device": wanted.kind, "devices": wanted.devices}
    if accelerators := own.number("accelerator_num", 0, 4000):
        found["devices"] = accelerators
    if cpus := own.number("cpu_core_num", 0, 100_000):
        found["cpus"] = cpus
    if memory := own.number("mem_size", 0, 1_000_000):
        found["memory"] = f"{memory}G"
    return found


def _parameters(algorithm: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in algorithm.objects("parameters"):
        name = one.needed("name", "name the parameter")
        if name in found:
            raise Refused(BAD_FIELD, f"`{one.at('name')}` names `{name[:80]}` again; name each parameter once")
        found[name] = one.written("value")
    return found


def _variables(algorithm: Fields) -> dict[str, str]:
    found = algorithm.texts("environments")
    if len(found) > MOST_VARIABLES:
        raise Refused(BAD_FIELD, f"`{algorithm.at('environments')}` has {len(found)} variables; 100 are allowed")
    return found


def _data(algorithm: Fields, field: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in algorithm.objects(field):
        name = one.needed("name", "name it as the program does, such as data_url")
        remote = one.object("remote")
        given = remote.object("obs").text("obs_url") or remote.object("dataset").text("obs_url")
        if not given:
            reason = "datasets are not offered here" if remote.has("dataset") else "it names no place"
            raise Refused(BAD_PATH, f"`{one.path}`: {reason}; write remote.obs.obs_url")
        access = one.text("access_method") or "parameter"
        if access not in ("parameter", "env"):
            raise Refused(BAD_FIELD, f"`{one.at('access_method')}` is neither `parameter` nor `env`")
        if name in found:
            raise Refused(BAD_FIELD, f"`{one.at('name')}` is there twice; name each once")
        found[name] = {"url": url(given, f"{one.path}.remote.obs.obs_url"), "access": access}
    return found


def _schedule(spec: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    stop, policy = spec.object("auto_stop"), spec.object("schedule_policy")
    if (hours := stop.number("duration", 1, MOST_HOURS)) is not None:
        if stop.text("time_unit", "HOURS").upper() != "HOURS":
            raise Refused(BAD_FIELD, f"`{stop.at('time_unit')}` is not HOURS, the only unit that there is")
        found["time_limit"] = f"{hours}h"
    if (priority := policy.number("priority", 1, 3)) is not None:
        found["priority"] = PRIORITIES[priority]
    if policy.flag("preemptible"):
        found["preemptible"] = True
    return found


def _retries(metadata: Fields) -> int | None:
    return Fields(metadata.texts("annotations"), metadata.at("annotations")).number(RETRIES, 0, MOST_RETRIES)
