"""The contents of a verified bundle that the tester uses. Contents that it does not accept raise Refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.server.results.verify_worker import Verification

REPLAYED, INVALID = 409, 422  # HTTP status
NOT_UNICODE = "it contains invalid Unicode (lone surrogates), which cannot be shown and Muster never writes"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Refused(Exception):
    """Reasons not to accept a bundle, with the HTTP status for their kind."""

    def __init__(self, status: int, *problems: str, bench: str | None = None) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = list(problems)
        self.bench = bench


@dataclass(frozen=True)
class BundleContents:
    bench: str  # the id of the benchmark
    runs: tuple[str, ...]
    plan: Mapping[str, Any]  # as the bundle has it; empty where it was measured without
    system: Any  # the submitter's description of the system under test
    result: Mapping[str, Any]
    signature: str
    signed_by: str | None

    @classmethod
    def from_verification(cls, found: Verification) -> BundleContents:
        """Raises Refused for a bundle that is inconsistent or forged, or has ids that Muster does not make."""
        bench = found.bench or {}
        id = valid_id(bench.get("id"))
        if found.signature == "bad":
            raise Refused(INVALID, "its signature does not belong to it: somebody changed it or forged the signature", bench=id)
        if not found.passed or found.bench is None or found.result is None:
            raise Refused(INVALID, *(found.problems or ["it is not a bundle"]), bench=id)
        runs = bench.get("runs")
        if id is None or not isinstance(runs, list) or not all(map(valid_id, runs)):
            raise Refused(INVALID, "the ids of the benchmark and its runs are not such as Muster makes", bench=id)
        if not _is_unicode(bench):
            raise Refused(INVALID, NOT_UNICODE, bench=id)
        plan = bench["plan"] if isinstance(bench.get("plan"), dict) else {}
        result = check_result(found.result, id)
        return cls(id, tuple(runs), plan, bench.get("system"), result, found.signature, found.signed_by)


def check_result(result: Mapping[str, Any], bench: str) -> Mapping[str, Any]:
    """Returns the result of a bundle; raises Refused where it is not valid."""
    if not _is_unicode(result):
        raise Refused(INVALID, NOT_UNICODE, bench=bench)
    return result


def valid_id(value: object) -> str | None:
    """Returns an id that fits into a URL and a file name, else None."""
    return value if isinstance(value, str) and ID.fullmatch(value) else None


def _is_unicode(content: Mapping[str, Any]) -> bool:
    """Whether all texts can be encoded; JSON can hold lone surrogates."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
        return True
    except UnicodeEncodeError:
        return False
