"""Uploads: in pieces, at the right place, resumed after anything, and never more than the tester takes."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import update
from submissions import announced, bundle, program, result_count, sent

from conftest import gone, processes_with, until
from muster.server.results.tables import uploads
from muster.server.results.uploads import CHUNK, EXPIRY
from muster.tester.client import Client
from muster.tester.protocol import Verdict
from tester_server import Serve, Served

FEW = CHUNK + 12_345


@pytest.mark.long
def test_a_bundle_goes_up_in_pieces_and_gets_its_verdict(tester: Served, tmp_path: Path) -> None:
    path = bundle(tmp_path, noise=FEW)
    with program(tester, tester.token("pieces")) as http:
        opened = http.post("/api/uploads", json=announced(path)).json()
        assert (opened["offset"], opened["chunk"], opened["verdict"]) == (0, CHUNK, None)
        verdict = sent(http, path).json()
        assert (verdict["accepted"], verdict["passed"], verdict["problems"]) == (True, True, [])
        assert verdict["value"] == 901.1636550985727
        kept = http.get(f"/api/results/{verdict['number']}/bundle")
        assert kept.content == path.read_bytes()
    assert not list(tester.unfinished.iterdir())


def test_what_a_tester_keeps_is_for_its_owner_alone(tester: Served, tmp_path: Path) -> None:
    with program(tester, tester.token()) as http:
        assert sent(http, bundle(tmp_path)).json()["accepted"]
        http.post("/api/uploads", json=announced(bundle(tmp_path)))
    kept = [tester.data, *tester.data.rglob("*")]
    assert {path.parent.name for path in kept} >= {"bundles", "unfinished"}
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


def test_pieces_are_taken_at_the_end_alone(tester: Served, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    content = path.read_bytes()
    with program(tester, tester.token()) as http:
        upload = f"/api/uploads/{http.post('/api/uploads', json=announced(path)).json()['id']}"
        ahead = http.patch(upload, content=content[10:], headers={"Upload-Offset": "10"})
        assert (ahead.status_code, ahead.json()["offset"]) == (409, 0)
        assert http.patch(upload, content=content[:10], headers={"Upload-Offset": "0"}).json() == {"offset": 10}
        again = http.patch(upload, content=content[:10], headers={"Upload-Offset": "0"})
        assert (again.status_code, again.json()["offset"]) == (409, 10)
        assert http.get(upload).json() == {"offset": 10}
        early = http.post(f"{upload}/finish")
        assert (early.status_code, early.json()["offset"]) == (409, 10)
        beyond = http.patch(upload, content=content[10:] + b"!", headers={"Upload-Offset": "10"})
        assert beyond.status_code == 413
        assert http.patch(upload, content=content[10:], headers={"Upload-Offset": "10"}).json() == {"offset": len(content)}
        assert http.post(f"{upload}/finish").json()["accepted"]


def test_an_upload_belongs_to_who_began_it(tester: Served, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    with program(tester, tester.token()) as one, program(tester, tester.token()) as other:
        upload = f"/api/uploads/{one.post('/api/uploads', json=announced(path)).json()['id']}"
        assert other.get(upload).status_code == 404
        assert other.patch(upload, content=b"x", headers={"Upload-Offset": "0"}).status_code == 404
        assert other.post(f"{upload}/finish").status_code == 404
        assert one.get(upload).json() == {"offset": 0}


def test_other_bytes_than_announced_are_refused(tester: Served, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    content = path.read_bytes()
    with program(tester, tester.token()) as http:
        upload = f"/api/uploads/{http.post('/api/uploads', json=announced(path)).json()['id']}"
        http.patch(upload, content=content[:-1] + bytes([content[-1] ^ 1]), headers={"Upload-Offset": "0"})
        answer = http.post(f"{upload}/finish")
        assert answer.status_code == 422
        assert "SHA-256" in answer.json()["problems"][0]
        assert sent(http, path).json()["accepted"]  # the next time, with the right ones


@pytest.mark.long
def test_too_large_a_bundle_is_refused_before_it_is_sent(serve: Serve, tmp_path: Path) -> None:
    tester = serve("--most", "1M")
    with program(tester, tester.token()) as http:
        answer = sent(http, bundle(tmp_path, noise=1 << 20))
        assert (answer.status_code, "1.0M at most" in answer.json()["reason"]) == (413, True)
        assert sent(http, bundle(tmp_path)).json()["accepted"]
    assert not list(tester.unfinished.iterdir())


def test_a_request_carries_one_piece_at_most(tester: Served) -> None:
    with program(tester, tester.token()) as http:
        announced_length = http.patch(f"/api/uploads/{'0' * 32}", content=bytes(CHUNK + 1), headers={"Upload-Offset": "0"})
        assert announced_length.status_code == 413
        chunked = http.patch(f"/api/uploads/{'0' * 32}", content=iter([bytes(1 << 20)] * 5), headers={"Upload-Offset": "0"})
        assert chunked.status_code == 413


@pytest.mark.long
def test_a_full_tester_takes_no_more(serve: Serve, tmp_path: Path) -> None:
    tester = serve("--quota", "1M")
    with program(tester, tester.token()) as http:
        assert sent(http, bundle(tmp_path, noise=700_000)).json()["accepted"]
        full = sent(http, bundle(tmp_path, noise=700_000))
        assert (full.status_code, "is full" in full.json()["reason"]) == (507, True)
        assert sent(http, bundle(tmp_path)).json()["accepted"]


@pytest.mark.long
def test_workers_end_with_their_tester_and_a_dead_one_is_replaced(serve: Serve, tmp_path: Path) -> None:
    tester = serve()
    marker = f"MUSTER_HOME={tester.folder / 'home'}"
    with program(tester, tester.token()) as http:
        assert sent(http, bundle(tmp_path)).json()["accepted"]
        (worker,) = [words for words in processes_with(marker) if "muster.server.results.verify_worker" in words]
        os.kill(int(worker.split(":")[0]), signal.SIGKILL)
        assert all(sent(http, bundle(tmp_path)).json()["accepted"] for _ in range(3))
    tester.kill()
    assert gone(marker) == []


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_restarted_tester_goes_on_where_it_was(serve: Serve, tmp_path: Path, how: signal.Signals) -> None:
    tester = serve()
    token, path = tester.token(), bundle(tmp_path, noise=FEW)
    with program(tester, token) as http:
        upload = http.post("/api/uploads", json=announced(path)).json()["id"]
        http.patch(f"/api/uploads/{upload}", content=path.read_bytes()[:CHUNK], headers={"Upload-Offset": "0"})
    tester.kill(how)
    tester.start()
    with program(tester, token) as http:
        opened = http.post("/api/uploads", json=announced(path)).json()
        assert (opened["id"], opened["offset"]) == (upload, CHUNK)
        assert sent(http, path).json()["accepted"]


@pytest.mark.long
def test_the_client_outlives_a_tester_that_is_killed_in_the_middle(serve: Serve, tmp_path: Path) -> None:
    tester = serve()
    path, verdicts = bundle(tmp_path, noise=5 * CHUNK), list[Verdict]()
    with Client(tester.url, tester.token()) as client:
        sending = threading.Thread(target=lambda: verdicts.append(client.send(path)))
        sending.start()
        until(lambda: any(part.stat().st_size for part in tester.unfinished.iterdir()))
        tester.kill()
        assert [part.stat().st_size < path.stat().st_size for part in tester.unfinished.iterdir()] == [True]
        tester.start()
        sending.join()
    assert verdicts[0].accepted
    assert result_count(tester) == 1


def test_a_lost_acknowledgement_does_no_harm(tester: Served, tmp_path: Path) -> None:
    path, token = bundle(tmp_path), tester.token()
    before = result_count(tester)
    with program(tester, token) as http, Client(tester.url, token) as client:
        first = sent(http, path).json()
        assert http.post("/api/uploads", json=announced(path)).json()["verdict"] == first
        assert vars(client.send(path)) == first
    assert result_count(tester) == before + 1


@pytest.mark.long
def test_an_upload_that_nobody_went_on_with_is_dropped(serve: Serve, tmp_path: Path) -> None:
    tester = serve()
    path, other = bundle(tmp_path), bundle(tmp_path)
    with program(tester, tester.token()) as http:
        upload = http.post("/api/uploads", json=announced(path)).json()["id"]
        http.patch(f"/api/uploads/{upload}", content=path.read_bytes()[:10], headers={"Upload-Offset": "0"})
        with tester.database() as database, database.begin() as connection:
            connection.execute(update(uploads).values(touched=time.time() - EXPIRY - 1))
        http.post("/api/uploads", json=announced(other))
        assert http.get(f"/api/uploads/{upload}").status_code == 404
        assert len(list(tester.unfinished.iterdir())) == 1
        assert sent(http, path).json()["accepted"]


@pytest.mark.parametrize(
    "wrong",
    [{"sha256": "0" * 63}, {"sha256": "G" * 64}, {"size": 0}, {"size": "many"}, {"test_id": "../x"}, {"size": None}],
)
def test_a_wrong_announcement_is_told(tester: Served, wrong: dict[str, object]) -> None:
    right = {"sha256": hashlib.sha256(b"").hexdigest(), "size": 1, "test_id": None}
    with program(tester, tester.token()) as http:
        answer = http.post("/api/uploads", json={**right, **wrong})
    assert answer.status_code == 400
    assert next(iter(wrong)) in answer.json()["reason"]
