"""The thread that creates the job of an attempt exactly once, looks at it, stops it, and brings what comes back.

The supervisor reads its attributes and is woken when one of them changes. Only this thread speaks to the service.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from contextlib import suppress
from typing import Callable, TypeVar

from muster.engines.modelarts.node import records, request, stored_record, transfers
from muster.engines.modelarts.node.account import AccountError
from muster.engines.modelarts.node.client import Client, KeysRefused, NoSdk, Refused, ServiceError, Unanswered
from muster.engines.modelarts.node.jobs import DUPLICATE, NO_JOB, JobId, Jobs
from muster.engines.modelarts.node.journal import Journal
from muster.engines.modelarts.node.log_lines import LogLines
from muster.engines.modelarts.node.shown import LOST, QUEUED, Shown
from muster.engines.modelarts.node.stored_record import StoredRecord
from muster.engines.modelarts.node.transfers import Transfers
from muster.job import Job
from muster.records.files import file_size
from muster.records.layout import AttemptDir
from muster.storage import StorageError
from muster.storage.errors import Unreachable

T = TypeVar("T")
LONGEST_PAUSE = 60.0  # between two tries of what does not work
KEYS_LIMIT = 600.0  # for keys that are refused to be put right
OUTPUTS_EVERY = 30.0  # as often as the service uploads them
STOP_AGAIN = 30.0  # after which a job that was told to stop is told again
LOGS_LIMIT, STOPPED_LOGS = 600.0, 30.0  # seconds for logs of a job that has ended to be readable; of one that was stopped
LAST_LOGS = 5  # looks at the logs of a job that has ended, as long as they bring something
RECORD = -1  # in the place of a node, the record that Muster's agent writes
SETTLING = 3  # looks for a job whose creation was not answered, before it counts as not created


class Withdrawn(Exception):
    """The run ended before its job was created."""


class Hopeless(Exception):
    """Why there cannot be a job."""


class Leave(Exception):
    """Why this supervisor cannot go on, which says nothing about the job."""


class Watcher(threading.Thread):
    def __init__(
        self, job: Job, run_id: str, attempt: int, client: Client, jobs: Jobs, journal: Journal, code: Transfers
    ) -> None:
        super().__init__(name="modelarts", daemon=True)
        self.shown: Shown | None = None
        self.reason = ""  # why nothing runs yet, or what is in the way
        self.refused = ""  # why there will be no job
        self.leaves = ""  # why this supervisor cannot go on
        self.hosts: dict[int, dict[str, str]] = {}
        self.left = ""  # what of the outputs stays in the store
        self.unsaved = ""  # why outputs are not where the job wants them
        self.record: StoredRecord | None = None  # of a job that runs Muster's agent
        self.over = False  # whether the thread has done all it does
        self.woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._job, self._run_id, self._number = job, run_id, attempt
        self._client, self._jobs, self._journal, self._transfers = client, jobs, journal, code
        self._every = client.account.every
        self._places = request.Places()
        self._id: JobId | None = None
        self._attempt: AttemptDir | None = None
        self._logs: dict[int, LogLines] = {}
        self._missing: dict[int, str] = {}  # nodes whose logs could not be read just now, and why
        self._stopping = threading.Event()
        self._given_up = threading.Event()
        self._changed = threading.Event()
        self._told = 0.0  # when the job was last told to stop
        self._fetched = 0.0

    # -- called by the supervisor

    @property
    def is_blind(self) -> bool:
        """True while a job that runs, or its logs, cannot be looked at."""
        return bool(self.reason or self._missing)

    def begin(self, attempt: AttemptDir) -> None:
        """The attempt has begun: its logs and outputs are brought."""
        self._attempt = attempt
        self._changed.set()

    def terminate(self) -> None:
        self._stopping.set()
        self._changed.set()

    def give_up(self) -> None:
        """Ends the thread, whatever the job does."""
        self._given_up.set()
        self._changed.set()

    def close(self) -> None:
        """Gives back what the ended thread held."""
        self.join()
        for descriptor in (self.woken, self._wake):
            os.close(descriptor)

    # -- the thread

    def run(self) -> None:
        try:
            self._create()
            self._follow()
        except Hopeless as error:
            self.refused = str(error)
        except Withdrawn:
            pass
        except Leave as error:
            self.leaves = str(error)
        except BaseException as error:
            traceback.print_exc()
            self.leaves = f"{type(error).__name__}: {error}"
        finally:
            if not self.leaves:
                with suppress(StorageError, OSError):
                    self._transfers.withdraw(self._places)
            self.over = True
            self._tell()

    def _tell(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._wake, b".")

    def _say(self, reason: str) -> None:
        if reason != self.reason:
            self.reason = reason
            self._tell()

    def _pause(self, seconds: float) -> None:
        """Waits, but not while something changes. Raises Leave."""
        self._changed.wait(max(0.01, min(seconds, LONGEST_PAUSE * 5)))
        self._changed.clear()
        if self._given_up.is_set():
            raise Leave("it was ended")

    def _patiently(self, what: str, call: Callable[[], T]) -> T:
        """Does something until it works. Raises Refused, Hopeless, Leave; Withdrawn where the run ends before a creation."""
        pause, refused_since = min(1.0, self._every), 0.0
        while True:
            try:
                found = call()
                if self.reason.startswith(what):
                    self._say("")
                return found
            except Unanswered as error:
                self._say(f"{what}: it does not answer ({error}); it is asked again")
                wait = max(pause, error.after)
            except NoSdk as error:
                raise Hopeless(str(error)) from None
            except KeysRefused as error:
                refused_since = refused_since or time.monotonic()
                self._renew(what, error, time.monotonic() - refused_since)
                wait = pause
            except Unreachable as error:
                self._say(f"{what}: {error}; it is tried again")
                wait = pause
            if self._stopping.is_set() and not self._journal.name(self._number):
                raise Withdrawn
            self._pause(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _renew(self, what: str, error: KeysRefused, since: float) -> None:
        """Reads the keys again, or waits for them. Raises Leave, and Hopeless where nothing was created."""
        self._say(f"{what}: the keys are refused ({error})")
        with suppress(AccountError):
            self._client.renew()
        if self._client.account.keys and since < KEYS_LIMIT:
            return
        if not self._journal.name(self._number):
            raise Hopeless(f"ModelArts refuses the keys: {error}; check those below [modelarts] in config.toml")
        if since >= KEYS_LIMIT:
            raise Leave(f"ModelArts refuses the keys: {error}; put others below [modelarts], then `muster reconcile` goes on")

    # -- creating

    def _create(self) -> None:
        name = request.service_name(self._run_id, self._number)
        try:
            data = transfers.digests(self._job)
        except OSError as error:
            raise Hopeless(f"{error.filename} cannot be read: {error.strerror}; its job may go on in ModelArts") from None
        code, archive = os.path.basename(self._transfers.code), self._transfers.archive
        self._places = request.places(self._job, self._run_id, code, data, self._number, archive)
        self._id = self._journal.job(self._number)
        if self._id is not None:
            return
        tried = bool(self._journal.name(self._number))
        if not tried:
            self._prepare(name)
        self._id = self._created(name, tried)
        self._journal.note(self._number, self._id)

    def _prepare(self, name: str) -> None:
        """Puts code and data into the store, and notes that the job will be created."""
        self._say("uploading code and data")
        try:
            self._patiently("the store", lambda: self._transfers.upload(self._places))
            before = self._patiently("the store", lambda: self._transfers.note(self._places))
        except (StorageError, OSError) as error:
            raise Hopeless(f"code and data cannot be uploaded: {error}") from None
        if self._stopping.is_set():
            raise Withdrawn
        self._journal.intend(self._number, request.version(self._job), name, time.time(), before)

    def _created(self, name: str, tried: bool) -> JobId:
        """Creates the job, or finds the one that an unanswered request has created. Raises Hopeless, Withdrawn."""
        body = request.body(self._job, self._run_id, self._number, self._places)
        found = self._found(name) if tried else []
        pause = min(1.0, self._every)
        while not found:
            if self._stopping.is_set():
                found = self._settled(name) if tried else []
                if not found:
                    raise Withdrawn
                break
            try:
                self._say("creating the job in ModelArts")
                found = [self._jobs.create(body)]
            except Unanswered as error:
                tried = True
                self._say(f"ModelArts: the creation of the job was not answered ({error}); it is looked for")
                self._pause(max(pause, error.after))
                pause = min(2 * pause, LONGEST_PAUSE)
                found = self._found(name)
            except KeysRefused as error:
                self._refused_to_create(error)
            except Refused as error:
                found = self._found(name) if tried or error.code == DUPLICATE else []
                if not found:
                    raise Hopeless(f"ModelArts refuses the job: {error}") from None
        for double in found[1:]:  # both of two requests were carried out
            with suppress(Refused):
                self._patiently("ModelArts", lambda double=double: self._jobs.stop(double))  # type: ignore[misc]
        return found[0]

    def _refused_to_create(self, error: KeysRefused) -> None:
        if not self._client.account.keys:
            raise Hopeless(f"ModelArts refuses the keys: {error}; check those below [modelarts] in config.toml") from None
        with suppress(AccountError):
            self._client.renew()
        self._say(f"ModelArts: the keys are refused ({error})")
        self._pause(self._every)

    def _found(self, name: str) -> list[JobId]:
        return self._patiently("ModelArts", lambda: self._jobs.find(name))

    def _settled(self, name: str) -> list[JobId]:
        """The job of a request that was not answered, which may still be on its way."""
        for _ in range(SETTLING):
            if found := self._found(name):
                return found
            time.sleep(min(self._every, 2.0))
        return []

    # -- following

    def _follow(self) -> None:
        assert self._id is not None
        while True:
            self._look(self._id)
            assert self.shown is not None
            if self._attempt is not None and self.shown.state != QUEUED:
                self._bring(self._attempt, self._id)
            if self.shown.over and (self._attempt is not None or self._stopping.is_set()):
                if self._attempt is not None:
                    self._finish(self._attempt, self._id)
                return
            if self._stopping.is_set() and not self.shown.over:
                self._end(self._id)
            self._pause(self._every)

    def _look(self, job: JobId) -> None:
        try:
            found = self._patiently("ModelArts", lambda: self._jobs.show(job))
        except Refused as error:
            if error.code != NO_JOB:
                raise Leave(f"ModelArts does not show the job: {error}") from None
            found = Shown(LOST, "it was deleted in ModelArts", "it was deleted in ModelArts")
        if found.state != QUEUED and not self.hosts:  # before it is shown to run: then it is noted where
            with suppress(ServiceError):
                self.hosts = self._jobs.hosts(job)
        before, self.shown = self.shown, found
        self._say(f"in the queue of ModelArts: {self._waits(job, found)}" if found.state == QUEUED else "")
        if before is None or before.state != found.state:
            self._tell()

    def _waits(self, job: JobId, found: Shown) -> str:
        if not found.said:
            with suppress(ServiceError):
                if said := self._jobs.waits_for(job):
                    return f"{found.words}: {said}"
        return found.words

    def _end(self, job: JobId) -> None:
        """Tells the job to stop; the service may say that it has ended meanwhile."""
        if time.monotonic() - self._told > STOP_AGAIN:
            self._told = time.monotonic()
            with suppress(Refused):
                self._patiently("ModelArts", lambda: self._jobs.stop(job))

    def _bring(self, attempt: AttemptDir, job: JobId) -> bool:
        """Brings what is new; true if lines came."""
        came = False
        for node in range(self._job.nodes):
            if node not in self._logs:
                self._logs[node] = self._log(attempt, node)
            log, sized, failed = self._logs[node], file_size(self._log_path(attempt, node)), ""
            try:
                while log.bring(lambda place, node=node: self._jobs.page(job, node, place)):  # type: ignore[misc]
                    if self._changed.is_set() and not (self.shown and self.shown.over):
                        break  # such as a stop, which must not wait for a long log
            except Refused:  # there is no log yet
                pass
            except ServiceError as error:  # it is asked for again
                failed = str(error)
            if failed:
                self._missing[node] = failed
            else:
                self._missing.pop(node, None)
            came = came or file_size(self._log_path(attempt, node)) != sized
        if time.monotonic() - self._fetched > OUTPUTS_EVERY:
            self._fetch(attempt)
        return self._take_record(attempt) or came

    def _take_record(self, attempt: AttemptDir) -> bool:
        """Takes what is new of the record that Muster's agent writes."""
        if self._places.carried is None:
            return False
        self._missing.pop(RECORD, None)
        try:
            url = self._places.carried.record
            self.record = self.record or stored_record.of_attempt(attempt, self._job, url, self._journal)
            with self._transfers.storage() as storage:
                came = self.record.take(storage)
        except (StorageError, OSError) as error:
            self._missing[RECORD] = str(error)
            return False
        if came:
            self._tell()
        return came

    def _log(self, attempt: AttemptDir, node: int) -> LogLines:
        place, before = self._journal.place(self._number, node)

        def move(place: str, lines: int) -> None:
            self._journal.move(self._number, node, place, lines)

        return LogLines(self._log_path(attempt, node), place, before, move)

    def _log_path(self, attempt: AttemptDir, node: int) -> str:
        if self._places.carried is not None:
            return attempt.node(node).service_log
        return attempt.node(node).log(records.process_of(self._job, node))

    def _fetch(self, attempt: AttemptDir) -> None:
        self._fetched = time.monotonic()
        if self._places.outputs:
            try:
                self.left = "; ".join(self._transfers.fetch(attempt, self._places, self._journal.created(self._number)))
            except (StorageError, OSError) as error:
                self.left = f"the outputs could not be brought: {error}"

    def _finish(self, attempt: AttemptDir, job: JobId) -> None:
        """Brings what is left, once the job has ended."""
        looks, deadline = 0, time.monotonic() + (STOPPED_LOGS if self._stopping.is_set() else LOGS_LIMIT)
        while self._bring(attempt, job) or self._missing or (self.record and not self.record.over):
            looks += 1
            if self.record and self.record.more:
                looks = 0
                continue
            if time.monotonic() > deadline or (looks >= LAST_LOGS and not self._missing):
                break
            self._pause(min(self._every, 2.0))
        for log in self._logs.values():
            log.finish()
        self._fetch(attempt)
        if self._missing:
            node, why = next(iter(self._missing.items()))
            what = "its record" if node == RECORD else f"the log of node {node}"
            self.left = "; ".join(filter(None, [self.left, f"{what} could not be brought to its end: {why}"]))
        if self.record is not None:
            self.left = "; ".join(filter(None, [self.left, self.record.lacking()]))
            self.record.close()
        self.unsaved = self._transfers.fetch_local(self._places)
        try:
            self._transfers.harvest(attempt, self._places, self._journal.before(self._number))
        except (StorageError, OSError) as error:
            self.left = "; ".join(filter(None, [self.left, f"result files could not be brought: {error}"]))
