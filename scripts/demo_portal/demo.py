"""`make demo-portal`: starts a server with three accounts, two projects and a dozen runs that really ran, until Ctrl-C.

    python scripts/demo_portal/demo.py [--folder DIR] [--port 0]

The directory is a new one in /var/tmp, which is deleted at the end, unless one is named: that is kept. With root each account
has a user id of its own, without it all runs are yours.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jobs
from jobs import DemoJob

from muster.client.api import Server
from muster.client.runs import RemoteRun
from muster.server.pages import assets
from muster.tester.errors import Misused
from server import ADMINISTRATOR, MEMBERS, accounts, served, stop_runs

CODE = Path(__file__).with_name("code")
PATIENCE = 120  # seconds for a run to reach a state; a busy machine takes its time
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Logins = dict[str, Server]


def main() -> int:
    parser = argparse.ArgumentParser(description="A server with accounts, projects and runs to look at.")
    parser.add_argument("--folder", type=Path, help="a directory that does not exist or is empty, and is kept")
    parser.add_argument("--port", type=int, default=0, help="where it listens, on this machine alone [a free one]")
    given = parser.parse_args()
    for number in ENDS:
        signal.signal(number, signal.default_int_handler)
    try:
        with directory(given.folder) as folder:
            os.environ["MUSTER_HOME"] = str(folder / "home")
            show(folder, given.port)
    except Misused as error:
        print(f"demo-portal: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("stopped; no process is left")
    return 0


@contextmanager
def directory(named: Path | None) -> Iterator[Path]:
    """The directory of the demo. Raises Misused where the named one has contents, or cannot be seen by runs."""
    if named is None:
        made = Path(tempfile.mkdtemp(prefix="muster-demo-", dir="/var/tmp"))  # accounts have a /tmp of their own
        made.chmod(0o711)  # accounts pass through it; the server's data is closed to them
    else:
        made = named.absolute()
        if os.geteuid() == 0 and made.resolve().is_relative_to("/tmp"):
            raise Misused(f"{made} lies in /tmp, of which each account has its own; name a directory elsewhere")
        made.mkdir(parents=True, exist_ok=True)
        if any(made.iterdir()):
            raise Misused(f"{made} is not empty; name another directory")
    try:
        yield made
    finally:
        if named is None:
            shutil.rmtree(made)


def show(folder: Path, port: int) -> None:
    """Serves with accounts and runs, prints the link, and goes on until a signal."""
    if not assets.complete():
        print("charts are missing: run `make portal` first")
    began = time.monotonic()
    say(f"starts a server in {folder}")
    with served(folder, port) as announced, accounts(announced) as (passwords, logins):
        try:
            say(f"made {len(passwords)} accounts and the projects {' and '.join(project for project, _ in MEMBERS.values())}")
            make_runs(logins)
            say(f"ready after {time.monotonic() - began:.0f} s")
            print(f"\n  {announced['url']}\n")
            for name, password in passwords.items():
                print(f"  {name:8} {password}   {described(name)}")
            print("\nCtrl-C stops the runs and the server.", flush=True)
            while True:
                signal.pause()
        finally:
            for number in ENDS:
                signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C would leave runs behind
            say("stops the runs, then the server")
            stop_runs(logins[ADMINISTRATOR])


def make_runs(logins: Logins) -> None:
    """Submits all jobs and brings each into the state in which it is to be seen."""
    say(f"runs {len(jobs.ENDING)} jobs to their ends")
    ending = [submit(logins, job) for job in jobs.ENDING]
    stopped = submit(logins, jobs.STOPPED)
    reach(stopped, "running")
    stopped.stop(reason="the curve looked wrong")
    for run in ending:
        reach(run, "succeeded", "failed", "timeout", "stopped")
    say(
        "starts jobs that go on: one runs, one serves a page, one is an environment, one is preempted, one is paused, one waits"
    )
    for job in (jobs.RUNNING, jobs.web(), jobs.environment()):
        reach(submit(logins, job), "running")
    preempted = submit(logins, jobs.PREEMPTED)
    reach(preempted, "running")
    reach(submit(logins, jobs.URGENT), "running")
    reach(preempted, "pending")
    submit(logins, jobs.WAITING)
    paused = submit(logins, jobs.PAUSED)
    logins[jobs.PAUSED.user].client.post("runs", paused.id, "pause")


def submit(logins: Logins, job: DemoJob) -> RemoteRun:
    return logins[job.user].run(job.content(str(CODE)), project=job.project)


def reach(run: RemoteRun, *states: str) -> None:
    """Waits for one of these states. Raises Misused where the run takes another way."""
    deadline = time.monotonic() + PATIENCE
    while (state := run.state) not in states:
        if time.monotonic() > deadline:
            raise Misused(f"the run {run.id} is {state} and not {' or '.join(states)}: {run.reason}")
        time.sleep(0.2)


def described(name: str) -> str:
    if name == ADMINISTRATOR:
        return "administrator"
    project, role = MEMBERS[name]
    return f"{role} of {project}"


def say(text: str) -> None:
    print(f"demo-portal: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
