"""A server as a program sees it: `muster.connect(URL)` has what `muster` itself has for this machine."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from muster import config
from muster.client import choice, code
from muster.client.profiles import DEFAULT, Profile
from muster.client.runs import RemoteRun
from muster.client.server import Rejected
from muster.client.server import connect as open_client
from muster.client.submission import Submission, prepare
from muster.job.load import Source
from muster.job.source import JobError
from muster.launch.names import RunNotFound
from muster.records.layout import home

NOT_FOUND = 404
OF_CODE = ("code", "boot")  # fields that cannot be judged before the code is there


class Server:
    """The runs of a server, with the rights of one login."""

    def __init__(self, profile: Profile, timeout: float | None = None) -> None:
        self.profile = profile
        self.home = home()
        self.client = open_client(profile, timeout)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Server {self.profile.url} as {self.profile.user}>"

    @property
    def option(self) -> str:
        """What commands need to mean this server: nothing where the settings name it."""
        if config.server(self.home) in (self.profile.name, self.profile.url):
            return ""
        return " --server" if self.profile.name == "default" else f" --server={self.profile.name}"

    def close(self) -> None:
        self.client.close()

    def run(self, job: Source, *, set: Sequence[str] = (), project: str | None = None, pool: str | None = None) -> RemoteRun:
        """Starts a run, which goes on when this program ends. Raises JobError."""
        submission = prepare(job, set, self.home)
        return self.start(submission, self.upload(submission, project, pool), project, pool)

    def upload(
        self,
        submission: Submission,
        project: str | None = None,
        pool: str | None = None,
        progress: code.Progress = lambda sent, total: None,
    ) -> str | None:
        """Uploads what the server lacks of the code; returns its digest, None for code that is in a store.

        Raises JobError before that for what the server refuses whatever the code is.
        """

        def refuse() -> None:
            try:
                self.check(submission, None, project, pool)
            except JobError as error:
                if others := [problem for problem in error.problems if problem.field not in OF_CODE]:
                    raise JobError(others) from None

        return None if submission.code is None else code.upload(self.client, submission.code, refuse, progress)

    def start(self, submission: Submission, code: str | None, project: str | None = None, pool: str | None = None) -> RemoteRun:
        """Starts a run of uploaded code; it is started once, also where the connection breaks. Raises JobError."""
        body = submission.body(code, project, pool)
        with submission.mistakes():
            return RemoteRun(self, self.client.post_once(secrets.token_hex(16), "runs", **body))

    def check(
        self, submission: Submission, code: str | None, project: str | None = None, pool: str | None = None
    ) -> dict[str, Any]:
        """What the server says of a job without starting it. Raises JobError."""
        with submission.mistakes():
            answer: dict[str, Any] = self.client.post("runs", "check", **submission.body(code, project, pool))
        return answer

    def rerun(self, run: str, sets: Iterable[str], known: Mapping[str, str], **others: str | None) -> RemoteRun:
        body = {"set": list(sets), "secrets": dict(known), **others}
        return RemoteRun(self, self.client.post_once(secrets.token_hex(16), "runs", run, "rerun", **body))

    def get(self, name: str) -> RemoteRun:
        """The run of an id, of a unique beginning of one, or the `last` one. Raises RunNotFound."""
        try:
            return RemoteRun(self, self.client.get("runs", name))
        except Rejected as error:
            if error.status != NOT_FOUND:
                raise
            raise RunNotFound(f"no run is called `{name}` at {self.profile.url}; `muster ps{self.option}` lists them") from None

    def runs(self, **filters: Any) -> Iterator[RemoteRun]:
        """The runs, the newest first. `filters` are those of the API: state, user, project, pool, name."""
        for data in self.client.items("runs", **filters):
            yield RemoteRun(self, data)

    def list_runs(self) -> list[RemoteRun]:
        """All runs of this user, the newest first."""
        return list(self.runs(user=self.profile.user))


def connect(server: str = DEFAULT) -> Server:
    """Returns the server of an address or a profile, at which `muster login` has logged in. Raises Misused."""
    return Server(choice.choose(Path(home()), server))
