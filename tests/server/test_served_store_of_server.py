"""The store of a real server, with an unmodified client: access keys, whose buckets are whose, and a restart."""

from __future__ import annotations

import gc
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import Muster
from muster_server import Administered, MusterServer, ServeMuster, server_folder

MakeClient = Callable[[MusterServer, dict[str, Any]], Any]
ONE_TRY = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, proxies={})


@pytest.fixture
def client(home: Path) -> Iterator[MakeClient]:
    """Makes clients of a server's store, which are closed at the end."""
    made: list[Any] = []

    def make(server: MusterServer, key: dict[str, Any]) -> Any:
        keys = {"aws_access_key_id": key["id"], "aws_secret_access_key": key["secret"]}
        made.append(boto3.client("s3", endpoint_url=server.store, region_name="us-east-1", config=ONE_TRY, **keys))
        return made[-1]

    yield make
    for one in made:
        one.close()
    gc.collect()  # errors of boto3 hold its sockets


def access_key(server: MusterServer, token: str) -> dict[str, Any]:
    with server.http(token) as http:
        made = http.post("/api/v1/keys", json={"name": "test"})
        assert made.status_code == 201, made.text
        return dict(made.json()["key"], secret=made.json()["secret"])


def refused(call: Any, **words: Any) -> str:
    with pytest.raises(ClientError) as found:
        call(**words)
    return str(found.value.response["Error"]["Code"])


def test_users_have_buckets_of_their_own_that_others_do_not_see(administered: Administered, client: MakeClient) -> None:
    server, administrator = administered.server, administered.administrator
    for name in ("ann", "bob"):
        server.make_user(administrator, name)
    ann, bob = (client(server, access_key(server, server.token(name))) for name in ("ann", "bob"))
    ann.create_bucket(Bucket="of-ann")
    ann.put_object(Bucket="of-ann", Key="deep/file", Body=b"content")
    assert ann.get_object(Bucket="of-ann", Key="deep/file")["Body"].read() == b"content"
    assert [bucket["Name"] for bucket in ann.list_buckets()["Buckets"]] == ["of-ann"]
    assert bob.list_buckets()["Buckets"] == []
    assert refused(bob.get_object, Bucket="of-ann", Key="deep/file") == "NoSuchBucket"
    assert refused(bob.put_object, Bucket="of-ann", Key="more", Body=b"") == "NoSuchBucket"
    assert refused(bob.delete_bucket, Bucket="of-ann") == "NoSuchBucket"
    assert refused(bob.create_bucket, Bucket="of-ann") == "BucketAlreadyExists"


def test_a_revoked_key_and_a_disabled_user_are_refused(administered: Administered, client: MakeClient) -> None:
    server, administrator = administered.server, administered.administrator
    user = server.make_user(administrator, "eve")
    token = server.token("eve")
    first, second = access_key(server, token), access_key(server, token)
    client(server, first).create_bucket(Bucket="of-eve")
    with server.http(token) as http:
        assert http.delete(f"/api/v1/keys/{first['id']}").status_code in (200, 204)
    assert refused(client(server, first).list_buckets) == "InvalidAccessKeyId"
    client(server, second).list_buckets()
    with server.http(administrator) as http:
        assert http.patch(f"/api/v1/users/{user}", json={"disabled": True}).status_code == 200
    assert refused(client(server, second).list_buckets) == "InvalidAccessKeyId"


def test_a_member_has_as_many_buckets_as_the_settings_allow(client: MakeClient) -> None:
    server = MusterServer(server_folder(), [])
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text("[buckets]\nper_user = 2\n")
    server.start()
    try:
        administrator = server.make_administrator()
        server.make_user(administrator, "max")
        first, second = (client(server, access_key(server, token)) for token in (administrator, server.token("max")))
        for number in range(2):
            second.create_bucket(Bucket=f"of-max-{number}")
        assert refused(second.create_bucket, Bucket="of-max-2") == "TooManyBuckets"
        second.delete_bucket(Bucket="of-max-0")
        second.create_bucket(Bucket="of-max-2")
        for number in range(3):
            first.create_bucket(Bucket=f"of-admin-{number}")
    finally:
        server.kill(signal.SIGTERM)
        shutil.rmtree(server.folder)


def test_objects_outlive_a_kill_of_the_server(serve_muster: ServeMuster, client: MakeClient) -> None:
    server = serve_muster()
    key = access_key(server, server.make_administrator())
    store = client(server, key)
    store.create_bucket(Bucket="kept")
    store.put_object(Bucket="kept", Key="file", Body=b"content")
    server.kill(signal.SIGKILL)
    server.start()
    assert client(server, key).get_object(Bucket="kept", Key="file")["Body"].read() == b"content"


