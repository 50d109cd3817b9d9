"""`muster tester token` and `muster tester plan`: tokens and test plans, on the machine of the server."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.records.layout import home, make_home
from muster.server.core.database import Database
from muster.server.core.layout import ServerLayout
from muster.server.core.tokens import Tokens
from muster.server.results.plans import Plans
from muster.tester.errors import Misused
from muster.tester.protocol import MODES, Plan, new_test_id

data_option: Callable[[Any], Any] = click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The tester's data [MUSTER_HOME/tester]."
)


def data_folder(data: Path | None) -> Path:
    """Returns the tester's data directory."""
    if data is None:
        make_home()
    return (data or Path(home(), "tester")).absolute()


@contextmanager
def _database(data: Path | None) -> Iterator[Database]:
    layout = ServerLayout(data_folder(data))
    try:
        with closing(layout.database()) as database:
            yield database
    except sqlite3.OperationalError as error:
        raise Misused(f"the tester's data in {layout.folder} cannot be written ({error}); check the disk") from None


@click.group("token")
def token() -> None:
    """Make, list and revoke the tokens of submitters and readers.

    \b
    Examples:
      muster tester token add lab-3
      muster tester token revoke lab-3
    """


@token.command("add")
@click.argument("name")
@click.option("--read-only", is_flag=True, help="It may read and not submit.")
@data_option
@as_json
def add_token(name: str, read_only: bool, data: Path | None, json: bool) -> None:
    """Make a token for NAME and print it: it is shown this once.

    \b
    Example:
      muster tester token add lab-3
    """
    role = "read" if read_only else "submit"
    with _database(data) as database:
        secret = Tokens(database).add(name, role)
    output.show(json, {"name": name, "role": role, "token": secret}, secret)
    if not json:
        click.echo("this is the only time that it is shown; its owner puts it into MUSTER_TESTER_TOKEN", err=True)


@token.command("list")
@data_option
@as_json
def list_tokens(data: Path | None, json: bool) -> None:
    """List who has a token; the tokens themselves are not kept.

    \b
    Example:
      muster tester token list
    """
    with _database(data) as database:
        tokens = Tokens(database).all()
    rows = [(token.name, token.role, output.when(token.created), output.when(token.revoked)) for token in tokens]
    empty = "there are no tokens; `muster tester token add NAME` makes one"
    output.listing(json, [vars(token) for token in tokens], ("NAME", "MAY", "MADE", "REVOKED"), rows, empty)


@token.command("revoke")
@click.argument("name")
@data_option
@as_json
def revoke_token(name: str, data: Path | None, json: bool) -> None:
    """Take the token of NAME back, at once.

    \b
    Example:
      muster tester token revoke lab-3
    """
    with _database(data) as database:
        Tokens(database).revoke(name)
    output.show(json, {"name": name, "revoked": True}, f"the token of {name} is revoked")


@click.group("plan")
def plan() -> None:
    """Make, list, show and remove test plans.

    \b
    Examples:
      muster tester plan add --model resnet50_v1.5
      muster tester plan list
    """


@plan.command("add")
@click.argument("test_id", required=False)
@click.option("--model", required=True, help="What is trained, such as resnet50_v1.5.")
@click.option("--mode", type=click.Choice(MODES), default=MODES[0], show_default=True, help="What is measured.")
@click.option("--division", default="close", show_default=True, help="Which rules hold: close, open, or a name of yours.")
@click.option("--scenario", default="generic", show_default=True, help="In which situation.")
@click.option("--object-type", default="single", show_default=True, help="What is tested: single, cluster, or a name of yours.")
@data_option
@as_json
def add_plan(test_id: str | None, data: Path | None, json: bool, **fields: str) -> None:
    """Make a plan and print its test id; without TEST_ID one is made up.

    \b
    Examples:
      muster tester plan add --model resnet50_v1.5
      muster tester plan add 20210126-ljp0IY --model bert --object-type cluster
    """
    plan = Plan(test_id or new_test_id(time.time()), **fields)
    with _database(data) as database:
        Plans(database).add(plan)
    output.show(json, plan.to_json(), plan.test_id)


@plan.command("list")
@data_option
@as_json
def list_plans(data: Path | None, json: bool) -> None:
    """List the plans, the newest first.

    \b
    Example:
      muster tester plan list
    """
    with _database(data) as database:
        plans = [plan.to_json() for plan in Plans(database).all()]
    heads = ("TEST ID", "MODEL", "MODE", "DIVISION", "SCENARIO", "OBJECT TYPE")
    empty = "there are no plans; `muster tester plan add --model NAME` makes one"
    output.listing(json, plans, heads, [tuple(plan.values()) for plan in plans], empty)


@plan.command("show")
@click.argument("test_id")
@data_option
@as_json
def show_plan(test_id: str, data: Path | None, json: bool) -> None:
    """Show one plan.

    \b
    Example:
      muster tester plan show 20210126-ljp0IY
    """
    with _database(data) as database:
        plan = Plans(database).get(test_id)
    lines = [f"{name.replace('_', ' '):<12} {output.plain(value)}" for name, value in plan.to_json().items()]
    output.show(json, plan.to_json(), "\n".join(lines))


@plan.command("rm")
@click.argument("test_id")
@data_option
@as_json
def remove_plan(test_id: str, data: Path | None, json: bool) -> None:
    """Forget a plan; results that answered it stay.

    \b
    Example:
      muster tester plan rm 20210126-ljp0IY
    """
    with _database(data) as database:
        Plans(database).remove(test_id)
    output.show(json, {"test_id": test_id, "removed": True}, f"plan {test_id} is removed")
