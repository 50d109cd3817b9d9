"""Golden files: what is expected, beside the test, in a form that a person reads.

To write them anew after a change that is meant, and then to look at the difference:

    REWRITE_GOLDEN=1 python -m pytest tests/plan
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
REWRITE = bool(os.environ.get("REWRITE_GOLDEN"))


def matches_golden(name: str, text: str) -> None:
    """Fails unless `text` is what the golden file holds."""
    file = FOLDER / name
    if REWRITE:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), f"{name} differs; see {Path(__file__).name} on how to write it anew"
