"""ssh between the nodes of a run: a login comes to the node it asked for, as it is there, and nothing else changes."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob, needs_ssh
from traces import hosts

RunJson = Callable[..., dict[str, Any]]

pytestmark = [
    needs_ssh,
]


def said(view: dict[str, Any], process: str = "rank-0") -> list[str]:
    """What a process wrote, after the run has succeeded."""
    logs = {entry["process"]: Path(entry["log"]).read_text() for entry in view["attempts"][0]["ranks"]}
    assert view["state"] == "succeeded", f"{view['reason']}\n{logs}"
    return logs[process].splitlines()


@pytest.fixture(autouse=True)
def own_keys() -> Iterator[None]:
    """Whatever these tests do, the ssh directory of the user stays as it was."""
    folder = Path(pwd.getpwuid(os.getuid()).pw_dir, ".ssh")  # ssh itself does not look at $HOME
    before = state_of(folder)
    yield
    assert state_of(folder) == before


def state_of(folder: Path) -> list[tuple[str, int, bytes]]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()] if folder.is_dir() else []
    return [(str(path), path.stat().st_mtime_ns, path.read_bytes()) for path in files]


def first_node(script: str) -> dict[str, Any]:
    """A job of two nodes, of which the first runs a script."""
    return {"nodes": 2, "ssh": True, "command": f"[ $MUSTER_NODE = 1 ] || {{ {script}\n}}"}


@pytest.mark.conformance
def test_a_login_finds_the_environment_and_the_directory_of_its_node(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    look = 'echo "$MUSTER_NODE|$MY_TOKEN|$COLOUR|$MADE|${PWD##*/nodes/}|$(cat here)|${MUSTER_SOCKET:+socket}"; hostname'
    fields = first_node(f"for node in 0 1; do ssh node-$node '{look}'; done")
    fields |= {"secrets": ["MY_TOKEN"], "env": {"COLOUR": "red"}}
    fields["setup"] = "export MADE=on-$MUSTER_NODE; echo $MUSTER_NODE > here"
    view = run_json(write_job(fields), MY_TOKEN="open sesame")
    lines = said(view)
    assert lines[::2] == [f"{node}|open sesame|red|on-{node}|{node}/work|{node}|socket" for node in (0, 1)]
    assert lines[1::2] == (hosts(view) if containment == "namespaces" else [os.uname().nodename] * 2)


@pytest.mark.long
def test_commands_files_and_exit_codes_come_through(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    script = """
    head -c 300000 /dev/urandom > sent
    ssh node-1 'cat > got' < sent
    scp -q node-1:got back && cmp sent back && echo same
    echo 'put sent again' | sftp -q node-1 > /dev/null && ssh node-1 'cmp got again && echo again'
    ssh node-1 'exit 7'; echo $?
    ssh -o StrictHostKeyChecking=no -o BatchMode=no node-1 "echo 'two  words' \\"\\$((1 + 1))\\""
    """
    assert said(run_json(write_job(first_node(script)))) == ["same", "again", "7", "two  words 2"]


def test_only_the_keys_of_the_run_open_the_door_and_only_on_its_address(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    script = """
    config=$(sed -n 's/.* -F \\([^ ]*\\) .*/\\1/p' "$(command -v ssh)")
    port=$(sed -n 's/ *Port //p' $config)
    ssh-keygen -q -t ed25519 -N '' -f other
    for key in other ${config%/*}/user; do
        env PATH=/usr/bin:/bin ssh -F none -i $key -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no \\
            -o UserKnownHostsFile=/dev/null -p $port ${MUSTER_HOSTS#*,} echo in 2> /dev/null || echo out
    done
    (exec 3<> /dev/tcp/127.0.0.1/$port) 2> /dev/null && echo open || echo closed
    stat -c %a ${config%/*} ${config%/*}/user
    """
    assert said(run_json(write_job(first_node(script)))) == ["out", "in", "closed", "700", "600"]


def test_a_home_with_odd_names_does_not_matter(
    run_json: RunJson, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("MUSTER_HOME", f"{home}/100% of%d")
    job = write_job({"name": "Größe-ResNet", **first_node("ssh node-1 'echo $MUSTER_NODE'")})
    assert said(run_json(job)) == ["1"]


@pytest.mark.parametrize("level", ["", "0", "1"])
def test_the_shell_start_up_files_of_the_user_have_no_say(
    level: str, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    (tmp_path / ".bashrc").write_text("export PATH=/nowhere COLOUR=blue\necho noise\n")
    job = write_job({**first_node("ssh node-1 'echo $COLOUR'"), "env": {"COLOUR": "red"}})
    assert said(run_json(job, HOME=str(tmp_path), SHLVL=level)) == ["red"]


def test_every_attempt_has_keys_of_its_own_and_none_is_left(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    script = """
    config=$(sed -n 's/.* -F \\([^ ]*\\) .*/\\1/p' "$(command -v ssh)")
    ssh node-1 true && cp ${config%/*}/user.pub $MUSTER_SHARED/$MUSTER_ATTEMPT
    exit $((2 - MUSTER_ATTEMPT))
    """
    view = run_json(write_job({**first_node(script), "retries": 1}))
    assert (view["state"], len(view["attempts"])) == ("succeeded", 2)
    first, second = (Path(view["dir"], "shared", number).read_text() for number in "12")
    assert first.startswith("ssh-ed25519 ") and first != second
    assert list(Path(view["dir"]).glob("attempts/*/ssh")) == []


def test_without_being_asked_for_there_is_no_ssh(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"nodes": 2, "command": "command -v ssh; true"}))
    assert [line for line in said(view) if "/nodes/" in line] == []
    assert not list(Path(view["dir"]).glob("attempts/1/nodes/*/logs/sshd.log"))
