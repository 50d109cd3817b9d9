"""Whatever a rank leaves in the directories of its run: the run ends, says what could not be read, and harms no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live import Live
from test_run_states import Written

from conftest import Muster, WriteJob, processes_with, until
from muster.metrics import result_files
from muster.metrics.final import conclude

DEEP = '{"a":' * 5000
# Each leaves something that is no regular file under the name that it is given.
KINDS = {
    "fifo": "os.mkfifo(path)",
    "socket": "os.chdir(os.path.dirname(path)); socket.socket(socket.AF_UNIX).bind(os.path.basename(path))",
    "directory": "os.mkdir(path)",
    "link": "os.symlink('/etc/passwd', path)",
    "link to a device": "os.symlink('/dev/zero', path)",
}
OUTPUT = {"url": "s3://bucket/out", "access": "env"}
SAID = {
    "fifo": "it is a FIFO, not a regular file",
    "socket": "it is a socket, not a regular file",
    "directory": "it is a directory, not a regular file",
    "link": "it is a symbolic link, not a regular file",
    "link to a device": "it is a symbolic link, not a regular file",
}


def run(muster: Muster, job: Path) -> dict[str, Any]:
    done = muster("run", job, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def leaves(kind: str, path: str) -> str:
    return f"import os, socket\npath = os.path.join(os.environ['MUSTER_RESULTS'], {path!r})\n{KINDS[kind]}\n"


def test_json_that_is_nested_too_deeply_is_no_number(muster: Muster, write_job: WriteJob) -> None:
    text = f"""
    import os
    for name in ("throughput_0.json", "record-0.jsonl", "ranksize.json", "outputs.json"):
        with open(os.environ["MUSTER_RESULTS"] + "/" + name, "w") as file:
            file.write({DEEP!r} + chr(10))
    """
    view = run(muster, write_job({}, **{"train.py": text}))
    assert view["state"] == "succeeded"
    assert (Path(view["dir"]) / "final.json").is_file()
    listed = muster("ps")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "succeeded" in listed.stdout


def ended(path: Path) -> Written:
    """A run of one rank that has ended, but for its final record."""
    written = Written(path, nodes=1, devices=1)
    written.attempt()
    written.stop("finished")
    written.event("attempt-ended", attempt=1)
    written.event("ended")
    return written


@pytest.mark.parametrize("name", ["throughput_0.json", "record-0.jsonl", "ranksize.json", "outputs.json"])
def test_each_file_that_is_nested_too_deeply_is_read_as_none(name: str, tmp_path: Path) -> None:
    written = ended(tmp_path / "run")
    path = Path(written.run.attempt(1).node(0).results, name)
    path.parent.mkdir(parents=True)
    path.write_text(DEEP + "\n")
    conclude(written.run)
    assert json.loads(Path(written.run.final).read_text())["state"] == "succeeded"


def test_a_line_of_mlperf_that_is_nested_too_deeply_is_passed_over(muster: Muster, write_job: WriteJob) -> None:
    lines = f"print(':::MLLOG ' + {DEEP!r})\nprint('rate 12.5')\n"
    job = write_job({"metrics": {"throughput": {"pattern": "rate (.*)"}}}, **{"train.py": lines})
    view = run(muster, job)
    assert view["result"]["throughput"]["value"] == 12.5
    assert muster("bench", job, "--set", "bench={}").returncode == 0
    assert muster("ps").returncode == 0


@pytest.mark.parametrize(("kind", "name"), [("link to a device", "throughput_0.json"), ("fifo", "record-0.jsonl")])
def test_what_is_no_regular_file_is_not_read_and_says_so(kind: str, name: str, muster: Muster, write_job: WriteJob) -> None:
    view = run(muster, write_job({"time_limit": "60s"}, **{"train.py": leaves(kind, name)}))
    assert view["state"] == "succeeded"
    found = view["result"]["throughput"]
    assert found["value"] is None
    assert name in found["reason"]
    assert SAID[kind] in found["reason"]


@pytest.mark.parametrize(("kind", "name"), [*((kind, "throughput_0.json") for kind in KINDS), ("fifo", "record-0.jsonl")])
def test_nothing_that_is_no_regular_file_is_read(kind: str, name: str, tmp_path: Path) -> None:
    written = ended(tmp_path / "run")
    node = written.run.attempt(1).node(0)
    Path(node.results).mkdir(parents=True)
    environment = {**os.environ, "MUSTER_RESULTS": node.results}
    subprocess.run([sys.executable, "-c", leaves(kind, name)], check=True, env=environment)
    for path, reason in result_files.irregular(node):  # as its agent does
        written.node_event(0, result_files.REFUSED, path=path, reason=reason)
    conclude(written.run)
    view = json.loads(Path(written.run.final).read_text())
    assert (view["state"], view["result"]["throughput"]["value"]) == ("succeeded", None)
    assert name in view["result"]["throughput"]["reason"]
    assert SAID[kind] in view["result"]["throughput"]["reason"]


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_results_in_outputs_are_regular_files_too(kind: str, muster: Muster, write_job: WriteJob) -> None:
    text = leaves(kind, "throughput_0.json").replace("MUSTER_RESULTS", "OUT")
    view = run(muster, write_job({"outputs": {"OUT": OUTPUT}}, **{"train.py": text}))
    found = view["result"]["throughput"]
    assert (found["value"], SAID[kind] in found["reason"]) == (None, True), found


def test_a_link_in_the_store_is_no_result(muster: Muster, write_job: WriteJob, home: Path) -> None:
    text = f"""
    import os
    os.makedirs({str(home / "store/bucket/out")!r}, exist_ok=True)
    os.symlink("/etc/hostname", {str(home / "store/bucket/out/throughput_0.json")!r})
    os.unlink(os.environ["MUSTER_RESULTS"] + "/../before.json")
    os.mkfifo(os.environ["MUSTER_RESULTS"] + "/../before.json")
    """
    (home / "store/bucket").mkdir(parents=True)
    fields = {"compat": "modelarts-v1", "outputs": {"train_url": "s3://bucket/out"}}
    view = run(muster, write_job(fields, **{"train.py": text}))
    assert view["state"] == "succeeded"
    assert (view["result"] or {}).get("throughput", {}).get("value") is None
    without = text[: text.index("os.unlink")].rstrip() + "\n"
    other = {**fields, "outputs": {"train_url": "s3://bucket/other"}}
    again = run(muster, write_job(other, **{"train.py": without.replace("/out", "/other")}))
    assert "it is a symbolic link" in again["result"]["throughput"]["reason"]


def test_a_bench_with_links_says_so_and_its_bundle_verifies(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "throughput_0.json").write_text("77.7")
    text = f"""
    import os
    results = os.environ["MUSTER_RESULTS"]
    os.symlink("/etc/passwd", results + "/throughput_0.json")
    os.symlink({str(tmp_path / "elsewhere")!r}, results + "/0")
    os.symlink("/etc/passwd", results + "/../logs/more.log")
    """
    target = tmp_path / "b.tar.gz"
    done = muster("bench", write_job({"bench": {}}, **{"train.py": text}), "--export", target)
    assert done.returncode == 1
    assert "throughput_0.json, which cannot be read: it is a symbolic link" in done.stderr
    packed = subprocess.run(["tar", "-xzOf", target], capture_output=True, check=True).stdout
    assert b"root:x:0" not in packed
    assert b"77.7" not in packed
    assert "root:x:0" not in muster("report", target, "--md").stdout
    assert muster("verify", target).returncode == 0


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("fifo", name) for name in ("attempts/1/meet/stop", "stop.json", "kill.json", "final.json", "attempts/1/meet/told")),
        *(("directory", "final.json"), ("link", "attempts/1/meet/stop")),
    ],
)
def test_nothing_in_the_way_of_a_stop_keeps_a_run_going(
    kind: str, name: str, command: list[str], write_job: WriteJob, muster: Muster
) -> None:
    text = f"""
    import os, socket, time
    path = os.path.join(os.environ["MUSTER_RESULTS"], "../../../../..", {name!r})
    {KINDS[kind]}
    print("up", flush=True)
    time.sleep(1000)
    """
    job = write_job({"grace": "1s", "time_limit": "60s"}, **{"train.py": text})
    with Live(command, job) as live:
        live.until_running(1)
        done = muster("stop", "last", "--now")
        assert done.returncode == 0, done.stderr
        view = live.end()
    assert view["state"] in ("stopped", "failed")
    assert "stopped" in muster("ps").stdout


def test_a_log_that_a_rank_replaced_hangs_nobody(muster: Muster, write_job: WriteJob) -> None:
    text = """
    import os
    logs = os.environ["MUSTER_RESULTS"] + "/../logs"
    for name in ("rank-0", "outputs", "storage", "sampler"):
        if os.path.exists(f"{logs}/{name}.log"):
            os.unlink(f"{logs}/{name}.log")
        os.mkfifo(f"{logs}/{name}.log")
    open(os.environ["OUT"] + "/model", "w").write("weights")
    """
    job = write_job({"outputs": {"OUT": OUTPUT}, "log_url": "s3://bucket/log"}, **{"train.py": text})
    done = muster("run", job)
    assert done.returncode == 0, done.stderr
    assert muster("logs", "last", "--all").returncode == 0
    assert muster("ls", "s3://bucket/out").stdout.split()[-1] == "model"


@pytest.mark.long
def test_directories_nested_a_thousand_deep_can_be_removed(muster: Muster, write_job: WriteJob, home: Path) -> None:
    text = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    results = "import os\nos.chdir(os.environ['MUSTER_RESULTS'])\n" + text
    view = run(muster, write_job({}, **{"train.py": results}))
    assert view["state"] == "succeeded"
    assert muster("prune", "--older", "0s", "--dry-run").returncode == 0
    assert muster("rm", "last").returncode == 0
    assert not list((home / "runs").iterdir())


ODD = """
import json, os, pathlib, time
attempt = pathlib.Path(os.environ["MUSTER_RESULTS"]).parents[2]
run, meet, node = attempt.parents[1], attempt / "meet", attempt / "nodes/0"
"""
DAMAGE = """
def tell(**told):
    with (run / "events.jsonl").open("a") as file:
        file.write(json.dumps(told) + chr(10))
