"""Rules about a whole job: combinations of fields, names and secrets. Data in, findings out; no file is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

from muster.job.data import Data
from muster.job.kinds import PASSWORD
from muster.job.model import LAUNCHERS, PLACE, SECRET_NAME, Job
from muster.job.source import Finding

# Commands for bash behind whose end no words can follow: several lines, a comment, one that is closed, sent off or only waits.
NO_PLACE = r"\n|(\A|\s)#|[;&|]\Z|\bsleep\s+inf(inity)?['\"]?\Z"

# Their values belong into `secrets`, never into a file.
IN_URL = "a URL with a name or a password, and a job file is no place for one"
SECRET = re.compile(f"({SECRET_NAME})$", re.IGNORECASE)
RESERVED = ("is a name that Muster keeps for itself", "give it another name")

# Directories that are not the machine's in a job: what is written there stays with the run.
OWN = ("", "/cache", "/tmp", "/home/work", "/home/ma-user")


def program(job: Job, fields: Set[str], unread: Set[str]) -> Iterator[Finding]:
    """Finds fields that do not go together: what is run, and how. Of the given `fields` some could not be read."""
    if "boot" in fields and "command" in fields:
        yield Finding("boot", "and `command` are both given", "keep the one that should run")
    yield from _reaching(job, fields, unread)
    if "boot" not in fields and "command" not in fields and not job.is_environment and "kind" not in unread:
        yield Finding("", "says neither `boot` nor `command`", "add `boot: train.py` or `command: python train.py`")
    if "framework" not in unread:
        yield from _framework(job)
    if job.keep_alive and job.compat != "apulis" and "compat" not in unread:
        message = "goes with `compat: apulis`, where commands end with `sleep infinity`"
        yield Finding("keep_alive", message, "remove it")
    if job.compat and job.workdir == "rank":
        message = "cannot be `rank` with `compat`: those platforms have one code directory per node"
        yield Finding("workdir", message, "remove it")
    yield from _bench(job)
    if job.retry_on and not job.retries and "retries" not in unread:
        yield Finding("retry_on", "has no effect without `retries`", "add `retries: 2`, or remove it")
    if "python" in fields and "boot" not in fields and "command" in fields:
        yield Finding("python", "runs `boot` files, and this job has a command", "write the Python into the command")
    command = job.command
    if isinstance(command, str) and not PLACE.search(command) and re.search(NO_PLACE, command.strip()):
        for name in (name for name in ("parameters", "inputs", "outputs") if _has_words(getattr(job, name))):
            yield Finding(name, "have no place behind this command", 'write `"$@"` in it where they belong')


def _reaching(job: Job, fields: Set[str], unread: Set[str]) -> Iterator[Finding]:
    """Finds what environments cannot have, and endpoints on nodes that the job does not have."""
    for name, endpoint in job.endpoints.items():
        if endpoint.on >= job.nodes + job.ps and "nodes" not in unread:
            yield Finding(f"endpoints.{name}", f"is on node {endpoint.on}", f"the nodes are 0 to {job.nodes + job.ps - 1}")
    if not job.is_environment:
        if job.idle_limit is not None and "kind" not in unread:
            yield Finding("idle_limit", "goes with `kind: environment`", "use `time_limit` or `silent_limit`, or remove it")
        return
    for name in ("boot", "command"):
        if name in fields:
            yield Finding(name, "is a program, and an environment waits for people", "remove it, or remove `kind`")
    if job.nodes > 1:
        yield Finding("nodes", f"is {job.nodes}, and an environment is one node", "remove it, or remove `kind`")
    for name, given in (("framework", job.framework != "command"), ("per", job.per == "device"), ("bench", job.bench)):
        if given:
            yield Finding(name, "has no program to start in an environment", "remove it")
    if _has_words(job.parameters) or _has_words(job.inputs) or _has_words(job.outputs):
        name = next(name for name in ("parameters", "inputs", "outputs") if _has_words(getattr(job, name)))
        hint = "use `env`" if name == "parameters" else "write `{url: ..., access: env}`"
        yield Finding(name, "have no program that they could be passed to in an environment", hint)


def _framework(job: Job) -> Iterator[Finding]:
    framework = job.framework
    if job.per == "node" and framework != "command":
        message = f"is `node`, and {framework} starts one process per device"
        yield Finding("per", message, "write `per: device`, or remove it")
    if job.ps and framework != "tensorflow":
        yield Finding("ps", f"goes with framework `tensorflow`, not with {framework}", "remove it")
    if job.rank_table and framework != "mindspore" and not job.compat:
        message = f"goes with framework `mindspore` or with `compat`, not with {framework}"
        yield Finding("rank_table", message, "remove it")
    if job.workdir == "rank" and framework in LAUNCHERS:
        message = f"can only be `node` with {framework}, whose launcher starts the ranks"
        yield Finding("workdir", message, "remove it")


def _bench(job: Job) -> Iterator[Finding]:
    if job.servers and (job.framework in LAUNCHERS or job.compat == "apulis" or job.ps):
        which = "parameter servers" if job.ps else job.compat or job.framework
        message = f"makes a world of every node, which {which} cannot be split into"
        yield Finding("bench.scope", message, "measure one node, with `nodes: 1` and scope `cluster`")


def _has_words(entries: Mapping[str, str | Data]) -> bool:
    """True if some of these are passed to the program as arguments."""
    return any(not isinstance(entry, Data) or entry.access == "parameter" for entry in entries.values())


def variables(job: Job) -> Iterator[Finding]:
    """Finds variables that a job cannot set, or not in the open."""
    for name, value in job.env.items():
        hint = f"write `secrets: [{name}]` and export it, or put it into a profile"
        if name.startswith("MUSTER_"):
            yield Finding(f"env.{name}", *RESERVED)
        elif SECRET.search(name) and value:
            yield Finding(f"env.{name}", "looks like a secret, and a job file is no place for one", hint)
        elif re.search(PASSWORD, value):
            yield Finding(f"env.{name}", f"holds {IN_URL}", hint)
    for name in job.secrets:
        if name.startswith("MUSTER_"):
            yield Finding("secrets", f"names `{name}`, which Muster keeps for itself", "give it another name")
        if name in job.env:
            yield Finding("secrets", f"and `env` both name `{name}`", "keep it in one of them")


def passwords(job: Job) -> Iterator[Finding]:
    """Finds passwords in URLs that the record of a run, and command lines that everybody sees, would hold."""
    for name, value in job.parameters.items():
        if re.search(PASSWORD, value):
            hint = "name a variable in `secrets`, and let the program read that"
            yield Finding(f"parameters.{name}", f"holds {IN_URL}", hint)
    command = job.command if isinstance(job.command, str) else "\n".join(job.command)
    for field, text in {"command": command, "setup": job.setup}.items():
        if re.search(PASSWORD, text):
            yield Finding(field, f"holds {IN_URL}", "write `$NAME` in its place, and name NAME in `secrets`")


def data(job: Job, unread: Set[str]) -> Iterator[Finding]:
    """Finds names of inputs and outputs that clash, and outputs that would be lost with the node."""
    for kind, entries in (("inputs", job.inputs), ("outputs", job.outputs)):
        for name, entry in entries.items():
            if entry.access == "env" and name.startswith("MUSTER_"):
                yield Finding(f"{kind}.{name}", *RESERVED)
            if name in job.parameters or name in job.env:
                other = "parameters" if name in job.parameters else "env"
                yield Finding(f"{kind}.{name}", f"is also named by `{other}`", "keep it in one of them")
    for name, entry in job.outputs.items():
        if entry.url.rstrip("/") in OWN:
            message = f"is {entry.url}, which every simulated node has for itself"
            yield Finding(f"outputs.{name}", message, "name a directory inside of it, or elsewhere")
    for name in sorted(set(job.inputs) & set(job.outputs)):
        yield Finding(f"outputs.{name}", "is also an input", "give one of them another name")
    for name in job.requires:
        if name not in job.inputs and "inputs" not in unread:
            known = ", ".join(f"`{known}`" for known in job.inputs) or "none"
            yield Finding(f"requires.{name}", "is not an input of this job", f"its inputs: {known}")
