"""The nodes of the local engine: simulated machines with names, addresses and processes of their own."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from behaviour import no_namespaces
from conftest import Muster, WriteJob, gone, until
from muster.agent.sandbox import namespaces
from muster.engines.local.engine import Local
from muster.engines.local.node.site import address
from muster.job.load import load
from muster.launch.start import submit
from muster.launch.start.prepare import prepare

RunJson = Callable[..., dict[str, Any]]


def said(view: dict[str, Any]) -> list[str]:
    return [Path(rank["log"]).read_text() for rank in view["attempts"][-1]["ranks"]]


def events(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {event["event"]: event for event in map(json.loads, Path(view["dir"], "events.jsonl").read_text().splitlines())}


def test_a_node_is_a_namespace_with_processes_and_a_name_of_its_own(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    probe = """
    import os, socket
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    print(socket.gethostname(), os.getppid(), len(pids), os.readlink("/proc/self") == str(os.getpid()))
    """
    view = run_json(write_job({"nodes": 2}, **{"train.py": probe}))
    assert events(view)["nodes"]["contained"] is (containment == "namespaces")
    if containment == "namespaces":
        assert said(view) == ["node-0 1 2 True\n", "node-1 1 2 True\n"]
        assert [node["host"] for node in view["attempts"][0]["nodes"]] == ["node-0", "node-1"]
    else:
        assert {line.split()[0] for line in said(view)} == {os.uname().nodename}
        assert events(view)["nodes"]["reason"] == "switched off"


def test_process_ids_of_a_namespace_begin_anywhere(run_json: RunJson, write_job: WriteJob) -> None:
    """Programs name by them what they keep in /dev/shm and on Slurm's nodes in /tmp, where others of theirs keep the same."""
    if reason := no_namespaces():
        pytest.skip(f"namespaces are not to be had: {reason}")
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        pytest.skip("this kernel numbers processes as it likes")
    view = run_json(write_job({"nodes": 2, "command": "echo $$"}))
    assert [int(line) > namespaces.FIRST_PIDS[0] for line in said(view)] == [True, True]


def test_where_namespaces_are_refused_nodes_do_without(command: list[str], write_job: WriteJob) -> None:
    unshared = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshared, "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespace to be had")
    refuse = 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$@"'
    job = write_job({"nodes": 2, "command": "setsid sleep 1000 & echo done"})
    with Live([*unshared, "sh", "-c", refuse, "sh", *command], job) as live:
        view = live.end()
        assert view["state"] == "succeeded"
        assert events(view)["nodes"]["contained"] is False
        assert "No space left on device" in events(view)["nodes"]["reason"]
        assert gone(f"MUSTER_RUN={live.run.id}") == []


def test_nodes_know_each_other_by_name_inside_a_namespace(run_json: RunJson, write_job: WriteJob) -> None:
    if reason := no_namespaces():
        pytest.skip(f"namespaces are not to be had: {reason}")
    probe = (
        "import os, socket\nprint([socket.gethostbyname(f'node-{n}') for n in (0, 1)] == os.environ['MUSTER_HOSTS'].split(','))"
    )
    assert said(run_json(write_job({"nodes": 2}, **{"train.py": probe}))) == ["True\n", "True\n"]
    hosts = Path("/etc/hosts").read_text() if Path("/etc/hosts").exists() else ""
    assert "node-1" not in hosts


