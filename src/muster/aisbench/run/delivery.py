"""Network mode: the plan that the tester holds, and the bundle that it gets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muster.aisbench.config.config_json import Plan
from muster.config import ConfigError
from muster.records.layout import home
from muster.tester.errors import Unreachable

MODE = "MUSTER_AISBENCH_MODE"  # set by ais-bench-stubs for the steps that it starts
LOCAL, NETWORK = "local", "network"
FIELDS = ("test_id", "mode", "model", "division", "scenario", "object_type")


def by_stubs() -> bool:
    """Whether ais-bench-stubs started the step under way, in either mode."""
    return MODE in os.environ


def wanted() -> bool:
    """Whether the step under way belongs to a run in network mode."""
    return os.environ.get(MODE) == NETWORK


def check(test: Plan) -> None:
    """Whether code/config.json names a test and a tester, and the tester knows the test, where it can be reached."""
    if not test.test_id or not test.url:
        missing = "testid" if not test.test_id else "tester_server_ip"
        raise ConfigError(f"code/config.json names no {missing}; fill it in, or run `./ais-bench-stubs test` without a tester")
    plan(test, lambda text: None)


def plan(test: Plan, say: Callable[[str], None]) -> Mapping[str, Any]:
    """The plan as the tester has it; as code/config.json has it where the tester does not answer now."""
    from muster.tester.client import connect
    from muster.tester.plan import Plan as TesterPlan

    try:
        with connect(Path(home()), test.url) as client:
            return client.plan(test.test_id).to_json()
    except Unreachable as error:
        say(f"[WARNING] {error}; the result will be kept for it")
        said = {field: getattr(test, field) for field in FIELDS}
        return TesterPlan(**{"model": "", **{field: value for field, value in said.items() if value}}).to_json()


def send(test: Plan, bundle: Path) -> tuple[bool, list[str]]:
    """Sends a bundle, which waits in the outbox until the tester has judged it; returns whether it was taken, and the words."""
    from muster.tester.client import connect
    from muster.tester.outbox import Outbox

    outbox = Outbox(Path(home()))
    with connect(Path(home()), test.url) as client:
        verdict = outbox.deliver(outbox.put(bundle, client.url, test.test_id), client)
    return verdict.accepted, verdict.sentences(test.url)
