"""What is kept and how: names, quotas, free space, several clients at once, and what a crash leaves."""

from __future__ import annotations

import base64
import gc
import os
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from obs import AppendObjectContent
from stores import Running, code, running
from stores import bucket as bucket
from stores import store as store
from stores import virtual_hosts as virtual_hosts

from muster.server.store import holes
from muster.server.store.objects import anything
from muster.server.store.store import Store


def begin(client: Any, bucket: str, key: str) -> dict[str, str]:
    """Begins an upload; returns what the calls that go on with it need."""
    named = {"Bucket": bucket, "Key": key}
    return {**named, "UploadId": client.create_multipart_upload(**named)["UploadId"]}


def refusal(call: Callable[..., Any], **named: Any) -> str:
    """The code of the error with which a call is refused."""
    with pytest.raises(ClientError) as error:
        call(**named)
    return code(error)


def test_keys_that_no_file_can_have_are_refused_with_a_reason(store: Running, bucket: str) -> None:
    with store.boto() as client:
        for key, expected in (
            ("a//b", "InvalidObjectName"),
            ("/a", "InvalidObjectName"),
            ("a/./b", "InvalidObjectName"),
            ("a/../b", "InvalidObjectName"),
            ("a\x01", "InvalidObjectName"),
            ("x" * 256, "KeyTooLongError"),
            ("é" * 128, "KeyTooLongError"),
            ("a/" * 600, "KeyTooLongError"),
        ):
            assert refusal(client.put_object, Bucket=bucket, Key=key, Body=b"") == expected
        client.put_object(Bucket=bucket, Key="/".join(["x" * 250] * 4), Body=b"")
    assert len(store.files()) == 1


@pytest.mark.parametrize("prefix", ["/", "//", "a//", "a//b", "/a", "a/../"])
def test_prefixes_that_no_key_has_list_nothing(store: Running, bucket: str, prefix: str) -> None:
    with store.boto() as client:
        for key in ("a/b", "x"):
            client.put_object(Bucket=bucket, Key=key, Body=b"")
        assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix=prefix)
        assert "CommonPrefixes" not in client.list_objects_v2(Bucket=bucket, Prefix=prefix, Delimiter="/")


def test_an_object_cannot_be_both_a_file_and_a_directory(store: Running, bucket: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="a/b", Body=b"1")
        client.put_object(Bucket=bucket, Key="c", Body=b"1")
        client.put_object(Bucket=bucket, Key="d/", Body=b"")
        for key in ("a", "c/x", "c/", "c/x/y", "d"):
            found = refusal(client.put_object, Bucket=bucket, Key=key, Body=b"2")
            assert found == ("InvalidRequest" if key.endswith("/") else "KeyConflict")
        client.delete_object(Bucket=bucket, Key="a/b")
        client.put_object(Bucket=bucket, Key="a", Body=b"now")
        assert client.get_object(Bucket=bucket, Key="a")["Body"].read() == b"now"
        assert refusal(client.get_object, Bucket=bucket, Key="c/x") == "NoSuchKey"


def test_a_directory_is_an_object_only_if_it_was_stored(store: Running, bucket: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="made/", Body=b"", Metadata={"a": "b"})
        client.put_object(Bucket=bucket, Key="made/x", Body=b"")
        client.put_object(Bucket=bucket, Key="implied/y/z", Body=b"")
        assert client.head_object(Bucket=bucket, Key="made/")["Metadata"] == {"a": "b"}
        assert [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]] == ["implied/y/z", "made/", "made/x"]
        for key in ("made/x", "implied/y/z"):
            client.delete_object(Bucket=bucket, Key=key)
        assert [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]] == ["made/"]
        assert os.listdir(store.folder / bucket) == ["made"]
        client.delete_object(Bucket=bucket, Key="made/")
        assert os.listdir(store.folder / bucket) == []


