"""What a job cannot be on ModelArts, and what the service would refuse: looked at before anything is uploaded."""

from __future__ import annotations

from collections.abc import Iterator

from muster.engines.base import EngineError
from muster.engines.modelarts.node import jobs, request
from muster.engines.modelarts.node.client import Client, KeysRefused, NoSdk, Refused, Unanswered, objects
from muster.engines.modelarts.node.inside import carried
from muster.engines.modelarts.node.inside.carried import has_agent
from muster.engines.modelarts.node.jobs import V2, place
from muster.engines.modelarts.node.request import options_of
from muster.job import Job
from muster.job.data import local_path
from muster.job.model import PLACE

Found = tuple[str, str, str]

# The limits of the service: of training code, of variables, of retries (docs/modelarts.md names the pages).
MOST_CODE = 128 << 20
MOST_FILES = 4096
MOST_VARIABLES = 100
NOWHERE = "jobs of ModelArts cannot have it"
COMPAT = ("modelarts-v1", "modelarts-v2")
ALONE = "the service alone starts programs with `compat` and of the framework command"
NO_FLAVOR = ("ModelArts.2781", "ModelArts.2763")


def offline(job: Job) -> Iterator[Found]:
    """Finds what can be known without asking the service."""
    yield from _program(job)
    yield from _not_there(job)
    yield from _places(job)
    if len(job.env) > MOST_VARIABLES and not has_agent(job):
        yield "env", f"has {len(job.env)} variables, and a job there has {MOST_VARIABLES} at most", "pass some as parameters"


def _program(job: Job) -> Iterator[Found]:
    options, version = options_of(job), request.version(job)
    if job.compat not in ("", *COMPAT):
        yield (
            "compat",
            f"is {job.compat}, and ModelArts is another platform",
            "write `compat: modelarts-v2`, or use another engine",
        )
    elif has_agent(job):
        yield from _agent(job)
        return
    if job.compat == "modelarts-v2" and version == "v1":
        yield (
            "modelarts.api",
            "is v1, and the program was written for modelarts-v2",
            "write `compat: modelarts-v1`, or leave it out",
        )
    if job.command and not options.image:
        yield "command", "runs in a custom image, and none is named", "add `modelarts: {image: ...}`, or name a `boot` file"
    if job.command and PLACE.search(request.command_text(job)):
        yield "command", 'has a place for its parameters (`"$@"`), and the service puts them behind it', "write it without"
    if job.boot and not options.engine and not options.image:
        yield "modelarts.engine", "is missing: the service runs `boot` with an engine", "add `modelarts: {engine: ...}`"
    if not options.flavor and not options.pool:
        yield "modelarts.flavor", "is missing, and no pool is named", "add `modelarts: {flavor: ...}`, or `pool`"
    if version == "v1" and job.env and not job.command:
        yield "env", "is for custom images alone in version 1 of the API", "pass it as `parameters`"


def _agent(job: Job) -> Iterator[Found]:
    """What a job needs in which Muster's agent runs."""
    options = options_of(job)
    if request.version(job) == "v1":
        yield "modelarts.api", "is v1, and Muster's agent runs in jobs of version 2 alone", "leave it out"
    if not options.engine and not options.image:
        hint = "add `modelarts: {engine: ...}`, or `image`; its Python is 3.9 or newer"
        yield "modelarts.engine", "is missing: Muster's agent runs in an engine or an image", hint
    if not options.flavor and not options.pool:
        yield "modelarts.flavor", "is missing, and no pool is named", "add `modelarts: {flavor: ...}`, or `pool`"
    if not options.store:
        hint = 'set `store = "obs://bucket/folder"` below [modelarts] in config.toml'
        yield "modelarts.store", "is missing: Muster's agent and the record of the run go through it", hint
    for field, names in (("inputs", job.inputs), ("outputs", job.outputs)):
        for name in [name for name in names if name in carried.RESERVED]:
            yield f"{field}.{name}", "has a name that Muster's agent uses", "choose another"


def _not_there(job: Job) -> Iterator[Found]:
    """Fields that jobs there cannot have, and those for which Muster's agent has to run in them."""
    alone = not has_agent(job)
    fields = (
        ("setup", alone and bool(job.setup), "put it into ma-pre-start.sh beside the boot file"),
        (
            "secrets",
            bool(job.secrets),
            "the service would store and show them; have the program read them from a place of its own",
        ),
        ("ps", bool(job.ps), "remove it"),
        ("ssh", alone and bool(job.ssh), "remove it"),
        ("hold_on_failure", bool(job.hold_on_failure), "remove it"),
        ("kind", job.is_environment, "remove it, or use another engine"),
        ("endpoints", bool(job.endpoints or job.login), "remove them"),
        ("bench.scope", job.apart, "measure one node, with `nodes: 1`"),
    )
    for field, given, hint in fields:
        if given:
            yield field, f"is given, and {ALONE if field in ('setup', 'ssh') else NOWHERE}", hint


