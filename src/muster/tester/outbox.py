"""The outbox: bundles that are kept under MUSTER_HOME until the tester has acknowledged them, so that no result is lost."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.records.files import read_json, write_json
from muster.tester.errors import Misused, Unreachable
from muster.tester.protocol import Verdict

if TYPE_CHECKING:
    from muster.tester.client import Client


@dataclass(frozen=True)
class WaitingBundle:
    """A bundle in the outbox. Its note, a JSON file beside it, says where it goes."""

    path: Path
    tester: str
    test_id: str | None
    since: float

    @property
    def note(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def to_json(self) -> dict[str, Any]:
        return {"tester": self.tester, "test_id": self.test_id, "since": self.since}


class Outbox:
    def __init__(self, home: Path) -> None:
        self.folder = home / "outbox"

    def put(self, path: Path, tester: str, test_id: str | None) -> WaitingBundle:
        """Keeps a copy of a bundle."""
        return self.fill(lambda target: shutil.copyfile(path, target), path.name, tester, test_id)

    def fill(self, write: Callable[[Path], object], name: str, tester: str, test_id: str | None) -> WaitingBundle:
        """Keeps a bundle that `write` makes. The note is written last: from then on the bundle waits."""
        kept = self.folder / f"{secrets.token_hex(4)}-{name}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(kept)
            kept.chmod(0o600)
        except BaseException as error:
            with suppress(OSError):
                kept.unlink()  # half of a bundle is of no use
            if not isinstance(error, OSError):
                raise
            reason = str(error.strerror).lower()
            raise Misused(f"{name} cannot be read and kept in {self.folder}: {reason}; check both") from None
        waiting = WaitingBundle(kept, tester, test_id, time.time())
        write_json(str(waiting.note), waiting.to_json())
        return waiting

    def all(self) -> list[WaitingBundle]:
        """All bundles that wait, the oldest first."""
        notes = self.folder.glob("*.json") if self.folder.is_dir() else []
        read = [(note.with_suffix(""), read_json(str(note))) for note in notes]
        known = [(path, data) for path, data in read if isinstance(data, dict) and path.is_file()]
        waiting = (WaitingBundle(path, data["tester"], data["test_id"], data["since"]) for path, data in known)
        return sorted(waiting, key=lambda bundle: bundle.since)

    def deliver(self, waiting: WaitingBundle, client: Client) -> Verdict:
        """Sends a bundle and deletes it once there is a verdict; otherwise it stays, and the error says where."""
        try:
            verdict = client.send(waiting.path, waiting.test_id)
        except (Misused, Unreachable) as error:
            kept = f"the bundle is kept in {waiting.path}: `muster tester outbox --send` sends it later"
            raise type(error)(f"{error}; {kept}") from None
        waiting.note.unlink(missing_ok=True)
        waiting.path.unlink(missing_ok=True)
        return verdict
