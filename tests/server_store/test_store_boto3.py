"""boto3, unchanged, against the store: every signature and style that it knows."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from stores import Running, certificate, code, running
from stores import bucket as bucket
from stores import store as store
from stores import virtual_hosts as virtual_hosts

WAYS = [("s3v4", "path"), ("s3v4", "virtual"), ("s3", "path"), ("s3", "virtual")]
ODD = "with space/数据+%&=?#'\"\\;:@,!*()~.txt"


class Unseekable(io.RawIOBase):
    """A body of unknown length."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)


@pytest.mark.parametrize(("version", "style"), WAYS)
def test_boto3_creates_stores_lists_and_deletes(store: Running, version: str, style: str) -> None:
    with store.boto(version=version, style=style) as client:
        client.create_bucket(Bucket="data")
        client.head_bucket(Bucket="data")
        assert [one["Name"] for one in client.list_buckets()["Buckets"]] == ["data"]
        assert client.get_bucket_location(Bucket="data")["LocationConstraint"] is None
        put = client.put_object(Bucket="data", Key=ODD, Body=b"content", ContentType="text/x", Metadata={"mine": "yes"})
        assert put["ETag"] == f'"{hashlib.md5(b"content").hexdigest()}"'
        found = client.get_object(Bucket="data", Key=ODD)
        assert found["Body"].read() == b"content"
        assert (found["ContentType"], found["Metadata"], found["ETag"]) == ("text/x", {"mine": "yes"}, put["ETag"])
        assert found["ResponseMetadata"]["RequestId"]
        assert (store.folder / "data" / ODD).read_bytes() == b"content"
        copy = {"Bucket": "data", "Key": ODD}
        client.copy_object(Bucket="data", Key="copy", CopySource=copy)
        changed = {"MetadataDirective": "REPLACE", "Metadata": {"other": "1"}, "ContentType": "a/b"}
        client.copy_object(Bucket="data", Key="changed", CopySource=copy, **changed)
        assert client.head_object(Bucket="data", Key="copy")["Metadata"] == {"mine": "yes"}
        assert client.head_object(Bucket="data", Key="changed")["Metadata"] == {"other": "1"}
        assert client.get_object(Bucket="data", Key="copy", Range="bytes=3-")["Body"].read() == b"tent"
        for listed in (client.list_objects(Bucket="data"), client.list_objects_v2(Bucket="data")):
            assert [one["Key"] for one in listed["Contents"]] == ["changed", "copy", ODD]
        gone = client.delete_objects(Bucket="data", Delete={"Objects": [{"Key": ODD}, {"Key": "copy"}, {"Key": "none"}]})
        assert len(gone["Deleted"]) == 3
        client.delete_object(Bucket="data", Key="changed")
        client.delete_bucket(Bucket="data")
    assert store.files() == []


