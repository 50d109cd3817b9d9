"""Sizes of the logs of a run that is followed: one thread watches, and others look when the run has ended."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from muster.records.files import file_size
from muster.records.layout import RunDir
from muster.server.runs.reading import logs
from muster.server.runs.reading.logs import FollowedRun

KEY = (1, 0, "rank-0")


def test_sizes_that_were_measured_earlier_never_replace_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir(str(tmp_path))
    log = Path(run.attempt(1).node(0).logs) / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("first\n")
    slow, measured, go_on, once_more = (threading.Event() for _ in range(4))

    def slowly(path: str) -> int:
        size = file_size(path)
        if slow.is_set() and threading.current_thread().name == "follow":
            (once_more if go_on.is_set() else measured).set()
            assert go_on.wait(60)
        return size

    monkeypatch.setattr(logs, "file_size", slowly)
    followed = FollowedRun(run, lambda: 0.0)
    sizes: list[int] = []
    try:
        assert followed.ready.wait(60)
        with followed.woken(lambda: sizes.append(followed.sizes[KEY][1])):
            slow.set()
            with log.open("a") as file:
                file.write("second\n")
            assert measured.wait(60)  # and not noted yet
            with log.open("a") as file:
                file.write("last\n")
            looking = threading.Thread(target=followed.look)
            looking.start()
            looking.join(1)  # it may have to wait for the other
            go_on.set()
            looking.join()
            assert once_more.wait(60)  # so it has noted what it measured before
        assert followed.sizes[KEY][1] == len("first\nsecond\nlast\n")
        assert sizes == sorted(sizes)
    finally:
        go_on.set()
        followed.close()
        followed._thread.join()