def _places(job: Job) -> Iterator[Found]:
    options = options_of(job)
    local = [name for name, data in (*job.inputs.items(), *job.outputs.items()) if local_path(data.url)]
    if not options.store and not has_agent(job) and (local or (job.boot and not options.code_dir)):
        what = f"`{local[0]}` is a path of this machine" if local else "the code is on this machine"
        yield "modelarts.store", f"is missing: {what}", 'set `store = "obs://bucket/folder"` below [modelarts] in config.toml'
    if local_path(job.log_url):
        yield (
            "log_url",
            "is a path of this machine, to which the service cannot write",
            "name a URL; logs come into the run directory",
        )
    if options.code_dir:
        if not place(options.code_dir).partition("/")[2]:
            yield "modelarts.code_dir", "is a whole bucket, and what lies there is replaced", "name a folder of its own"
        for name, data in (*job.inputs.items(), *job.outputs.items()):
            if f"{place(data.url)}/".startswith(f"{place(options.code_dir)}/"):
                yield "modelarts.code_dir", f"holds `{name}`, and what lies there is replaced", "name a folder of its own"


def unused(job: Job) -> Iterator[str]:
    """What a job says and the service has no use for."""
    if job.python and job.boot:
        yield "`python` is not used: the engine or the image of the service has its own"
    for field in ("cpus", "memory"):
        if getattr(job, field) is not None:
            yield f"`{field}` is not used: the flavor says what a node has"
    if job.workdir != "node":
        yield "`workdir` is not used: the service starts the ranks of a node in one directory"
    if not request.needs_code(job):
        yield "the code stays here, because no `store` is named below [modelarts]: the image has to hold the program"


def code(size: int, files: int) -> Iterator[Found]:
    hint = "list what is no code in .musterignore"
    if size > MOST_CODE:
        yield "code", f"has {size >> 20} MB, and the service takes {MOST_CODE >> 20} MB at most", hint
    if files > MOST_FILES:
        yield "code", f"has {files:,} files, and the service takes {MOST_FILES:,} at most", hint


def online(client: Client, job: Job) -> list[Found]:
    """Asks the service what it would refuse. Raises EngineError where it does not answer."""
    try:
        found = [*_used(client, job)]
        if request.version(job) == "v1":
            return [*found, *_offered_v1(client, job), *_quota_v1(client)]
        return [*found, *_offered(client, job), *_quota(client)]
    except NoSdk as error:
        raise EngineError(str(error)) from None
    except Unanswered as error:
        raise EngineError(f"{client.account.endpoint} does not answer: {error}; check `endpoint` below [modelarts]") from None
    except KeysRefused as error:
        raise EngineError(f"ModelArts refuses the keys: {error}; check those below [modelarts] in config.toml") from None
    except Refused as error:
        raise EngineError(f"ModelArts refuses a question: {error}; check `project` below [modelarts] in config.toml") from None


def _used(client: Client, job: Job) -> Iterator[Found]:
    """Outputs to which a job writes that has not ended: the service takes one for each."""
    if not job.outputs:
        return
    writers = jobs.of(client, request.version(job)).writers()
    for name, data in job.outputs.items():
        if not local_path(data.url) and (other := writers.get(place(data.url))):
            message = f"is {data.url}, to which the job {other} writes"
            yield f"outputs.{name}", message, "name another place, or wait for that job"


def _offered(client: Client, job: Job) -> Iterator[Found]:
    options = options_of(job)
    if options.flavor:
        listed = objects(client.ask("GET", f"{V2}/training-job-flavors"), "flavors")
        names = [str(one.get("flavor_id")) for one in listed]
        if options.flavor not in names and (said := _unknown_flavor(client, options.flavor, options.pool)):
            known = f"it has {', '.join(names[:12])}" if names else "ask who runs the pool"
            yield "modelarts.flavor", f"is `{options.flavor}`, which the service does not have: {said}", known
    if options.engine:
        listed = objects(client.ask("GET", f"{V2}/training-job-engines"), "items")
        names = [str(one.get("engine_id")) for one in listed]
        if names and options.engine not in names:
            yield (
                "modelarts.engine",
                f"is `{options.engine}`, which the service does not have",
                f"it has {', '.join(names[:12])}",
            )


def _unknown_flavor(client: Client, flavor: str, pool: str) -> str:
    """Why the service does not know a flavor that it does not list: those of dedicated pools are not on the list."""
    query = [("flavor_id", flavor), *([("pool_id", pool)] if pool else [])]
    try:
        client.ask("GET", f"{V2}/training-pool-flavors", query)
    except Refused as error:
        return str(error) if error.code in NO_FLAVOR or not pool else ""
    return ""


def _offered_v1(client: Client, job: Job) -> Iterator[Found]:
    """Specs and engines that are named; numbers are taken as they are."""
    options, there = options_of(job), jobs.JobsV1(client)
    for option, field, name in (("flavor", "spec_id", options.flavor), ("engine", "engine_id", job.boot and options.engine)):
        if name and isinstance(request.number_of(name), str):
            try:
                there.number(field, name)
            except jobs.NotOffered as error:
                yield f"modelarts.{option}", f"is `{name}`, which the service does not have", f"it has {error.known}"


def _quota_v1(client: Client) -> Iterator[Found]:
    if jobs.JobsV1(client).left() == 0:
        yield "", "the quota of jobs is used up in ModelArts", "wait for a job, or ask for more"


def _quota(client: Client) -> Iterator[Found]:
    try:
        quotas = objects(client.ask("GET", f"{V2}/training-quotas"), "quotas")
    except Refused:  # not every cloud has them
        return
    for one in quotas:
        quota, used = one.get("quota"), one.get("used")
        if one.get("resource") == "job-num" and isinstance(quota, int) and isinstance(used, int) and 0 <= quota <= used:
            yield "", f"the quota of {quota} jobs is used up in ModelArts", "wait for a job, or ask for more"
