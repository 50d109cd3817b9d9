"""`muster tester token` and `muster tester plan`: tokens and test plans, on the machine of the server; plans also elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli import output, testers
from muster.cli.options import as_json
from muster.cli.serve_command import need_packages
from muster.records.layout import home, make_home
from muster.tester.errors import Denied, Misused
from muster.tester.protocol import MODES, Plan, new_test_id

if TYPE_CHECKING:
    from muster.server.core.database import Database
    from muster.server.results.plans import Plans
    from muster.server.results.tokens import Tokens
    from muster.tester.client import Client

data_option: Callable[[Any], Any] = click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The tester's data [MUSTER_HOME/tester]."
)
tester_option: Callable[[Any], Any] = click.option(
    "--tester", "url", metavar="URL", help="A server elsewhere, with the token of an administrator."
)


def data_folder(data: Path | None) -> Path:
    """Returns the tester's data directory."""
    if data is None:
        make_home()
    return (data or Path(home(), "tester")).absolute()


@contextmanager
def _database(data: Path | None) -> Iterator[Database]:
    """Opens the database of a tester, or of `muster serve` on SQLite, whether it runs or not."""
    need_packages()
    from sqlalchemy.exc import SQLAlchemyError

    from muster.server.core.database import Database, reason_of
    from muster.server.core.layout import ServerLayout
    from muster.server.results.importing.take_over import prepare

    layout = ServerLayout(data_folder(data))
    try:
        with closing(Database(layout.database_url)) as database:
            prepare(layout, database)
            yield database
    except SQLAlchemyError as error:
        raise Misused(f"the data in {layout.folder} cannot be written ({reason_of(error)}); check the disk") from None
    except Denied as error:
        raise Misused(str(error)) from None


@contextmanager
def _tokens(data: Path | None) -> Iterator[Tokens]:
    with _database(data) as database:
        from muster.server.results.tokens import Tokens

        yield Tokens(database)


class _RemotePlans:
    """The plans of a tester or a server elsewhere, which an administrator changes over its protocol."""

    def __init__(self, client: Client) -> None:
        self.add, self.all, self.get, self.remove = client.add_plan, client.plans, client.plan, client.remove_plan


@contextmanager
def _plans(data: Path | None, url: str | None) -> Iterator[Plans | _RemotePlans]:
    if url is not None:
        if data is not None:
            raise Misused("--tester and --data name two testers; give one of them")
        with testers.opened(url) as client:
            yield _RemotePlans(client)
        return
    with _database(data) as database:
        from muster.server.results.plans import Plans

        yield Plans(database)


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
    with _tokens(data) as tokens:
        secret = tokens.add(name, role)
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
    with _tokens(data) as tokens:
        found = tokens.all()
    rows = [(token.name, token.role, output.when(token.created), output.when(token.revoked)) for token in found]
    empty = "there are no tokens; `muster tester token add NAME` makes one"
    output.listing(json, [vars(token) for token in found], ("NAME", "MAY", "MADE", "REVOKED"), rows, empty)


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
    with _tokens(data) as tokens:
        tokens.revoke(name)
    output.show(json, {"name": name, "revoked": True}, f"the token of {name} is revoked")


@click.group("plan")
def plan() -> None:
    """Make, list, show and remove test plans: on the machine of the tester, or with --tester on any server.

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
@tester_option
@data_option
@as_json
def add_plan(test_id: str | None, url: str | None, data: Path | None, json: bool, **fields: str) -> None:
    """Make a plan and print its test id; without TEST_ID one is made up.

    \b
    Examples:
      muster tester plan add --model resnet50_v1.5
      muster tester plan add 20210126-ljp0IY --model bert --object-type cluster
    """
    plan = Plan(test_id or new_test_id(time.time()), **fields)
    plan.check()
    with _plans(data, url) as plans:
        plans.add(plan)
    output.show(json, plan.to_json(), plan.test_id)


@plan.command("list")
@tester_option
@data_option
@as_json
def list_plans(url: str | None, data: Path | None, json: bool) -> None:
    """List the plans, the newest first.

    \b
    Example:
      muster tester plan list
    """
    with _plans(data, url) as plans:
        found = [plan.to_json() for plan in plans.all()]
    heads = ("TEST ID", "MODEL", "MODE", "DIVISION", "SCENARIO", "OBJECT TYPE")
    empty = "there are no plans; `muster tester plan add --model NAME` makes one"
    output.listing(json, found, heads, [tuple(plan.values()) for plan in found], empty)


@plan.command("show")
@click.argument("test_id")
@tester_option
@data_option
@as_json
def show_plan(test_id: str, url: str | None, data: Path | None, json: bool) -> None:
    """Show one plan.

    \b
    Example:
      muster tester plan show 20210126-ljp0IY
    """
    with _plans(data, url) as plans:
        plan = plans.get(test_id)
    lines = [f"{name.replace('_', ' '):<12} {output.plain(value)}" for name, value in plan.to_json().items()]
    output.show(json, plan.to_json(), "\n".join(lines))


@plan.command("rm")
@click.argument("test_id")
@tester_option
@data_option
@as_json
def remove_plan(test_id: str, url: str | None, data: Path | None, json: bool) -> None:
    """Forget a plan; results that answered it stay.

    \b
    Example:
      muster tester plan rm 20210126-ljp0IY
    """
    with _plans(data, url) as plans:
        plans.remove(test_id)
    output.show(json, {"test_id": test_id, "removed": True}, f"plan {test_id} is removed")
