"""`muster tester`: serves a tester, sends bundles to one, and shows the outbox."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli import output, testers
from muster.cli.options import Bytes, as_json
from muster.cli.serve_command import LOST, need_packages
from muster.cli.tester_admin import data_folder, data_option, plan, token
from muster.records.text.units import size
from muster.tester.errors import TesterError

if TYPE_CHECKING:
    from muster.server.results.serve import Settings
    from muster.tester.client import Client
    from muster.tester.outbox import WaitingBundle

tester_option = click.option("--tester", "url", metavar="URL", help="The tester; by default that of config.toml.")
a_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("tester")
def command() -> None:
    """Collect results from many machines, verify and rank them; or send them.

    One machine serves, makes plans, and gives each submitter a token; the others measure and send. Each command has --json.

    \b
    Examples:
      muster tester serve                           collect results, at port 9527
      muster tester token add lab-3                 let somebody submit
      muster tester plan add --model resnet50_v1.5  plan a test
      muster tester send result.tar.gz --tester URL send a result
      muster tester outbox --send                   send what is still waiting
    """


command.add_command(token)
command.add_command(plan)


@command.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=9527, show_default=True, help="The port; 0 takes a free one.")
@data_option
@click.option("--open", is_flag=True, help="Let everybody read and submit without a token.")
@click.option("--cert", type=a_file, metavar="FILE", help="A certificate (PEM): speak TLS.")
@click.option("--key", type=a_file, metavar="FILE", help="The key of the certificate (PEM).")
@click.option("--signers", type=a_file, metavar="FILE", help="Take only bundles signed by these (allowed signers).")
@click.option("--most", type=Bytes(), default="2G", show_default=True, metavar="SIZE", help="The largest bundle.")
@click.option("--quota", type=Bytes(), default="100G", show_default=True, metavar="SIZE", help="All bundles together.")
@as_json
def serve(data: Path | None, most: int, quota: int, json: bool, **given: Any) -> int:
    """Serve: hold plans, take in bundles, verify them, and show pages.

    \b
    Examples:
      muster tester serve
      muster tester serve --host 0.0.0.0 --cert tester.pem --key tester.key
    """
    need_packages()
    from muster.server.core.lock import LostLock
    from muster.server.results.serve import Settings
    from muster.server.results.serve import serve as run
    from muster.server.results.uploads import Limits

    settings = Settings(data_folder(data), limits=Limits.of(most, quota), **given)
    try:
        run(settings, lambda address: _announce(settings, address, json))
    except LostLock as error:
        output.say(f"this tester has ended: {error}; only one server uses a database")
        return LOST
    return 0


def _announce(settings: Settings, address: str, json: bool) -> None:
    if settings.unencrypted:
        warn("tokens and results travel unencrypted, and others can listen; give --cert and --key")
    if settings.open:
        warn("everybody who reaches this tester can read and submit")
    data = {"url": address, "data": str(settings.data), "open": settings.open}
    output.show(json, data, f"the tester listens at {address}, with its data in {settings.data}; Ctrl-C stops it")
    sys.stdout.flush()


def warn(text: str) -> None:
    click.echo(f"{output.style('warning:', fg='yellow', bold=True) if sys.stderr.isatty() else 'warning:'} {text}", err=True)


@command.command("send")
@click.argument("files", nargs=-1, required=True, type=a_file)
@tester_option
@click.option("--test-id", metavar="ID", help="The plan that they answer; by default the one in each bundle.")
@as_json
def send(files: tuple[Path, ...], url: str | None, test_id: str | None, json: bool) -> int:
    """Send bundles and print the tester's verdicts.

    FILES are what `muster bench --export` made. Each is kept in the outbox until the tester has answered. The token is
    MUSTER_TESTER_TOKEN, or that of config.toml.

    \b
    Examples:
      muster tester send resnet50.tar.gz --tester https://tester.example:9527
      muster tester send *.tar.gz --test-id 20210126-ljp0IY
    """
    sent = []
    with testers.opened(url) as client:
        for path in files:
            waiting = testers.outbox().put(path, client.url, test_id)
            sent.append(_send(waiting, path.name, client, json))
    return _finish(sent, json)


def _send(waiting: WaitingBundle, name: str, client: Client, json: bool) -> dict[str, Any]:
    """Sends one bundle; prints the verdict, or returns it for --json."""
    verdict = testers.outbox().deliver(waiting, client)
    if not json:
        click.echo(f"{output.plain(name)} ", nl=False)
        testers.show(verdict, client.url)
    return {"file": name, **verdict.to_json()}


def _finish(sent: list[dict[str, Any]], json: bool) -> int:
    if json:
        output.print_json(sent)
    return 0 if all(one["accepted"] for one in sent) else testers.REFUSED


@command.command("outbox")
@click.option("--send", "sending", is_flag=True, help="Send all that waits.")
@as_json
def outbox(sending: bool, json: bool) -> int:
    """Show or send the bundles that wait for a tester.

    \b
    Examples:
      muster tester outbox
      muster tester outbox --send
    """
    if sending:
        return _send_all(json)
    waiting = testers.outbox().all()
    data = [{"path": str(one.path), **one.to_json()} for one in waiting]
    rows = [(one.path.name, size(one.path.stat().st_size), output.ago(one.since), one.tester) for one in waiting]
    output.listing(json, data, ("BUNDLE", "SIZE", "SINCE", "TESTER"), rows, "nothing waits")
    return 0


def _send_all(json: bool) -> int:
    """Sends all bundles that wait; one tester that is down does not hold up bundles for others."""
    sent: list[dict[str, Any]] = []
    failed: TesterError | None = None
    for one in testers.outbox().all():
        try:
            with testers.opened(one.tester) as client:
                sent.append(_send(one, one.path.name, client, json))
        except TesterError as error:
            failed = error
            sent.append({"file": one.path.name, "accepted": None, "problems": [str(error)]})
    code = _finish(sent, json)
    if failed:
        raise failed
    return code