def test_files_that_were_put_there_by_hand_are_objects_with_another_kind_of_etag(store: Running, bucket: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="known", Body=b"one")
        (store.folder / bucket / "known").write_bytes(b"two")
        (store.folder / bucket / "mine").write_bytes(b"three")
        (store.folder / bucket / "link").symlink_to("/etc/passwd")
        os.mkfifo(store.folder / bucket / "fifo")
        found = client.list_objects_v2(Bucket=bucket)["Contents"]
        assert [(one["Key"], one["ETag"][:3]) for one in found] == [("known", '"v-'), ("mine", '"v-')]
        for key in ("link", "fifo"):
            assert refusal(client.get_object, Bucket=bucket, Key=key) == "NoSuchKey"


def test_a_quota_counts_objects_and_parts_while_they_are_written(store: Running, bucket: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="old", Body=bytes(400))
        store.accounts.set_quota(bucket, 1000)

        def put(key: str, size: int) -> None:
            client.put_object(Bucket=bucket, Key=key, Body=bytes(size))

        assert refusal(put, key="new", size=601) == "QuotaExceeded"
        put("old", 1000)  # in the place of the 400
        put("old", 300)
        upload = begin(client, bucket, "parts")
        tag = client.upload_part(PartNumber=1, Body=bytes(500), **upload)["ETag"]
        assert refusal(client.upload_part, PartNumber=2, Body=bytes(201), **upload) == "QuotaExceeded"
        client.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]}, **upload)
        assert refusal(put, key="new", size=201) == "QuotaExceeded"
        assert refusal(client.copy_object, Bucket=bucket, Key="copy", CopySource=f"{bucket}/old") == "QuotaExceeded"
        client.delete_object(Bucket=bucket, Key="parts")
        put("new", 700)
        assert refusal(put, key="more", size=1) == "QuotaExceeded"
        upload = begin(client, bucket, "parts")
        client.delete_object(Bucket=bucket, Key="new")
        client.upload_part(PartNumber=1, Body=bytes(700), **upload)
        client.abort_multipart_upload(**upload)
        put("new", 700)
    assert store.store.space._stored == {bucket: 1000}


def test_a_quota_counts_what_is_appended(store: Running, bucket: str) -> None:
    store.accounts.set_quota(bucket, 250)
    with store.obs("v2", "path") as client:
        for position, expected in ((0, 200), (100, 200), (200, 403), (200, 403)):
            content = AppendObjectContent(content="x" * 100, position=position)
            assert client.appendObject(bucket, "log", content).status == expected
        client.appendObject(bucket, "log", AppendObjectContent(content="x" * 50, position=200))
    assert (store.folder / bucket / "log").stat().st_size == 250


@pytest.mark.parametrize("placed", [True, False])
def test_parts_that_fail_take_no_place_on_the_disk(tmp_path: Path, placed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not placed:
        monkeypatch.setattr(holes, "are_possible", lambda folder: False)  # as on a file system that has none
    wrong = base64.b64encode(bytes(16)).decode()
    with running(tmp_path / "store") as store, store.boto() as client:
        client.create_bucket(Bucket="data")
        store.accounts.set_quota("data", 3_000_000)
        upload = begin(client, "data", "k")
        good = {number: bytes([number]) * 1_000_000 for number in (1, 3)}
        tags = {n: client.upload_part(PartNumber=n, Body=body, **upload)["ETag"] for n, body in good.items()}
        for number in (*range(2, 8), 1):
            named = {"PartNumber": number, "Body": os.urandom(1_000_000), "ContentMD5": wrong}
            assert refusal(client.upload_part, **named, **upload) == "BadDigest"
        used = sum(path.stat().st_blocks * 512 for path in store.folder.rglob("*") if path.is_file())
        assert used < 2_100_000
        tags[2] = client.upload_part(PartNumber=2, Body=b"2" * 1_000_000, **upload)["ETag"]
        parts = [{"PartNumber": number, "ETag": tags[number]} for number in (1, 2, 3)]
        client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **upload)
        whole = client.get_object(Bucket="data", Key="k")["Body"].read()
        assert whole == good[1] + b"2" * 1_000_000 + good[3]
    gc.collect()  # errors of boto3 hold its sockets


