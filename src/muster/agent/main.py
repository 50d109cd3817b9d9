"""The entry of the zipapp: `supervise RUN_DIR --code DIR --python PATH ...`, `node RUN_DIR ATTEMPT ...`, and helpers."""

from __future__ import annotations

import os
import signal
import sys

from muster.linux.held_signals import release


def main(argv: list[str]) -> int:
    word, *rest = argv
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # who is interrupted ends without a traceback among the output of ranks
    if word != "supervise":
        release()
    if word == "storage":
        from muster.records import keys
        from muster.storage.node_helper import main as storage

        os.environ.update(keys.take())
        return storage(rest)
    if word == "power":
        from muster.agent.sampler.bmc_proxy import main as answer

        return answer(rest)
    if word == "sample":
        from muster.agent.sampler.main import main as sample

        return sample(rest)
    if word == "sshd":
        from muster.agent.ssh.server import serve

        return serve(int(rest[0]), rest[1])
    if word == "gate":
        from muster.agent.node.socket_activation import main as gate

        return gate(int(rest[0]), (rest[1], int(rest[2])), rest[3:])
    if word == "login":
        from muster.agent.ssh.login import login

        login(int(rest[0]))
    if word == "reception":
        from muster.engines.slurm.node.pmi_proxy import serve as receive
        from muster.records.layout import AttemptDir

        receive(rest[0], AttemptDir(rest[1]), int(rest[2]))
    if word == "task":
        from muster.engines.slurm.node.pmi_task import stand_for

        return stand_for(rest[0], int(rest[1]), rest[2:])
    if word == "node":
        from muster.engines.slurm.node.entry import be_node

        be_node(rest[0], int(rest[1]), _options(rest[2:]))
    if word != "supervise":
        print(f"unknown: {word}", file=sys.stderr)
        return 2
    return _supervise(rest[0], _options(rest[1:]))


def _options(words: list[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2]))


def _supervise(path: str, given: dict[str, str]) -> int:
    from muster.agent.supervisor.site import Assignment, Site
    from muster.agent.supervisor.supervisor import Supervisor
    from muster.agent.tools import Tools
    from muster.records.files import Events

    tools = Tools(given["--python"], sys.argv[0])
    assignment = Assignment.read(path, given["--code"], tools, given.get("--namespaces") != "off")
    events = Events(assignment.run.events)
    command = int(given["--command"]) if "--command" in given else None
    if given.get("--site") == "slurm":
        from muster.agent.sandbox import agent_process
        from muster.engines.slurm.node.site import Allocated

        agent_process.write_to(assignment.run.log)  # Slurm's own words go elsewhere
        site: Site = Allocated(assignment)
    else:
        from muster.engines.local.site import Simulated

        site = Simulated(assignment, events)
    return Supervisor(assignment, site, events, command).carry_out()