@pytest.mark.parametrize(("version", "style"), WAYS)
def test_objects_in_parts_arrive_as_one_file(store: Running, bucket: str, version: str, style: str, tmp_path: Path) -> None:
    data = os.urandom((16 << 20) + 4711)
    (tmp_path / "large").write_bytes(data)
    parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    with store.boto(version=version, style=style) as client:
        client.upload_file(str(tmp_path / "large"), bucket, "large", ExtraArgs={"Metadata": {"a": "b"}}, Config=parts)
        assert client.head_object(Bucket=bucket, Key="large")["ETag"].endswith('-4"')
        client.download_file(bucket, "large", str(tmp_path / "back"), Config=parts)
        client.copy({"Bucket": bucket, "Key": "large"}, bucket, "copy", Config=parts)  # by UploadPartCopy
        assert client.get_object(Bucket=bucket, Key="copy")["Body"].read() == data
        assert client.head_object(Bucket=bucket, Key="copy")["ETag"].endswith('-4"')
    assert (tmp_path / "back").read_bytes() == data
    assert store.files() == [f"{bucket}/copy", f"{bucket}/large"]


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_addresses_that_were_signed_before_work_once_and_for_their_key_alone(store: Running, bucket: str, version: str) -> None:
    with store.boto(version=version) as client:
        named = {"Bucket": bucket, "Key": "a b", "ContentType": "text/plain"}
        put = client.generate_presigned_url("put_object", named, ExpiresIn=60)
        kind = {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(put, data=b"there", method="PUT", headers=kind)).close()
        get = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b"}, ExpiresIn=60)
        with urllib.request.urlopen(get) as answer:
            assert answer.read() == b"there"
        for wrong in (get.replace("a%20b", "other"), get.replace("Expires=", "Expires=1")):
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(wrong)
            assert error.value.code == 403
            error.value.close()
        late = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b"}, ExpiresIn=-10)
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(late)
        assert error.value.code in (400, 403)
        error.value.close()


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_bodies_over_tls_come_in_chunks_with_a_checksum_behind_them(tmp_path: Path, version: str) -> None:
    data = os.urandom(3_000_000)
    with running(tmp_path / "store", secure=certificate(tmp_path)) as store, store.boto(version=version) as client:
        bucket = "data"
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key="whole", Body=data)  # of known length
        assert client.get_object(Bucket=bucket, Key="whole")["Body"].read() == data
        if version == "s3":
            return  # boto3 itself wants to seek in a body of unknown length then
        client.put_object(Bucket=bucket, Key="chunks", Body=io.BufferedReader(Unseekable(data)), ChecksumAlgorithm="CRC32")
        found = client.get_object(Bucket=bucket, Key="chunks")
        assert found["Body"].read() == data
        assert "aws-chunked" not in found.get("ContentEncoding", "")


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_are_checked(store: Running, bucket: str, algorithm: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="good", Body=b"x", ChecksumAlgorithm=algorithm)
        size = {"CRC32": 4, "SHA1": 20, "SHA256": 32}[algorithm]
        wrong = {f"Checksum{algorithm}": base64.b64encode(bytes(size)).decode()}
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket=bucket, Key="bad", Body=b"x", **wrong)
        assert code(error) == "BadDigest"
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket=bucket, Key="bad", Body=b"x", ContentMD5=base64.b64encode(bytes(16)).decode())
        assert code(error) == "BadDigest"
    assert store.files() == [f"{bucket}/good"]


