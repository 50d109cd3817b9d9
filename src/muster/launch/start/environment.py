"""The environment of a run: the submitter's variables, the secrets that its job names, and settings with their keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Mapping
from pathlib import Path

from muster import config
from muster.config import power
from muster.dataclass import dataclass, field
from muster.job import Job
from muster.job.source import Finding
from muster.linux import keys
from muster.records import submissions
from muster.storage.settings import Settings, resolve


class MissingSecrets(Exception):
    """Why this command cannot start a job that was recorded; the text says what to do."""


@dataclass(frozen=True)
class Context:
    """The context in which a job is prepared: where runs lie, the user's settings and environment, and the stores."""

    home: str
    settings: config.Config
    storage: Settings
    variables: Mapping[str, str] = field(repr=False)


def context(home: str, settings: config.Config) -> Context:
    """The context of this process. Raises ConfigError and StorageError for settings that cannot be used."""
    variables = _submitters(home)
    storage = resolve(home, settings.storage, variables, settings.addresses)
    variables[keys.STORAGE] = storage.to_json()  # for the agents' helpers, and no other process
    full = settings.power.travelling(Path(home), {**settings.secrets, **variables}, os.uname().nodename, settings.addresses)
    variables["MUSTER_POWER"] = power.without_passwords(full)
    if full != variables["MUSTER_POWER"]:
        variables[keys.POWER] = full
    return Context(home, settings, storage, variables)


def environment(job: Job, context: Context) -> dict[str, str]:
    """The variables that a run of a job is submitted with: no key that was only for this command."""
    wanted, named = {*job.secrets, keys.STORAGE, keys.POWER}, context.settings.power.secrets()
    secrets = {name: value for name, value in context.settings.secrets.items() if name in job.secrets}
    unwanted = {name for name in context.variables if name in named or keys.is_key(name)} - wanted
    return {**secrets, **{name: value for name, value in context.variables.items() if name not in unwanted}}


def missing_secrets(job: Job, context: Context) -> list[Finding]:
    """The secrets that a job names and that are not set."""
    return unset_secrets(job, environment(job, context), context.home)


def unset_secrets(job: Job, variables: Container[str], home: str) -> list[Finding]:
    """The secrets that a job names and that are not among the variables."""
    place = f"{home}/config.toml"
    return [
        Finding("secrets", f"names `{name}`, which is not set", f"export {name}, or put it into a profile of {place}")
        for name in job.secrets
        if name not in variables
    ]


def of_recorded(job: Job, home: str) -> dict[str, str]:
    """The variables that a recorded job is submitted with again. Raises MissingSecrets."""
    found = context(home, config.load(home))
    if missing := missing_secrets(job, found):
        raise MissingSecrets("; ".join(f"its `{field}` {message}; {hint}" for field, message, hint in missing))
    return environment(job, found)


def of_ending(job: Job, home: str) -> dict[str, str]:
    """The same for a supervisor that only ends what runs: it needs no secrets."""
    return environment(job, context(home, config.load(home)))


def _submitters(home: str) -> dict[str, str]:
    """The submitter's environment. Where it names no locale, Python has put an LC_CTYPE into its own."""
    found = dict(os.environ)
    found.pop(submissions.VARIABLE, None)  # the run's own, set for a later submission
    if "MUSTER_HOME" in found:
        found["MUSTER_HOME"] = home  # ranks start elsewhere: a relative one would mean another place to them
    if sys.flags.utf8_mode and b"\0LC_CTYPE=" not in b"\0" + Path("/proc/self/environ").read_bytes():
        found.pop("LC_CTYPE", None)
    return found