def test_a_bucket_that_a_restored_database_forgot_is_given_to_administrators_alone(
    serve_muster: ServeMuster, client: MakeClient, muster: Muster, tmp_path: Path
) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    tokens = [administrator]
    for name in ("ann", "bob"):
        server.make_user(administrator, name)
        tokens.append(server.token(name))
    admin, ann, bob = (client(server, access_key(server, token)) for token in tokens)
    assert muster("serve", "backup", tmp_path / "b", "--data", server.data).returncode == 0
    for name in ("full", "empty"):
        ann.create_bucket(Bucket=name)
    ann.put_object(Bucket="full", Key="deep/file", Body=b"private")
    ann.create_multipart_upload(Bucket="empty", Key="part")
    assert server.kill(signal.SIGTERM) == 0
    assert muster("serve", "restore", tmp_path / "b", "--data", server.data, "--replace").returncode == 0
    server.start()
    for name in ("full", "empty"):
        assert refused(bob.create_bucket, Bucket=name) == "BucketAlreadyExists"
    assert [entry["bucket"] for entry in server.entries("there are objects of a bucket that the database does not know")] == [
        "empty",
        "full",
    ]
    admin.create_bucket(Bucket="full")
    assert admin.get_object(Bucket="full", Key="deep/file")["Body"].read() == b"private"
    assert refused(bob.get_object, Bucket="full", Key="deep/file") == "NoSuchBucket"


def test_a_bucket_is_shared_with_a_project_and_limited(administered: Administered, client: MakeClient) -> None:
    server, administrator = administered.server, administered.administrator
    roles = {"gail": "manager", "hal": "viewer", "ivy": "member"}
    with server.http(administrator) as admin:
        assert admin.post("/api/v1/projects", json={"name": "shared"}).status_code == 201
        for name, role in roles.items():
            server.make_user(administrator, name)
            assert admin.put(f"/api/v1/projects/shared/members/{name}", json={"role": role}).status_code == 200
        gail, hal, ivy = (client(server, access_key(server, server.token(name))) for name in roles)
        gail.create_bucket(Bucket="of-the-lab")
        assert refused(ivy.get_object, Bucket="of-the-lab", Key="file") == "NoSuchBucket"
        with server.http(server.token("gail")) as http:
            assert http.patch("/api/v1/buckets/of-the-lab", json={"project": "shared"}).json()["project"] == "shared"
            assert http.patch("/api/v1/buckets/of-the-lab", json={"project": "nowhere"}).status_code == 404
            assert http.patch("/api/v1/buckets/of-the-lab", json={"quota": 8}).status_code == 403
        ivy.put_object(Bucket="of-the-lab", Key="file", Body=b"content")
        assert hal.get_object(Bucket="of-the-lab", Key="file")["Body"].read() == b"content"
        assert refused(hal.put_object, Bucket="of-the-lab", Key="more", Body=b"") == "AccessDenied"
        assert admin.patch("/api/v1/buckets/of-the-lab", json={"quota": 8}).json()["quota"] == 8
        assert refused(ivy.put_object, Bucket="of-the-lab", Key="more", Body=b"too much") == "QuotaExceeded"
    with server.http(server.token("hal")) as http:
        found = http.get("/api/v1/buckets").json()["items"]
    assert [(bucket["name"], bucket["owner"], bucket["project"]) for bucket in found] == [("of-the-lab", "gail", "shared")]