def test_listings_have_pages_prefixes_and_delimiters(store: Running, bucket: str) -> None:
    names = ["a", "b/1", "b/2", "b/c/3", "b.txt", "c/", "d\ne", "é/x", "z-1", "z-2"]
    with store.boto() as client:
        for name in names:
            client.put_object(Bucket=bucket, Key=name, Body=b"")
        whole = sorted(names)
        for call in ("list_objects", "list_objects_v2"):
            for size in (1, 3, 1000):
                pages = client.get_paginator(call).paginate(Bucket=bucket, PaginationConfig={"PageSize": size})
                assert [one["Key"] for page in pages for one in page.get("Contents", [])] == whole
                pages = list(
                    client.get_paginator(call).paginate(Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": size})
                )
                assert [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", [])] == ["b/", "c/", "é/"]
                assert [one["Key"] for page in pages for one in page.get("Contents", [])] == [
                    "a",
                    "b.txt",
                    "d\ne",
                    "z-1",
                    "z-2",
                ]
        assert [one["Key"] for one in client.list_objects_v2(Bucket=bucket, Prefix="b/")["Contents"]] == ["b/1", "b/2", "b/c/3"]
        found = client.list_objects_v2(Bucket=bucket, Prefix="b/", Delimiter="/")
        assert [one["Prefix"] for one in found["CommonPrefixes"]] == ["b/c/"]
        found = client.list_objects_v2(Bucket=bucket, Prefix="c/")
        assert [(one["Key"], one["Size"]) for one in found["Contents"]] == [("c/", 0)]
        found = client.list_objects_v2(Bucket=bucket, Delimiter="-")
        assert [one["Prefix"] for one in found["CommonPrefixes"]] == ["z-"]
        assert [one["Key"] for one in client.list_objects_v2(Bucket=bucket, StartAfter="z-1")["Contents"]] == ["z-2", "é/x"]
        assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix="../")
        assert "Contents" not in client.list_objects_v2(Bucket=bucket, MaxKeys=0)


def test_a_range_of_another_version_gives_the_whole_object(store: Running, bucket: str) -> None:
    with store.boto() as client:
        put = client.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
        changed = client.head_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPHeaders"]["last-modified"]
    good, whole = (b" 206 ", b"\r\n\r\n56789"), (b" 200 ", b"\r\n\r\n0123456789")
    for condition, (status, content) in (
        (put["ETag"], good),
        (changed, good),
        ('"other"', whole),
        ("W/" + put["ETag"], whole),
        ("Wed, 21 Oct 2015 07:28:00 GMT", whole),
    ):
        headers = {"range": "bytes=5-", "if-range": condition, "connection": "close"}
        answer = store.raw(store.signed("GET", f"/{bucket}/k", headers=headers))
        assert status in answer.partition(b"\r\n")[0] and answer.endswith(content)


def test_the_checksum_of_a_whole_object_does_not_refuse_its_parts(store: Running, bucket: str) -> None:
    named = {"Bucket": bucket, "Key": "k"}
    sum = base64.b64encode(zlib.crc32(b"hello").to_bytes(4, "big")).decode()
    with store.boto() as client:
        named["UploadId"] = client.create_multipart_upload(**named)["UploadId"]
        etag = client.upload_part(PartNumber=1, Body=b"hello", **named)["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        client.complete_multipart_upload(MultipartUpload=parts, ChecksumCRC32=sum, ChecksumType="FULL_OBJECT", **named)
        assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"


def test_what_the_store_does_not_know_of_buckets_and_objects_is_not_taken_for_a_listing(store: Running, bucket: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="k", Body=b"x")
        for call, named in (
            (client.get_public_access_block, {}),
            (client.get_bucket_ownership_controls, {}),
            (client.get_bucket_policy_status, {}),
            (client.list_object_versions, {}),
            (client.get_object_attributes, {"Key": "k", "ObjectAttributes": ["ETag"]}),
        ):
            with pytest.raises(ClientError) as error:
                call(Bucket=bucket, **named)
            assert code(error) == "NotImplemented"


def test_conditions_decide_what_is_deleted(store: Running, bucket: str) -> None:
    def outcome(call: Any, **named: Any) -> str:
        with pytest.raises(ClientError) as error:
            call(Bucket=bucket, **named)
        return code(error)

    with store.boto() as client:
        tags = {key: client.put_object(Bucket=bucket, Key=key, Body=key.encode())["ETag"] for key in "abc"}
        assert outcome(client.delete_object, Key="a", IfMatch='"other"') == "PreconditionFailed"
        assert outcome(client.delete_object, Key="none", IfMatch="*") == "NoSuchKey"
        assert outcome(client.delete_object, Key="a", VersionId="1") == "NoSuchVersion"
        assert outcome(client.delete_object, Key="a", IfMatchSize=5) == "NotImplemented"
        wanted = [
            {"Key": "a", "ETag": '"other"'},
            {"Key": "b", "ETag": tags["b"]},
            {"Key": "none", "ETag": tags["b"]},
            {"Key": "a", "VersionId": "1"},
            {"Key": "c", "Size": 1},
        ]
        found = client.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
        assert [one["Key"] for one in found["Deleted"]] == ["b"]
        assert sorted((one["Key"], one["Code"]) for one in found["Errors"]) == [
            ("a", "NotImplemented"),
            ("a", "PreconditionFailed"),
            ("c", "NotImplemented"),
            ("none", "NoSuchKey"),
        ]
        assert store.files() == [f"{bucket}/a", f"{bucket}/c"]
        client.delete_object(Bucket=bucket, Key="a", IfMatch=tags["a"])
        client.put_object(Bucket=bucket, Key="marker/", Body=b"")
        copied = {"Key": "marker/", "CopySource": f"{bucket}/marker/", "MetadataDirective": "REPLACE"}
        assert outcome(client.copy_object, IfNoneMatch="*", **copied) == "PreconditionFailed"
        client.delete_object(Bucket=bucket, Key="marker/", IfMatch="*")
    assert store.files() == [f"{bucket}/c"]


def test_conditions_decide_what_is_appended_to(store: Running, bucket: str) -> None:
    def append(position: int, **headers: str) -> bytes:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = store.signed("POST", f"/{bucket}/log", f"append=&position={position}", body=b"line", headers=named)
        return store.raw(request)

    assert b"NoSuchKey" in append(0, if_match="*")
    assert b" 200 " in append(0, if_none_match="*")
    assert b"PreconditionFailed" in append(4, if_none_match="*")
    assert b"PreconditionFailed" in append(4, if_match='"other"')
    assert b" 200 " in append(4, if_match="*")
    assert (store.folder / bucket / "log").read_bytes() == b"line" * 2


def test_conditions_decide_what_is_read_and_written(store: Running, bucket: str) -> None:
    with store.boto() as client:
        etag = client.put_object(Bucket=bucket, Key="k", Body=b"one", IfNoneMatch="*")["ETag"]
        before, after = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)
        assert client.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"one"
        assert client.get_object(Bucket=bucket, Key="k", IfModifiedSince=before)["Body"].read() == b"one"
        refusals: list[tuple[str, dict[str, Any]]] = [
            ("412", {"IfMatch": '"other"'}),
            ("304", {"IfNoneMatch": etag}),
            ("304", {"IfModifiedSince": after}),
            ("412", {"IfUnmodifiedSince": before}),
        ]
        for status, condition in refusals:
            with pytest.raises(ClientError) as error:
                client.get_object(Bucket=bucket, Key="k", **condition)
            assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == int(status)
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket=bucket, Key="k", Body=b"two", IfNoneMatch="*")
        assert code(error) == "PreconditionFailed"
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket=bucket, Key="k", Body=b"two", IfMatch='"other"')
        assert code(error) == "PreconditionFailed"
        client.put_object(Bucket=bucket, Key="k", Body=b"two", IfMatch=etag)
        for range, expected in (("bytes=0-0", b"t"), ("bytes=-2", b"wo"), ("bytes=1-99", b"wo")):
            assert client.get_object(Bucket=bucket, Key="k", Range=range)["Body"].read() == expected
        with pytest.raises(ClientError) as error:
            client.get_object(Bucket=bucket, Key="k", Range="bytes=3-")
        assert code(error) == "InvalidRange"