"""


def test_names_that_only_look_like_numbers_harm_nobody(muster: Muster, write_job: WriteJob) -> None:
    names = ("attempts/²", "attempts/1/nodes/²", "attempts/1/meet/failed.²", "shared/²")
    view = run(muster, write_job({}, **{"train.py": f"{ODD}for name in {names!r}:\n    (run / name).mkdir()\n"}))
    assert (view["state"], view["reason"]) == ("succeeded", "its rank succeeded")  # each of them was passed over
    for words in ("ps", "show last", "logs last", "prune --older 1d", "rm last"):
        done = muster(*words.split())
        assert done.returncode == 0, (words, done.stderr)


def test_values_of_a_wrong_kind_make_a_damaged_run(muster: Muster, write_job: WriteJob) -> None:
    what = "tell(event='attempt', attempt=1, time='x')"
    assert run(muster, write_job({}, **{"train.py": ODD + DAMAGE + what}))["state"] == "damaged"
    assert_commands_answer(muster)


@pytest.mark.parametrize("created", ["x", 1e308])
def test_a_date_of_a_wrong_kind_makes_a_damaged_run(created: object, muster: Muster, home: Path) -> None:
    path = home / "runs" / "job-20260101-000000-abcd"
    path.parent.mkdir(parents=True)
    written = ended(path)
    assert json.loads(muster("show", "last", "--json").stdout)["state"] == "succeeded"
    written.put(written.run.run, {"engine": "local", "user": "me", "created": created, "handle": "1:2:3"})
    conclude(written.run)  # as its supervisor does
    assert json.loads(muster("show", "last", "--json").stdout)["state"] == "damaged"
    assert_commands_answer(muster)


def assert_commands_answer(muster: Muster) -> None:
    for words in ("ps", "ps --json", "show last", "prune --older 1d", "rm last"):
        done = muster(*words.split())
        assert done.returncode == 0, (words, done.stderr)


def test_debris_at_the_meeting_place_keeps_no_run_from_its_end(muster: Muster, write_job: WriteJob) -> None:
    text = """
