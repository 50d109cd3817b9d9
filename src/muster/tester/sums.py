"""The sum by which a bundle is known."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
