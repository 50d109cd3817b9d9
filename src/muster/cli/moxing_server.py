"""The storage server of a script that runs outside of Muster: `LISTENER LIFELINE`, two descriptors.

`moxing` starts it when the script first asks for a store. It has the settings and keys of that person and ends with the script.
"""

from __future__ import annotations

import os
import sys
import threading

from muster.config import load
from muster.records.layout import home
from muster.storage import resolve
from muster.storage.moxing.server import serve


def main() -> None:
    listener, lifeline = map(int, sys.argv[1:])
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    try:
        place = home()
        known = load(place)
        settings = resolve(place, known.storage, os.environ, known.addresses)
    except Exception as error:
        from muster.cli.errors import show

        sys.exit(show(error))
    serve(listener, settings)


def _end_with(lifeline: int) -> None:
    """Ends this process when the last one that holds the other end of the pipe has ended."""
    os.read(lifeline, 1)
    os._exit(0)


if __name__ == "__main__":
    main()
