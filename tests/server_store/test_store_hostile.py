"""Whatever a client sends, the store answers with an error, stays within its directory, and goes on serving others."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import Running, running
from stores import bucket as bucket
from stores import store as store
from stores import virtual_hosts as virtual_hosts

from muster.server.store.errors import StoreError
from muster.server.store.protocol import conditions, documents, http
from muster.storage.s3 import signature

FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def first_line(answer: bytes) -> bytes:
    return answer.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "target",
    [
        "/data/../../etc/passwd",
        "/data/%2e%2e/%2e%2e/etc/passwd",
        "/../outside",
        "/%2e%2e/outside",
        "/.scratch/x",
        "/.uploads/x",
        "/data/nul%00byte",
        "/data/%ff%fe",
        "/data/bad%zzescape",
        "/data%2f..%2foutside/x",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_no_path_leaves_the_store(store: Running, bucket: str, tmp_path: Path, method: str, target: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("secret")
    answer = store.raw(store.signed(method, target, body=b"evil" if method == "PUT" else b""))
    assert first_line(answer).split(b" ")[1][:1] == b"4", answer
    assert (tmp_path / "outside" / "x").read_text() == "secret" and b"secret" not in answer
    assert store.files() == []


@pytest.mark.parametrize("number", ["99999", "0", "-1", "x", "9" * 30])
def test_odd_numbers_of_parts_are_refused(store: Running, bucket: str, number: str) -> None:
    with store.boto() as client:
        upload = client.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    answer = store.raw(store.signed("PUT", "/data/k", f"partNumber={number}&uploadId={upload}", body=b"x"))
    assert b"400" in first_line(answer) and b"InvalidArgument" in answer
    assert b"NoSuchUpload" in store.raw(store.signed("PUT", "/data/k", "partNumber=1&uploadId=..%2F..%2Fx", body=b"x"))


def test_xml_that_could_grow_without_an_end_is_refused(store: Running, bucket: str) -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><Delete><Object><Key>&a;</Key></Object></Delete>'
    assert b"MalformedXML" in store.raw(store.signed("POST", "/data", "delete=", body=bomb))
    many = b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>"
    assert b"MalformedXML" in store.raw(store.signed("POST", "/data", "delete=", body=many))
    assert b"EntityTooLarge" in store.raw(store.signed("POST", "/data", "delete=", body=b" " * (3 << 20)))
    deep = b"<a>" * 100_000
    assert b"MalformedXML" in store.raw(store.signed("POST", "/data", "delete=", body=deep))


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET /?" + b"&".join(b"a%d=1" % number for number in range(100)) + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n folded\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"PUT /b/k HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"400"),
        (b"PUT /b/k HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"PUT /b/k HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", b"400"),
        (b"PUT /b/k HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", b"400"),
        (b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n", b"403"),
    ],
)
def test_heads_that_are_not_well_formed_are_refused(store: Running, request_bytes: bytes, expected: bytes) -> None:
    assert first_line(store.raw(request_bytes)).split(b" ")[1] == expected


def test_bodies_that_are_not_as_long_as_they_say_leave_nothing(store: Running, bucket: str) -> None:
    assert store.raw(store.signed("PUT", "/data/k", headers={"content-length": "100"}, body=b"short")) == b""
    chunks = {"transfer-encoding": "chunked", "x-amz-decoded-content-length": "3"}
    request = store.signed("PUT", "/data/k", headers=chunks).replace(b"content-length: 0\r\n", b"")
    assert b"403" in first_line(store.raw(request))  # content-length was signed
    missing = store.signed("PUT", "/data/k").replace(b"content-length: 0\r\n", b"")
    assert b"4" in first_line(store.raw(missing))[9:10]
    assert store.files() == []


def test_a_refused_request_takes_no_body_and_its_connection_stays_in_step(store: Running, bucket: str) -> None:
    refused = store.signed("PUT", "/none/k", body=b"GET / HTTP/1.1\r\n\r\n" * 10)
    good = store.signed("PUT", "/data/k", body=b"good")
    answer = store.raw(refused + good)
    assert answer.count(b"HTTP/1.1 ") == 2 and b"NoSuchBucket" in answer and b"HTTP/1.1 200" in answer
    waiting = store.signed("PUT", "/none/k", headers={"content-length": "5000000", "expect": "100-continue"})
    answer = store.raw(waiting)
    assert b"100 Continue" not in answer and b"NoSuchBucket" in answer


def test_silent_and_slow_clients_are_closed_and_others_served(
    store: Running, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(http, "SILENCE", 1.0)
    monkeypatch.setattr(http, "HEAD_TIME", 0.2)
    with running(tmp_path / "other") as other:
        with socket.create_connection(("127.0.0.1", other.port), 20) as silent:
            silent.sendall(b"GET / HTTP/1.1\r\n")
            assert silent.recv(100) == b""
        with socket.create_connection(("127.0.0.1", other.port), 20) as slow:
            closed = False
            for _ in range(1000):
                try:
                    slow.sendall(b"X")
                    slow.settimeout(0.05)
                    closed = slow.recv(100) == b""
                except TimeoutError:
                    continue
                except OSError:
                    closed = True
                if closed:
                    break
            assert closed
        other.accounts.create_bucket("ada", "data")
        signed = other.signed("PUT", "/data/k", headers={"content-length": "300000"})
        unsigned = b"PUT /data/k HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n"
        for name, head in (("GRACE", signed), ("STRANGER_TIME", unsigned)):
            with monkeypatch.context() as patch, socket.create_connection(("127.0.0.1", other.port), 20) as slow:
                patch.setattr(http, name, 0.2)
                slow.sendall(head)
                assert _ends(slow), name
        assert b"403" in first_line(other.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))


def _ends(connection: socket.socket) -> bool:
    """True if the other side answers or hangs up while it is sent a byte now and then."""
    connection.settimeout(0.05)
    for _ in range(200):
        try:
            connection.sendall(b"x")
            connection.recv(1000)
            return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@FUZZ
@given(data=st.binary(max_size=2000))
def test_any_bytes_get_an_answer_or_none(store: Running, data: bytes) -> None:
    answer = store.raw(data + b"\r\n\r\n")
    assert not answer or answer.startswith(b"HTTP/1.1 4")


@FUZZ
@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
    key=st.text(max_size=30),
    query=st.dictionaries(
        st.sampled_from("uploads uploadId partNumber append position delete prefix marker max-keys list-type delimiter".split())
        | st.text(max_size=5),
        st.text(max_size=20),
        max_size=4,
    ),
    body=st.binary(max_size=200),
)
def test_no_signed_request_breaks_the_store(store: Running, method: str, key: str, query: dict[str, str], body: bytes) -> None:
    if "data" not in store.accounts.buckets:
        store.accounts.create_bucket("ada", "data")
    try:
        path, text = signature.quoted(f"/data/{key}"), signature.query(query)
    except UnicodeEncodeError:
        return  # no client can send this
    answer = store.raw(store.signed(method, path, text, body=body))
    assert answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 501", b"HTTP/1.1 3")), answer
    outside = {path.name for path in store.folder.parent.iterdir()}
    assert "store" in outside and not outside & {"etc", "data"}


@given(text=st.text(max_size=40), size=st.integers(0, 10**6))
def test_ranges_stay_within_the_object(text: str, size: int) -> None:
    for candidate in (text, f"bytes={text}"):
        try:
            found = conditions.byte_range(candidate, size)
        except StoreError:
            continue
        assert found is None or 0 <= found[0] < found[1] <= size


@given(data=st.binary(max_size=300))
def test_any_document_is_parsed_or_refused(data: bytes) -> None:
    try:
        documents.completed_parts(documents.parse(data))
    except StoreError as error:
        assert error.code in ("MalformedXML", "InvalidArgument")
