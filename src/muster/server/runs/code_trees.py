"""The files of a run's code, for a comparison."""

import os

from muster.launch.start import snapshot
from muster.records.files import files_below
from muster.records.untrusted import open_regular
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row

MOST = 2000  # files
LARGEST = 1 << 20  # bytes that are read of one


def tree(platform: Platform, row: Row) -> dict[str, bytes] | None:
    """The beginnings of the files of a run's code by name; None where it is not there any more."""
    if not row.code:
        return {}
    home = platform.pools[row.pool].home(row.account)
    root = str(snapshot.folder(home, row.code))
    if not os.path.isdir(root):
        return None
    found = {}
    for path in sorted(files_below(root))[:MOST]:
        try:
            with open_regular(path, root) as file:
                found[os.path.relpath(path, root)] = file.read(LARGEST)
        except OSError:
            continue
    return found
