"""Where the runs of a command are: on this machine, or on the server that `--server` or config.toml names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster import config
from muster.launch import api
from muster.records.layout import home

if TYPE_CHECKING:
    from muster.client.api import Server
    from muster.launch.any_run import AnyRun

F = TypeVar("F", bound=Callable[..., Any])

HERE = "none"
AT_ONCE = 1.0  # seconds in which a server answers who completes a word
DEFAULT = "default"

server_option: Callable[[Any], Any] = click.option(
    "--server",
    is_flag=False,
    flag_value=DEFAULT,
    metavar="[NAME]",
    help=f"Use a server: a login's name or an address; `{HERE}` is this machine. [default: that of config.toml]",
)


def project_and_pool(command: F) -> F:
    """Adds the options that say where on a server a job runs."""
    pool = click.option("--pool", metavar="NAME", help="On a server: which of its pools to run in.")
    return click.option("--project", metavar="NAME", help="On a server: the project that the run belongs to.")(pool(command))


def chosen(given: str | None) -> str | None:
    """The server that is chosen, None for this machine."""
    found = given if given is not None else config.server(home())
    return None if found in ("", HERE) else found


def opened(server: str, timeout: float | None = None) -> Server:
    """Returns the server of a login's name or an address."""
    from muster.client.api import Server
    from muster.client.choice import choose

    return Server(choose(Path(home()), server), timeout)


def run_ids(given: str | None) -> list[str]:
    """The ids of runs for completion, the newest first; none of a server that does not answer at once."""
    from muster.launch.run_store import RunStore
    from muster.tester.errors import TesterError

    try:
        if (server := chosen(given)) is None:
            return RunStore(home()).run_ids()
        with opened(server, AT_ONCE) as place:
            return [run["run"] for run in place.client.get("runs", user=place.profile.user)["items"]]
    except (TesterError, config.ConfigError):
        return []


def find(name: str, given: str | None) -> AnyRun:
    """The run of a name, where the option and the settings say. Raises RunNotFound."""
    server = chosen(given)
    return api.get(name) if server is None else opened(server).get(name)


def refuse(option: str, given: object, hint: str) -> None:
    """Raises UsageError for an option that a server does not take."""
    if given:
        raise click.UsageError(
            f"{option} is for this machine, and the job would run on a server; {hint}, or add --server {HERE}"
        )


def need_server(*given: str | None) -> None:
    """Raises UsageError for options that only a server takes."""
    if any(given):
        raise click.UsageError("--project, --pool and --template are those of a server; add --server, or leave them out")
