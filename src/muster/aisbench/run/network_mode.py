"""Network mode of a package: fetches the plan from the tester, and sends it the bundle."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muster.aisbench.config.config_json import PlannedTest
from muster.config import ConfigError
from muster.tester.errors import Unreachable
from muster.tester.protocol import Verdict

MODE = "MUSTER_AISBENCH_MODE"  # set by ais-bench-stubs for the steps that it starts
LOCAL, NETWORK = "local", "network"
FIELDS = ("test_id", "mode", "model", "division", "scenario", "object_type")


def started_by_stubs() -> bool:
    """True if ais-bench-stubs started this step, in either mode."""
    return MODE in os.environ


def enabled() -> bool:
    """True if this step belongs to a run in network mode."""
    return os.environ.get(MODE) == NETWORK


def check(test: PlannedTest, home: Path) -> None:
    """Raises where code/config.json names no test or tester, or the tester answers and does not know the test."""
    if not test.test_id or not test.url:
        missing = "testid" if not test.test_id else "tester_server_ip"
        raise ConfigError(f"code/config.json names no {missing}; fill it in, or run `./ais-bench-stubs test` without a tester")
    plan(test, home, lambda text: None)


def plan(test: PlannedTest, home: Path, say: Callable[[str], None]) -> Mapping[str, Any]:
    """Returns the tester's plan; the one of code/config.json where the tester does not answer."""
    from muster.tester.client import connect
    from muster.tester.protocol import Plan

    try:
        with connect(home, test.url) as client:
            return client.plan(test.test_id).to_json()
    except Unreachable as error:
        say(f"[WARNING] {error}; the result will be kept for it")
        given = {field: value for field in FIELDS if (value := getattr(test, field))}
        return Plan(**{"model": "", **given}).to_json()


def send(test: PlannedTest, home: Path, bundle: Path) -> Verdict:
    """Sends a bundle through the outbox, and returns the tester's verdict."""
    from muster.tester.client import connect
    from muster.tester.outbox import Outbox

    outbox = Outbox(home)
    with connect(home, test.url) as client:
        return outbox.deliver(outbox.put(bundle, client.url, test.test_id), client)
