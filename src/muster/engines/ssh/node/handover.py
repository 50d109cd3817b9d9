"""What each host is given of a run: the agent, the code, the job, its keys, and which files of this machine it may reach."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from muster.agent.node import environment
from muster.agent.supervisor import device_locks
from muster.agent.supervisor.site import Assignment
from muster.dataclass import dataclass
from muster.engines.ssh.node import bootstrap, ssh_options, submitter_files
from muster.engines.ssh.node.connection import Host
from muster.linux import keys
from muster.records.layout import RunDir
from muster.storage.served.objects import Root
from muster.storage.settings import Settings


@dataclass(frozen=True)
class Handover:
    """What a host is given of a run."""

    run: RunDir
    node: int
    host: Host
    command: str  # for the shell of the host
    environment: Mapping[str, str]  # of ssh
    agent: bytes
    code: int  # a descriptor of the archive of the code
    begin: Mapping[str, Any]
    roots: Sequence[Root]  # files of this machine that it may read or write
    lost_after: float
    attempt: int = 0  # one that an earlier supervisor has started


def of_each_node(assignment: Assignment, attempt: int, find_host: Callable[[int, str], Host]) -> list[Handover]:
    """Returns the handover of every node; all have the same descriptor of the code, which the caller closes."""
    run, job, hosts = assignment.run, assignment.job, assignment.job.hosts
    agent = _read(assignment.tools.archive)
    digest = hashlib.sha256(agent).hexdigest()
    code, code_digest = _archive(assignment.code)
    submitters = environment.given()
    travelling = {*job.secrets, "MUSTER_POWER"}
    of_ssh = {name: value for name, value in submitters.items() if name not in travelling and name != keys.VARIABLE}
    begin = {
        "job": submitter_files.for_hosts(job).to_json(),
        "patience": hosts.lost_after,
        "code": code_digest,
        "agent": digest,
        "environment": {name: value for name, value in submitters.items() if name in travelling},
        "keys": keys.read(),
        "certificates": _certificates(keys.read()),
        "namespaces": assignment.namespaces,
        "shared": hosts.shared,
    }
    chosen = device_locks.chosen_for(run)
    roots = submitter_files.roots(job)
    ssh_options.chosen()  # once, and not in each link
    found = []
    for index, spec in enumerate(hosts.nodes):
        host = find_host(index, spec)
        command = bootstrap.command(hosts.directory, digest, hosts.python, "relay", run.id, index)
        own = {**begin, "devices": chosen[index : index + 1]}
        found.append(Handover(run, index, host, command, of_ssh, agent, code, own, roots, hosts.lost_after, attempt))
    return found


def _certificates(found: Mapping[str, str]) -> dict[str, str]:
    """The texts of the certificates that stores are known by, which lie in files of this machine."""
    texts = {}
    for path in Settings.from_json(found[keys.STORAGE]).certificates:
        with suppress(OSError, ValueError):  # it was read when the run was submitted; without it the store is not trusted
            texts[path] = _read(path).decode()
    return texts


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _archive(folder: str) -> tuple[int, str]:
    """The code as a tar without a name on this machine, the same for the same code; returns a descriptor and the digest."""
    descriptor = keys.memory_file()
    with (
        os.fdopen(os.dup(descriptor), "wb") as file,
        tarfile.open(fileobj=file, mode="w:", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(os.listdir(folder)):
            archive.add(f"{folder}/{name}", name, filter=_anonymous)
    digest, offset = hashlib.sha256(), 0
    while piece := os.pread(descriptor, 1 << 20, offset):
        digest.update(piece)
        offset += len(piece)
    return descriptor, digest.hexdigest()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
