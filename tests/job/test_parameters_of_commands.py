"""Parameters reach the program or are refused: a command for bash that would swallow them has to say where they go."""

from __future__ import annotations

from pathlib import Path

import pytest

import muster
from muster.job.source import JobError


def load(command: str, folder: Path) -> object:
    return muster.load({"command": command, "parameters": {"epochs": 3}}, base=str(folder))


@pytest.mark.parametrize(
    "command",
    [
        "python train.py # all of it",
        "# nothing",
        "python train.py &",
        "python train.py;",
        "ls\nls",
        "ls |",
        "python train.py && sleep infinity",
        "sudo -E bash -c 'python train.py && sleep infinity'",
    ],
)
def test_a_command_behind_which_no_word_can_follow_is_refused_with_parameters(command: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="`parameters` have no place behind this command") as refused:
        load(command, tmp_path)
    assert '"$@"' in str(refused.value)
    muster.load({"command": command}, base=str(tmp_path))  # without parameters it is as good as any


@pytest.mark.parametrize(
    "command",
    [
        "python train.py",
        "a && b",
        "sleep 1",
        "a --at=$(date)",
        "a ${HOME}",
        "ls 'x#y' $# a#b",
        'ls\nls "$@"',
        'ls "${@}" # here',
        "for word in $*; do echo $word; done",
    ],
)
def test_a_command_that_they_follow_or_that_places_them_is_taken(command: str, tmp_path: Path) -> None:
    load(command, tmp_path)
