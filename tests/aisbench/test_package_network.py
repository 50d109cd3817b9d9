"""Network mode: the tester of config.json gets the result, and one that cannot be sent is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import stubs
from ready_packages import installed as installed
from ready_packages import modelarts as modelarts

from conftest import Muster
from muster.server.results.plans import Plans
from muster.tester.protocol import Plan
from s3_server import free_port
from tester_server import NUMBERS, Served


def planned(tester: Served, folder: Path, **changes: str) -> str:
    """A plan that the tester has, and a package that answers it."""
    plan = Plan(f"20261115-pack{next(NUMBERS)}", "perceptron")
    with tester.database() as database:
        Plans(database).add(plan)
    config = {"testid": plan.test_id, "Model": plan.model, "tester_server_ip": "127.0.0.1", "tester_server_port": tester.port}
    (folder / "code/config.json").write_text(json.dumps({**config, **changes}))
    return plan.test_id


@pytest.mark.long
def test_the_tester_gets_the_result(modelarts: Path, tester: Served, home: Path) -> None:
    test_id = planned(tester, modelarts)
    (modelarts / "code/system.json").write_text('{"vendor": "lab"}')
    done = stubs(modelarts, MUSTER_TESTER_TOKEN=tester.token())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"[INFO]get ConfigInfo testid:{test_id}" in done.stdout
    assert f"[INFO]accepted by {tester.url} as result" in done.stdout
    result = json.loads((modelarts / "result/result.json").read_text())
    bench = json.loads((home / "benches" / result["id"] / "bench.json").read_text())
    assert bench["plan"]["test_id"] == test_id
    assert bench["system"] == {"vendor": "lab"}


def test_a_test_that_the_tester_does_not_know_is_exit_code_1(modelarts: Path, tester: Served) -> None:
    planned(tester, modelarts, testid="20200101-nobody")
    done = stubs(modelarts, MUSTER_TESTER_TOKEN=tester.token())
    assert done.returncode == 1
    assert "20200101-nobody" in done.stdout and "run_train" not in done.stdout


def test_a_missing_token_is_told_before_the_training(modelarts: Path, tester: Served) -> None:
    planned(tester, modelarts)
    done = stubs(modelarts)
    assert done.returncode == 1
    assert "token" in done.stdout and "run_train" not in done.stdout


def test_network_mode_needs_a_test_id(modelarts: Path) -> None:
    (modelarts / "code/config.json").write_text("{}")
    done = stubs(modelarts)
    assert done.returncode == 1
    assert "code/config.json names no testid; fill it in, or run `./ais-bench-stubs test` without a tester" in done.stdout


@pytest.mark.long
def test_a_result_is_kept_while_the_tester_is_down(modelarts: Path, muster: Muster, tester: Served, home: Path) -> None:
    """No result is lost: it waits, and is sent later."""
    token = tester.token()
    test_id = planned(tester, modelarts, tester_server_port=str(free_port()))
    done = stubs(modelarts, MUSTER_TESTER_TOKEN=token)
    assert done.returncode == 4, done.stdout
    assert "the result will be kept for it" in done.stdout
    assert "`muster tester outbox --send` sends it later" in done.stdout
    assert "[ERROR]the tester has not verified the result yet" in (modelarts / "log/stub.log").read_text()
    kept = next((home / "outbox").glob("*.tar.gz"))
    later = muster("tester", "send", kept, "--tester", tester.url, "--test-id", test_id, MUSTER_TESTER_TOKEN=token)
    assert later.returncode == 0, later.stdout + later.stderr
