"""Warnings about a run that may have succeeded: ranks that trained apart, unlike hosts, files left there, exposed keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from muster.job import Job
from muster.records.files import read_events, read_object
from muster.records.layout import AttemptDir, RunDir
from muster.records.untrusted import printable, whole

MOST_PLACES = 4
MOST_FILES = 3  # that are named
LONGEST = 2000  # letters of a warning


def separate(attempt: AttemptDir, job: Job) -> str:
    """Warns of a run whose ranks did not train together, although its job means one training; empty otherwise.

    There is no warning where a trainer knew of others elsewhere: a run that trains together may evaluate alone.
    """
    seen = {} if job.servers else {node: _seen(attempt, node) for node in attempt.node_indexes()}
    if any(found.get("joined") is not False for found in seen.values() if found):
        return ""
    worlds = [(node, world) for node, found in seen.items() for world in _complete(found)]
    if len(worlds) < 2:
        return ""
    _, first = worlds[0]
    alike = [node for node, world in worlds if world == first]
    found = f"{first['program']} had {first['variable']}={first['size']} on {_places(alike)}"
    if len(alike) < len(worlds):
        found += ", and others were alone as well"
    if first["launcher"]:
        found += ", set by {}".format(first["launcher"])
        advice = "give the launcher all nodes (MUSTER_HOSTS has their addresses, MUSTER_NODE is the own number)"
    else:
        advice = "leave {} to Muster".format(first["variable"])
    size = f"{job.ranks} ranks on {job.nodes} node{'s' * (job.nodes != 1)}"
    return f"{len(worlds)} separate trainings ran instead of one: {found}; the job has {size}: {advice}"


def _seen(attempt: AttemptDir, node: int) -> dict[str, Any]:
    found = read_object(attempt.node(node).exit).get("worlds")
    return found if isinstance(found, dict) else {}


def _complete(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The worlds that were complete on a node; the record may be damaged."""
    worlds = found.get("complete")
    for world in worlds if isinstance(worlds, list) else []:
        if isinstance(world, dict) and isinstance(world.get("size"), int):
            words = {key: str(world.get(key, "")) for key in ("variable", "program", "launcher")}
            yield dict(words, size=world["size"])


def _places(nodes: list[int]) -> str:
    """The nodes of worlds in words, such as `node 0 (4 times) and node 1`."""
    counts = {node: nodes.count(node) for node in nodes}
    named = [f"node {node}{f' ({count} times)' if count > 1 else ''}" for node, count in counts.items()]
    if len(named) > MOST_PLACES:
        return f"{', '.join(named[:MOST_PLACES])} and {len(named) - MOST_PLACES} more nodes"
    return " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))


def left_on_hosts(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Warns of files that ranks wrote and that did not come into the run directory, host by host."""
    for event in events:
        if event["event"] == "outputs-left":  # of a service
            yield printable(str(event.get("reason")))[:LONGEST]
        files, place = event.get("files"), printable("{}:{}".format(event.get("host"), event.get("folder")))
        if event["event"] == "not-delivered":
            yield f"what node {event.get('node')} wrote at last may be missing: its host did not come back; see {place}"
        if event["event"] == "left-on-host" and isinstance(files, dict):
            shown = [f"{printable(name)} ({printable(str(reason))})" for name, reason in list(files.items())[:MOST_FILES]]
            more = (whole(event.get("count")) or 0) - len(shown)
            named = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
            yield f"not all that node {event.get('node')} wrote is here: {named}; the rest is in {place}, for 14 days"


def unlike_hosts(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Warns of a run on hosts with different CPU architectures, on which its programs may not be the same."""
    having: dict[str, dict[str, None]] = {}
    for event in events:
        if event["event"] == "host" and event.get("machine"):
            having.setdefault(printable(str(event["machine"])), {})[printable(str(event.get("host")))] = None
    if len(having) > 1:
        named = "; ".join(f"{machine} on {_some(list(hosts))}" for machine, hosts in having.items())
        yield f"hosts have different CPU architectures: {named}"


def _some(hosts: list[str]) -> str:
    more = f" and {len(hosts) - MOST_PLACES} more" if hosts[MOST_PLACES:] else ""
    return ", ".join(hosts[:MOST_PLACES]) + more


def exposed_keys(run: RunDir) -> str | None:
    """Warns that the program of a run can read the keys of the run; empty where it cannot, None while that is not known yet.

    It can where there are keys, and no namespaces keep them apart.
    """
    attempt = run.last_attempt()
    events = [*read_events(run.events), *(read_events(attempt.node(0).events) if attempt else ())]
    found = [event for event in events if event.get("event") in ("nodes", "node")]
    if not found:
        return None
    if not found[-1].get("keys"):
        return ""
    return (
        f"the job can read the keys that Muster uses for it, because there are no namespaces ({found[-1].get('reason')}) "
        "and both are the same user; run only jobs that you trust with them"
    )
