"""esdk-obs-python, unchanged, against the store: its three signatures, parts, and appending."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from obs import AppendObjectContent, CopyObjectHeader, DeleteObjectsRequest, Object, PutObjectHeader
from stores import Running
from stores import bucket as bucket
from stores import store as store
from stores import virtual_hosts as virtual_hosts

# The default asks the server first (HEAD ?apiversion); at an address instead of a name it takes v2 and path style.
WAYS = [("obs", "virtual"), ("v2", "path"), ("v2", "virtual"), ("v4", "path"), ("v4", "virtual")]


def good(result: Any) -> Any:
    assert result.status < 300, (result.status, result.errorCode, result.errorMessage)
    return result


@pytest.mark.parametrize(("signature", "style"), WAYS)
def test_obs_clients_store_list_copy_and_delete(store: Running, signature: str, style: str) -> None:
    with store.obs(signature, style) as client:
        good(client.createBucket("data"))
        good(client.headBucket("data"))
        assert [one.name for one in good(client.listBuckets()).body.buckets] == ["data"]
        headers = PutObjectHeader(contentType="text/x")
        good(client.putContent("data", "a/数 据.txt", "content", metadata={"mine": "yes"}, headers=headers))
        good(client.putContent("data", "empty/", None))
        found = good(client.getObject("data", "a/数 据.txt", loadStreamInMemory=True))
        assert found.body.buffer == b"content"
        about = good(client.getObjectMetadata("data", "a/数 据.txt"))
        assert about.body.contentType == "text/x" and dict(about.header)["mine"] == "yes"
        good(client.copyObject("data", "a/数 据.txt", "data", "copy", headers=CopyObjectHeader()))
        assert [one.key for one in good(client.listObjects("data")).body.contents] == ["a/数 据.txt", "copy", "empty/"]
        prefixes = good(client.listObjects("data", delimiter="/")).body.commonPrefixs
        assert [one.prefix for one in prefixes] == ["a/", "empty/"]
        assert client.getObjectMetadata("data", "none").status == 404
        keys = [Object(key=key) for key in ("a/数 据.txt", "copy", "empty/")]
        assert len(good(client.deleteObjects("data", DeleteObjectsRequest(quiet=False, objects=keys))).body.deleted) == 3
        good(client.deleteBucket("data"))
    assert store.files() == []


@pytest.mark.parametrize(("signature", "style"), WAYS)
def test_obs_clients_send_files_in_parts(store: Running, bucket: str, signature: str, style: str, tmp_path: Path) -> None:
    data = os.urandom(12 << 20)
    (tmp_path / "large").write_bytes(data)
    with store.obs(signature, style) as client:
        good(client.uploadFile(bucket, "large", str(tmp_path / "large"), partSize=5 << 20, taskNum=3))
        good(client.downloadFile(bucket, "large", str(tmp_path / "back"), partSize=5 << 20, taskNum=3))
        good(client.putFile(bucket, "whole", str(tmp_path / "large")))
    assert (tmp_path / "back").read_bytes() == (store.folder / bucket / "whole").read_bytes() == data


@pytest.mark.parametrize(("signature", "style"), WAYS)
def test_obs_clients_append(store: Running, bucket: str, signature: str, style: str) -> None:
    with store.obs(signature, style) as client:
        position = 0
        for text in ("one ", "two ", "three"):
            good(client.appendObject(bucket, "log", AppendObjectContent(content=text, position=position)))
            position += len(text)
        assert good(client.getObject(bucket, "log", loadStreamInMemory=True)).body.buffer == b"one two three"
        wrong = client.appendObject(bucket, "log", AppendObjectContent(content="x", position=3))
        assert (wrong.status, wrong.errorCode) == (409, "PositionNotEqualToLength")
        good(client.putContent(bucket, "plain", "x"))
        wrong = client.appendObject(bucket, "plain", AppendObjectContent(content="x", position=1))
        assert (wrong.status, wrong.errorCode) == (409, "ObjectNotAppendable")
        assert good(client.getObjectMetadata(bucket, "log")).body.contentLength == 13


def test_obs_clients_sign_addresses(store: Running, bucket: str) -> None:
    with store.obs() as client:
        good(client.putContent(bucket, "a b", "content"))
        for signature in ("v2", "v4", "obs"):
            with store.obs(signature, "path") as other:
                url = other.createSignedUrl("GET", bucket, "a b", expires=60).signedUrl
                with urllib.request.urlopen(url) as answer:
                    assert answer.read() == b"content"


def test_the_version_is_told_to_anybody_and_says_nothing_of_buckets(store: Running, bucket: str) -> None:
    answers = {
        store.raw(f"HEAD /{name}?apiversion HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()).split(b"\r\n")[0]
        for name in (bucket, "none")
    }
    assert answers == {b"HTTP/1.1 200 OK"}
