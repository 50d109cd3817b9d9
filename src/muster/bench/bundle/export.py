"""Writing a bundle for others: only one that verifies leaves this machine."""

from __future__ import annotations

import os
from pathlib import Path

from muster import __version__
from muster.bench.bundle import check, write
from muster.bench.errors import BundleError
from muster.records.files import temporary_name


def export(bench_dir: Path, home: Path, target: Path, key: Path | None, force: bool = False) -> None:
    """Writes the bundle of a bench and checks it as its reader will; nothing is left of one that does not verify."""
    write.check_target(target, force)
    temporary = Path(temporary_name(str(target)))
    try:
        write.write(bench_dir, home, temporary, key)
        _check(temporary)
        write.check_target(target, force)  # packing may have taken a while
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _check(path: Path) -> None:
    found = check.verify(path)
    made_by = ((found.result or {}).get("provenance") or {}).get("muster")
    if found.problems and made_by == __version__:  # another version may count differently, and its own reader knows
        more = f" ({len(found.problems)} problems in all)" if len(found.problems) > 1 else ""
        raise BundleError(f"the records of this bench contradict each other: {found.problems[0]}{more}; measure again")
