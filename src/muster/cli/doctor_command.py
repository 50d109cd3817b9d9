"""`muster doctor`: what this machine has, and what to do about what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from muster import __version__, config, devices
from muster.agent.sandbox import namespaces
from muster.agent.sandbox.memory import can_limit
from muster.agent.sandbox.rootfs import PRIVATE
from muster.cli import output
from muster.cli.options import HostsName, Time, as_json
from muster.engines import registry
from muster.engines.base import EngineError
from muster.launch.run_store import RunStore
from muster.launch.start import interpreter
from muster.linux.ssh_programs import ssh_unavailable
from muster.records.layout import home
from muster.records.text.units import size
from muster.storage import Access, Settings, Storage, StorageError
from muster.storage.settings import resolve

PATIENCE = 5.0  # seconds that a store may be silent before it counts as out of reach
ALLOW = "where they are refused, see the sysctls user.max_user_namespaces and kernel.unprivileged_userns_clone"
TOOLS = (
    ("bash", "runs commands and setup; install bash"),
    ("mpirun", "framework `mpi` needs it; install openmpi-bin (Debian)"),
    ("horovodrun", "framework `horovod` needs it; `pip install horovod`"),
    ("py-spy", "shows where a silent rank hangs without killing it; `pip install py-spy`"),
)


@dataclass(frozen=True)
class Finding:
    part: str
    ok: bool
    found: str
    advice: str = ""
    details: dict[str, Any] | None = None  # the figures behind the words


def _finding(part: str, there: object, found: str, missing: str, advice: str) -> Finding:
    """A part that is there, or one that is missing with what to do about it."""
    return Finding(part, True, found) if there else Finding(part, False, missing, advice)


@click.command("doctor")
@click.option("--hosts", type=HostsName(), help="Look at hosts of the engine ssh: a group, or hosts by comma.")
@click.option("--links", is_flag=True, help="With --hosts: measure the links between them.")
@click.option("--timeout", type=Time(), default="30s", show_default=True, help="With --hosts: how long each may take.")
@as_json
def command(json: bool, hosts: str | None, links: bool, timeout: float) -> int:
    """Say what this machine has: devices, engines, tools and where records go, each with what to do if it is missing.

    With --hosts, say what servers have that are reached over ssh, and what is in the way of a run there. They are asked in
    parallel, by Muster's own agent, which stays there as after a run. A link is measured from each host to the next, for a
    second each, at the addresses that ranks would use.

    \b
    Examples:
      muster doctor
      muster doctor --json | jq '.[] | select(.ok | not)'
      muster doctor --hosts lab
      muster doctor --hosts node1,train@node2:2222 --links
      muster doctor --hosts lab --json | jq '.hosts[] | .host, .in_the_way'

    \b
    Exit codes with --hosts: 0 all hosts can run jobs, 1 one of them cannot, or a
    link does not work, 2 there is no such group or host.
    """
    if hosts is not None:
        from muster.cli import doctor_of_hosts

        return doctor_of_hosts.examine(hosts, links, timeout, json)
    if links:
        raise click.UsageError("--links measures between hosts: name them with --hosts")
    try:
        settings: config.Config | config.ConfigError = config.load(home())
    except config.ConfigError as error:
        settings = error
    findings = [*_muster(settings), *_devices(), *_engines(settings), *_stores(settings), *_addresses(settings), *_tools()]
    if json:
        shown = [asdict(finding) for finding in findings]
        output.print_json([{name: value for name, value in entry.items() if value is not None} for entry in shown])
        return 0
    for finding in findings:
        mark = output.style("✓", fg="green") if finding.ok else output.style("-", fg="yellow")
        click.echo(f"{mark} {finding.part.ljust(12)} {finding.found}")
        if finding.advice:
            click.echo(f"  {' ' * 12} {output.style(finding.advice, dim=True)}")
    return 0


def _muster(settings: config.Config | config.ConfigError) -> list[Finding]:
    place = home()
    there = os.path.isdir(place)
    parent, blocked = place, False
    while not os.path.isdir(parent):
        blocked = blocked or os.path.lexists(parent)
        parent = os.path.dirname(parent)
    writable = os.access(parent, os.W_OK) and not blocked
    free = shutil.disk_usage(parent).free
    count = len(RunStore(home()).run_ids())
    findings = [
        Finding("muster", True, f"{__version__} on Python {platform.python_version()} ({sys.executable})"),
        Finding(
            "home",
            writable,
            f"{place}, {count} run{'s' if count != 1 else ''}, {size(free)} free"
            + ("" if there else " (made by the first run)"),
            "" if writable else "no directory can be made or written there; set MUSTER_HOME to a directory of yours",
        ),
    ]
    if isinstance(settings, config.ConfigError):
        findings.append(Finding("config", False, str(settings)))
    python = interpreter.default()
    missing = "activate an environment, or set `python` in the job"
    return [*findings, _finding("python", python, f"jobs run with {python}", "there is none on your PATH", missing)]


def _devices() -> list[Finding]:
    findings = []
    for kind in ("nvidia", "ascend"):
        trouble: list[str] = []
        found = devices.found(kind, trouble.append)
        names = ", ".join(f"{device.id}: {device.name}" for device in found)
        advice = "" if found else f"jobs with `device: {kind}` cannot run here; `device: auto` simulates devices on the CPU"
        findings.append(Finding(kind, bool(found), names or "; ".join(["no device found", *trouble]), advice))
    if devices.found("ascend") and not devices.ascend.addresses():
        findings.append(Finding("hccn.conf", False, "no device addresses", "rank tables need /etc/hccn.conf; see `hccn_tool`"))
    return findings


def _engines(settings: config.Config | config.ConfigError) -> list[Finding]:
    wanted = isinstance(settings, config.ConfigError) or settings.namespaces
    reason = namespaces.available() if wanted else "switched off in config.toml"
    return [
        *(finding for name in registry.NAMES for finding in _engine(name)),
        _finding(
            "namespaces",
            not reason,
            f"each simulated node has its own {', '.join(PRIVATE)}, host name and processes",
            f"not to be had ({reason}); subreapers and a run marker see to it that nothing is left",
            f"nodes share {', '.join(PRIVATE)}, host name and process ids with the machine; {ALLOW}",
        ),
        _finding(
            "memory limit",
            can_limit(),
            "kept by the kernel (a control group per node)",
            "kept by the agent, which looks twice a second",
            "no control group can be made here; `memory` works all the same",
        ),
    ]


def _engine(name: str) -> list[Finding]:
    """The capacity of an engine, or why it cannot be used."""
    try:
        return [Finding(name, True, part.words, details=part.details) for part in registry.get(name, home()).capacity()]
    except (EngineError, config.ConfigError) as error:
        return [Finding(name, False, str(error))]


def _stores(settings: config.Config | config.ConfigError) -> list[Finding]:
    """Where URLs live, and whether that can be reached with the keys that there are."""
    if isinstance(settings, config.ConfigError):
        return [Finding("storage", False, str(settings))]
    try:
        storage = resolve(home(), settings.storage, os.environ, settings.addresses)
    except StorageError as error:
        return [Finding("storage", False, str(error))]
    places: dict[Access, list[str]] = {}
    for scheme in ("obs", "s3"):
        places.setdefault(storage.access(scheme), []).append(f"{scheme}://")
    return [_store(storage, " and ".join(schemes), access) for access, schemes in places.items()]


def _store(settings: Settings, schemes: str, access: Access) -> Finding:
    if not access.endpoint:
        where = f"{schemes} live in {home()}/store"
        return Finding("storage", True, where, "an endpoint in config.toml sends them to a server")
    quick = replace(access, timeout=min(access.timeout, PATIENCE))
    with Storage(replace(settings, obs=quick, s3=quick)) as storage:
        try:
            buckets = len(storage.buckets())
        except StorageError as error:
            return Finding("storage", False, f"{schemes} go to {access.endpoint}: {error}")
    return Finding("storage", True, f"{schemes} go to {access.endpoint}, {buckets} bucket{'s' * (buckets != 1)}")


def _addresses(settings: config.Config | config.ConfigError) -> list[Finding]:
    """The host names that the settings give addresses."""
    if isinstance(settings, config.ConfigError) or not settings.addresses.given:
        return []
    from muster.cli import doctor_addresses

    advice = "correct the address under [resolve] in config.toml, or see whether it can be reached from here"
    return [
        Finding("resolve", not found.failures, found.words, advice if found.failures else "")
        for found in doctor_addresses.examine(settings)
    ]


def _tools() -> list[Finding]:
    paths = {name: shutil.which(name) for name, _ in TOOLS}
    tools = [_finding(name, paths[name], str(paths[name]), "not found", advice) for name, advice in TOOLS]
    why, advice = ssh_unavailable() or ("", "")
    missing, needed = f"not between nodes: {why}", f"frameworks `horovod` and `mpi` need it; {advice}"
    return [*tools, _finding("ssh", not why, "nodes of a run can reach each other", missing, needed)]
