"""Records that were cut off or damaged do not turn into something that looks like a result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_supervisor_refuses_a_damaged_job(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"name": "jo')
    start = f"from muster.agent.main import main; main(['supervise', {str(tmp_path)!r}, '--code', '/', '--python', 'python3'])"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert done.returncode != 0
    assert "job.json is missing or damaged" in done.stderr
    assert not (tmp_path / "final.json").exists()