def test_uploads_are_listed_resumed_and_aborted(store: Running, bucket: str) -> None:
    with store.boto() as client:
        first = client.create_multipart_upload(Bucket=bucket, Key="a", ContentType="x/y")["UploadId"]
        second = client.create_multipart_upload(Bucket=bucket, Key="b")["UploadId"]
        assert [one["UploadId"] for one in client.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [first, second]
        named = {"Bucket": bucket, "Key": "a", "UploadId": first}
        tags = {}
        for number, data in ((3, b"ccc"), (1, b"aaaa"), (2, b"zz"), (2, b"bb")):  # out of order, of any size, one sent twice
            tags[number] = client.upload_part(PartNumber=number, Body=data, **named)["ETag"]
        found = client.list_parts(**named)["Parts"]
        assert [(one["PartNumber"], one["Size"], one["ETag"]) for one in found] == [
            (1, 4, tags[1]),
            (2, 2, tags[2]),
            (3, 3, tags[3]),
        ]
        listed = [{"PartNumber": number, "ETag": tags[number]} for number in (1, 2, 3)]
        for wrong, expected in (
            (listed[::-1], "InvalidPartOrder"),
            ([{"PartNumber": 1, "ETag": tags[2]}], "InvalidPart"),
            ([{"PartNumber": 9, "ETag": tags[2]}], "InvalidPart"),
        ):
            with pytest.raises(ClientError) as error:
                client.complete_multipart_upload(MultipartUpload={"Parts": wrong}, **named)
            assert code(error) == expected
        done = client.complete_multipart_upload(MultipartUpload={"Parts": listed}, **named)
        again = client.complete_multipart_upload(MultipartUpload={"Parts": listed}, **named)
        assert done["ETag"] == again["ETag"]
        found = client.get_object(Bucket=bucket, Key="a")
        assert (found["Body"].read(), found["ContentType"]) == (b"aaaabbccc", "x/y")
        client.abort_multipart_upload(Bucket=bucket, Key="b", UploadId=second)
        with pytest.raises(ClientError) as error:
            client.upload_part(Bucket=bucket, Key="b", UploadId=second, PartNumber=1, Body=b"x")
        assert code(error) == "NoSuchUpload"
        with pytest.raises(ClientError) as error:
            client.upload_part(Bucket=bucket, Key="b", UploadId=first, PartNumber=1, Body=b"x")
        assert code(error) == "NoSuchUpload"
    assert store.files() == [f"{bucket}/a"]


def test_what_the_store_does_not_know_is_refused_rather_than_mistaken(store: Running, bucket: str) -> None:
    with store.boto() as client:
        client.put_object(Bucket=bucket, Key="k", Body=b"content")
        calls: list[Callable[[], Any]] = [
            lambda: client.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": []}),
            lambda: client.put_object_acl(Bucket=bucket, Key="k", ACL="private"),
            lambda: client.get_object_acl(Bucket=bucket, Key="k"),
            lambda: client.put_bucket_policy(Bucket=bucket, Policy="{}"),
            lambda: client.put_object(Bucket=bucket, Key="k", Body=b"", ServerSideEncryption="AES256"),
        ]
        for refused in calls:
            with pytest.raises(ClientError) as error:
                refused()
            assert code(error) == "NotImplemented"
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket=bucket, Key="k", Body=b"", ACL="public-read")
        assert code(error) == "AccessControlListNotSupported"
        assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"content"
