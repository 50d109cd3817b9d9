"""Settings of a project: validated, and its weight left to administrators."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from muster.server.core.accounts import project_settings
from muster.server.core.accounts.project_settings import Kept, Retention
from muster.tester.errors import Denied
from muster_server import NUMBERS, Administered


@pytest.fixture
def admin(administered: Administered) -> Iterator[httpx.Client]:
    with administered.server.http(administered.administrator) as http:
        yield http


def test_settings_are_kept_as_written_and_read_as_values() -> None:
    found = project_settings.read({"weight": 2, "long_wait": "30m", "retention": {"logs": {"age": "30d", "size": "2G"}}})
    assert (found.weight, found.long_wait, found.template) == (2.0, 1800.0, "")
    assert found.retention == Retention(logs=Kept(30 * 86400.0, 2 << 30))
    assert project_settings.read(None).long_wait == 3600.0
    assert project_settings.read({"idle_warn_after": "never"}).idle_warn_after is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"wieght": 2}, "did you mean `weight`"),
        ({"weight": 0}, "above 0"),
        ({"weight": "2"}, "above 0"),  # the scheduler wants a number
        ({"stop_idle_after": "always"}, "a time such as"),
        ({"weight": "nan"}, "finite"),
        ({"long_wait": "soon"}, "a time such as"),
        ({"retention": {"logs": {"age": "30x"}}}, "retention.logs.age"),
        ({"retention": {"outputs": {"size": "many"}}}, "retention.outputs.size"),
        ({"retention": ["logs"]}, "retention"),
        ({"template": "a b"}, "template"),
    ],
)
def test_what_is_wrong_with_settings_is_said(settings: dict[str, object], words: str) -> None:
    with pytest.raises(Denied) as refused:
        project_settings.read(settings)
    assert (refused.value.status, words in str(refused.value)) == (400, True), str(refused.value)


def test_managers_change_settings_and_administrators_the_weight(administered: Administered, admin: httpx.Client) -> None:
    project, name = f"set{next(NUMBERS)}", f"boss{next(NUMBERS)}"
    administered.server.make_user(administered.administrator, name)
    admin.post("/api/v1/projects", json={"name": project})
    admin.put(f"/api/v1/projects/{project}/members/{name}", json={"role": "manager"})
    path = f"/api/v1/projects/{project}"
    with administered.server.http(administered.server.token(name)) as boss:
        assert boss.patch(path, json={"settings": {"long_wait": "2h"}}).json()["settings"] == {"long_wait": "2h"}
        refused = boss.patch(path, json={"settings": {"long_wait": "2h", "weight": 9}})
        assert (refused.status_code, "administrators" in refused.json()["reason"]) == (403, True)
        assert admin.patch(path, json={"settings": {"weight": 3}}).status_code == 200
        assert boss.patch(path, json={"settings": {"weight": 3, "stop_idle_after": "1h"}}).status_code == 200
        assert boss.patch(path, json={"settings": {}}).status_code == 403  # it would take the weight away
        assert boss.patch(path, json={"settings": {"weight": 3, "template": "nothing"}}).status_code == 400
        template = {"name": "start", "scope": "project", "project": project, "job": "command: echo"}
        assert boss.post("/api/v1/templates", json=template).status_code == 201
        assert boss.patch(path, json={"settings": {"weight": 3, "template": "start"}}).status_code == 200
    entry = admin.get("/api/v1/audit", params={"target": project}).json()["items"][0]
    assert (entry["who"], entry["after"]) == (name, {"settings": {"weight": 3, "template": "start"}})
