"""Settings of the tester that results are sent to: `[tester]` with its address, a token, and who vouches for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.config.errors import ConfigError

FIELDS = ("url", "token", "ca")
VARIABLE = "MUSTER_TESTER_TOKEN"


@dataclass(frozen=True)
class Tester:
    url: str | None = None
    ca: str | None = None
    token: str | None = field(default=None, repr=False)

    def token_for(self, url: str, environment: Mapping[str, str]) -> str | None:
        """The variable's token goes where the user says; one from the settings to the tester of the settings alone."""
        if given := environment.get(VARIABLE, "").strip():
            return given
        return self.token if self.url is None or _origin(self.url) == _origin(url) else None


def check(section: Mapping[str, Any], path: Path) -> None:
    """Refuses settings that are not known or cannot be meant."""
    for name, value in section.items():
        if name not in FIELDS:
            raise ConfigError(f"{path}: `tester.{name}` is not known; there are {', '.join(FIELDS)}")
        if not isinstance(value, str) or not value.isprintable():
            raise ConfigError(f"{path}: `tester.{name}` is not a text; put it into quotes")


def read(section: Mapping[str, Any], secrets: Mapping[str, str], folder: Path) -> Tester:
    """The settings, with the token of the profile before that of the section."""
    ca = section.get("ca")
    token = secrets.get(VARIABLE) or section.get("token")
    return Tester(section.get("url"), str(folder / Path(ca).expanduser()) if ca else None, token)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = None
    return parts.scheme, parts.hostname, port or {"http": 80, "https": 443}.get(parts.scheme)
