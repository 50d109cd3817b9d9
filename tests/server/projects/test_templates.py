"""Templates of a server: own ones, those of projects and of everybody; with and without code."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from run_client import RunClient, any_client, run_client

from conftest import Muster
from muster.server.runs.code import KEPT, CodeStore
from muster_server import NUMBERS, Administered, User

SAY = "import sys; print(sys.argv[1:])"


@pytest.fixture
def client(administered: Administered) -> Iterator[RunClient]:
    with any_client(administered) as found:
        yield found


@pytest.fixture
def admin(administered: Administered) -> Iterator[httpx.Client]:
    with administered.server.http(administered.administrator) as http:
        yield http


def save(http: httpx.Client, name: str, **fields: object) -> httpx.Response:
    return http.post(
        "/api/v1/templates", json={"name": name, **({} if "run" in fields else {"job": "command: echo hello"}), **fields}
    )


def test_a_template_with_code_is_run_by_others_with_changes(administered: Administered, client: RunClient) -> None:
    code = client.send_code(say__py=SAY)
    made = save(
        client.http, "say", job="boot: say.py\nparameters: {word: one}", code=code, scope="project", project=client.project
    )
    assert made.status_code == 201, made.text
    with run_client(administered.server, administered.administrator, project=client.project) as other:
        body = {"template": "say", "set": ["parameters.word=two"], "project": client.project}
        run = other.http.post("/api/v1/runs", json=body)
        assert run.status_code == 201, run.text
        assert other.wait(run.json()["run"])["state"] == "succeeded"
        assert other.log(run.json()["run"]) == "['--word=two']\n"
        assert other.http.post("/api/v1/runs", json={**body, "job": "command: echo"}).status_code == 400


def test_the_own_template_comes_before_that_of_the_project_and_that_of_all(client: RunClient, admin: httpx.Client) -> None:
    name = f"order{next(NUMBERS)}"

    def shown() -> object:
        return client.http.get(f"/api/v1/templates/{name}").json().get("description")

    assert save(admin, name, scope="all", description="all").status_code == 201
    assert shown() == "all"
    assert save(client.http, name, scope="project", project=client.project, description="project").status_code == 201
    assert shown() == "project"
    own = save(client.http, name, description="own")
    assert (shown(), len(client.http.get("/api/v1/templates").json()["items"])) == ("own", 3)
    assert client.http.get(f"/api/v1/templates/{own.json()['id']}").json()["description"] == "own"
    assert client.http.delete(f"/api/v1/templates/{name}").status_code == 204
    assert shown() == "project"


def test_templates_of_one_user_are_not_seen_by_others_and_those_of_all_are_not_changed_by_them(
    administered: Administered, client: RunClient, admin: httpx.Client
) -> None:
    name = f"private{next(NUMBERS)}"
    made = save(client.http, name).json()
    shared = save(client.http, f"{name}-shared", scope="project", project=client.project).json()
    with any_client(administered) as stranger:  # of another project
        for key in (name, made["id"], shared["name"], shared["id"]):
            assert stranger.http.get(f"/api/v1/templates/{key}").status_code == 404
            assert stranger.http.get(f"/api/v1/templates/{key}", params={"project": client.project}).status_code == 404
            assert stranger.http.post(f"/api/v1/templates/{key}/code").status_code == 404
            assert stranger.http.delete(f"/api/v1/templates/{key}").status_code == 404
        seen = {one["id"] for one in stranger.http.get("/api/v1/templates").json()["items"]}
        assert not seen & {made["id"], shared["id"]}
        assert stranger.http.get("/api/v1/templates", params={"project": client.project}).json()["items"] == []
        assert save(stranger.http, name, scope="all").status_code == 403
        assert save(stranger.http, name, scope="project", project=client.project).status_code == 404
        public = save(admin, f"public{next(NUMBERS)}", scope="all").json()["id"]
        assert stranger.http.patch(f"/api/v1/templates/{public}", json={"description": "mine"}).status_code == 403
    assert admin.get(f"/api/v1/templates/{made['id']}").status_code == 404


def test_mistakes_of_a_template_are_found_when_it_is_saved(client: RunClient) -> None:
    answer = save(client.http, "broken", job="boot: train.py\nnodse: 2\ndevices: many")
    assert answer.status_code == 400
    assert [(one["line"], one["field"]) for one in answer.json()["problems"]] == [(2, "nodse"), (3, "devices")]
    assert save(client.http, "fine", job="boot: train.py\nnodes: 2").status_code == 201  # the code comes later


def test_a_change_of_what_somebody_else_changed_meanwhile_is_refused(client: RunClient) -> None:
    made = save(client.http, "tagged")
    path = f"/api/v1/templates/{made.json()['id']}"
    new = {"description": "new", "job": "command: echo\n" + "# a long job\n" * 2000}
    changed = client.http.patch(path, json=new, headers={"If-Match": made.headers["etag"]})
    assert changed.status_code == 200, changed.text
    assert save(client.http, "long", job=new["job"]).status_code == 201
    stale = client.http.patch(path, json={"description": "newer"}, headers={"If-Match": made.headers["etag"]})
    assert stale.status_code == 412
    assert client.http.patch(path, json={"code": "0" * 32}).status_code == 404  # which was never sent
    assert client.http.delete(path, headers={"If-Match": changed.headers["etag"]}).status_code == 204


def test_of_templates_that_are_saved_at_once_one_has_the_name(administered: Administered, client: RunClient) -> None:
    name, found = f"race{next(NUMBERS)}", []

    def attempt() -> None:
        with administered.server.http(client.http.headers["Authorization"].removeprefix("Bearer ")) as http:
            found.append(save(http, name, scope="project", project=client.project).status_code)

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [201, 409, 409, 409]


def test_a_template_of_a_run_has_its_job_as_it_ran_and_its_code(client: RunClient) -> None:
    run = client.submit(
        "boot: say.py\nparameters: {word: one}", code=client.send_code(say__py=SAY), set=["parameters.word=two"]
    )
    client.wait(run)
    made = save(client.http, "again", run=run)
    assert made.status_code == 201, made.text
    assert "word: two" in made.json()["job"] and "python" not in made.json()["job"] and made.json()["code"]
    again = client.http.post("/api/v1/runs", json={"template": "again"}).json()["run"]
    assert client.wait(again)["state"] == "succeeded"
    assert client.log(again) == "['--word=two']\n"


def test_code_of_templates_outlives_other_code(tmp_path: Path) -> None:
    import hashlib
    import io
    import os
    import time

    from run_client import tar

    store = CodeStore(tmp_path)
    digests = []
    for text in (b"kept", b"old"):
        name = hashlib.sha256(text).hexdigest()
        digest, _ = store.announce("u-1", [["file", name, "x.py"]])
        assert store.receive("u-1", digest, io.BytesIO(tar({name: text}))) == []
        digests.append(digest)
    for path in tmp_path.glob("*/*"):
        os.utime(path, (1, time.time() - KEPT - 60))
    store.prune([], {digests[0]})
    assert store.missing("u-1", digests[0]) == []
    assert len(list(tmp_path.glob("*/*"))) == 2  # a listing and its file


def test_commands_save_show_run_and_delete_a_template(user: User, muster: Muster, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "say.py").write_text(SAY)
    (folder / "job.yaml").write_text("boot: say.py\nparameters: {word: one}\n")
    name = f"cli{next(NUMBERS)}"
    assert muster("templates", "save", name, str(folder / "job.yaml"), "--code").returncode == 0
    assert "is changed" in muster("templates", "save", name, str(folder / "job.yaml"), "--code", "--description", "says").stdout
    assert muster("templates", "show", name).stdout == "boot: say.py\nparameters: {word: one}\n"
    listed = muster("templates", "list").stdout
    assert name in listed and "says" in listed
    done = muster("run", "--template", name, "--set", "parameters.word=three")
    assert (done.returncode, "['--word=three']" in done.stdout) == (0, True), done.stderr
    assert muster("templates", "rm", name).returncode == 0
    gone = muster("run", "--template", name)
    assert (gone.returncode, "no such template" in gone.stderr) == (2, True)


def test_a_template_without_code_runs_with_that_of_the_current_directory(
    user: User, muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text("command: cat word\n")
    name = f"bare{next(NUMBERS)}"
    assert muster("templates", "save", name, str(tmp_path / "job.yaml")).returncode == 0
    (tmp_path / "word").write_text("from here\n")
    monkeypatch.chdir(tmp_path)
    done = muster("run", "--template", name)
    assert (done.returncode, "from here" in done.stdout) == (0, True), done.stderr
    assert muster("run", "--template", name, "--server", "none").returncode == 2
