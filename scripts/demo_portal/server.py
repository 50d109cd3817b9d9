"""The server of the demo: a process with a directory of its own, accounts and projects."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from jobs import DEVICES

from muster.client.api import Server
from muster.client.profiles import Profile
from muster.client.server import ServerClient
from muster.tester.errors import Misused

ADMINISTRATOR = "admin"
MEMBERS = {"lihua": ("vision", "manager"), "maria": ("speech", "member")}  # of one project each, with a role in it
END = 60  # seconds that a run, and the server, may take to stop


def settings(port: int) -> tuple[str, list[str]]:
    """Returns config.toml of the server, and words of its command line."""
    accounts = 'accounts = "users"' if os.geteuid() == 0 else "trusted = true"
    python = json.dumps(os.path.realpath(sys.executable))
    return f'[pools.local]\n{accounts}\ncpu = {DEVICES}\nminimum_runtime = "1s"\npython = {python}\n', ["--port", str(port)]


@contextmanager
def served(folder: Path, port: int) -> Iterator[dict[str, Any]]:
    """Serves until the end of the block; gives what the server announced. Raises Misused where it does not start."""
    data, log = folder / "data", folder / "server.log"
    data.mkdir(mode=0o700)
    config, words = settings(port)
    (data / "config.toml").write_text(config)
    command = [sys.executable, "-m", "muster.cli.main", "serve", "--json", "--data", str(data), *words]
    with log.open("wb") as errors:  # in a session of its own: Ctrl-C reaches the demo, which stops the runs first
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    try:
        yield _announced(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def accounts(announced: dict[str, Any]) -> Iterator[tuple[dict[str, str], dict[str, Server]]]:
    """Makes accounts and projects; gives passwords and logins by name."""
    url, link = announced["url"], announced["first_administrator"]
    passwords = {name: secrets.token_urlsafe(9) for name in (ADMINISTRATOR, *MEMBERS)}
    with ExitStack() as stack, ServerClient(url) as client:
        client.post("set-password", token=link.split("token=")[1], name=ADMINISTRATOR, password=passwords[ADMINISTRATOR])
        logins = {ADMINISTRATOR: stack.enter_context(_login(url, ADMINISTRATOR, passwords[ADMINISTRATOR]))}
        administrator = logins[ADMINISTRATOR].client
        for name, (project, role) in MEMBERS.items():
            administrator.post("users", name=name, role="member", password=passwords[name])
            administrator.post("projects", name=project)
            administrator.put("projects", project, "members", name, role=role)
            logins[name] = stack.enter_context(_login(url, name, passwords[name]))
        yield passwords, logins


def stop_runs(server: Server) -> None:
    """Stops all runs that have not ended, and waits for them. Raises Misused with those that go on."""
    going = [run for run in server.runs(limit=500) if not run.view.state.ended]
    for run in going:
        run.stop(now=True, reason="the demo ends", wait=False)
    for run in going:
        run.wait(END)
    if left := [run.id for run in going if not run.view.state.ended]:
        raise Misused(f"these runs did not end: {', '.join(left)}")


def _login(url: str, name: str, password: str) -> Server:
    with ServerClient(url) as client:
        client.post("login", name=name, password=password)
        token = client.post("tokens", name="demo", scope="write", days=1)["secret"]
        client.post("logout")
    return Server(Profile("demo", url, name, token))


def _announced(process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    assert process.stdout
    text = b""
    while not text.endswith(b"}\n"):
        line = process.stdout.readline()
        if not line:
            raise Misused(f"the server did not start; it said:\n{log.read_text(errors='replace')[-2000:]}")
        text += line
    said: dict[str, Any] = json.loads(text)
    return said
