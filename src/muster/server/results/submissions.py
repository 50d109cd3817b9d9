"""Submissions: a bundle that has arrived is checked for replays, verified, matched with its plan, and accepted or refused."""

import hashlib
import time
from pathlib import Path

from sqlalchemy.exc import IntegrityError

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.database import Database
from muster.server.results.layout import BundleFolder, move_durably
from muster.server.results.plans import Plans
from muster.server.results.result_row import INVALID, REPLAYED, BundleContents, Refused, ResultRow, storable, valid_id
from muster.server.results.results import Refusal, Results
from muster.server.results.uploads import Limits, Upload, Uploads
from muster.server.results.verify_pool import VerifyPool
from muster.tester.errors import Denied
from muster.tester.protocol import Plan, Verdict

MAX_PROBLEMS = 20  # in a verdict


class Submissions:
    def __init__(self, files: BundleFolder, database: Database, pool: VerifyPool, limits: Limits, signers: Path | None) -> None:
        self._files = files
        self._database = database
        self._pool = pool
        self._limits = limits
        self._signers = signers
        self.uploads = Uploads(files, database, limits)
        self.results = Results(database)
        self.plans = Plans(database)

    def earlier_verdict(self, sha256: str, submitter: str) -> Verdict | None:
        """Returns the verdict on the same bytes of the same submitter, whose first response may have been lost."""
        row = self.results.by_sha256(sha256)
        return row.verdict() if row and row.submitter == submitter else None

    def finish(self, upload: Upload, caller: Caller) -> tuple[int, Verdict]:
        """Decides on an upload that has arrived, and removes it; returns the HTTP status of the response and the verdict."""
        with self.uploads.locked(upload) as path:
            length = path.stat().st_size
            if length != upload.size:
                raise Denied(409, f"{length:,} of {upload.size:,} bytes have arrived; send the others first", offset=length)
            try:
                decision = 200, self._accept(upload, caller, path)
            except Refused as refused:
                decision = refused.status, self._refuse(upload, refused)
            self.uploads.forget(upload)
            return decision

    def _accept(self, upload: Upload, caller: Caller, path: Path) -> Verdict:
        """Verifies and stores a bundle; raises Refused."""
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != upload.sha256:
                raise Refused(INVALID, "the bytes that arrived do not have the announced SHA-256 sum; send the bundle again")
        if known := self.earlier_verdict(upload.sha256, upload.submitter):
            return known
        contents = BundleContents.from_verification(self._pool.verify(path, self._signers, self._limits.unpacked))
        try:
            self._check_signature(contents)
            plan = self._plan(upload, contents)
            return self._replayed(upload, contents) or self._store(upload, caller, path, contents, plan)
        except Refused as refused:
            refused.bench = contents.bench.id
            raise

    def _check_signature(self, contents: BundleContents) -> None:
        if self._signers and contents.signature != "good":
            state = "is not signed" if contents.signature == "none" else "is signed by a key that this tester does not trust"
            raise Refused(INVALID, f"it {state}; this tester takes those of known signers alone: `muster bench --sign`")

    def _plan(self, upload: Upload, contents: BundleContents) -> Plan | None:
        """Returns the plan that the bundle answers; one that was measured without a plan may be sent to any."""
        measured_for = contents.bench.plan or {}
        test_id = upload.test_id or valid_id(measured_for.get("test_id"))
        if test_id is None:
            return None
        plan = self.plans.find(test_id)
        if plan is None:
            raise Refused(INVALID, f"this tester has no plan `{test_id}`; send it with the test id of one that it has")
        if measured_for and measured_for.get("test_id") != test_id:
            raise Refused(INVALID, f"it was measured for the plan `{measured_for.get('test_id')}` and sent to `{test_id}`")
        if measured_for and measured_for != plan.to_json():
            changed = ", ".join(name for name, value in plan.to_json().items() if measured_for.get(name) != value)
            raise Refused(INVALID, f"its plan `{test_id}` differs from the tester's in {changed or 'its keys'}; measure again")
        return plan

    def _replayed(self, upload: Upload, contents: BundleContents) -> Verdict | None:
        """Returns the earlier verdict on the same bytes of the same submitter; raises Refused for any other replay."""
        if known := self.earlier_verdict(upload.sha256, upload.submitter):
            return known
        if same := self.results.by_sha256(upload.sha256):
            raise Refused(REPLAYED, f"another submitter sent this bundle before, as result {same.number}")
        if other := self.results.by_bench(contents.bench.id):
            raise Refused(REPLAYED, f"result {other.number} is of the benchmark {other.bench} already, with other content")
        if stored := self.results.known_run(contents.bench.runs):
            raise Refused(REPLAYED, f"its run {stored.run} came with result {stored.number} already; a run counts once")
        return None

    def _store(self, upload: Upload, caller: Caller, path: Path, contents: BundleContents, plan: Plan | None) -> Verdict:
        row = ResultRow.from_bundle(upload, time.time(), contents, plan)
        try:
            with self._database.begin() as connection:
                stored = self.results.add(connection, upload.user, row, contents)
                about = {"bench": row.bench, "sha256": upload.sha256, "plan": plan.test_id if plan else None}
                audit.record(connection, caller, "result.accept", str(stored.number), after=about)
                move_durably(path, self._files.bundle(upload.sha256))
        except IntegrityError:  # the same bundle arrived twice at the same moment
            if known := self._replayed(upload, contents):
                return known
            raise Refused(REPLAYED, "it names one run twice; a run counts once") from None
        return stored.verdict()

    def _refuse(self, upload: Upload, refused: Refused) -> Verdict:
        more = len(refused.problems) - MAX_PROBLEMS
        problems = [storable(problem) for problem in refused.problems[:MAX_PROBLEMS]]
        problems += [f"and {more:,} more"] if more > 0 else []
        refusal = Refusal(upload.submitter, time.time(), upload.sha256, refused.bench, upload.test_id, problems)
        self.results.refuse(upload.user, refusal)
        return Verdict(False, problems, refused.bench)
