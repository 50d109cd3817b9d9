"""State in, decisions and words out, as files to read. `golden_states.py` says how to write them anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from golden_states import FOLDER, decided

STATES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", STATES, ids=[path.stem for path in STATES])
def test_a_state_gives_the_decisions_and_words_of_its_file(path: Path) -> None:
    assert decided(path) == path.with_suffix(".txt").read_text()


def test_every_text_belongs_to_a_state() -> None:
    assert STATES
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in STATES}


def test_the_worked_example_of_the_documentation_is_what_is_decided() -> None:
    page = (Path(__file__).parents[3] / "docs" / "queue.md").read_text()
    lines = decided(FOLDER / "worked-example.yaml").splitlines()
    english = [line for line in lines if not re.search("[\u4e00-\u9fff]", line)]
    assert "\n".join(english) in page
