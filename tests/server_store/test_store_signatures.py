"""Who may do what: signatures that hold, that do not, and what a caller learns of buckets that are not for it."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError
from stores import KEYS, Running, code
from stores import bucket as bucket
from stores import store as store
from stores import virtual_hosts as virtual_hosts

from muster.server.store.protocol.signatures import CHUNKS, ChunkSigner, _signing_key


def status(answer: bytes) -> tuple[int, str]:
    """The status of the first response, and the code of its error."""
    found = answer.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()
    return int(answer.split(b" ", 2)[1]), found


def test_a_request_without_a_signature_gets_nothing(store: Running, bucket: str) -> None:
    for target in ("/", f"/{bucket}", f"/{bucket}/key", "/none"):
        for method in ("GET", "PUT", "DELETE", "POST"):
            request = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()
            assert status(store.raw(request)) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"PUT /data/key", b"PUT /data/other"),
        (b"PUT /data/key", b"DELETE /data/key"),
        (b"host: 127.0.0.1", b"host: elsewhere"),
        (b"PUT /data/key ", b"PUT /data/key?partNumber=1&uploadId=x "),
        (b"x-amz-meta-a: 1", b"x-amz-meta-a: 2"),
        (b"x-amz-date: 2", b"x-amz-date: 1"),
        (b"Signature=", b"Signature=0"),
        (b"Credential=ada-key", b"Credential=bob-key"),
        (b"us-east-1/s3/aws4_request", b"us-west-1/s3/aws4_request"),
        (b"us-east-1/s3/aws4_request", b"us-east-1/iam/aws4_request"),
        (b"x-amz-meta-a: 1", b"x-amz-meta-a: 1\r\nx-amz-copy-source: /shared/secret"),
        (b"content-length: 4\r\n", b"content-length: 4\r\nx-amz-acl: private\r\n"),
    ],
)
def test_a_signature_is_good_for_nothing_but_its_request(store: Running, bucket: str, old: bytes, new: bytes) -> None:
    good = store.signed("PUT", "/data/key", body=b"good", headers={"x-amz-meta-a": "1"})
    assert old in good
    assert status(store.raw(good.replace(old, new)))[0] in (400, 403)
    assert store.files() == []
    assert status(store.raw(good))[0] == 200


@pytest.mark.parametrize(("method", "path"), [("GET", "/data"), ("DELETE", "/data"), ("GET", "/data/"), ("GET", "/")])
@pytest.mark.parametrize("edited", ["/data%2Fkey", "/data%2fkey", "/data%2F", "/data/%6bey", "/data/key", "/%2Fdata/key"])
def test_a_signature_of_a_bucket_is_good_for_no_object(
    store: Running, bucket: str, method: str, path: str, edited: str
) -> None:
    store.raw(store.signed("PUT", "/data/key", body=b"TREASURE"))
    request = store.signed(method, path).replace(f"{method} {path} ".encode(), f"{method} {edited} ".encode())
    answer = store.raw(request)
    assert status(answer)[0] in (400, 403) and b"TREASURE" not in answer
    assert store.files() == ["data/key"]


def test_content_must_be_what_was_signed(store: Running, bucket: str) -> None:
    request = store.signed("PUT", "/data/key", body=b"good", digest=hashlib.sha256(b"good").hexdigest())
    assert status(store.raw(request[:-4] + b"evil")) == (400, "XAmzContentSHA256Mismatch")
    assert store.files() == []
    assert status(store.raw(request))[0] == 200


@pytest.mark.parametrize("seconds", [-1000, 1000])
def test_clocks_may_not_differ_by_more_than_fifteen_minutes(store: Running, bucket: str, seconds: int) -> None:
    assert status(store.raw(store.signed("GET", "/data", now=time.time() + seconds))) == (403, "RequestTimeTooSkewed")
    assert status(store.raw(store.signed("GET", "/data", now=time.time() + seconds * 0.8)))[0] == 200


def chunked(store: Running, pieces: list[bytes], change: Any = None) -> bytes:
    """A body in signed chunks, as older clients of S3 send it; `change` alters the signed chunks."""
    size = sum(map(len, pieces))
    lines = [b"%x;chunk-signature=%064d\r\n%s\r\n" % (len(piece), 0, piece) for piece in [*pieces, b""]]
    length = sum(map(len, lines))
    headers = {"content-length": str(length), "x-amz-decoded-content-length": str(size), "content-encoding": "aws-chunked"}
    head = store.signed("PUT", "/data/key", headers=headers, digest=CHUNKS)
    text = head.decode()
    seed = text.partition("Signature=")[2].partition("\r\n")[0]
    stamp = text.partition("x-amz-date: ")[2].partition("\r\n")[0]
    signer = ChunkSigner(
        _signing_key(KEYS["ada-key"][0], stamp[:8], "us-east-1"), stamp, f"{stamp[:8]}/us-east-1/s3/aws4_request", seed
    )
    body = b""
    for piece in [*pieces, b""]:
        seed = signer.chunk(seed, hashlib.sha256(piece).hexdigest())
        body += b"%x;chunk-signature=%s\r\n%s\r\n" % (len(piece), seed.encode(), piece)
    return head + (change(body) if change else body)


def test_each_chunk_is_signed(store: Running, bucket: str) -> None:
    pieces = [b"a" * 65536, b"b" * 100]
    assert status(store.raw(chunked(store, pieces)))[0] == 200
    with store.boto() as client:
        found = client.get_object(Bucket=bucket, Key="key")
        assert found["Body"].read() == b"".join(pieces) and "ContentEncoding" not in found
        client.delete_object(Bucket=bucket, Key="key")
    wrong = [
        lambda body: body.replace(b"bbb", b"bbc", 1),
        lambda body: body.replace(b"chunk-signature=", b"chunk-signature=0", 1)[: len(body)],
        lambda body: body.replace(b"10000;", b"0ffff;", 1),  # says less than it holds
        lambda body: body.replace(b"64;", b"ff;", 1),  # says more
        lambda body: body.replace(b"\r\n0;", b"\r\n5;", 1),
        lambda body: body.replace(b";chunk-signature=", b";chunk-nonsense!=", 1),
    ]
    for change in wrong:
        assert status(store.raw(chunked(store, pieces, change)))[0] in (400, 403)
        assert store.files() == []


def test_who_may_not_see_a_bucket_does_not_learn_that_it_exists(store: Running) -> None:
    for name in ("secret", "shared"):
        store.accounts.create_bucket("ada", name)
    with store.boto() as client:
        for name in ("secret", "shared"):
            client.put_object(Bucket=name, Key="key", Body=b"ada's")

    def calls(client: Any, bucket: str) -> list[Any]:
        return [
            lambda: client.head_bucket(Bucket=bucket),
            lambda: client.list_objects_v2(Bucket=bucket),
            lambda: client.get_object(Bucket=bucket, Key="key"),
            lambda: client.put_object(Bucket=bucket, Key="key", Body=b""),
            lambda: client.delete_object(Bucket=bucket, Key="key"),
            lambda: client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "key"}]}),
            lambda: client.create_multipart_upload(Bucket=bucket, Key="key"),
            lambda: client.list_multipart_uploads(Bucket=bucket),
            lambda: client.upload_part(Bucket=bucket, Key="key", UploadId=32 * "0", PartNumber=1, Body=b""),
            lambda: client.get_bucket_location(Bucket=bucket),
            lambda: client.delete_bucket(Bucket=bucket),
        ]

    def outcome(call: Any) -> tuple[Any, ...]:
        with pytest.raises(ClientError) as error:
            call()
        found = error.value.response
        return found["Error"]["Code"], found["Error"].get("Message"), found["ResponseMetadata"]["HTTPStatusCode"]

    with store.boto("bob") as client:
        assert [one["Name"] for one in client.list_buckets()["Buckets"]] == ["shared"]
        for hidden, missing in zip(calls(client, "secret"), calls(client, "nothing"), strict=True):
            assert outcome(hidden) == outcome(missing)
        copy = {"Bucket": "bobs", "Key": "copy"}
        client.create_bucket(Bucket="bobs")
        for source in ("secret", "nothing"):
            assert outcome(lambda source=source: client.copy_object(CopySource=f"{source}/key", **copy))[0] == "NoSuchBucket"
        assert client.get_object(Bucket="shared", Key="key")["Body"].read() == b"ada's"
        for refused in calls(client, "shared")[3:7]:
            assert outcome(refused)[0] == "AccessDenied"
        with pytest.raises(ClientError) as error:
            client.create_bucket(Bucket="secret")
        assert code(error) == "BucketAlreadyExists"
    with store.boto("eve") as client:
        with pytest.raises(ClientError) as error:
            client.create_bucket(Bucket="eves")
        assert code(error) == "AccessDenied"
    assert status(store.raw(store.signed("GET", "/secret", key="none")))[1] == "InvalidAccessKeyId"
    assert store.files() == ["secret/key", "shared/key"]