(meet / "told").write_text("x")
for name in ("done.1", "done.7", "done.x"):
    (meet / name).symlink_to("nowhere")
time.sleep(0.3)
"""
    view = run(muster, write_job({"time_limit": "30s"}, **{"train.py": ODD + text}))
    assert (view["state"], view["reason"]) == ("succeeded", "its rank succeeded")


def test_a_directory_in_the_place_of_the_end_of_a_node_hides_no_lost_output(
    muster: Muster, write_job: WriteJob, home: Path
) -> None:
    (home / "store/bucket/out/model").mkdir(parents=True)
    text = '(node / "exit.json").mkdir()\npathlib.Path(os.environ["OUT"], "model").write_text("weights")\n'
    view = run(muster, write_job({"outputs": {"OUT": OUTPUT}}, **{"train.py": ODD + text}))
    assert view["state"] == "failed"
    assert "could not be uploaded" in view["reason"]


def test_the_sampler_writes_through_no_link(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    text = f'(node / "metrics.jsonl").symlink_to({str(precious)!r})\ntime.sleep(2.5)\n'
    view = run(muster, write_job({"sample": "200ms"}, **{"train.py": ODD + text}))
    assert view["state"] == "succeeded"
    assert precious.read_text() == "mine"


def test_a_run_that_says_that_it_has_ended_can_be_stopped(muster: Muster, write_job: WriteJob) -> None:
    told = dict.fromkeys(("framework", "engine", "user", "created", "started", "ended", "failure", "result"))
    told |= dict.fromkeys(("nodes", "ranks", "up", "attempt"), 1) | {"attempts": [], "warnings": [], "state": "succeeded"}
    text = f"""
told = {{**{told!r}, "run": run.name, "dir": str(run), "name": "job", "phase": "ended", "reason": "forged"}}
(run / "final.json").write_text(json.dumps(told))
time.sleep(1000)
"""
    run_id = muster("run", write_job({}, **{"train.py": ODD + text}), "--detach").stdout.strip()
    until(lambda: "forged" in muster("ps").stdout)
    assert muster("stop", run_id, "--now").returncode == 0
    assert not processes_with(f"MUSTER_RUN={run_id}")
