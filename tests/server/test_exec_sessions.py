"""Commands and terminals beside ranks are bounded: of one user, so that others find room, and of all users together."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from muster.server.runs import exec as sessions_of_server
from muster.server.runs.api import exec as route
from muster.server.runs.exec import Session, Sessions
from muster.tester.errors import Denied


def waiting_command(user: str, run: str, *_: object) -> Session:
    """A session whose command waits for input, in place of `muster exec`."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    return Session(user, run, process, process.stdin.fileno(), False)


def opened(sessions: Sessions, stack: ExitStack, user: str) -> None:
    stack.enter_context(sessions.open(user, "r", "/nowhere", 0, ["cat"], None, lambda: None))


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """Sessions of which a user has two at once and all users have three."""
    monkeypatch.setattr(sessions_of_server, "_start", waiting_command)
    monkeypatch.setattr(sessions_of_server, "MOST_OF_USER", 2)
    monkeypatch.setattr(sessions_of_server, "MOST", 3)
    yield Sessions()


def test_one_user_leaves_room_for_others(sessions: Sessions) -> None:
    with ExitStack() as all_of_them:
        with ExitStack() as anns:
            opened(sessions, anns, "ann")
            opened(sessions, anns, "ann")
            with pytest.raises(Denied, match="you have 2 commands and terminals") as refused:
                opened(sessions, all_of_them, "ann")
            assert refused.value.status == 409
            opened(sessions, all_of_them, "bob")
            with pytest.raises(Denied, match="the server has 3 commands and terminals") as refused:
                opened(sessions, all_of_them, "cleo")
            assert refused.value.status == 503
        opened(sessions, all_of_them, "ann")  # once the others have ended


def test_a_command_too_many_is_refused_before_an_answer_has_begun(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "_audit", lambda *_: None)
    pool = SimpleNamespace(home=lambda account: "/nowhere")
    platform = SimpleNamespace(sessions=sessions, pools={"here": pool})
    row = SimpleNamespace(id="r", pool="here", account="one", stage="running", state="running")
    caller = SimpleNamespace(principal=SimpleNamespace(user_id="ann"))

    async def ask() -> Any:
        loose = cast(Any, route.run_command)
        return await loose(SimpleNamespace(), platform, caller, lambda: None, row, route.Command(command=["cat"], rows=None))

    async def first_line() -> bytes:
        lines = (await ask()).body_iterator
        found: bytes = await anext(lines)
        await lines.aclose()
        return found

    with ExitStack() as anns:
        opened(sessions, anns, "ann")
        assert asyncio.run(first_line()).startswith(b'{"session":')
        opened(sessions, anns, "ann")  # that one has ended
        with pytest.raises(Denied, match="end some first"):
            asyncio.run(ask())