def test_each_run_has_loopback_addresses_of_its_own_and_ranks_can_meet_there(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    train = """
    import os, socket, time
    host, port = os.environ["MUSTER_MASTER_ADDR"], int(os.environ["MUSTER_MASTER_PORT"])
    if os.environ["MUSTER_RANK"] == "0":
        with socket.create_server((host, port)) as server:
            for _ in range(3):
                server.accept()[0].sendall(b"welcome")
    else:
        while True:
            try:
                with socket.create_connection((host, port)) as line:
                    assert line.recv(7) == b"welcome"
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
    print(os.environ["MUSTER_HOSTS"])
    """
    job = write_job({"per": "device", "nodes": 2, "devices": 2}, **{"train.py": train})
    first, second = run_json(job), run_json(job)
    assert (first["state"], second["state"]) == ("succeeded", "succeeded"), first["reason"]
    hosts = [set(said(view)[0].strip().split(",")) for view in (first, second)]
    assert [len(found) for found in hosts] == [2, 2]
    assert not hosts[0] & hosts[1]
    assert all(ipaddress.ip_address(name).is_loopback for found in hosts for name in found)


def test_addresses_are_loopback_and_distinct_for_any_number_of_nodes() -> None:
    for run in ("a-20260101-000000-abcd", "b-20260101-000000-efgh"):
        found = [address(run, index) for index in range(5000)]
        assert len(set(found)) == 5000
        assert all(ipaddress.ip_address(name).is_loopback and not name.endswith((".0", ".255")) for name in found)


def test_64_ranks_on_4_nodes_meet_and_end(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    train = """
    import os, pathlib, time
    shared = pathlib.Path(os.environ["MUSTER_SHARED"])
    (shared / os.environ["RANK"]).touch()
    while len(list(shared.iterdir())) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.05)
    print(os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["GROUP_RANK"])
    """
    view = run_json(write_job({"framework": "pytorch", "nodes": 4, "devices": 16}, **{"train.py": train}))
    assert (view["state"], view["reason"]) == ("succeeded", "all 64 ranks succeeded")
    assert said(view) == [f"{rank} {rank % 16} {rank // 16}\n" for rank in range(64)]


@pytest.mark.long
def test_runs_at_the_same_time_do_not_meet(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job(
        {"framework": "pytorch", "nodes": 2, "devices": 2},
        **{"train.py": "import os\nprint(os.environ['MUSTER_RUN'], os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])\n"},
    )
    done: list[subprocess.CompletedProcess[str]] = []
    threads = [threading.Thread(target=lambda: done.append(muster("run", job, "--json"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    briefs = [json.loads(one.stdout) for one in done]
    assert [brief["state"] for brief in briefs] == ["succeeded"] * 6
    lines = {Path(brief["dir"], "attempts/1/nodes/1/logs/rank-3.log").read_text() for brief in briefs}
    assert {line.split()[0] for line in lines} == {brief["run"] for brief in briefs}
    assert len({line.split(maxsplit=1)[1] for line in lines}) == 6
    assert len(list((home / "code").iterdir())) == 1


def test_where_inotify_is_not_to_be_had_everything_works_the_same(
    containment: str, command: list[str], write_job: WriteJob
) -> None:
    unshared = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshared, "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespace to be had")
    refuse = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
    job = write_job(
        {"per": "device", "nodes": 2, "devices": 2, "retries": 1, "grace": "10h"},
        **{
            "train.py": """
            import os, signal, sys
            if os.environ["MUSTER_ATTEMPT"] == "1":
                sys.exit(os.environ["MUSTER_RANK"] == "3")
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("up", flush=True)
            while True:
                signal.pause()
            """
        },
    )
    with Live([*unshared, "sh", "-c", refuse, "sh", *command], job) as live:
        live.until_running(4)
        until(lambda: "[3] up\n" in live.said.read_text())
        live.interrupt()
        until(lambda: live.state == "stopping")
        live.interrupt()
        view = live.end()
        assert (view["exit"], view["state"]) == (130, "stopped")
        assert view["attempts"][0]["reason"] == "rank 3 on node 1 exited with code 1"
        assert sorted(line for line in live.said.read_text().splitlines() if line.startswith("[")) == [
            f"[{rank}] up" for rank in range(4)
        ]


def test_a_supervisor_is_found_again_by_its_run_directory(command: list[str], write_job: WriteJob) -> None:
    engine = Local("/nowhere")
    with Live(command, write_job({"nodes": 2}, **{"train.py": "import signal\nprint('up')\nsignal.pause()"})) as live:
        live.until_running(2)
        handle = json.loads(Path(live.run.run).read_text())["handle"]
        assert engine.find(live.run.path) == handle
        assert engine.status([handle])[handle].alive
        pid, started, boot, *place = handle.split(":")
        later, nobody, restarted = (
            ":".join([*words, *place])
            for words in ([pid, f"{started}1", boot], ["999999999", "1", boot], [pid, started, "other"])
        )
        answers = engine.status([later, nobody, restarted])
        assert [answer.alive for answer in answers.values()] == [False, False, False]
        assert "restarted" in answers[restarted].reason
        engine.cancel(handle)
        assert live.end()["state"] == "stopped"
        assert engine.find(live.run.path) is None
        engine.cancel(handle)


def test_a_rendered_request_is_what_would_be_submitted_and_hides_the_environment(
    write_job: WriteJob, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "the secret")
    prepared = prepare(load(write_job({"command": "true", "secrets": ["THE_KEY"]})), str(home))
    request = submit.render(prepared)
    assert request.argv[3:5] == (str(home / "agent" / Path(request.argv[3]).name), "supervise")
    assert request.environment["THE_KEY"] == "the secret"
    assert "the secret" not in repr(request)
    assert not home.exists()


def test_the_engine_says_what_this_machine_has() -> None:
    (here,) = Local("/nowhere").capacity()
    assert here.words.startswith(f"{os.uname().nodename}: {len(os.sched_getaffinity(0))} CPUs, ")
