"""The last sample has everything, also what had become too dear to be read at every tick."""

from __future__ import annotations

from pathlib import Path

import pytest
from sampled import IDLE, Start
from sampled import sample as sample

from conftest import until

# The sampler of a machine on which everything costs too much.
DEAR = """
import sys
from muster.agent.sampler import main, polling
polling.Source.__init__.__defaults__ = (1e-9,)
sys.exit(main.main(sys.argv[2:]))
"""


@pytest.fixture
def archive(tmp_path: Path) -> str:
    (tmp_path / "dear").mkdir()
    (tmp_path / "dear/__main__.py").write_text(DEAR)
    return str(tmp_path / "dear")


def test_what_has_become_too_dear_is_read_once_more_at_the_end(sample: Start) -> None:
    sampled = sample(IDLE)
    until(lambda: sampled.system)
    sampled.until_sampled()
    sampled.start_ranks()
    sampled.until_asked()
    assert sampled.end() == 0
    first, *between, last = sampled.samples
    assert {"mem"} <= set(first)
    assert {tuple(line) for line in between} == {("t",)}
    assert {"cpu", "mem", "procs_cpu", "ranks"} <= set(last)
