"""The outbox: a result that a tester has not acknowledged is kept, said to be kept, and sent later."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from submissions import bundle, planned, result_count

from conftest import Muster, WriteJob, until
from muster.tester import client
from tester_server import Serve, Served


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_tester_that_is_down_loses_no_result(serve: Serve, muster: Muster, home: Path, tmp_path: Path) -> None:
    tester = serve()
    token, plan, path = tester.token(), planned(tester), bundle(tmp_path)
    tester.kill()
    down = muster("tester", "send", path, "--tester", tester.url, "--test-id", plan.test_id, MUSTER_TESTER_TOKEN=token)
    assert down.returncode == 3
    (kept,) = (home / "outbox").glob("*.tar.gz")
    assert f"kept in {kept}: `muster tester outbox --send`" in down.stderr
    assert len(down.stderr.splitlines()) == 1
    assert kept.read_bytes() == path.read_bytes()
    assert not [file for file in [home / "outbox", *(home / "outbox").iterdir()] if file.stat().st_mode & 0o077]
    assert not [file for file in home.rglob("*") if file.is_file() and token.encode() in file.read_bytes()]
    path.unlink()

    (waiting,) = json.loads(muster("tester", "outbox", "--json").stdout)
    assert (waiting["path"], waiting["tester"], waiting["test_id"]) == (str(kept), tester.url, plan.test_id)
    assert kept.name in muster("tester", "outbox").stdout
    tester.start()
    done = muster("tester", "outbox", "--send", MUSTER_TESTER_TOKEN=token)
    assert (done.returncode, "as result 1: it passed" in done.stdout) == (0, True), done.stderr
    assert list((home / "outbox").iterdir()) == []
    assert result_count(tester) == 1
    assert "nothing waits" in muster("tester", "outbox").stderr


@pytest.mark.long
def test_a_tester_that_is_down_holds_up_no_bundle_for_another(
    tester: Served, muster: Muster, nobody: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (nobody, tester.url):
        words = ["tester", "send", bundle(tmp_path), "--tester", url]
        assert muster(*words, MUSTER_TESTER_TOKEN="muster_wrong").returncode in (2, 3)
    assert len(list((home / "outbox").glob("*.tar.gz"))) == 2
    done = muster("tester", "outbox", "--send", "--json", MUSTER_TESTER_TOKEN=tester.token())
    assert done.returncode == 3
    assert sorted(str(one["accepted"]) for one in json.loads(done.stdout)) == ["None", "True"]
    assert len(list((home / "outbox").glob("*.tar.gz"))) == 1


def test_a_wrong_token_is_told_and_the_bundle_kept(tester: Served, muster: Muster, home: Path, tmp_path: Path) -> None:
    for token, reason in (("muster_wrong", "not known here"), ("", "wants a token")):
        done = muster("tester", "send", bundle(tmp_path), "--tester", tester.url, MUSTER_TESTER_TOKEN=token)
        assert (done.returncode, reason in done.stderr, "is kept in" in done.stderr) == (2, True, True)
    assert len(list((home / "outbox").glob("*.tar.gz"))) == 2


def test_a_refused_bundle_is_told_and_not_kept(tester: Served, muster: Muster, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(b"no bundle")
    words = ["tester", "send", path, bundle(tmp_path), "--tester", tester.url]
    done = muster(*words, MUSTER_TESTER_TOKEN=tester.token())
    assert done.returncode == 1
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["refused", "accepted"]
    assert list((home / "outbox").iterdir()) == []
    assert path.exists()


def test_send_says_the_verdict_as_json(tester: Served, muster: Muster, tmp_path: Path) -> None:
    done = muster("tester", "send", bundle(tmp_path), "--tester", tester.url, "--json", MUSTER_TESTER_TOKEN=tester.token())
    (verdict,) = json.loads(done.stdout)
    assert (verdict["accepted"], verdict["value"], done.returncode) == (True, 901.1636550985727, 0)
    assert verdict["page"] == f"/results/{verdict['number']}"


@pytest.mark.long
def test_a_token_of_the_settings_goes_to_their_tester_alone(
    tester: Served, serve: Serve, muster: Muster, home: Path, tmp_path: Path
) -> None:
    other = serve()
    home.mkdir(parents=True)
    (home / "config.toml").write_text(f'[tester]\nurl = "{other.url}"\ntoken = "{tester.token()}"\n')
    (home / "config.toml").chmod(0o600)
    done = muster("tester", "send", bundle(tmp_path), "--tester", tester.url)
    assert (done.returncode, "wants a token" in done.stderr) == (2, True)
    secret = f'[profiles.default.secrets]\nMUSTER_TESTER_TOKEN = "{tester.token()}"\n'
    (home / "config.toml").write_text(f'[tester]\nurl = "{tester.url}/"\n{secret}')
    assert muster("tester", "send", bundle(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[tester]\nurl = 1", "`tester.url` is not a text"),
        ('[tester]\nurrl = "x"', "`tester.urrl` is not known; there are url, token, ca"),
        ("tester = 1", "it takes a section"),
        ('[tester]\nurl = "ftp://x"', "is not the address of a tester"),
        ('[tester]\nurl = "http://x"\nca = "nowhere.pem"', "is not a file of certificates"),
    ],
)
def test_settings_that_cannot_be_meant_are_told(muster: Muster, home: Path, tmp_path: Path, text: str, reason: str) -> None:
    home.mkdir(parents=True)
    (home / "config.toml").write_text(text)
    (tmp_path / "file.tar.gz").write_bytes(b"x")
    done = muster("tester", "send", tmp_path / "file.tar.gz")
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr


def test_without_any_tester_it_says_what_to_do(muster: Muster, home: Path, tmp_path: Path) -> None:
    done = muster("tester", "send", bundle(tmp_path))
    assert (done.returncode, "give --tester URL" in done.stderr) == (2, True)
    assert not (home / "outbox").exists()


def test_something_else_that_answers_is_no_tester(s3: object, muster: Muster, tmp_path: Path) -> None:
    done = muster("tester", "send", bundle(tmp_path), "--tester", s3.endpoint)  # type: ignore[attr-defined]
    assert (done.returncode, "does not answer as a tester does" in done.stderr) == (3, True)


def test_a_bench_is_measured_for_a_plan_sent_and_judged(tester: Served, muster: Muster, write_job: WriteJob) -> None:
    plan = planned(tester, model="echo", division="open")
    job = write_job({"command": "echo 42.5 > $MUSTER_RESULTS/throughput_$MUSTER_RANK.json", "bench": {}})
    words = ["bench", job, "--tester", tester.url, "--test-id", plan.test_id]
    done = muster(*words, MUSTER_TESTER_TOKEN=tester.token("bench"))
    assert done.returncode == 0, done.stderr
    assert f"accepted by {tester.url} as result" in done.stderr
    with client.Client(tester.url, tester.token()) as reader:
        assert reader.plan(plan.test_id) == plan
        (entry,) = reader._http.get("/api/results", params={"model": "echo"}).json()
    assert (entry["test_id"], entry["division"], entry["value"], entry["submitter"]) == (plan.test_id, "open", 42.5, "bench")


@pytest.mark.long
def test_a_tester_that_goes_down_during_a_bench_loses_no_result(
    serve: Serve, muster: Muster, command: list[str], write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    tester = serve()
    token, plan = tester.token(), planned(tester)
    begun, go = tmp_path / "begun", tmp_path / "go"
    script = f"touch {begun}; until [ -e {go} ]; do sleep 0.02; done; echo 42.5 > $MUSTER_RESULTS/throughput_0.json"
    job = write_job({"command": script, "bench": {}})
    words = [*command, "bench", str(job), "--tester", tester.url, "--test-id", plan.test_id]
    env = {**os.environ, "MUSTER_TESTER_TOKEN": token}
    with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as bench:
        until(begun.exists)
        tester.kill()
        go.touch()
        reason = bench.communicate(timeout=60)[1]
    assert (bench.returncode, "the bundle is kept in" in reason) == (3, True), reason
    tester.start()
    later = muster("tester", "outbox", "--send", MUSTER_TESTER_TOKEN=token)
    assert (later.returncode, "throughput 42.5 samples/s" in later.stdout) == (0, True), later.stderr
    assert result_count(tester) == 1


def test_a_bench_of_an_unknown_plan_is_not_begun(tester: Served, muster: Muster, write_job: WriteJob, home: Path) -> None:
    words = ["bench", write_job({"command": "true", "bench": {}}), "--tester", tester.url, "--test-id", "20991231-nobody"]
    done = muster(*words, MUSTER_TESTER_TOKEN=tester.token())
    assert (done.returncode, "no plan `20991231-nobody`" in done.stderr) == (2, True)
    assert not (home / "runs").exists()