def test_nothing_is_written_when_the_disk_is_almost_full(tmp_path: Path) -> None:
    floor = shutil.disk_usage(tmp_path).free + (1 << 40)
    with running(tmp_path / "store", floor=floor) as store, store.boto() as client:
        client.create_bucket(Bucket="data")
        assert refusal(client.put_object, Bucket="data", Key="k", Body=b"x") == "InsufficientStorage"
        assert b"HTTP/1.1 507" in store.raw(store.signed("PUT", "/data/k", body=b"x"))
        assert refusal(client.create_multipart_upload, Bucket="data", Key="k") == "InsufficientStorage"
        assert store.files() == []
    gc.collect()  # errors of boto3 hold its sockets


def test_of_two_writers_of_a_key_one_wins_whole(store: Running, bucket: str) -> None:
    bodies = [bytes([number]) * 200_000 for number in range(8)]
    with store.boto() as client, ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            list(pool.map(lambda body: client.put_object(Bucket=bucket, Key="k", Body=body), bodies))
            assert client.get_object(Bucket=bucket, Key="k")["Body"].read() in bodies
        only = list(pool.map(lambda body: _once(client, bucket, body), bodies))
        assert sorted(only) == ["PreconditionFailed"] * 7 + ["stored"]
    assert store.files() == [f"{bucket}/k", f"{bucket}/once"]


def _once(client: Any, bucket: str, body: bytes) -> str:
    try:
        client.put_object(Bucket=bucket, Key="once", Body=body, IfNoneMatch="*")
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "stored"


def test_an_object_that_is_deleted_while_it_is_read_is_read_to_its_end(store: Running, bucket: str) -> None:
    data = os.urandom(8 << 20)
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="k", Body=data)
        body = client.get_object(Bucket=bucket, Key="k")["Body"]
        first = body.read(1000)
        client.delete_object(Bucket=bucket, Key="k")
        assert first + body.read() == data


def test_directories_come_and_go_under_many_writers(store: Running, bucket: str) -> None:
    objects = store.store.objects
    generation = objects.open_bucket(bucket)

    def work(number: int) -> None:
        for _ in range(300):
            with objects.draft() as draft:
                objects.commit(bucket, f"a/b/c/{number}", generation, draft, "", b"")
            objects.delete(bucket, [(f"a/b/c/{number}", anything)])

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads meet at every step
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(usual)
    assert store.files() == [] and os.listdir(store.folder / bucket) == []


def test_an_upload_is_completed_once_and_a_late_part_does_not_reach_the_object(store: Running, bucket: str) -> None:
    with store.boto() as client:
        upload = begin(client, bucket, "k")
        tag = client.upload_part(PartNumber=1, Body=b"a" * 1000, **upload)["ETag"]
        found = store.store.uploads.find(bucket, "k", upload["UploadId"])
        with store.store.uploads.receiving(found, 2, 1000) as late:  # a part that is on its way
            late.draft.write(b"b" * 500)
            parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
            with ThreadPoolExecutor(4) as pool:
                outcomes = list(pool.map(lambda _: _completed(client, MultipartUpload=parts, **upload), range(4)))
            late.draft.write(b"b" * 500)
        assert "NoSuchUpload" in outcomes or len(set(outcomes)) == 1
        assert {one for one in outcomes if one != "NoSuchUpload"} == {client.head_object(Bucket=bucket, Key="k")["ETag"]}
        assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"a" * 1000
    assert store.files() == [f"{bucket}/k"]


def _completed(client: Any, **named: Any) -> str:
    try:
        return str(client.complete_multipart_upload(**named)["ETag"])
    except ClientError as error:
        return str(error.response["Error"]["Code"])


def test_a_bucket_that_is_deleted_takes_nothing_with_it_and_leaves_nothing(store: Running, bucket: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="k", Body=b"x")
        assert refusal(client.delete_bucket, Bucket=bucket) == "BucketNotEmpty"
        generation = store.store.objects.open_bucket(bucket)
        client.delete_object(Bucket=bucket, Key="k")
        client.create_multipart_upload(Bucket=bucket, Key="left")
        client.delete_bucket(Bucket=bucket)
        client.create_bucket(Bucket=bucket)
        with store.store.objects.draft() as draft, pytest.raises(Exception, match="no such bucket"):
            store.store.objects.commit(bucket, "late", generation, draft, "", b"")  # it began before
    assert store.files() == []


