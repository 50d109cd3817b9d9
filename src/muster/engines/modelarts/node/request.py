"""The request that creates a job of the service: pure, and the same for `--dry-run` and for the supervisor."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from muster.dataclass import dataclass, field
from muster.engines.modelarts.node.inside import carried
from muster.engines.modelarts.node.inside.carried import Carried, has_agent
from muster.engines.modelarts.options import ModelArtsOptions
from muster.job import Job
from muster.job.data import local_path

LONGEST_NAME = 64  # of a job there
JOBS = "/{version}/{{project_id}}/training-jobs"


@dataclass(frozen=True)
class Places:
    """Where the service finds what the job names."""

    code: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    carried: Carried | None = None  # of a job that runs Muster's agent


def options_of(job: Job) -> ModelArtsOptions:
    found: ModelArtsOptions = job.modelarts or ModelArtsOptions()
    return found


def version(job: Job) -> str:
    return options_of(job).api or ("v1" if job.compat == "modelarts-v1" else "v2")


def path(job: Job) -> str:
    return JOBS.format(version=version(job))


def service_name(run_id: str, attempt: int) -> str:
    """The name of a job there: it is the run's and the attempt's alone, so that it can be looked for."""
    name, *rest = run_id.rsplit("-", 3)
    end = "-".join([*rest, str(attempt)])
    clean = re.sub(r"[^0-9A-Za-z_-]+", "-", name).strip("-") or "job"
    return f"{clean[: LONGEST_NAME - len(end) - 1]}-{end}"


def description(run_id: str, attempt: int) -> str:
    return f"Muster run {run_id}, attempt {attempt}"[:256]


def places(job: Job, run_id: str, digest: str, data: Mapping[str, str], attempt: int = 1, archive: str = "") -> Places:
    """Where code, data and outputs lie; `data` are the digests of local inputs by name, `archive` is the packed agent."""
    options = options_of(job)
    store = options.store.rstrip("/")
    named = re.sub(r"[^\w.-]+", "-", os.path.basename(job.code.rstrip("/"))) or "code"
    own = f"{store}/code/{digest}/{named}/"
    code = options.code_dir.rstrip("/") + "/" if options.code_dir else own
    inputs = {name: one.url for name, one in job.inputs.items()}
    for name, one in data.items():
        base = os.path.basename(local_path(job.inputs[name].url).rstrip("/")) or "data"
        inputs[name] = f"{store}/data/{one}/{base}"
    outputs = {
        name: f"{store}/runs/{run_id}/{name}/" if local_path(one.url) else one.url.rstrip("/") + "/"
        for name, one in job.outputs.items()
    }
    if has_agent(job):
        there = carried.places(options, run_id, attempt, archive, own)
        return Places(there.agent, inputs, outputs, there)
    return Places(code if needs_code(job) else "", inputs, outputs)


def needs_code(job: Job) -> bool:
    return bool(job.boot) or bool(options_of(job).store or options_of(job).code_dir)


def body(job: Job, run_id: str, attempt: int, found: Places) -> dict[str, Any]:
    """The body of the request."""
    return (_v1 if version(job) == "v1" else _v2)(job, run_id, attempt, found)


def in_service(url: str) -> str:
    """A URL as the service writes it: `/bucket/key`."""
    return "/" + url.partition("://")[2] if "://" in url else url


def command_text(job: Job) -> str:
    return job.command if isinstance(job.command, str) else shlex.join(job.command)


def _v2(job: Job, run_id: str, attempt: int, found: Places) -> dict[str, Any]:
    options = options_of(job)
    algorithm: dict[str, Any] = {}
    if found.code:
        algorithm["code_dir"] = in_service(found.code)
    algorithm.update(_program(job, found))
    engine = {"image_url": options.image} if options.image else {}
    if options.engine:
        engine["engine_id"] = options.engine
    algorithm["engine"] = engine
    if found.carried is None:  # else the agent passes them on
        algorithm["parameters"] = [{"name": name, "value": value} for name, value in job.parameters.items()]
        algorithm["environments"] = dict(job.env)
    algorithm["inputs"] = [_data(job.inputs[name].access, name, url) for name, url in found.inputs.items()]
    algorithm["outputs"] = [_data(job.outputs[name].access, name, url) for name, url in found.outputs.items()]
    if found.carried is not None:
        algorithm["inputs"] += [_data("env", name, url) for name, url in found.carried.inputs.items()]
        algorithm["outputs"] += [_data("env", name, url) for name, url in found.carried.outputs.items()]
    metadata: dict[str, Any] = {"name": service_name(run_id, attempt), "description": description(run_id, attempt)}
    metadata.update({"workspace_id": options.workspace, "annotations": dict(options.annotations)})
    resource = {"flavor_id": options.flavor, "node_count": job.nodes, "pool_id": options.pool}
    spec: dict[str, Any] = {"resource": _given(resource)}
    if job.log_url:
        spec["log_export_path"] = {"obs_url": in_service(job.log_url.rstrip("/") + "/")}
    if job.time_limit:  # what ends the job where nobody looks after it; the supervisor keeps the exact time
        spec["auto_stop"] = {"time_unit": "HOURS", "duration": max(1, math.ceil(job.time_limit / 3600))}
    if options.priority:
        spec["schedule_policy"] = {"priority": options.priority}
    if options.volumes:
        spec["volumes"] = [
            {"nfs": {"nfs_server_path": one.server, "local_path": one.path, "read_only": one.access == "read"}}
            for one in options.volumes
        ]
    return {"kind": "job", "metadata": _given(metadata), "algorithm": _given(algorithm), "spec": spec}


def _program(job: Job, found: Places) -> dict[str, str]:
    """What the service starts."""
    if found.carried is not None and options_of(job).engine:
        return {"boot_file": in_service(found.code) + carried.BOOT}
    if found.carried is not None:
        return {"command": found.carried.command}
    boot = {"boot_file": in_service(found.code) + job.boot} if job.boot else {}
    return {**boot, "command": command_text(job)} if job.command else boot


def _data(access: str, name: str, url: str) -> dict[str, Any]:
    return {"name": name, "access_method": access, "remote": {"obs": {"obs_url": in_service(url)}}}


def _v1(job: Job, run_id: str, attempt: int, found: Places) -> dict[str, Any]:
    """Numbers of specs and engines that are still names are looked up when the job is created."""
    options = options_of(job)
    config: dict[str, Any] = {"worker_server_num": job.nodes, "create_version": True}
    if found.code:
        config["app_url"] = in_service(found.code)
    if job.boot:
        config["boot_file_url"] = in_service(found.code) + job.boot
    labels = dict(job.env) if job.command else {}
    labels.update(job.parameters)
    for own, places_of in (("data_url", found.inputs), ("train_url", found.outputs)):
        for name, url in places_of.items():
            if name == own:
                config[own] = in_service(url)
            else:
                labels[name] = "s3:/" + in_service(url)
    config["parameter"] = [{"label": label, "value": value} for label, value in labels.items()]
    if job.command:
        config.update({"user_command": command_text(job), "user_image_url": options.image})
    elif options.engine:
        config["engine_id"] = number_of(options.engine)
    if options.flavor:
        config["spec_id"] = number_of(options.flavor)
    config["pool_id"] = options.pool
    if job.log_url:
        config["log_url"] = in_service(job.log_url.rstrip("/") + "/")
    if options.volumes:
        config["volumes"] = [_v1_volume(one.server, one.path, one.access == "read") for one in options.volumes]
    about = {"job_name": service_name(run_id, attempt), "job_desc": description(run_id, attempt)}
    return {**about, **_given({"workspace_id": options.workspace}), "config": _given(config)}


def _v1_volume(server: str, path: str, read_only: bool) -> dict[str, Any]:
    return {"nfs": {"id": "0", "src_path": server, "dest_path": path, "read_only": read_only}}


def number_of(text: str) -> Any:
    """The number of a spec or an engine; its name where it is no number."""
    return int(text) if text.isascii() and text.isdigit() else text


def _given(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value not in ("", None, {}, [])}
