"""`muster rm`: delete the records of runs, or files in stores."""

from __future__ import annotations

from collections.abc import Sequence

import click

from muster.cli import output, places, stores
from muster.cli.options import as_json, run_argument
from muster.launch import api, gc
from muster.launch.any_run import AnyRun
from muster.launch.names import RunNotFound
from muster.launch.run_store import RunStore
from muster.records.files import delete_tree
from muster.records.layout import BenchDir, home
from muster.storage import InvalidRequest, NotFound, is_url


@click.command("rm")
@run_argument(nargs=-1, required=True, metavar="RUN|URL...")
@click.option("-r", "--recursive", is_flag=True, help="Delete directories and prefixes with all that is in them.")
@places.server_option
@as_json
def command(runs: tuple[str, ...], recursive: bool, server: str | None, json: bool) -> None:
    """Delete the records of runs that have ended, and code that nothing uses any more; or files in stores.

    What holds :// is a URL, anything else names a run, or a measurement, whose runs go with it.

    \b
    Examples:
      muster rm echo-20261115-0749 echo-20261115-0750
      muster rm obs://out/resnet50/old.ckpt
      muster rm -r obs://out/resnet50
    """
    urls = [name for name in runs if is_url(name)]
    names, chosen = [name for name in runs if not is_url(name)], places.chosen(server)
    if chosen is not None and names:
        from muster.cli.remote_records import remove

        with places.opened(chosen) as opened:
            removed = remove(opened, names)
    else:
        removed = _remove_runs(names)
    if urls:
        _remove_urls(urls, recursive, server)
    if json:
        output.print_json({"removed": [*removed, *urls]})
        return
    for number, thing in ((len(removed), "run"), (len(urls), "URL")):
        if number:
            click.echo(f"removed {number} {thing}{'s' if number != 1 else ''}")


def _remove_runs(names: list[str]) -> list[str]:
    if not names:
        return []
    store = RunStore(home())
    meant = [name if name == "last" else store.find_measured(name) for name in names]
    benches = [found for found in meant if isinstance(found, BenchDir)]
    runs = [found if isinstance(found, str) else found.id for found in meant if not isinstance(found, BenchDir)]
    runs += [run for bench in benches for run in gc.remaining_runs(store, bench)]
    found = list({run.id: run for run in map(api.get, runs)}.values())
    refuse_going(found)
    for run in found:
        run.remove()
    for bench in benches:
        delete_tree(bench.path)
    gc.unused(store, gc.Cleared())  # what cannot be removed is for `muster prune` to name
    return [*(run.id for run in found), *(bench.id for bench in benches)]


def refuse_going(runs: Sequence[AnyRun]) -> None:
    """Raises RunNotFound where a run that is to be removed has not ended."""
    if going := [run.id for run in runs if not run.ended]:
        have = "has" if len(going) == 1 else "have"
        raise RunNotFound(f"{', '.join(going)} {have} not ended; `muster stop` it first, nothing was removed")


def _remove_urls(urls: list[str], recursive: bool, server: str | None) -> None:
    with stores.open_storage(server) as storage:
        for url in urls:
            found = storage.stat(url)
            if found is None:
                raise NotFound(f"{url} is not there; check the name")
            if found.is_dir and not recursive:
                raise InvalidRequest(f"{url} is a directory; give -r to delete it with all that is in it")
        for url in urls:
            storage.remove(url, recursive)
