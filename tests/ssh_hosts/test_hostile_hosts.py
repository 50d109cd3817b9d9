"""A host that speaks the protocol and lies: it costs its own run one sentence, and neither the supervisor nor its memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob

# Stands for ssh and for the host behind it: it greets, holds devices, starts an attempt, and then does what a test says.
HOST = """#!{python}
import json, os, struct, sys

def send(kind, payload):
    view = memoryview(struct.pack(">cI", kind, len(payload)) + payload)
    while view:
        view = view[os.write(1, view):]

def say(word, **data):
    send(b"M", json.dumps(dict(data, say=word)).encode())

def file(name, data):
    send(b"O", json.dumps(dict(number=1, name=name, size=len(data), mtime=0)).encode())
    send(b"D", struct.pack(">Q", 1) + data)
    send(b"C", struct.pack(">Q", 1))

def frames():
    rest = b""
    while data := os.read(0, 1 << 20):
        rest += data
        while len(rest) >= 5 and len(rest) >= 5 + struct.unpack(">I", rest[1:5])[0]:
            end = 5 + struct.unpack(">I", rest[1:5])[0]
            if rest[:1] == b"M":
                yield json.loads(rest[5:end])
            rest = rest[end:]

os.write(1, b'\\nMUSTER-HOST {{"agent": true}}\\n')
place = dict(network="n", reached="127.0.0.1", interfaces=[["lo", "127.0.0.1", 8]])
facts = dict(node=0, host="a", address="127.0.0.1", device="cpu", devices=[], ports=[20000, 20001], cpus=1)
say("hello", host="a", place=place, attempt=0, running=False, given=False)
for message in frames():
    if message["say"] == "begin":
        say("ready")
    elif message["say"] == "hold":
        say("held", address="")
    elif message["say"] in ("start", "deliver"):
        say("attempt", attempt=1)
    elif message["say"] == "have":
        {lie}
    elif message.get("topic") == "stop":
        say("ended", attempt=1, status=0, left=None)
    say("ping", sent=0.0)
"""

LIES = {
    "a name that no disk has": (r"""file("results/\ud800", b"x")""", "it sent what it may not: a file that no node may write"),
    "an endless message": ("""send(b"M", b" " * (2 << 20))""", "it sent what it may not: a frame of kind"),
    "an impossible status": ("""say("ended", attempt=1, status=10**30, left=None)""", "was started again, or its daemon"),
    "facts without a sense": ("""file("facts.json", b'{{"node": "x"}}')""", "node 0 published facts that cannot be read"),
    "facts of another node": (
        """file("facts.json", json.dumps(dict(facts, node=1)).encode())""",
        "node 0 published facts that cannot be read",
    ),
    "a line in an address": (
        r"""file("facts.json", json.dumps(dict(facts, address="a\nProxyCommand x")).encode())""",
        "node 0 published facts that cannot be read",
    ),
}


@pytest.fixture
def lying(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the host that everything reaches, and what it does when the run begins there."""

    def make(lie: str) -> None:
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(HOST.format(python=sys.executable, lie=lie.replace("{{", "{").replace("}}", "}")))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        home.mkdir()
        (home / "config.toml").write_text('engine = "ssh"\n[hosts.lab]\nnodes = ["a"]\nlost_after = "10s"\n')

    return make


@pytest.mark.parametrize("how", LIES)
def test_a_host_that_lies_ends_its_run_with_a_sentence(
    how: str, lying: Callable[[str], None], run_json: Callable[..., dict[str, Any]], write_job: WriteJob, home: Path
) -> None:
    lie, words = LIES[how]
    lying(lie)
    view = run_json(write_job({"python": "python3", "device": "cpu", "grace": "0s"}, **{"train.py": "pass"}))
    assert view["state"] in ("failed", "lost")
    assert words in view["reason"]
    assert "Traceback" not in next(home.glob("runs/*/supervisor.log")).read_text()


@pytest.mark.long
def test_a_host_that_never_ends_what_it_was_told_to_end_is_lost(
    lying: Callable[[str], None], run_json: Callable[..., dict[str, Any]], write_job: WriteJob
) -> None:
    lying("while True: __import__('time').sleep(1); say('ping', sent=0.0)")
    view = run_json(
        write_job({"python": "python3", "device": "cpu", "grace": "0s", "time_limit": "1s"}, **{"train.py": "pass"})
    )
    assert "time limit" in view["reason"]
