"""The tester as a section of `muster serve`: its protocol, commands and pages with the accounts of the server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from bundles import forged
from submissions import announced, bundle, sent

from browser import open_page
from conftest import Muster, gone, processes_with
from muster.server.core.backup import GAP
from muster.tester.client import Client
from muster_server import NUMBERS, PASSWORD, Administered, MusterServer, ServeMuster, csrf_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def server(administered: Administered) -> MusterServer:
    return administered.server


@pytest.fixture
def admin(administered: Administered) -> Iterator[httpx.Client]:
    with administered.server.http(administered.administrator) as http:
        yield http


@pytest.fixture
def member(administered: Administered) -> str:
    """The name of a user who is nobody in particular."""
    name = f"lab{next(NUMBERS)}"
    administered.server.make_user(administered.administrator, name)
    return name


def log_in(server: MusterServer, token: str, profile: str = "default") -> None:
    command = [sys.executable, "-m", "muster", "login", server.url, "--token-stdin", "--profile", profile]
    subprocess.run(command, input=f"{token}\n", text=True, check=True, capture_output=True)


def test_a_member_sends_a_bundle_with_a_personal_token(
    server: MusterServer, admin: httpx.Client, member: str, tmp_path: Path
) -> None:
    path = bundle(tmp_path, noise=5_000_000)
    with Client(server.url, server.token(member)) as client, server.http(server.token(member, "read")) as reader:
        verdict = client.send(path)
        assert (verdict.accepted, verdict.passed, verdict.page) == (True, True, f"/results/{verdict.number}")
        assert client.send(path) == verdict  # the same bytes again get the same verdict
        entry = reader.get(f"/api/results/{verdict.number}").json()["entry"]
        assert (entry["submitter"], entry["bench"]) == (member, verdict.bench)
        assert reader.get(f"/api/results/{verdict.number}/bundle").content == path.read_bytes()
        assert reader.post("/api/uploads", json=announced(path)).status_code == 403
    [logged] = [
        one for one in admin.get("/api/v1/audit", params={"who": member}).json()["items"] if one["what"] == "result.accept"
    ]
    assert (logged["target"], logged["after"]["bench"], logged["address"]) == (str(verdict.number), verdict.bench, "127.0.0.1")
    assert {path.name for path in (server.data / "bundles").iterdir()} >= {"unfinished", f"{announced(path)['sha256']}.tar.gz"}


def test_a_session_of_a_browser_reads_and_does_not_send(server: MusterServer, member: str, tmp_path: Path) -> None:
    with server.session(member) as browser:
        assert browser.get("/api/results").status_code == 200
        assert browser.post("/api/uploads", json=announced(bundle(tmp_path))).status_code == 401


def test_the_command_sends_with_the_login_where_the_tester_is_the_server(
    server: MusterServer, member: str, muster: Muster, tmp_path: Path
) -> None:
    path = bundle(tmp_path)
    assert muster("tester", "send", path, "--tester", server.url).returncode == 2
    log_in(server, server.token(member), "second")
    done = muster("tester", "send", path, "--tester", server.url)
    assert (done.returncode, "accepted by" in done.stdout) == (0, True), done.stderr
    number = json.loads(muster("tester", "send", path, "--tester", server.url, "--json").stdout)[0]["number"]
    there, here = muster("verify", number, "--server=second"), muster("verify", path)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout) and here.returncode == 0, there.stderr
    missing = muster("verify", "999999", "--server=second")
    assert (missing.returncode, "999999" in missing.stderr) == (2, True), missing.stderr
    other = muster("tester", "send", path, "--tester", server.url.replace("127.0.0.1", "localhost"))
    assert (other.returncode, "wants a token" in other.stderr) == (2, True), other.stderr


def test_administrators_make_plans_and_members_answer_them(
    administered: Administered, member: str, muster: Muster, tmp_path: Path
) -> None:
    server = administered.server
    administrator, sender = ({"MUSTER_TESTER_TOKEN": token} for token in (administered.administrator, server.token(member)))
    at = ("--tester", server.url)
    made = muster("tester", "plan", "add", "--model", "resnet50_v1.5", "--division", "open", *at, **administrator)
    assert made.returncode == 0, made.stderr
    test_id = made.stdout.strip()
    again = muster("tester", "plan", "add", test_id, "--model", "bert", *at, **administrator)
    assert (again.returncode, "already" in again.stderr) == (2, True)
    denied = muster("tester", "plan", "add", "--model", "bert", *at, **sender)
    assert (denied.returncode, "only administrators" in denied.stderr) == (2, True)
    listed = json.loads(muster("tester", "plan", "list", "--json", *at, **sender).stdout)
    assert test_id in [plan["test_id"] for plan in listed]
    plan = json.loads(muster("tester", "plan", "show", test_id, "--json", *at, **sender).stdout)
    assert (plan["model"], plan["division"]) == ("resnet50_v1.5", "open")
    done = muster("tester", "send", bundle(tmp_path, plan=plan), *at, **sender)
    assert done.returncode == 0, done.stderr
    assert muster("tester", "plan", "rm", test_id, *at, **sender).returncode == 2
    assert muster("tester", "plan", "rm", test_id, *at, **administrator).returncode == 0
    assert muster("tester", "plan", "show", test_id, *at, **sender).returncode == 2
    with server.http(administered.administrator) as http:
        entries = http.get("/api/v1/audit", params={"target": test_id}).json()["items"]
    assert [(entry["who"], entry["what"]) for entry in entries] == [("admin", "plan.delete"), ("admin", "plan.create")]


def test_the_commands_of_the_tester_work_on_the_data_of_a_running_server(
    serve_muster: ServeMuster, muster: Muster, tmp_path: Path
) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    at = ("--data", server.data)
    token = muster("tester", "token", "add", "lab-3", *at).stdout.strip()
    test_id = muster("tester", "plan", "add", "--model", "bert", *at).stdout.strip()
    with server.http(token) as http:
        verdict = sent(http, bundle(tmp_path), test_id).json()
        assert verdict["accepted"]
        assert http.get("/api/v1/me").json()["name"] == "lab-3"
    with server.http(administrator) as http:
        assert [user["name"] for user in http.get("/api/v1/users").json()["items"]] == ["admin", "lab-3"]
    refused = muster("tester", "token", "add", "admin", *at)
    assert (refused.returncode, "is an account of the server" in refused.stderr) == (2, True)
    assert muster("tester", "token", "revoke", "lab-3", *at).returncode == 0
    with server.http(token) as http:
        assert http.get("/api/results").status_code == 401


def test_who_was_disabled_sends_nothing_and_leaves_the_results(
    server: MusterServer, admin: httpx.Client, member: str, tmp_path: Path
) -> None:
    with server.http(server.token(member)) as http:
        number = sent(http, bundle(tmp_path)).json()["number"]
        assert admin.patch(f"/api/v1/users/{member}", json={"disabled": True}).status_code == 200
        assert sent(http, bundle(tmp_path)).status_code == 401
    assert admin.get(f"/api/results/{number}").json()["entry"]["submitter"] == member


def test_refused_bundles_are_shown_to_their_submitter_and_to_administrators(
    server: MusterServer, admin: httpx.Client, member: str, tmp_path: Path
) -> None:
    path = forged(bundle(tmp_path), tmp_path, lambda folder: (folder / "result.json").write_text("[]"))
    with server.http(server.token(member)) as http:
        answer = sent(http, path)
        assert answer.status_code == 422
        bench = answer.json()["bench"]
        assert bench and bench in http.get("/refused").text
    assert bench in admin.get("/refused").text
    stranger = f"lab{next(NUMBERS)}"
    server.make_user(admin.headers["authorization"].split()[1], stranger)
    with server.http(server.token(stranger)) as http:
        page = http.get("/refused")
    assert (page.status_code, bench in page.text) == (200, False)


@pytest.mark.parametrize("page", ["/", "/results/1", "/compare?result=1&result=2", "/ranking", "/plans", "/refused"])
def test_pages_send_strangers_to_the_login(server: MusterServer, page: str) -> None:
    with server.http() as http:
        answer = http.get(page)
        assert (answer.status_code, answer.headers["location"].startswith("/login?next=%2F")) == (303, True)
        assert 'name="password"' in http.get(answer.headers["location"]).text


def test_the_login_page_takes_a_name_and_a_password_and_no_token(server: MusterServer, member: str) -> None:
    with server.http(headers={"Origin": server.url}) as browser:
        wrong = browser.post("/login", data={"name": member, "password": "not the password"})
        assert (wrong.status_code, "is wrong" in wrong.text, "set-cookie" in wrong.headers) == (401, True, False)
        assert browser.post("/login", data={"token": server.token(member)}).status_code == 401
        right = browser.post("/login", data={"name": member, "password": PASSWORD, "next": "/ranking"})
        assert (right.status_code, right.headers["location"]) == (303, "/ranking")
        token = csrf_of(browser.get("/ranking").text)
        assert browser.post("/logout", data={"csrf": token}).status_code == 303
        assert browser.get("/ranking").status_code == 303
    with server.http(headers={"Origin": "https://evil.example"}) as browser:
        assert browser.post("/login", data={"name": member, "password": PASSWORD}).status_code == 403


@pytest.mark.long
def test_a_browser_finds_results_after_the_login(browser: Browser, server: MusterServer, member: str, tmp_path: Path) -> None:
    with server.http(server.token(member)) as http:
        verdict = sent(http, bundle(tmp_path)).json()
    with open_page(browser, server.url + verdict["page"], locale="en-US") as (page, seen):
        page.fill("input[name=name]", member)
        page.fill("input[name=password]", PASSWORD)
        with page.expect_request(lambda request: request.method == "POST") as form:
            page.click("main button")
        assert form.value.all_headers()["origin"] == server.url  # over plain HTTP browsers say nothing else of whose it is
        page.wait_for_url(server.url + verdict["page"])
        assert verdict["bench"] in page.content()
        page.click("header form button")
        page.wait_for_url("**/login")
    assert seen.errors == []


@pytest.mark.long
def test_one_bundle_sent_by_eight_at_once_counts_once(administered: Administered, tmp_path: Path) -> None:
    server, path = administered.server, bundle(tmp_path)
    names = [f"many{next(NUMBERS)}" for _ in range(8)]
    for name in names:
        server.make_user(administered.administrator, name)
    tokens = [server.token(name) for name in names]

    def submit(token: str) -> int:
        with server.http(token) as http:
            return sent(http, path).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(submit, tokens)) == [200] + [409] * 7


@pytest.mark.long
def test_an_upload_goes_on_after_a_kill_of_the_server_and_its_workers_end(
    serve_muster: ServeMuster, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server = serve_muster("--database", request.getfixturevalue("postgres_url"))
    token, path = server.make_administrator(), bundle(tmp_path, noise=5_000_000)
    with server.http(token) as http:
        assert sent(http, bundle(tmp_path)).json()["accepted"]
        upload = http.post("/api/uploads", json=announced(path)).json()
        piece = path.read_bytes()[: upload["chunk"]]
        http.patch(f"/api/uploads/{upload['id']}", content=piece, headers={"Upload-Offset": "0"})
    marker = f"MUSTER_HOME={server.folder / 'home'}"
    assert [words for words in processes_with(marker) if "muster.server.results.verify_worker" in words]
    server.kill()
    assert gone(marker) == []
    server.start()
    with server.http(token) as http:
        assert http.post("/api/uploads", json=announced(path)).json()["offset"] == len(piece)
        assert sent(http, path).json()["accepted"]
    server.kill(signal.SIGTERM)
    assert gone(marker) == []


def test_a_bundle_that_is_too_large_or_not_signed_is_refused(serve_muster: ServeMuster, tmp_path: Path) -> None:
    (tmp_path / "signers").write_text("")
    server = serve_muster("--bundle-most", "1M", "--signers", tmp_path / "signers")
    with server.http(server.make_administrator()) as http:
        assert sent(http, bundle(tmp_path, noise=1 << 20)).status_code == 413
        answer = sent(http, bundle(tmp_path))
        assert (answer.status_code, "is not signed" in answer.json()["problems"][0]) == (422, True)


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_results_are_in_a_backup_and_numbered_on_after_a_restore(
    serve_muster: ServeMuster, muster: Muster, request: pytest.FixtureRequest, tmp_path: Path, target: str
) -> None:
    server = serve_muster()
    token, path = server.make_administrator(), bundle(tmp_path)
    with server.http(token) as http:
        test_id = http.post("/api/plans", json={"model": "bert"}).json()["test_id"]
        verdict = sent(http, path, test_id).json()
        http.post("/api/uploads", json={"sha256": "a" * 64, "size": 1})
    assert muster("serve", "backup", tmp_path / "b", "--data", server.data).returncode == 0
    server.kill(signal.SIGTERM)
    words = ["--database", request.getfixturevalue("postgres_url")] if target == "postgresql" else []
    for _ in range(2):  # the second replaces the first
        done = muster("serve", "restore", tmp_path / "b", "--replace", "--data", server.data, *words)
        assert done.returncode == 0, done.stderr
    server.words = words
    server.start()
    with server.http(token) as http:
        assert http.get("/api/plans").json()[0]["test_id"] == test_id
        assert http.post("/api/uploads", json=announced(path)).json()["verdict"] == verdict
        assert http.get(f"/api/results/{verdict['number']}/bundle").content == path.read_bytes()
        others = verdict["number"] + GAP  # may have been given after the backup
        assert sent(http, bundle(tmp_path)).json()["number"] > others
        (server.data / "bundles" / f"{announced(path)['sha256']}.tar.gz").unlink()
        missing = http.get(f"/api/results/{verdict['number']}/bundle")
        assert (missing.status_code, "is not on this server any more" in missing.json()["reason"]) == (404, True)
