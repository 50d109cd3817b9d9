"""Requests to Muster's storage server; its errors become MoXing's exceptions."""

from typing import Any, Dict, Iterator, List, Optional

from .connection import Exchange
from .errors import MoxFileNameDuplicateException, MoxFileNotExistsException, MoxFileRespException

_auth: Dict[str, Any] = {}

_KINDS = {"missing": MoxFileNotExistsException, "duplicate": MoxFileNameDuplicateException}
_SYSTEM = {"directory": IsADirectoryError, "no-directory": NotADirectoryError}


def set_auth(settings: Dict[str, Any]) -> None:
    """Keys and a server for the later requests of this process; they are kept nowhere else."""
    _auth.clear()
    _auth.update(settings)


def ask(what: str, **details: Any) -> Any:
    """Sends a request and returns the value of its answer."""
    with Exchange(_request(what, details)) as exchange:
        return _value(next(exchange.answers()))


def ask_items(what: str, **details: Any) -> Iterator[List[Any]]:
    """Sends a request and yields the items of its answers."""
    with Exchange(_request(what, details)) as exchange:
        for answer in exchange.answers():
            if "items" not in answer:
                _value(answer)
                return
            yield from answer["items"]


def ask_bytes(what: str, **details: Any) -> Optional[bytearray]:
    """Requests the bytes of an object; None where it is too large to come over the socket."""
    data = None
    with Exchange(_request(what, details)) as exchange:
        for answer in exchange.answers():
            if "bytes" in answer:
                data = exchange.bytes(answer["bytes"])
            else:
                _value(answer)
    return data


def _request(what: str, details: Dict[str, Any]) -> Dict[str, Any]:
    request = {"do": what, "details": details}
    if _auth:
        request["auth"] = dict(_auth)
    return request


def _value(answer: Dict[str, Any]) -> Any:
    error = answer.get("error")
    if error is None:
        return answer.get("value")
    kind, text = error["kind"], error["text"]
    if kind == "system":
        raise OSError(error["number"], text)
    if kind in _SYSTEM:
        raise _SYSTEM[kind](text)
    raise _KINDS.get(kind, MoxFileRespException)(text, error.get("status"))
