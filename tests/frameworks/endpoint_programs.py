"""What tests of a real TensorBoard and Jupyter share: their Python, a server, and a job that writes event files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_server import Administered, MusterServer, server_folder

INSTALL = Path(__file__).resolve().parents[2] / "scripts" / "frameworks" / "install.py"
CANNOT_BE_HAD = 3
WRITES = """
import time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("logs")
for step in range(3):
    value = Summary(value=[Summary.Value(tag="loss", simple_value=1.0 / (1 + step))])
    writer.add_event(Event(wall_time=time.time(), step=step, summary=value))
writer.close()
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def python() -> str:
    """The Python of an environment with both; without it a test is skipped, or fails where CI could have installed it."""
    found = subprocess.run([sys.executable, INSTALL, "--check", "endpoints"], capture_output=True, text=True)
    if found.returncode:
        skip = found.returncode == CANNOT_BE_HAD or not os.environ.get("CI")
        (pytest.skip if skip else pytest.fail)(found.stderr.strip())
    return found.stdout.strip() + "/python"


@pytest.fixture
def served() -> Iterator[Administered]:
    """A server whose jobs see all files of the machine, the environment of the endpoints among them."""
    server = MusterServer(server_folder(), [])
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text('[pools.local]\ntrusted = true\npaths = ["/"]\n')
    server.start()
    yield Administered(server, server.make_administrator())
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.folder)
