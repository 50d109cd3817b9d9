"""Templates of a server, as those who run them see them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.client.runs import RemoteRun
from muster.client.submission import Submission, complete, secrets_of
from muster.dataclass import dataclass
from muster.job.load import load_text
from muster.job.source import JobError, Problem
from muster.launch.start.prepare import Say

if TYPE_CHECKING:
    from muster.client.api import Server


@dataclass(frozen=True)
class RemoteTemplate:
    """A job file that a server keeps."""

    server: Server
    id: str
    name: str
    text: str
    code: str  # the digest; "" for none

    def needs_code(self, sets: Sequence[str]) -> bool:
        """True if it has neither code of its own nor names some in a store."""
        return not self.code and "://" not in load_text(self.text, sets, Path.cwd(), self.file).job.code

    @property
    def file(self) -> str:
        """The name under which its mistakes are reported."""
        return f"{self.name}.yaml"

    def with_code_here(self, sets: Sequence[str], say: Say) -> Submission:
        """Its job as one with the code of the current directory. Raises JobError."""
        return complete(load_text(self.text, sets, Path.cwd(), self.file), self.text, sets, self.server.home, say)

    def start(self, sets: Sequence[str], project: str | None, pool: str | None) -> RemoteRun:
        """Starts a run with the code of the template; once, also where the connection breaks. Raises JobError."""
        body = self._body(sets, project, pool)
        return RemoteRun(self.server, self.server.client.post_once(secrets.token_hex(16), "runs", **body))

    def check(self, sets: Sequence[str], project: str | None, pool: str | None) -> dict[str, Any]:
        """What the server says of its job without starting it. Raises JobError."""
        answer: dict[str, Any] = self.server.client.post("runs", "check", **self._body(sets, project, pool))
        return answer

    def _body(self, sets: Sequence[str], project: str | None, pool: str | None) -> dict[str, Any]:
        job = load_text(self.text, sets, Path.cwd(), self.file).job
        known, missing = secrets_of(job, self.server.home)
        if missing:
            raise JobError([Problem(self.file, None, *finding) for finding in missing])
        return {"template": self.id, "set": list(sets), "secrets": known, "project": project, "pool": pool}


def find(server: Server, name: str, project: str | None) -> RemoteTemplate:
    """Returns the own template of a name, that of a project, or that of everybody. Raises Rejected."""
    found = server.client.get("templates", name, project=project)
    return RemoteTemplate(server, found["id"], found["name"], found["job"], found["code"])
