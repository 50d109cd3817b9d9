"""Signatures: what the SDK's own signer signs is accepted, and nothing else is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.sdk_request import SdkRequest
from huaweicloudsdkcore.signer.signer import Signer
from hypothesis import given
from hypothesis import strategies as st

from muster.server.modelarts.asking.signature import BadSignature, Signed, authenticate
from muster.shims.modelarts import signing

KEY, SECRET = "MKAAAA", "a secret"
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
SEGMENTS = st.lists(TEXT.filter(lambda text: "/" not in text and text not in (".", "..")), min_size=1, max_size=4)
QUERIES = st.dictionaries(TEXT.filter(bool), TEXT | st.integers() | st.booleans(), max_size=4)
VALUES = st.text("abcXYZ 0189;,=/äé-", max_size=12)
HEADERS = st.dictionaries(st.sampled_from(["User-Agent", "X-Project-Id", "X-Language", "Content-Type", "X-Other"]), VALUES)


def signed(method: str, path: str, query: dict[str, Any], headers: dict[str, str], body: bytes) -> Signed:
    """A request as the SDK signs and sends it."""
    request = SdkRequest(method, "https", "modelarts.example", path, "", list(query.items()), dict(headers), body)
    Signer(BasicCredentials(KEY, SECRET, "p")).sign(request)
    line, _, said = request.uri.partition("?")
    # The signer leaves values as the bytes that travel; the server reads these bytes as UTF-8.
    came = [(name.lower(), value.encode("latin-1").decode()) for name, value in request.header_params.items()]
    return Signed(method, line, said, came, body)


def plain(**changes: Any) -> Signed:
    headers = {"Content-Type": "application/json", "X-Project-Id": "p", "User-Agent": "sdk"}
    return replace_in(signed("POST", "/v2/p/training-jobs", {"a": "1"}, headers, b'{"kind": "job"}'), **changes)


def replace_in(request: Signed, **changes: Any) -> Signed:
    import dataclasses

    return dataclasses.replace(request, **changes)


def accepted(request: Signed, now: float | None = None, secret: str | None = SECRET) -> str:
    return authenticate(request, lambda key: secret if key == KEY else None, time.time() if now is None else now)


@given(st.sampled_from(["GET", "POST", "DELETE"]), SEGMENTS, QUERIES, HEADERS, st.binary(max_size=40))
def test_what_the_sdk_signs_is_accepted(
    method: str, segments: list[str], query: dict[str, Any], headers: dict[str, str], body: bytes
) -> None:
    path = "/v2/" + "/".join(quote(segment, safe="~") for segment in segments)
    assert accepted(signed(method, path, query, headers, body)) == KEY


@given(st.sampled_from(["GET", "POST", "DELETE"]), SEGMENTS, st.dictionaries(TEXT.filter(bool), TEXT, max_size=4), st.binary())
def test_what_the_old_package_signs_is_accepted(method: str, segments: list[str], query: dict[str, str], body: bytes) -> None:
    path = "/v1/" + "/".join(quote(segment, safe="~") for segment in segments)
    headers = {"Content-Type": "application/json", "X-Project-Id": "p"}
    sent = signing.signed(method, "https://modelarts.example" + path, query, headers, body, KEY, SECRET)
    came = [(name.lower(), value) for name, value in sent.items()]
    assert accepted(Signed(method, path, urlencode(query, quote_via=quote, safe="~"), came, body)) == KEY


@given(st.data())
def test_whatever_is_changed_afterwards_is_noticed(data: st.DataObject) -> None:
    request = plain()
    headers = list(request.headers)
    index = data.draw(st.integers(0, len(headers) - 1))
    other = data.draw(st.text("abc019", min_size=1, max_size=8))
    changes: dict[str, Callable[[], Signed]] = {
        "method": lambda: replace_in(request, method="PUT"),
        "path": lambda: replace_in(request, path=request.path + "/" + other),
        "query": lambda: replace_in(request, query=f"{request.query}&{other}=1"),
        "body": lambda: replace_in(request, body=request.body + other.encode()),
        "header": lambda: replace_in(
            request, headers=[(name, value + other if at == index else value) for at, (name, value) in enumerate(headers)]
        ),
        "gone": lambda: replace_in(request, headers=[one for at, one in enumerate(headers) if at != index]),
        "twice": lambda: replace_in(request, headers=[*headers, headers[index]]),
    }
    with pytest.raises(BadSignature):
        accepted(changes[data.draw(st.sampled_from(sorted(changes)))]())


def test_a_signature_is_good_for_a_quarter_of_an_hour() -> None:
    request, now = plain(), time.time()
    for moment in (now - 890, now + 890):
        assert accepted(request, moment) == KEY
    for moment in (now - 910, now + 910):
        with pytest.raises(BadSignature, match="clocks differ"):
            accepted(request, moment)


def test_a_body_may_be_left_out_of_the_signature_by_who_signs_alone() -> None:
    headers = {"Content-Type": "text/plain", "User-Agent": "sdk"}
    unsigned = signed("POST", "/v2/p/x", {}, headers, b"one")
    assert ("x-sdk-content-sha256", "UNSIGNED-PAYLOAD") in unsigned.headers
    assert accepted(replace_in(unsigned, body=b"another")) == KEY
    with pytest.raises(BadSignature):
        accepted(replace_in(unsigned, body=b""))
    with pytest.raises(BadSignature, match="is not signed"):
        accepted(plain(headers=[*plain().headers, ("x-sdk-content-sha256", "UNSIGNED-PAYLOAD")]))


@pytest.mark.parametrize(
    ("words", "secret", "said"),
    [
        ("SDK-HMAC-SHA256 Access=MKAAAA", SECRET, "SignedHeaders and Signature"),
        (None, None, "no such access key"),
        (None, "another secret", "is not that of this request"),
    ],
)
def test_what_is_wrong_is_said(words: str | None, secret: str | None, said: str) -> None:
    request = plain()
    if words:
        request = replace_in(
            request, headers=[(name, words if name == "authorization" else value) for name, value in request.headers]
        )
    with pytest.raises(BadSignature, match=said):
        accepted(request, secret=secret)


def test_temporary_keys_are_refused() -> None:
    request = signed("GET", "/v2/p/x", {}, {"X-Security-Token": "t"}, b"")
    with pytest.raises(BadSignature, match="no temporary keys"):
        accepted(request)
