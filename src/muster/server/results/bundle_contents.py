"""The contents of a verified bundle that the tester uses. Contents that it does not accept raise Refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from muster.bench.errors import ResultError
from muster.bench.model.result import BenchRecord, Result
from muster.server.results.verify_worker import Verification

REPLAYED, INVALID = 409, 422  # HTTP status
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
    bench: BenchRecord
    result: Result
    signature: str
    signed_by: str | None

    @classmethod
    def from_verification(cls, found: Verification) -> BundleContents:
        """Raises Refused for a bundle that is inconsistent or forged, or has ids that Muster does not make."""
        id = valid_id((found.bench or {}).get("id"))
        if found.signature == "bad":
            raise Refused(INVALID, "its signature does not belong to it: somebody changed it or forged the signature", bench=id)
        if not found.passed or found.bench is None or found.result is None:
            raise Refused(INVALID, *(found.problems or ["it is not a bundle"]), bench=id)
        try:
            bench, result = BenchRecord.from_json(found.bench), Result.from_json(found.result)
        except ResultError as error:
            raise Refused(INVALID, str(error), bench=id) from None
        if id is None or not all(map(valid_id, bench.runs)):
            raise Refused(INVALID, "the ids of the benchmark and its runs are not such as Muster makes", bench=id)
        return cls(bench, result, found.signature, found.signed_by)


def valid_id(value: object) -> str | None:
    """Returns an id that fits into a URL and a file name, else None."""
    return value if isinstance(value, str) and ID.fullmatch(value) else None