def test_projects_have_prefixes_of_a_bucket_and_see_nothing_else_of_it(administered: Administered, client: MakeClient) -> None:
    server, administrator = administered.server, administered.administrator
    names = {"jan": ("prefix-a", "member"), "kim": ("prefix-b", "viewer"), "leo": ("prefix-a", "manager")}
    with server.http(administrator) as admin:
        for name, (project, role) in names.items():
            admin.post("/api/v1/projects", json={"name": project})
            server.make_user(administrator, name)
            assert admin.put(f"/api/v1/projects/{project}/members/{name}", json={"role": role}).status_code == 200
        admin.put("/api/v1/projects/prefix-b/members/leo", json={"role": "member"})
    jan, kim, leo = (client(server, access_key(server, server.token(name))) for name in names)
    leo.create_bucket(Bucket="prefixes")
    with server.http(server.token("leo")) as http:
        path = "/api/v1/buckets/prefixes/prefixes"
        assert http.put(f"{path}/prefix-a", json={"prefix": "teams/a"}).json() == {"project": "prefix-a", "prefix": "teams/a/"}
        assert http.put(f"{path}/prefix-b", json={"prefix": "/teams/b/"}).status_code == 200
        assert http.put(f"{path}/nowhere", json={"prefix": "x"}).status_code == 404
        assert http.put(f"{path}/prefix-a", json={"prefix": "a/../b"}).status_code == 400
        assert len(http.get(path).json()["items"]) == 2
    for key in ("teams/a/x", "teams/b/x", "teams/ab", "top"):
        leo.put_object(Bucket="prefixes", Key=key, Body=b"content")
    jan.put_object(Bucket="prefixes", Key="teams/a/y", Body=b"content")
    assert jan.get_object(Bucket="prefixes", Key="teams/a/x")["Body"].read() == b"content"
    assert kim.get_object(Bucket="prefixes", Key="teams/b/x")["Body"].read() == b"content"
    assert refused(kim.put_object, Bucket="prefixes", Key="teams/b/y", Body=b"") == "AccessDenied"
    for key in ("teams/b/x", "teams/b/nothing", "teams/ab", "top", "teams/a"):
        assert refused(jan.get_object, Bucket="prefixes", Key=key) == "NoSuchKey"
        assert refused(jan.put_object, Bucket="prefixes", Key=key, Body=b"") == "AccessDenied"
        assert refused(jan.delete_object, Bucket="prefixes", Key=key) == "AccessDenied"
        assert refused(jan.create_multipart_upload, Bucket="prefixes", Key=key) == "AccessDenied"
        copied = {"Bucket": "prefixes", "Key": "teams/a/copy", "CopySource": f"prefixes/{key}"}
        assert refused(jan.copy_object, **copied) == "NoSuchKey"
    leo.create_multipart_upload(Bucket="prefixes", Key="teams/b/big")
    assert "Uploads" not in jan.list_multipart_uploads(Bucket="prefixes")
    assert len(kim.list_multipart_uploads(Bucket="prefixes")["Uploads"]) == 1
    listed = [one["Key"] for one in jan.list_objects_v2(Bucket="prefixes")["Contents"]]
    assert listed == ["teams/a/x", "teams/a/y"]
    top = jan.list_objects_v2(Bucket="prefixes", Delimiter="/")
    assert ([one["Prefix"] for one in top["CommonPrefixes"]], "Contents" in top) == (["teams/"], False)
    teams = jan.list_objects_v2(Bucket="prefixes", Delimiter="/", Prefix="teams/")
    assert ([one["Prefix"] for one in teams["CommonPrefixes"]], "Contents" in teams) == (["teams/a/"], False)
    asked = {"Objects": [{"Key": "teams/a/y"}, {"Key": "teams/b/x"}]}
    deleted = jan.delete_objects(Bucket="prefixes", Delete=asked)
    assert [one["Key"] for one in deleted["Deleted"]] == ["teams/a/y"]
    assert [(one["Key"], one["Code"]) for one in deleted["Errors"]] == [("teams/b/x", "AccessDenied")]
    assert refused(kim.delete_objects, Bucket="prefixes", Delete=asked) != ""
    assert refused(jan.delete_bucket, Bucket="prefixes") == "AccessDenied"
    with server.http(server.token("jan")) as http:
        assert [one["name"] for one in http.get("/api/v1/buckets").json()["items"]] == ["prefixes"]
        assert http.get(path).json()["items"] == [{"project": "prefix-a", "prefix": "teams/a/"}]
        assert http.put(f"{path}/prefix-a", json={"prefix": "teams"}).status_code == 404
    with server.http(server.token("leo")) as http:
        assert http.delete(f"{path}/prefix-a").status_code == 204
    assert refused(jan.list_objects_v2, Bucket="prefixes") == "NoSuchBucket"


def test_pages_list_what_may_be_read_of_a_bucket_a_directory_at_a_time(administered: Administered, client: MakeClient) -> None:
    server, administrator = administered.server, administered.administrator
    with server.http(administrator) as admin:
        admin.post("/api/v1/projects", json={"name": "listed"})
        for name, role in (("mia", "manager"), ("ned", "viewer")):
            server.make_user(administrator, name)
            admin.put(f"/api/v1/projects/listed/members/{name}", json={"role": role})
        server.make_user(administrator, "oda")
    mia = client(server, access_key(server, server.token("mia")))
    mia.create_bucket(Bucket="browsed")
    for key in ("shared/a/1", "shared/a/2", "shared/b", "private/x", "top"):
        mia.put_object(Bucket="browsed", Key=key, Body=b"content")
    path = "/api/v1/buckets/browsed/objects"
    with server.http(server.token("mia")) as http:
        http.put("/api/v1/buckets/browsed/prefixes/listed", json={"prefix": "shared"})
        first = http.get(path, params={"limit": 2}).json()
        assert [one["key"] for one in first["items"]] == ["private/", "shared/"]
        rest = http.get(path, params={"after": first["next"]}).json()
        assert [(one["key"], one["size"]) for one in rest["items"]] == [("top", 7)]
        assert rest["next"] is None
        assert http.get(path, params={"prefix": "../"}).json()["items"] == []
    with server.http(server.token("ned")) as http:
        assert [one["key"] for one in http.get(path).json()["items"]] == ["shared/"]
        assert [one["key"] for one in http.get(path, params={"prefix": "shared/"}).json()["items"]] == ["shared/a/", "shared/b"]
        assert http.get(path, params={"prefix": "private/"}).json()["items"] == []
    with server.http(server.token("oda")) as http:
        assert http.get(path).status_code == 404
