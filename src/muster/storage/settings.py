"""Where the stores are and which keys open them, from config.toml and the environment."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping


@dataclass(frozen=True)
class Access:
    """How to reach one store; without an endpoint its URLs live in the embedded store."""

    endpoint: str = ""
    region: str = ""
    style: str = "path"
    ca: str = ""  # the certificates themselves, as PEM
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True)
class Settings:
    """Everything that storage needs on a node, keys included: it travels in an environment, never on disk."""

    home: str
    obs: Access = Access()
    s3: Access = Access()

    def to_json(self) -> str:
        return json.dumps({"home": self.home, "obs": vars(self.obs), "s3": vars(self.s3)})

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        data = json.loads(text)
        return cls(data["home"], Access(**data["obs"]), Access(**data["s3"]))


def resolve(home: str, configured: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    return Settings(home)
