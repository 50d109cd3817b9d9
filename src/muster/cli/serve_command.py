"""`muster serve`: the server of accounts, projects and results, its backups and restores."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli import output
from muster.cli.options import Bytes, as_json
from muster.records.layout import home, make_home
from muster.tester.errors import Misused

if TYPE_CHECKING:
    from muster.server.core.serve import Listening
    from muster.server.settings.options import Settings

LOST = 1
a_file = click.Path(exists=True, dir_okay=False, path_type=Path)
data_option: Callable[[Any], Any] = click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The server's data [MUSTER_HOME/server]."
)
database_option: Callable[[Any], Any] = click.option(
    "--database", envvar="MUSTER_DATABASE", metavar="URL", help="PostgreSQL instead of SQLite [MUSTER_DATABASE]."
)


@click.group("serve", invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=9530, show_default=True, help="The port; 0 takes a free one.")
@click.option("--store-port", type=click.IntRange(0, 65535), help="The port of the store (S3 and OBS) [the one after --port].")
@data_option
@database_option
@click.option("--cert", type=a_file, metavar="FILE", help="A certificate (PEM): speak TLS.")
@click.option("--key", type=a_file, metavar="FILE", help="The key of the certificate (PEM).")
@click.option("--external-url", metavar="URL", help="Where people reach it, behind a proxy.")
@click.option("--store-url", metavar="URL", help="Where people and other machines reach the store.")
@click.option("--trusted-proxy", "trusted_proxies", multiple=True, metavar="ADDRESS", help="Believe the headers of this proxy.")
@click.option("--endpoints-domain", metavar="DOMAIN", help="Open endpoints of runs at names below it.")
@click.option("--signers", type=a_file, metavar="FILE", help="Take only bundles signed by these (allowed signers).")
@click.option("--bundle-most", type=Bytes(), default="2G", show_default=True, metavar="SIZE", help="The largest bundle.")
@click.option("--code-quota", type=Bytes(), default="20G", show_default=True, metavar="SIZE", help="The code of each user.")
@click.option("--bundle-quota", type=Bytes(), default="100G", show_default=True, metavar="SIZE", help="All bundles together.")
@as_json
@click.pass_context
def command(ctx: click.Context, /, data: Path | None, bundle_most: int, bundle_quota: int, json: bool, **given: Any) -> int:
    """Serve accounts, projects and results to many people.

    It needs `pip install '.[server]'` and no other service. The first start prints a link with which the first
    administrator sets a password.

    \b
    Examples:
      muster serve
      muster serve --host 0.0.0.0 --cert muster.pem --key muster.key
      muster serve --database postgresql://muster@db.example/muster
      muster serve backup muster.backup
    """
    if ctx.invoked_subcommand is not None:
        return 0
    need_packages()
    from muster.server.core.lock import LostLock
    from muster.server.core.serve import serve
    from muster.server.results.uploads import Limits
    from muster.server.settings.options import Settings

    settings = Settings(data_folder(data), limits=Limits.of(bundle_most, bundle_quota), **given)
    try:
        serve(settings, lambda started: _announce(settings, started, json))
    except LostLock as error:
        output.say(f"this server has ended: {error}; only one server uses a database")
        return LOST
    return 0


def data_folder(data: Path | None) -> Path:
    if data is None:
        make_home()
    return (data or Path(home(), "server")).absolute()


def need_packages() -> None:
    """Raises Misused where the extra `server` is not installed."""
    for name in ("alembic", "argon2", "cryptography", "fastapi", "sqlalchemy", "uvicorn", "wsproto"):
        if find_spec(name) is None:
            raise Misused(f"the server needs {name}; run `pip install '.[server]'` in a checkout of Muster")


def _announce(settings: Settings, started: Listening, json: bool) -> None:
    if settings.unencrypted:
        output.say("warning: passwords and tokens travel unencrypted, and others can listen; give --cert and --key")
    for pool in started.own_user:
        what = "its jobs are processes of the user who runs this server, and can read the server's data"
        output.say(f"warning: the pool `{pool}` has no accounts: {what}; give it `accounts`, which needs root")
    text = f"the server listens at {started.url}, with its data in {settings.data}; Ctrl-C stops it"
    text += f"\nits store (S3 and OBS) is at {started.store}"
    if started.first_administrator:
        text += f"\nthere is no administrator yet: set a password at (once, within a day)\n  {started.first_administrator}"
    output.show(json, {**vars(started), "data": str(settings.data)}, text)
    sys.stdout.flush()


@command.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@data_option
@database_option
@as_json
def backup(file: Path, data: Path | None, database: str | None, json: bool) -> None:
    """Write the database into FILE; the server may run meanwhile.

    Objects of the store and the key of secrets (secrets.key) are not in it: copy these files apart from it.

    \b
    Examples:
      muster serve backup muster.backup
      muster serve backup muster.backup --database postgresql://muster@db.example/muster
    """
    need_packages()
    from muster.server.core import backup as backups
    from muster.server.core.database import Database
    from muster.server.core.layout import ServerLayout
    from muster.server.core.vault import open_vault

    layout = ServerLayout(data_folder(data))
    with closing(Database(database or layout.database_url)) as opened:
        rows = backups.write(opened, open_vault(layout.key), file.absolute())
    output.show(json, {"file": str(file), "rows": rows}, f"{file} holds {rows:,} rows; keep secrets.key apart from it")


@command.command("restore")
@click.argument("file", type=a_file)
@click.option("--replace", is_flag=True, help="Delete what the database has now.")
@data_option
@database_option
@as_json
def restore(file: Path, replace: bool, data: Path | None, database: str | None, json: bool) -> None:
    """Put a backup into the database of a server that does not run.

    All sessions and one-time links have ended afterwards. A backup of SQLite fits PostgreSQL, and the other way.

    \b
    Examples:
      muster serve restore muster.backup
      muster serve restore muster.backup --database postgresql://muster@db.example/muster
    """
    need_packages()
    from muster.server.core import backup as backups
    from muster.server.core.database import Database
    from muster.server.core.layout import ServerLayout
    from muster.server.core.vault import open_vault

    layout = ServerLayout(data_folder(data))
    vault = open_vault(layout.key)
    with closing(Database(database or layout.database_url)) as opened:
        found = backups.restore(opened, vault, file, replace)
    if found.key != vault.fingerprint:
        output.say(f"warning: {layout.key} is not the key of this backup; put that back, or access keys have to be made anew")
    output.show(json, vars(found), f"restored the backup of {output.when(found.created)}")


@command.command("import-tester")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--same-users", is_flag=True, help="Users who have the name of a submitter are the same people.")
@data_option
@database_option
@as_json
def import_tester(folder: Path, same_users: bool, data: Path | None, database: str | None, json: bool) -> None:
    """Take over the data of a tester: plans, results, uploads, tokens.

    DIR is the --data of `muster tester serve`, of any version; nothing in it is changed. Neither it nor the server may run.
    Submitters become users, and their tokens go on. What was taken over before is not taken twice.

    \b
    Examples:
      muster serve import-tester ~/.muster/tester
      muster serve import-tester /srv/tester --data /srv/muster
    """
    need_packages()
    from muster.server.core.database import Database
    from muster.server.core.layout import ServerLayout
    from muster.server.results.importing import take_over

    layout = ServerLayout(data_folder(data))
    with closing(Database(database or layout.database_url)) as opened:
        made = take_over.import_tester(layout, opened, folder.absolute(), same_users)
    text = f"took over {made.results:,} results, {made.plans:,} plans, {made.tokens:,} tokens of {made.users:,} new users"
    text += f", {made.uploads:,} uploads; {made.known:,} results were there already"
    output.show(json, made.to_json(), text)
