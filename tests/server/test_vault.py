"""Secrets at rest: a key that is made once, and what was encrypted under another one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from muster.server.core.vault import Vault, WrongKey, open_vault
from muster.tester.errors import Misused


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets.key"
    encrypted = open_vault(path).encrypt("geheim 密".encode())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_vault(path).decrypt(encrypted).decode() == "geheim 密"
    assert [found.name for found in tmp_path.iterdir()] == ["secrets.key"]


def test_the_same_secret_is_never_encrypted_the_same_way() -> None:
    vault = Vault(bytes(32))
    assert vault.encrypt(b"secret") != vault.encrypt(b"secret")


def test_what_was_altered_or_has_another_key_is_not_decrypted() -> None:
    encrypted = Vault(bytes(32)).encrypt(b"secret")
    altered = encrypted[:-1] + bytes([encrypted[-1] ^ 1])
    for key, data in ((bytes(32), altered), (bytes(31) + b"x", encrypted), (bytes(32), b""), (bytes(32), b"short")):
        with pytest.raises(WrongKey):
            Vault(key).decrypt(data)


def test_a_key_file_that_is_damaged_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secrets.key").write_bytes(b"short")
    with pytest.raises(Misused, match="is damaged"):
        open_vault(tmp_path / "secrets.key")