def test_a_bucket_that_could_not_be_deleted_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def broken(path: str) -> Any:
        if "/.scratch/" in path:  # an object that arrived between the two looks, and the second one fails
            (tmp_path / "store/.scratch/bucket-data/late").write_bytes(b"x")
            raise OSError(24, "Too many open files")
        return scandir(path)

    with running(tmp_path / "store") as store, store.boto() as client:
        client.create_bucket(Bucket="data")
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", broken)
            assert refusal(client.delete_bucket, Bucket="data") == "InternalError"
        assert client.get_object(Bucket="data", Key="late")["Body"].read() == b"x"
    (tmp_path / "store/data").rename(tmp_path / "store/.scratch/bucket-data")  # killed between the two renames
    with running(tmp_path / "store", accounts=store.accounts) as store, store.boto() as client:
        assert client.get_object(Bucket="data", Key="late")["Body"].read() == b"x"
        client.delete_object(Bucket="data", Key="late")
        client.delete_bucket(Bucket="data")
    assert os.listdir(tmp_path / "store/.scratch") == [] and not (tmp_path / "store/data").exists()
    gc.collect()  # errors of boto3 hold its sockets


def test_parts_survive_a_restart_and_scratch_does_not(tmp_path: Path) -> None:
    with running(tmp_path / "store") as store, store.boto() as client:
        client.create_bucket(Bucket="data")
        upload = begin(client, "data", "k")
        tags = [client.upload_part(PartNumber=number, Body=bytes([number]) * 100, **upload)["ETag"] for number in (1, 2)]
        (store.folder / ".scratch" / "left").write_bytes(b"of a crash")
    with running(tmp_path / "store", accounts=store.accounts) as store, store.boto() as client:
        tags.append(client.upload_part(PartNumber=3, Body=b"end", **upload)["ETag"])
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **upload)
        assert client.get_object(Bucket="data", Key="k")["Body"].read() == b"\1" * 100 + b"\2" * 100 + b"end"
        assert store.files() == ["data/k"]


def test_bytes_of_an_append_that_did_not_end_are_not_part_of_the_object(store: Running, bucket: str) -> None:
    with store.obs("v2", "path") as client:
        client.appendObject(bucket, "log", AppendObjectContent(content="whole", position=0))
        with (store.folder / bucket / "log").open("ab") as file:
            file.write(b"a crash came here")
        assert client.getObject(bucket, "log", loadStreamInMemory=True).body.buffer == b"whole"
        client.appendObject(bucket, "log", AppendObjectContent(content=" two", position=5))
        assert client.getObject(bucket, "log", loadStreamInMemory=True).body.buffer == b"whole two"


def test_one_process_serves_a_directory(store: Running) -> None:
    with pytest.raises(ValueError, match="served by another process"):
        Store(str(store.folder), store.accounts)


def test_file_and_directory_are_synced_before_the_answer(store: Running, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, str]] = []
    lock, sync, rename = threading.Lock(), os.fsync, os.rename

    def noted_sync(descriptor: int) -> None:
        with lock:
            events.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    def noted_rename(source: str, target: str) -> None:
        with lock:
            events.append(("rename", target))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "rename", noted_rename)
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="new/key", Body=b"x")
    root = str(store.folder)
    names = [(what, path.replace(root, "")) for what, path in events]
    first, last = names.index(("rename", f"/{bucket}/new/key")), len(names) - 1
    assert any(what == "sync" and path.startswith("/.scratch/") for what, path in names[:first])
    assert ("sync", f"/{bucket}") in names and names[last] == ("sync", f"/{bucket}/new")


@pytest.mark.long
def test_memory_does_not_grow_with_the_size_of_objects(store: Running, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", 1 << 30)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    with store.boto() as client, (tmp_path / "large").open("rb") as file:
        client.put_object(Bucket=bucket, Key="warm", Body=bytes(1 << 20))
        before = resident()
        client.put_object(Bucket=bucket, Key="large", Body=file)
        body = client.get_object(Bucket=bucket, Key="large")["Body"]
        while body.read(1 << 20):
            pass
        assert resident() - before < 64 << 20
