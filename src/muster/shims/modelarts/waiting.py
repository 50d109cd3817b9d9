"""Waiting for a training job to end, where `fit` is asked to."""

import time
from typing import Any, Callable, Dict

from .exceptions import ModelArtsError

PAUSE = 10  # seconds between two looks


def wait(
    look: Callable[[], Dict[str, Any]], state: Callable[[Dict[str, Any]], str], good: str, ended: Callable[[str], bool]
) -> None:
    """Looks until the job has ended, and prints its states. Raises ModelArtsError where it did not succeed."""
    shown = ""
    while True:
        now = state(look())
        if now != shown:
            print(f"training job: {now}", flush=True)
            shown = now
        if now == good:
            return
        if ended(now):
            raise ModelArtsError(f"the training job ended as {now}; its logs say why")
        time.sleep(PAUSE)
