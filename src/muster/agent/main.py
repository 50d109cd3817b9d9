"""The entry of the zipapp: `supervise RUN_DIR --code DIR --python PATH ...`, `engine NAME ...`, and helpers."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

from muster.linux.held_signals import release

HELPERS = {  # modules with a function `main`
    "connect": "channel.stream.carrier",
    "gate": "agent.node.socket_activation",
    "login": "agent.ssh.login",
    "power": "agent.sampler.bmc_proxy",
    "sample": "agent.sampler.main",
    "sshd": "agent.ssh.server",
    "storage": "storage.node_helper",
}


def main(argv: list[str]) -> int:
    word, *rest = argv
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # who is interrupted ends without a traceback among the output of ranks
    if word == "await":  # a run, of which supervisor this process will be
        word, *rest = _node_side("local").await_order(int(rest[0]))
    if word == "supervise":
        return _supervise(rest[0], dict(zip(rest[1::2], rest[2::2])))
    release()
    if word == "as":  # an account, with whose rights alone a helper with keys opens files
        from muster.linux import accounts

        accounts.open_files_as(accounts.Account.from_text(rest[0]))
        word, *rest = rest[1:]
    if word == "engine":
        return int(_node_side(rest[0]).main(rest[1:]))
    if word == "storage":
        from muster.linux import keys

        os.environ.update(keys.take())
    if word not in HELPERS:
        print(f"unknown: {word}", file=sys.stderr)
        return 2
    return int(importlib.import_module(f"muster.{HELPERS[word]}").main(rest))


def _node_side(engine: str) -> Any:
    """Imports the entry of an engine's node side."""
    if not engine.isidentifier():
        raise SystemExit(f"unknown engine: {engine}")
    return importlib.import_module(f"muster.engines.{engine}.node.main")


def _supervise(path: str, given: dict[str, str]) -> int:
    from muster.agent.supervisor.site import Assignment, Site
    from muster.agent.supervisor.supervisor import Supervisor
    from muster.records.files import Events

    assignment = Assignment.read(path, given)
    if "--variables" in given:
        from muster.agent.node import environment

        environment.take_of_job(given["--variables"])
    events = Events(assignment.run.events)
    command = int(given["--command"]) if "--command" in given else None
    site: Site = _node_side(given.get("--site", "local")).site(assignment, events)
    return Supervisor(assignment, site, events, command).carry_out()
