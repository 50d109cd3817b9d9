"""Accounts over the API, on both databases: logins, passwords, tokens, access keys, projects, the audit log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from muster.server.core.access import Principal
from muster.server.core.accounts import sessions, throttle
from muster.server.core.database import Database
from muster.server.core.store_access import StoreAccess
from muster.server.core.tables import access_keys, buckets, links, tokens
from muster.server.core.tables import login_failures as failures
from muster.server.core.tables import sessions as session_rows
from muster.server.core.vault import open_vault
from muster_server import NUMBERS, PASSWORD, Administered, MusterServer, csrf_of


@pytest.fixture
def server(administered: Administered) -> Iterator[MusterServer]:
    yield administered.server
    with administered.server.database() as opened, opened.begin() as connection:
        connection.execute(failures.delete())  # all tests come from one address


@pytest.fixture
def admin(administered: Administered) -> Iterator[httpx.Client]:
    with administered.server.http(administered.administrator) as http:
        yield http


@pytest.fixture
def ann(server: MusterServer, admin: httpx.Client) -> str:
    """The name of a new user."""
    name = f"ann{next(NUMBERS)}"
    made = admin.post("/api/v1/users", json={"name": name, "password": PASSWORD})
    assert made.status_code == 201, made.text
    return name


def _login(server: MusterServer, name: str, password: str, **headers: str) -> httpx.Response:
    with server.http() as http:
        return http.post("/api/v1/login", json={"name": name, "password": password}, headers={"Origin": server.url, **headers})


def test_a_session_begins_with_a_password_and_ends_with_the_logout(server: MusterServer, ann: str) -> None:
    with server.session(ann) as http:
        (cookie,) = http.cookies.jar
        assert cookie.has_nonstandard_attr("HttpOnly") and cookie.get_nonstandard_attr("SameSite") == "lax"
        assert http.get("/api/v1/me").json()["name"] == ann
        assert http.post("/api/v1/logout").status_code == 204
        http.cookies.set("muster", str(cookie.value))
        assert http.get("/api/v1/me").status_code == 401


def test_wrong_logins_of_known_and_unknown_users_sound_the_same(server: MusterServer, ann: str) -> None:
    known, unknown = _login(server, ann, "wrong password"), _login(server, "nobody", "wrong password")
    assert (known.status_code, known.json()) == (unknown.status_code, unknown.json()) == (401, known.json())
    assert "set-cookie" not in known.headers


def test_a_session_of_another_site_can_change_nothing(server: MusterServer, ann: str) -> None:
    with server.session(ann) as http:
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}):
            answer = http.post("/api/v1/tokens", json={"name": "x"}, headers=headers)
            assert (answer.status_code, "another site" in answer.json()["reason"]) == (403, True)
        del http.headers["Origin"]
        assert http.post("/api/v1/tokens", json={"name": "x"}).status_code == 403
        assert http.post("/api/v1/tokens", json={"name": "x"}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert http.post("/api/v1/tokens", json={"name": "x"}, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 201
    assert _login(server, ann, PASSWORD, Origin="https://evil.example").status_code == 403


def test_what_a_session_changes_comes_with_its_own_token(server: MusterServer, ann: str) -> None:
    with server.session(ann) as http, server.session(ann) as other:
        tokens = [client.get("/api/v1/me").json()["csrf"] for client in (http, other)]
        assert tokens == [client.headers.pop("X-CSRF-Token") for client in (http, other)]
        assert csrf_of(http.get("/account").text) == tokens[0] != tokens[1]
        for wrong in (None, "", tokens[1], tokens[0][:-1], tokens[0].upper(), "\xff"):
            headers = [] if wrong is None else [(b"X-CSRF-Token", wrong.encode("latin-1"))]
            answer = http.post("/api/v1/tokens", json={"name": "x"}, headers=headers)
            assert (answer.status_code, "reload the page" in answer.json()["reason"]) == (403, True)
        assert http.post("/api/v1/tokens", json={"name": "x"}, headers={"X-CSRF-Token": tokens[0]}).status_code == 201
    with server.http(server.token(ann)) as program:
        assert program.get("/api/v1/me").json()["csrf"] is None


@pytest.mark.parametrize("column", ["expires", "seen"])
def test_a_session_ends_when_it_is_unused_and_in_any_case_after_days(server: MusterServer, ann: str, column: str) -> None:
    with server.session(ann) as http:
        assert http.get("/api/v1/me").status_code == 200
        with server.database() as opened, opened.begin() as connection:
            before = time.time() - (sessions.IDLE if column == "seen" else 0) - 1
            connection.execute(update(session_rows).values({column: before}))
        assert http.get("/api/v1/me").status_code == 401


def test_too_many_failures_delay_the_logins_of_a_user(server: MusterServer, ann: str) -> None:
    for _ in range(throttle.PER_USER):
        assert _login(server, ann, "wrong password").status_code == 401
    refused = _login(server, ann, PASSWORD)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= throttle.WINDOW
    with server.database() as opened, opened.begin() as connection:
        connection.execute(update(failures).values(since=time.time() - throttle.WINDOW - 1))
    assert _login(server, ann, PASSWORD).status_code == 200


def test_a_login_forgets_the_failures_before_it(server: MusterServer, ann: str) -> None:
    for _ in range(throttle.PER_USER - 1):
        _login(server, ann, "wrong password")
    assert _login(server, ann, PASSWORD).status_code == 200
    assert _login(server, ann, "wrong password").status_code == 401


def test_failures_of_an_address_count_together_whatever_the_name(database_url: str) -> None:
    with closing(Database(database_url)) as opened:
        opened.migrate()
        for number in range(throttle.PER_ADDRESS):
            throttle.attempt(opened, f"user{number}", f"2001:db8::{number:x}")
        with pytest.raises(Exception, match="too many failed logins"):
            throttle.attempt(opened, "another", "2001:db8::ffff")
        throttle.attempt(opened, "another", "2001:db8:1::1")


def test_the_failures_that_are_remembered_are_bounded(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MOST_SUBJECTS", 10)
    with closing(Database(database_url)) as opened:
        opened.migrate()
        for number in range(30):
            throttle.attempt(opened, f"user{number}", f"192.0.2.{number}")
        with opened.read() as connection:
            assert len(connection.execute(failures.select()).all()) == 10


def test_parallel_guesses_do_not_pass_the_limit(server: MusterServer, ann: str) -> None:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(_login(server, ann, "wrong password").status_code)) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [401] * throttle.PER_USER + [429] * 6


@pytest.mark.parametrize("password", ["short", "x" * 300, "aaaaaaaaaaaa", "\u0000" * 12])
def test_passwords_that_are_no_good_are_refused(admin: httpx.Client, server: MusterServer, ann: str, password: str) -> None:
    assert admin.post("/api/v1/users", json={"name": "bad", "password": password}).status_code == 400
    with server.session(ann) as http:
        assert http.post("/api/v1/me/password", json={"old": PASSWORD, "new": password}).status_code == 400


def test_changing_the_password_needs_the_old_one_and_ends_other_sessions(server: MusterServer, ann: str) -> None:
    with server.session(ann) as other, server.session(ann) as http:
        wrong = http.post("/api/v1/me/password", json={"old": "wrong password", "new": "another password"})
        assert (wrong.status_code, wrong.json()["reason"]) == (403, "the old password is wrong")
        assert http.post("/api/v1/me/password", json={"old": PASSWORD, "new": "another password"}).status_code == 204
        assert (http.get("/api/v1/me").status_code, other.get("/api/v1/me").status_code) == (200, 401)
    assert _login(server, ann, PASSWORD).status_code == 401
    assert _login(server, ann, "another password").status_code == 200


def test_a_user_without_a_password_sets_one_with_a_link(server: MusterServer, admin: httpx.Client) -> None:
    name = f"bob{next(NUMBERS)}"
    made = admin.post("/api/v1/users", json={"name": name}).json()
    assert made["user"]["has_password"] is False
    assert _login(server, name, PASSWORD).status_code == 401
    first = made["link"]["link"].split("token=")[1]
    second = admin.post(f"/api/v1/users/{name}/password-link").json()["link"].split("token=")[1]
    with server.http() as http:
        assert http.post("/api/v1/set-password", json={"token": first, "password": PASSWORD}).status_code == 404  # replaced
        assert http.post("/api/v1/set-password", json={"token": second, "password": "short"}).status_code == 400
        done = http.post("/api/v1/set-password", json={"token": second, "password": PASSWORD, "name": "admin2"})
        assert (done.status_code, done.json()) == (200, {"name": name})
        assert http.post("/api/v1/set-password", json={"token": second, "password": PASSWORD}).status_code == 404
    assert _login(server, name, PASSWORD).status_code == 200


def test_a_link_expires(server: MusterServer, admin: httpx.Client, ann: str) -> None:
    token = admin.post(f"/api/v1/users/{ann}/password-link").json()["link"].split("token=")[1]
    with server.database() as opened, opened.begin() as connection:
        connection.execute(update(links).values(expires=time.time() - 1))
    with server.http() as http:
        assert http.post("/api/v1/set-password", json={"token": token, "password": PASSWORD}).status_code == 404


def test_a_reset_ends_the_sessions_of_the_user(server: MusterServer, admin: httpx.Client, ann: str) -> None:
    token = admin.post(f"/api/v1/users/{ann}/password-link").json()["link"].split("token=")[1]
    with server.session(ann) as http:
        http.post("/api/v1/set-password", json={"token": token, "password": "another password"})
        assert http.get("/api/v1/me").status_code == 401


def test_disabling_ends_sessions_tokens_and_keys_at_once_and_for_good(
    server: MusterServer, admin: httpx.Client, ann: str
) -> None:
    token = server.token(ann)
    with server.session(ann) as browser, server.http(token) as program:
        key = program.post("/api/v1/keys", json={"name": "x"}).json()["key"]["id"]
        link = admin.post(f"/api/v1/users/{ann}/password-link").json()["link"].split("token=")[1]
        assert admin.patch(f"/api/v1/users/{ann}", json={"disabled": True}).status_code == 200
        assert (browser.get("/api/v1/me").status_code, program.get("/api/v1/me").status_code) == (401, 401)
        assert _login(server, ann, PASSWORD).status_code == 401
        assert OpenedStoreAccess(server).find_key(key) is None
        assert program.post("/api/v1/set-password", json={"token": link, "password": PASSWORD}).status_code == 404
        assert admin.patch(f"/api/v1/users/{ann}", json={"disabled": False}).status_code == 200
        assert (browser.get("/api/v1/me").status_code, program.get("/api/v1/me").status_code) == (401, 401)
        assert OpenedStoreAccess(server).find_key(key) is None
    assert _login(server, ann, PASSWORD).status_code == 200


def test_the_last_administrator_stays_one(admin: httpx.Client) -> None:
    for change in ({"role": "member"}, {"disabled": True}):
        answer = admin.patch("/api/v1/users/admin", json=change)
        assert (answer.status_code, "last administrator" in answer.json()["reason"]) == (409, True)


def test_of_two_who_edit_the_second_is_told(admin: httpx.Client, ann: str) -> None:
    name = f"lab{next(NUMBERS)}"
    admin.post("/api/v1/projects", json={"name": name})
    for path, change in (
        (f"/api/v1/users/{ann}", {"role": "administrator"}),
        (f"/api/v1/projects/{name}", {"defaults": {"a": 1}}),
    ):
        tag = admin.get(path).headers["etag"]
        assert admin.patch(path, json=change, headers={"If-Match": tag}).status_code == 200
        late = admin.patch(path, json=change, headers={"If-Match": tag})
        assert (late.status_code, "meanwhile" in late.json()["reason"]) == (412, True)
        assert admin.patch(path, json=change, headers={"If-Match": "*"}).status_code == 200
    admin.patch(f"/api/v1/users/{ann}", json={"role": "member"})


def test_tokens_are_shown_once_kept_as_hashes_and_revocable(server: MusterServer, ann: str) -> None:
    with server.session(ann) as http:
        made = http.post("/api/v1/tokens", json={"name": "laptop", "scope": "write", "days": None}).json()
        assert made["secret"].startswith("mst_") and made["token"]["expires"] is None
        (listed,) = http.get("/api/v1/tokens").json()["items"]
        assert listed == made["token"]
        with server.http(made["secret"]) as program:
            assert program.get("/api/v1/me").json()["name"] == ann
            assert http.get("/api/v1/tokens").json()["items"][0]["used"] is not None
            assert http.delete(f"/api/v1/tokens/{listed['id']}").status_code == 204
            gone = program.get("/api/v1/me")
            assert (gone.status_code, gone.headers["www-authenticate"]) == (401, "Bearer")
    if not server.words:
        stored = [path for path in server.data.rglob("*") if path.is_file() and made["secret"].encode() in path.read_bytes()]
        assert stored == []


def test_a_token_expires(server: MusterServer, ann: str) -> None:
    with server.http(server.token(ann)) as program:
        assert program.get("/api/v1/me").status_code == 200
        mine = program.get("/api/v1/tokens").json()["items"][0]["id"]
        with server.database() as opened, opened.begin() as connection:
            connection.execute(update(tokens).where(tokens.c.id == mine).values(expires=time.time() - 1))
        assert program.get("/api/v1/me").status_code == 401


def test_a_token_that_reads_changes_nothing(server: MusterServer, ann: str) -> None:
    with server.http(server.token(ann, "read")) as program:
        assert program.get("/api/v1/tokens").status_code == 200
        refused = program.post("/api/v1/tokens", json={"name": "more", "scope": "write"})
        assert (refused.status_code, "may only read" in refused.json()["reason"]) == (403, True)


def test_a_token_that_a_token_made_does_not_outlive_it(server: MusterServer, ann: str) -> None:
    with server.http(server.token(ann)) as program:
        first = program.get("/api/v1/tokens").json()["items"][0]["expires"]
        for days in (None, 3000):
            made = program.post("/api/v1/tokens", json={"name": "child", "days": days}).json()["token"]
            assert made["expires"] == first


def test_the_access_keys_of_a_user_are_bounded(server: MusterServer, ann: str) -> None:
    with server.http(server.token(ann)) as program:
        answers = [program.post("/api/v1/keys", json={"name": f"k{number}"}).status_code for number in range(21)]
    assert answers == [201] * 20 + [409]


class OpenedStoreAccess:
    """What the store would be told, on a connection of its own for each question."""

    def __init__(self, server: MusterServer) -> None:
        self._server = server

    def find_key(self, access_key: str) -> tuple[str, Principal] | None:
        with self._server.database() as opened:
            return StoreAccess(opened, open_vault(self._server.data / "secrets.key")).find_key(access_key)

    def allowed(self, principal: Principal, bucket: str, action: str) -> bool:
        with self._server.database() as opened:
            return StoreAccess(opened, open_vault(self._server.data / "secrets.key")).allowed(principal, bucket, action)


def test_an_access_key_ends_with_the_token_that_made_it(server: MusterServer, ann: str) -> None:
    with server.session(ann) as page:
        lasting = page.post("/api/v1/keys", json={"name": "page"}).json()["key"]
        made = page.post("/api/v1/tokens", json={"name": "short", "scope": "write", "days": 7}).json()
    with server.http(made["secret"]) as program:
        key = program.post("/api/v1/keys", json={"name": "program"}).json()["key"]
        assert (lasting["expires"], key["expires"]) == (None, made["token"]["expires"])
        found = OpenedStoreAccess(server)
        assert found.find_key(key["id"]) and found.find_key(lasting["id"])
        with server.database() as opened, opened.begin() as connection:
            connection.execute(update(access_keys).where(access_keys.c.id == key["id"]).values(expires=time.time() - 1))
        assert found.find_key(key["id"]) is None and found.find_key(lasting["id"])


def test_the_secret_of_an_access_key_is_encrypted_and_the_store_gets_it(server: MusterServer, ann: str) -> None:
    with server.http(server.token(ann)) as program:
        made = program.post("/api/v1/keys", json={"name": "s5cmd"}).json()
        found = OpenedStoreAccess(server).find_key(made["key"]["id"])
        assert found and (found[0], found[1].name) == (made["secret"], ann)
        assert made["secret"] not in program.get("/api/v1/keys").text
        if not server.words:
            held = [path for path in server.data.rglob("*") if path.is_file() and made["secret"].encode() in path.read_bytes()]
            assert held == []
        assert program.delete(f"/api/v1/keys/{made['key']['id']}").status_code == 204
        assert OpenedStoreAccess(server).find_key(made["key"]["id"]) is None


def test_buckets_are_their_owners_and_their_projects(server: MusterServer, admin: httpx.Client, ann: str) -> None:
    number = next(NUMBERS)
    lab = admin.post("/api/v1/projects", json={"name": f"store{number}"}).json()["id"]
    me = admin.get(f"/api/v1/users/{ann}").json()["id"]
    with server.database() as opened, opened.begin() as connection:
        for name, owner, project in ((f"own{number}", me, None), (f"lab{number}", None, lab)):
            connection.execute(buckets.insert().values(name=name, owner=owner, project=project, created=1.0))
    store = OpenedStoreAccess(server)
    owner, viewer = Principal(me, ann, "member", "write"), Principal("u-2", "v", "member", "write", {lab: "viewer"})
    assert store.allowed(owner, f"own{number}", "write") and not store.allowed(viewer, f"own{number}", "read")
    assert store.allowed(viewer, f"lab{number}", "read") and not store.allowed(viewer, f"lab{number}", "write")
    assert not store.allowed(owner, f"lab{number}", "read") and not store.allowed(owner, "nowhere", "read")


def test_projects_have_members_with_roles(server: MusterServer, admin: httpx.Client, ann: str) -> None:
    name = f"lab{next(NUMBERS)}"
    assert admin.post("/api/v1/projects", json={"name": name, "defaults": {"engine": "local"}}).status_code == 201
    assert admin.post("/api/v1/projects", json={"name": name}).status_code == 409
    with server.http(server.token(ann)) as program:
        hidden, missing = program.get(f"/api/v1/projects/{name}"), program.get("/api/v1/projects/nowhere")
        assert (hidden.status_code, hidden.json()) == (missing.status_code, missing.json()) == (404, hidden.json())
        assert program.get("/api/v1/projects").json()["items"] == []
        admin.put(f"/api/v1/projects/{name}/members/{ann}", json={"role": "viewer"})
        assert program.get(f"/api/v1/projects/{name}").json()["defaults"] == {"engine": "local"}
        assert program.patch(f"/api/v1/projects/{name}", json={"defaults": {}}).status_code == 403
        admin.put(f"/api/v1/projects/{name}/members/{ann}", json={"role": "manager"})
        assert program.patch(f"/api/v1/projects/{name}", json={"defaults": {}}).status_code == 200
        assert program.get(f"/api/v1/projects/{name}/members").json()["items"][0]["role"] == "manager"
        other = f"hidden{next(NUMBERS)}"
        assert admin.post("/api/v1/projects", json={"name": other}).status_code == 201
        renamed = [program.patch(f"/api/v1/projects/{name}", json={"name": new}) for new in (other, f"{other}-not", ann)]
        assert {(answer.status_code, answer.text) for answer in renamed} == {(403, renamed[0].text)}  # none tells what there is
        assert program.patch(f"/api/v1/projects/{name}", json={"name": name, "defaults": {}}).status_code == 200
    assert admin.patch(f"/api/v1/projects/{name}", json={"name": f"{name}-new"}).status_code == 200
    assert admin.patch(f"/api/v1/projects/{name}-new", json={"name": name}).status_code == 200
    with server.http(server.token(ann)) as program:
        assert program.delete(f"/api/v1/projects/{name}").status_code == 403
        assert program.delete(f"/api/v1/projects/{name}/members/{ann}").status_code == 204
        assert program.get(f"/api/v1/projects/{name}").status_code == 404
    assert admin.delete(f"/api/v1/projects/{name}").status_code == 204


def test_logging_in_and_out_by_page_is_in_the_audit_log(server: MusterServer, admin: httpx.Client, ann: str) -> None:
    with server.http(headers={"Origin": server.url}) as page:
        assert page.post("/login", data={"name": ann, "password": PASSWORD}).status_code == 303
        token = csrf_of(page.get("/").text)
        for wrong in ({}, {"csrf": ""}, {"csrf": token.upper()}, {"csrf": "0" * 64}):
            assert page.post("/logout", data=wrong).status_code == 403
        assert page.get("/").status_code == 200
        assert page.post("/logout", data={"csrf": token}).status_code == 303
        assert page.post("/logout").status_code == 303  # it ends nothing
    found = admin.get("/api/v1/audit", params={"who": ann}).json()["items"]
    assert [(entry["what"], entry["address"]) for entry in found] == [
        (f"session.{what}", "127.0.0.1") for what in ("end", "begin")
    ]


def test_every_change_is_in_the_audit_log_without_secrets(server: MusterServer, admin: httpx.Client, ann: str) -> None:
    name = f"lab{next(NUMBERS)}"
    admin.post("/api/v1/projects", json={"name": name})
    admin.patch(f"/api/v1/projects/{name}", json={"defaults": {"nodes": 2}})
    admin.put(f"/api/v1/projects/{name}/members/{ann}", json={"role": "viewer"})
    admin.put(f"/api/v1/projects/{name}/members/{ann}", json={"role": "member"})
    with server.session(ann) as http:
        token = http.post("/api/v1/tokens", json={"name": "mine"}).json()["secret"]
    entries = admin.get("/api/v1/audit", params={"limit": 500}).json()["items"]
    (changed,) = [entry for entry in entries if (entry["what"], entry["target"]) == ("project.change", name)]
    assert (changed["who"], changed["address"]) == ("admin", "127.0.0.1")
    assert (changed["before"], changed["after"]) == ({"defaults": {}}, {"defaults": {"nodes": 2}})
    newest = next(entry for entry in entries if entry["what"] == "member.set")
    assert (newest["before"], newest["after"]) == ({"role": "viewer"}, {"role": "member"})
    assert {entry["what"] for entry in entries if entry["who"] == ann} >= {"session.begin", "token.create"}
    whole = str(entries)
    assert token not in whole and PASSWORD not in whole and "argon2" not in whole
    picked = admin.get("/api/v1/audit", params={"who": ann, "target": ann}).json()["items"]
    assert {(entry["who"], entry["target"]) for entry in picked} == {(ann, ann)}


def test_a_change_that_is_refused_leaves_no_entry(admin: httpx.Client) -> None:
    before = admin.get("/api/v1/audit").json()["items"][0]["id"]
    assert admin.post("/api/v1/users", json={"name": "admin", "password": PASSWORD}).status_code == 409
    assert admin.get("/api/v1/audit").json()["items"][0]["id"] == before


def test_pages_go_through_everything_once_while_things_come_and_go(admin: httpx.Client) -> None:
    prefix = f"pages{next(NUMBERS)}-"
    for number in range(7):
        admin.post("/api/v1/projects", json={"name": f"{prefix}{number}"})
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, Any] = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = admin.get("/api/v1/projects", params=params).json()
        seen += [item["name"] for item in page["items"]]
        admin.post("/api/v1/projects", json={"name": f"{prefix}0-{len(seen)}"})  # before the cursor: not seen any more
        if (cursor := page["next"]) is None:
            break
    assert [name for name in seen if name.startswith(prefix) and name.count("-") == 1] == [f"{prefix}{n}" for n in range(7)]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("cursor", ["x", "WzFd", "W10", "bnVsbA", "WyJcdTAwMDAiXQ", "%%%", "[" * 400])
def test_a_cursor_of_others_is_refused(admin: httpx.Client, cursor: str) -> None:
    assert admin.get("/api/v1/projects", params={"cursor": cursor}).status_code == 400
