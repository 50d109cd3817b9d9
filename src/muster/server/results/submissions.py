"""Taking in a bundle that has arrived whole: sums, replays, the plan, the judge's finding, and the verdict."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.server.core.database import Database
from muster.server.core.layout import Place
from muster.server.results.entry import Entry, clean, columns
from muster.server.results.plans import Plans
from muster.server.results.results import Refusal, Results
from muster.server.results.uploads import Limits, Upload, Uploads
from muster.server.results.verify_pool import Finding, Judges
from muster.tester.errors import Denied
from muster.tester.plan import Plan
from muster.tester.sums import sha256
from muster.tester.verdict import Verdict

REPLAYED, BAD = 409, 422
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
SHOWN = 20  # problems that a verdict tells


class Refused(Exception):
    """Why a bundle is not taken in, with the HTTP status that says which kind of reason it is."""

    def __init__(self, status: int, *problems: str, bench: str | None = None) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = list(problems)
        self.bench = bench


class Intake:
    def __init__(self, place: Place, database: Database, judges: Judges, limits: Limits, signers: Path | None) -> None:
        self._place = place
        self._database = database
        self._judges = judges
        self._limits = limits
        self._signers = signers
        self.uploads = Uploads(place, database, limits)
        self.results = Results(database)
        self.plans = Plans(database)

    def earlier(self, sha256: str, submitter: str) -> Verdict | None:
        """The verdict on the same bytes, if this submitter sent them before: an acknowledgement may have been lost."""
        entry = self.results.of_sum(sha256)
        return verdict_of(entry) if entry and entry.submitter == submitter else None

    def finish(self, upload: Upload) -> tuple[int, Verdict]:
        """The verdict on an upload, with its HTTP status; the upload is gone afterwards."""
        with self.uploads.locked(upload) as path:
            length = path.stat().st_size
            if length != upload.size:
                raise Denied(409, f"{length:,} of {upload.size:,} bytes have arrived; send the others first", offset=length)
            try:
                status, verdict = 200, self._judge(upload, path)
            except Refused as refused:
                status, verdict = refused.status, self._refuse(upload, refused)
            self.uploads.forget(upload)
            return status, verdict

    def _judge(self, upload: Upload, path: Path) -> Verdict:
        if sha256(path) != upload.sha256:
            raise Refused(BAD, "the bytes that arrived do not have the announced SHA-256 sum; send the bundle again")
        if known := self.earlier(upload.sha256, upload.submitter):
            return known
        finding = self._judges.verify(path, self._signers, self._limits.unpacked)
        bench, result = self._trusted(finding)
        try:
            plan = self._plan(upload, bench)
            return self._replayed(upload, bench) or self._keep(upload, path, finding, bench, result, plan)
        except Refused as refused:
            refused.bench = str(bench["id"])
            raise

    def _trusted(self, finding: Finding) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The contents of a bundle that is consistent, and signed by somebody known where that is asked for."""
        named = _name((finding.bench or {}).get("id"))
        if finding.signature == "bad":
            raise Refused(BAD, "its signature does not belong to it: somebody changed it or forged the signature", bench=named)
        if not finding.passed or finding.bench is None or finding.result is None:
            raise Refused(BAD, *(finding.problems or ["it is not a bundle"]), bench=named)
        runs = finding.bench.get("runs")
        if named is None or not isinstance(runs, list) or not all(map(_name, runs)):
            raise Refused(BAD, "the ids of the benchmark and its runs are not such as Muster makes", bench=named)
        if not (_sayable(finding.bench) and _sayable(finding.result)):
            raise Refused(BAD, "it holds half letters, which nobody can show and Muster never writes", bench=named)
        if self._signers and finding.signature != "good":
            what = "is not signed" if finding.signature == "none" else "is signed by a key that this tester does not trust"
            raise Refused(BAD, f"it {what}; this tester takes those of known signers alone: `muster bench --sign`", bench=named)
        return finding.bench, finding.result

    def _plan(self, upload: Upload, bench: Mapping[str, Any]) -> Plan | None:
        """The plan that the bundle answers; one that was measured without a plan may be sent to any."""
        made_for: Mapping[str, Any] = bench["plan"] if isinstance(bench.get("plan"), dict) else {}
        test_id = upload.test_id or _name(made_for.get("test_id"))
        if test_id is None:
            return None
        plan = self.plans.find(test_id)
        if plan is None:
            raise Refused(BAD, f"this tester has no plan `{test_id}`; send it with the test id of one that it has")
        if made_for and made_for.get("test_id") != test_id:
            raise Refused(BAD, f"it was measured for the plan `{made_for.get('test_id')}` and sent to `{test_id}`")
        if made_for and made_for != vars(plan):
            changed = ", ".join(name for name, value in vars(plan).items() if made_for.get(name) != value)
            raise Refused(BAD, f"its plan `{test_id}` differs from the tester's in {changed or 'its keys'}; measure again")
        return plan

    def _replayed(self, upload: Upload, bench: Mapping[str, Any]) -> Verdict | None:
        """Refuses what is another's or another result's; the same bytes of the same submitter get their verdict again."""
        if known := self.earlier(upload.sha256, upload.submitter):
            return known
        same = self.results.of_sum(upload.sha256)
        if same:
            raise Refused(REPLAYED, f"another submitter sent this bundle before, as result {same.number}")
        other = self.results.of_bench(bench["id"])
        if other:
            raise Refused(REPLAYED, f"result {other.number} is of the benchmark {bench['id']} already, with other content")
        if replayed := self.results.of_runs(bench["runs"]):
            raise Refused(REPLAYED, f"its run {replayed[0]} came with result {replayed[1]} already; a run counts once")
        return None

    def _keep(
        self,
        upload: Upload,
        path: Path,
        finding: Finding,
        bench: Mapping[str, Any],
        result: Mapping[str, Any],
        plan: Plan | None,
    ) -> Verdict:
        entry = {
            "bench": bench["id"],
            "sha256": upload.sha256,
            "size": upload.size,
            "submitter": upload.submitter,
            "received": time.time(),
            "signature": finding.signature,
            "signed_by": finding.signed_by,
            **columns(result, plan),
        }
        try:
            with self._database.writing() as connection:
                number = self.results.add(connection, entry, result, bench)
                _move(path, self._place.bundle(upload.sha256))
        except sqlite3.IntegrityError:  # the same arrived twice at the same moment
            if known := self._replayed(upload, bench):
                return known
            raise Refused(REPLAYED, "it names one run twice; a run counts once") from None
        return verdict_of(Entry(number=number, **entry))

    def _refuse(self, upload: Upload, refused: Refused) -> Verdict:
        more = len(refused.problems) - SHOWN
        problems = [clean(problem) for problem in refused.problems[:SHOWN]] + ([f"and {more:,} more"] if more > 0 else [])
        self.results.refuse(Refusal(upload.submitter, time.time(), upload.sha256, refused.bench, upload.test_id, problems))
        return Verdict(False, problems, refused.bench)


def verdict_of(entry: Entry) -> Verdict:
    return Verdict(
        accepted=True,
        bench=entry.bench,
        number=entry.number,
        page=f"/results/{entry.number}",
        passed=entry.passed,
        metric=entry.metric,
        value=entry.value,
        unit=entry.unit,
        signature=entry.signature,
        signed_by=entry.signed_by,
    )


def _name(value: object) -> str | None:
    """An id that can stand in an address and in the name of a file."""
    return value if isinstance(value, str) and ID.fullmatch(value) else None


def _sayable(content: Mapping[str, Any]) -> bool:
    """Whether all of it can be shown; JSON can hold halves of letters."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
        return True
    except UnicodeEncodeError:
        return False


def _move(path: Path, target: Path) -> None:
    """Gives a bundle its place for good, before the database says that it is there."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    os.rename(path, target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
