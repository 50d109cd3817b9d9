"""Creating a run from what was prepared: its directory is made, and the engine is asked to start it."""

from __future__ import annotations

import fcntl
import getpass
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster import __version__, config
from muster.dataclass import dataclass, replace
from muster.engines.base import Order, Request
from muster.launch.start import data, interpreter, packed_agent, snapshot
from muster.launch.start.prepare import Prepared, rights_of
from muster.records.files import locked, try_lock, write_json, write_text
from muster.records.layout import RunDir, run_dir


@dataclass(frozen=True)
class Given:
    """What a server gives a run that it starts for somebody: its id, and whose it is."""

    run_id: str
    owner: Mapping[str, str]
    devices: Sequence[Sequence[int]] = ()  # of each node, as its queue has chosen them


LETTERS = "abcdefghijkmnpqrstuvwxyz"  # at the end of a run's id


def order(prepared: Prepared, run_id: str, agent: str) -> Order:
    """The order that the engine gets, with the paths that will be."""
    home = prepared.context.home
    code = str(snapshot.folder(home, prepared.code.digest))
    return Order(run_dir(home, run_id).path, code, agent)


def render(prepared: Prepared) -> Request:
    """Returns what would be submitted; nothing is created."""
    agent = packed_agent.path(prepared.context.home)
    wanted = order(prepared, new_id(prepared.job.name), agent)
    request = prepared.engine.render(prepared.job, wanted, prepared.environment)
    return replace(request, shown=prepared.engine.show(prepared.job, wanted))


def start(prepared: Prepared, follower: int | None = None, given: Given | None = None) -> RunDir:
    """Makes the run directory and submits. `follower` is a descriptor whose end stops the run."""
    home, job = prepared.context.home, prepared.job
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
    except OSError as error:
        reason = str(error.strerror).lower()
        raise config.ConfigError(f"{home} cannot be made: {reason}; set MUSTER_HOME to a directory of yours") from None
    os.makedirs(f"{home}/store", 0o700, exist_ok=True)  # nodes are shown what is there when they start
    agent = packed_agent.build(home)
    prepared = replace(prepared, code=snapshot.keep(prepared.code, home))
    account = prepared.engine.account
    if job.boot and prepared.engine.shares_files and given is None and account is None:  # a server runs no program of its users
        job = replace(job, python=interpreter.resolve(job.python, home))
    data.make_outputs(job, prepared.context.storage, rights_of(prepared.engine))
    run = _make(home, job.name, given.run_id if given else "")
    with locked(run.path):
        record = {
            "run": run.id,
            "engine": prepared.engine.name,
            "handle": None,
            "user": user() if account is None else account.name,
            "host": os.uname().nodename,
            "created": time.time(),
            "utc_offset": time.localtime().tm_gmtoff,
            "code": prepared.code.digest,
            "muster": __version__,
            **({"owner": dict(given.owner)} if given else {}),
            **({} if account is None else {"account": account.to_text()}),
        }
        try:
            write_json(run.job, job.to_json())
            if prepared.source:
                write_text(run.job_file, prepared.source)
            write_json(run.run, record)
            if given and given.devices:
                write_json(run.chosen, {"devices": given.devices})
            os.mkdir(run.shared, 0o700)
            request = prepared.engine.render(job, order(prepared, run.id, agent), prepared.environment)
            if request.script:
                write_text(run.script, request.script)
            record["handle"] = prepared.engine.submit(request, follower)
        except BaseException:
            import shutil  # here, because it takes long to import

            shutil.rmtree(run.path, ignore_errors=True)
            raise
        write_json(run.run, record)
    return run


def under_way(run: RunDir) -> bool:
    """True if a run is just being created: its creator locks its directory, and the system unlocks it when that ends."""
    try:
        folder = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(folder, fcntl.LOCK_SH)
    finally:
        os.close(folder)


def user() -> str:
    """Who starts runs here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run with a user id that has no name
        return str(os.getuid())


def new_id(name: str) -> str:
    letters = "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(4))
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{letters}"


def _make(home: str, name: str, run_id: str = "") -> RunDir:
    Path(home, "runs").mkdir(mode=0o700, exist_ok=True)
    while True:
        run = run_dir(home, run_id or new_id(name))
        try:
            os.mkdir(run.path, 0o700)
            return run
        except FileExistsError:
            if run_id:
                raise
