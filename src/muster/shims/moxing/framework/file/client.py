"""Requests to Muster's storage server; its errors become MoXing's exceptions."""

from typing import Any, Dict, Iterator, List, Optional

from .connection import answers
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
    return next(_answers(what, details)).get("value")


def ask_items(what: str, **details: Any) -> Iterator[List[Any]]:
    """Sends a request and yields the items of its answers."""
    for answer in _answers(what, details):
        yield from answer.get("items", ())


def ask_bytes(what: str, **details: Any) -> Optional[bytes]:
    """Requests the bytes of an object; None where it is too large to come over the socket."""
    found = [answer["data"] for answer in _answers(what, details) if "data" in answer]
    return bytes(found[0]) if found else None


def _answers(what: str, details: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """Sends a request and yields its answers. Raises the exception for an error."""
    request = {"do": what, "details": details, **({"auth": dict(_auth)} if _auth else {})}
    for answer in answers(request):
        if answer.get("error") is not None:
            raise _exception(answer["error"])
        yield answer


def _exception(error: Dict[str, Any]) -> Exception:
    kind, text = error["kind"], error["text"]
    if kind == "system":
        return OSError(error["number"], text)
    if kind in _SYSTEM:
        return _SYSTEM[kind](text)
    return _KINDS.get(kind, MoxFileRespException)(text, error.get("status"))
