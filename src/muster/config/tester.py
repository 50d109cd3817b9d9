"""Settings of the tester that results are sent to: `[tester]` with its address, a token, and who vouches for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from muster.config.sections import Setting, TomlSection
from muster.dataclass import dataclass, replace
from muster.job.kinds import declared

VARIABLE = "MUSTER_TESTER_TOKEN"


@dataclass(frozen=True, repr=False)
class Tester:
    """Where results are sent, and with which token."""

    url: str | None = declared(Setting(), None, "The address of the tester.")
    token: str | None = declared(Setting(), None, "The token that it gave to this user.")
    ca: str | None = declared(Setting(), None, "The authority of its certificate.")

    def __repr__(self) -> str:
        return f"Tester(url={self.url!r}, ca={self.ca!r})"  # without the token

    def token_for(self, url: str, environment: Mapping[str, str]) -> str | None:
        """The variable's token goes where the user says; one from the settings to the tester of the settings alone."""
        if given := environment.get(VARIABLE, "").strip():
            return given
        return self.token if self.url is None or _origin(self.url) == _origin(url) else None


SECTION = TomlSection(Tester)


def completed(tester: Tester, secrets: Mapping[str, str], folder: Path) -> Tester:
    """The settings with the token of the profile before their own, and paths relative to `folder`."""
    ca = str(folder / Path(tester.ca).expanduser()) if tester.ca else None
    return replace(tester, token=secrets.get(VARIABLE) or tester.token, ca=ca)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = None
    return parts.scheme, parts.hostname, port or {"http": 80, "https": 443}.get(parts.scheme)
