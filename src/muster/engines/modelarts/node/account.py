"""With whose keys, and at which address, the service is asked. It travels to the supervisor among Muster's own keys."""

from __future__ import annotations

import configparser
import json
import os
import stat
from collections.abc import Mapping
from typing import Any

from muster.dataclass import asdict, dataclass, field, replace

EVERY = 5.0


class AccountError(Exception):
    """Settings of the service that cannot be used; the text says what to do."""


@dataclass(frozen=True)
class Account:
    endpoint: str
    iam_endpoint: str = ""
    region: str = ""
    project: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    keys: str = ""  # a file of keys, which is read again when the service refuses those that it held
    profile: str = "default"  # whose keys in that file they are
    ca: str = ""
    timeout: float = 60.0
    addresses: Mapping[str, str] = field(default_factory=dict)  # of host names, as [resolve] of config.toml gives them
    every: float = EVERY  # seconds between two looks at a job

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Account:
        data: dict[str, Any] = json.loads(text)
        return cls(**data)

    def renewed(self) -> Account:
        """The account with the keys that its file holds now. Raises AccountError."""
        if not self.keys:
            return self
        found = read_keys(self.keys, self.profile)
        return replace(self, access_key=found["access_key"], secret_key=found["secret_key"], token=found["token"])


def read_keys(path: str, profile: str = "default") -> dict[str, str]:
    """Keys from a file in the form of ~/.aws/credentials, which only its owner may read. Raises AccountError."""
    parser = configparser.RawConfigParser()
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise AccountError(f"{path} holds keys and others can read it; run `chmod 600 {path}`")
            parser.read_file(file)
    except OSError as error:
        raise AccountError(
            f"the file of keys {path} cannot be read: {error.strerror}; check `keys` below [modelarts]"
        ) from None
    except (configparser.Error, UnicodeDecodeError):
        raise AccountError(f"{path} is not a file of keys; write it like ~/.aws/credentials") from None
    section = profile if parser.has_section(profile) else "default"
    names = {"access_key": "aws_access_key_id", "secret_key": "aws_secret_access_key", "token": "aws_session_token"}
    found = {name: parser.get(section, option, fallback="") for name, option in names.items()}
    if not found["access_key"] or not found["secret_key"]:
        raise AccountError(f"{path} has no keys in [{section}]; write aws_access_key_id and aws_secret_access_key there")
    return found
