"""Faults and abuse: neither makes the tester refuse a good bundle, or keeps other submitters out."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from bundles import forged, make_bundle, measured
from submissions import announced, bundle, program, sent

from conftest import Muster, processes_with, until
from tester_server import Serve, Served

WORKERS = 2
SHORT_TIMEOUT = (
    "from muster.server.core.web import slow_clients as s; s.REQUEST_TIMEOUT = 0.5; from muster.cli.main import main; main()"
)
SHORT_LIMIT = "from muster.server.results import verify_worker as w; w.TIME_LIMIT = 1; w.main()"


def workers(tester: Served) -> list[int]:
    marker = f"MUSTER_HOME={tester.folder / 'home'}"
    return [int(words.split(":")[0]) for words in processes_with(marker) if "muster.server.results.verify_worker" in words]


def signal_all(tester: Served, *numbers: signal.Signals) -> None:
    for worker in workers(tester):
        for number in numbers:
            os.kill(worker, number)


def asked(worker: int) -> bool:
    """Whether a worker that stands still has a task to read."""
    waiting = bytearray(4)
    with open(f"/proc/{worker}/fd/0", "rb", buffering=0) as task:
        fcntl.ioctl(task, termios.FIONREAD, waiting)
    return any(waiting)


def limit(processes: list[int], most: int) -> None:
    """No file that these write may grow beyond some size: to them the disk is full."""
    for process in processes:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def long_log(folder: Path) -> Path:
    """A bundle that is small until it is unpacked."""
    run = measured(folder / "long", f"long-20261115-000000-{os.getpid()}abcd")
    run.log(0, "x" * 2_000_000)
    return make_bundle(folder / "long", folder / "long.tar.gz", run)


def decided_while(tester: Served, path: Path, act: Callable[[], None], token: str) -> httpx.Response:
    """The answer for a bundle whose worker something happens to; both workers stand still until then."""
    answers: list[httpx.Response] = []
    signal_all(tester, signal.SIGSTOP)
    with program(tester, token) as http:
        sending = threading.Thread(target=lambda: answers.append(sent(http, path)))
        sending.start()
        until(lambda: any(map(asked, workers(tester))))
        act()
        sending.join()
    return answers[0]


@pytest.fixture
def started(serve: Serve, tmp_path: Path) -> Served:
    """A tester whose workers all run."""
    tester = serve()
    with program(tester, tester.token()) as http:
        assert all(sent(http, bundle(tmp_path)).json()["accepted"] for _ in range(WORKERS))
    assert len(workers(tester)) == WORKERS
    return tester


@pytest.mark.long
def test_a_full_disk_is_no_fault_of_a_bundle(started: Served, muster: Muster, home: Path, tmp_path: Path) -> None:
    path, token = long_log(tmp_path), started.token()
    limit(workers(started), 1_000_000)
    kept = muster("tester", "send", path, "--tester", started.url, MUSTER_TESTER_TOKEN=token)
    assert kept.returncode == 3
    assert "the tester cannot unpack it: file too large; try later" in kept.stderr
    limit(workers(started), resource.RLIM_INFINITY)
    later = muster("tester", "outbox", "--send", MUSTER_TESTER_TOKEN=token)
    assert later.returncode == 0, later.stderr
    assert not list((home / "outbox").iterdir())


@pytest.mark.long
def test_a_database_that_cannot_grow_is_told(serve: Serve, tmp_path: Path) -> None:
    tester = serve()
    with program(tester, tester.token()) as http:
        assert tester.process
        limit([tester.process.pid], 0)
        full = http.post("/api/uploads", json=announced(bundle(tmp_path)))
        limit([tester.process.pid], resource.RLIM_INFINITY)
    assert (full.status_code, "the server cannot write" in full.json()["reason"]) == (507, True)


def test_a_command_that_cannot_write_says_so(command: list[str], tester: Served) -> None:
    done = subprocess.run(
        ["prlimit", "--fsize=0", *command, "tester", "token", "add", "nobody", "--data", str(tester.data)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True), done.stderr


@pytest.mark.long
def test_a_worker_that_somebody_kills_costs_no_result(started: Served, tmp_path: Path) -> None:
    path, token = bundle(tmp_path), started.token()
    answer = decided_while(started, path, lambda: signal_all(started, signal.SIGKILL), token)
    assert (answer.status_code, "try later" in answer.json()["reason"]) == (503, True)
    with program(started, token) as http:
        assert http.post("/api/uploads", json=announced(path)).json()["offset"] == path.stat().st_size
        assert sent(http, path).json()["accepted"]


@pytest.mark.long
def test_workers_outlive_the_signals_that_stop_a_tester(started: Served, tmp_path: Path) -> None:
    """Ctrl-C and service managers signal every process: what is being judged still gets its verdict."""
    stopped = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT)
    answer = decided_while(started, bundle(tmp_path), lambda: signal_all(started, *stopped), started.token())
    assert answer.json()["accepted"]


def test_a_pattern_without_end_ends(tmp_path: Path) -> None:
    """The system ends a worker that takes too long, even in the middle of a regular expression."""
    run = measured(tmp_path / "measured", metrics={"loss": {"pattern": "^(a+)+$(x)"}})
    path = make_bundle(tmp_path / "measured", tmp_path / "bundle.tar.gz", run)
    (bomb,) = [forged(path, tmp_path, lambda folder: next(folder.rglob("rank-0.log")).write_text("a" * 60 + "!\n"))]
    task = json.dumps({"path": str(bomb), "signers": None, "most": 10**9})
    worker = subprocess.run([sys.executable, "-c", SHORT_LIMIT], input=task + "\n", capture_output=True, text=True)
    assert worker.returncode == -signal.SIGALRM, worker.stderr


def test_lone_surrogates_are_refused(tester: Served, tmp_path: Path) -> None:
    def halve(folder: Path) -> None:
        text = (folder / "bench.json").read_text()
        assert "a whole letter" in text
        (folder / "bench.json").write_text(text.replace("a whole letter", r"\ud800"))

    path = forged(bundle(tmp_path, system={"vendor": "a whole letter"}), tmp_path, halve)
    with program(tester, tester.token()) as http:
        answer = sent(http, path)
    assert (answer.status_code, "invalid Unicode" in answer.json()["problems"][0]) == (422, True)


def test_numbers_beyond_all_measure_spoil_no_page(tester: Served, tmp_path: Path) -> None:
    run = measured(tmp_path / "measured", f"huge-20261115-000000-{os.getpid()}abcd")
    for rank in range(2):
        run.result_file(rank, f"throughput_{rank}.json", 1e308)
    with program(tester, tester.token()) as http:
        number = sent(http, make_bundle(tmp_path / "measured", tmp_path / "huge.tar.gz", run)).json()["number"]
        other = sent(http, bundle(tmp_path)).json()["number"]
        for page in (f"/results/{number}", f"/compare?result={number}&result={other}"):
            answer = http.get(page)
            assert answer.status_code == 200
            assert f"huge-20261115-000000-{os.getpid()}" in answer.text


@pytest.mark.long
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: ",
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\ntoken=",
        b"GET /login HTTP/1.1\r\nHost: x\r\n\r\nGET /log",
    ],
)
def test_who_never_finishes_a_request_is_let_go(begun: bytes, tmp_path: Path) -> None:
    tester = Served(tmp_path, [], program=[sys.executable, "-c", SHORT_TIMEOUT]).start()
    try:
        with socket.create_connection(("127.0.0.1", tester.port)) as slow:
            slow.sendall(begun)
            assert ended(slow)
    finally:
        tester.kill()


@pytest.mark.long
def test_who_may_send_a_bundle_may_take_longer(tmp_path: Path) -> None:
    tester = Served(tmp_path, [], program=[sys.executable, "-c", SHORT_TIMEOUT]).start()
    try:
        with program(tester, tester.token()) as http, socket.create_connection(("127.0.0.1", tester.port)) as other:
            path = bundle(tmp_path)
            upload = http.post("/api/uploads", json=announced(path)).json()["id"]

            def slowly() -> Iterator[bytes]:
                content = path.read_bytes()
                yield content[:10]
                assert ended(other)  # who says nothing has been let go meanwhile
                yield content[10:]

            answer = http.patch(f"/api/uploads/{upload}", content=slowly(), headers={"Upload-Offset": "0"})
            assert (answer.status_code, answer.json()["offset"]) == (200, path.stat().st_size)
    finally:
        tester.kill()


@pytest.mark.parametrize("path", ["/login", "/logout", "/api/uploads", f"/api/uploads/{'0' * 32}/finish", "/nothing"])
def test_what_is_no_piece_of_a_bundle_is_small(path: str, tester: Served) -> None:
    with program(tester) as http:
        announced_length = http.post(path, content=bytes(4 << 20))
        assert (announced_length.status_code, "16,384 bytes at most" in announced_length.json()["reason"]) == (413, True)
        if path in ("/login", "/logout", "/api/uploads"):  # the others read none of it
            chunked = http.post(path, content=iter([b"a=b&" * 1024] * 1024))
            assert (chunked.status_code, "16,384 bytes at most" in chunked.text) == (413, True)


@pytest.mark.long
@pytest.mark.parametrize("body", [b"[" * 16_000, b'{"a":' * 3_000, b"1" * 16_000, b"\xff", b'"\\ud800"'])
def test_an_announcement_that_cannot_be_read_is_told(body: bytes, tester: Served) -> None:
    with program(tester, tester.token()) as http:
        answer = http.post("/api/uploads", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["reason"]


def test_a_form_with_many_fields_is_none_of_the_tester(tester: Served) -> None:
    with program(tester) as http:
        assert http.post("/login", content=b"a=b&" * 4_000).status_code == 400
        assert http.post("/login", content=b"token=\xff%ff").status_code == 401


def ended(connection: socket.socket) -> bool:
    """Whether the other side ends a connection, after whatever it says."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.long
def test_who_hangs_up_in_the_middle_fills_no_log(serve: Serve) -> None:
    tester = serve()
    with socket.create_connection(("127.0.0.1", tester.port)) as sender:
        sender.sendall(b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\ntoken=")
    with program(tester) as http:
        assert http.get("/login").status_code == 200
    tester.kill(signal.SIGTERM)
    assert "Traceback" not in tester.log.read_text()


def test_no_page_of_others_logs_anybody_in_or_out(tester: Served) -> None:
    token = tester.token(role="read")
    with program(tester) as browser:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 303)):
            answer = browser.post("/login", data={"token": token}, headers={"Sec-Fetch-Site": site})
            assert (answer.status_code, "set-cookie" in answer.headers) == (status, status == 303)
        out = browser.post("/logout", headers={"Sec-Fetch-Site": "cross-site"})
        assert (out.status_code, "set-cookie" in out.headers) == (403, False)
        assert browser.get("/").status_code == 200
