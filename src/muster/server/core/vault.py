"""Encryption of secrets at rest, under a key that lies in the data directory and in no database and no backup."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from muster.tester.errors import Misused

KEY_BYTES = 32
NONCE_BYTES = 12


class WrongKey(Exception):
    """A secret was encrypted under another key, or altered."""


class Vault:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._key = key
        self.fingerprint = hashlib.sha256(b"muster vault " + key).hexdigest()[:16]  # tells keys apart and gives none away

    def encrypt(self, secret: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, None)

    def decrypt(self, encrypted: bytes) -> bytes:
        try:
            return self._cipher.decrypt(encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], None)
        except (InvalidTag, ValueError):
            raise WrongKey("a secret in the database was encrypted under another key than secrets.key") from None

    def derived(self, name: str) -> str:
        """Returns a secret that belongs to a name, and that only this key gives."""
        return hmac.digest(self._key, b"muster secret of " + name.encode(), "sha256").hex()


def open_vault(path: Path) -> Vault:
    """Opens the vault of a key file, which is made where there is none."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = _make_key(path)
    if len(key) != KEY_BYTES:
        raise Misused(f"{path} is damaged: it is not {KEY_BYTES} bytes long; put the right one back")
    return Vault(key)


def _make_key(path: Path) -> bytes:
    """Writes a key that is whole and on disk before it has its name."""
    key = secrets.token_bytes(KEY_BYTES)
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, key)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return key
