"""Runs of a server: submitted, followed, stopped, started again and deleted through its API."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import ssl
import subprocess
import tarfile
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import boto3
import pytest
from run_client import RunClient, any_client, run_client, tar
from sqlalchemy import select

from authority import certify
from conftest import until
from muster.linux import proc
from muster.server.core.tables import runs
from muster.server.runs.code import CodeStore
from muster.server.runs.code_quota import CodeQuota
from muster.tester.errors import Denied
from muster_server import Administered, ServeMuster

STEPS = "import time\nfor step in range(5):\n    print('step', step, flush=True)\n    time.sleep(0.05)\n"


@pytest.fixture
def client(administered: Administered) -> Iterator[RunClient]:
    with any_client(administered) as found:
        yield found


def test_a_run_is_followed_with_every_byte_once_until_its_end(client: RunClient) -> None:
    run = client.submit("boot: train.py\ndevices: 2\nframework: pytorch", code=client.send_code(train__py=STEPS))
    lines = list(client.follow(run))
    written = "".join(f"step {step}\n" for step in range(5)).encode()
    for rank in ("rank-0", "rank-1"):
        pieces = [line for line in lines if line.get("log") == [1, 0, rank]]
        assert b"".join(piece["data"] for piece in pieces) == written
        assert pieces[-1]["offset"] == len(written)
    assert lines[0]["run"]["state"] in ("pending", "starting", "running")
    assert list(lines[-1]) == ["end"]
    assert lines[-1]["end"]["state"] == "succeeded"
    resumed = [line for line in client.follow(run, offsets={"1/0/rank-0": 7}, processes=["rank-0"]) if "log" in line]
    assert b"".join(line["data"] for line in resumed) == written[7:]
    assert client.log(run, offset=7, limit=6) == "step 1"
    found = client.http.get(f"/api/v1/runs/{run}/logs").json()["items"]
    assert {("rank-0", len(written)), ("rank-1", len(written))} <= {(log["process"], log["size"]) for log in found}


def test_a_run_shows_what_the_command_line_shows_and_whose_it_is(client: RunClient, administered: Administered) -> None:
    run = client.submit("command: exit 3\nname: broken")
    ended = client.wait(run)
    assert (ended["state"], ended["project"], ended["pool"], ended["position"]) == ("failed", client.project, "local", None)
    assert ended["dir"] == f"{administered.server.url}/jobs/{run}"
    details = client.get("last")
    assert details["failure"]["code"] == 3 and details["attempts"][0]["ranks"][0]["code"] == 3
    assert details["job"]["command"] == "exit 3"
    listed = client.http.get("/api/v1/runs", params={"state": "failed", "name": "broken"}).json()["items"]
    assert [one["run"] for one in listed] == [run]


def test_the_same_key_gives_the_same_run_and_no_other(client: RunClient) -> None:
    run = client.submit("command: echo once", key="nightly-1")
    assert client.submit("command: echo once", key="nightly-1") == run
    other = client.post("command: echo twice", key="nightly-1")
    assert (other.status_code, "another submission" in other.json()["reason"]) == (409, True)
    assert len(client.http.get("/api/v1/runs").json()["items"]) == 1


def test_secrets_cannot_be_tried_out_with_what_the_database_keeps(client: RunClient, administered: Administered) -> None:
    job, code, secret = "command: 'true'\nsecrets: [TOKEN]", client.send_code(), {"TOKEN": "1234"}
    run = client.submit(job, key="pin", code=code, secrets=secret)
    assert client.post(job, key="pin", code=code, secrets={"TOKEN": "1235"}).status_code == 409
    assert client.submit(job, key="pin", code=code, secrets=secret) == run
    client.wait(run)
    with administered.server.database() as opened, opened.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == run)).mappings().one()
    known: dict[str, Any] = {"job": job, "sets": [], "file": "job.yaml", "code": code, "project": client.project, "pool": None}
    plain = json.dumps({**known, "secrets": secret}, sort_keys=True).encode()
    assert row["key_digest"] not in (None, hashlib.sha256(plain).hexdigest())
    assert row["secrets_encrypted"] is None


def test_all_mistakes_of_a_job_come_back_with_their_lines(client: RunClient) -> None:
    answer = client.post("boot: trian.py\nnodse: 2\n", code=client.send_code(train__py=STEPS))
    assert answer.status_code == 400
    found = [(problem["line"], problem["field"], problem["hint"]) for problem in answer.json()["problems"]]
    assert found == [(1, "boot", "did you mean `train.py`?"), (2, "nodse", "did you mean `nodes`?")]
    assert client.http.get("/api/v1/runs").json()["items"] == []


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ("command: cat\ninputs: {data: /etc}", "inputs.data"),
        ("command: cat\noutputs: {data: /var/lib}", "outputs.data"),
        ("command: cat\nlog_url: /root/logs", "log_url"),
        ("command: cat\nhosts: {hostfile: /etc/shadow}", "hosts"),
        ("command: cat\nslurm: {partition: x}", "slurm"),
    ],
)
def test_what_a_pool_does_not_allow_is_refused_before_it_is_looked_at(client: RunClient, job: str, field: str) -> None:
    answer = client.post(job)
    assert (answer.status_code, [problem["field"] for problem in answer.json()["problems"]]) == (400, [field])


def test_a_running_run_is_stopped_and_then_deleted(client: RunClient) -> None:
    run = client.submit("command: echo ready; sleep 1000\ngrace: 1s")
    next(line for line in client.follow(run) if "log" in line)
    refused = client.http.delete(f"/api/v1/runs/{run}")
    assert (refused.status_code, "has not ended" in refused.json()["reason"]) == (409, True)
    assert client.http.post(f"/api/v1/runs/{run}/stop", json={}).status_code == 200
    ended = client.wait(run)
    assert (ended["state"], "stopped by runner" in ended["reason"]) == ("stopped", True)
    assert client.http.delete(f"/api/v1/runs/{run}").status_code == 204
    assert client.http.get(f"/api/v1/runs/{run}").status_code == 404


def test_a_run_is_started_again_with_its_code_and_changes(client: RunClient) -> None:
    first = client.submit(
        "boot: say.py\nparameters: {word: one}", code=client.send_code(say__py="import sys; print(sys.argv[1:])")
    )
    assert client.wait(first)["state"] == "succeeded"
    again = client.http.post(f"/api/v1/runs/{first}/rerun", json={"set": ["parameters.word=two"]})
    assert again.status_code == 201, again.text
    run = again.json()["run"]
    assert client.wait(run)["state"] == "succeeded"
    assert (client.log(first), client.log(run)) == ("['--word=one']\n", "['--word=two']\n")
    other = client.http.post(f"/api/v1/runs/{first}/rerun", json={"set": ["code=/root"]})
    assert (other.status_code, other.json()["problems"][0]["field"]) == (400, "code")


@pytest.mark.parametrize("code", ["/root", "file:///root", ".", "file:///"])
def test_code_comes_from_the_client_or_the_store_and_from_no_path_of_the_server(client: RunClient, code: str) -> None:
    body = {"job": f"command: ls\ncode: {code}", "project": client.project}
    answer = client.http.post("/api/v1/runs", json=body)
    assert (answer.status_code, answer.json()["problems"][0]["field"]) == (400, "code"), answer.text


def test_the_record_of_a_run_comes_as_an_archive(client: RunClient) -> None:
    run = client.submit("command: echo 5 > $MUSTER_RESULTS/throughput_0.json; ln -s /etc/passwd $MUSTER_RESULTS/link")
    assert client.wait(run)["result"]["throughput"]["value"] == 5
    answer = client.http.get(f"/api/v1/runs/{run}/record")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
    assert {"final.json", "job.json", "run.json", "attempts/1/nodes/0/results/throughput_0.json"} <= set(names)
    assert not [name for name in names if name.endswith("link") or name.startswith(("/", ".."))]


def test_secrets_reach_the_job_and_are_nowhere_else(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        missing = client.post("command: echo ${#API_SECRET}\nsecrets: [API_SECRET]")
        assert [problem["field"] for problem in missing.json()["problems"]] == ["secrets"]
        run = client.submit("command: echo ${#API_SECRET}\nsecrets: [API_SECRET]", secrets={"API_SECRET": "s3cr3t-and-long"})
        assert client.wait(run)["state"] == "succeeded"
        assert client.log(run) == "15\n"
    found = subprocess.run(["grep", "-rl", "s3cr3t-and-long", str(server.folder)], capture_output=True, text=True)
    assert found.stdout == ""


def test_nothing_of_the_servers_environment_reaches_a_job(serve_muster: ServeMuster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_SERVER", "yes")
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        run = client.submit("command: env")
        assert client.wait(run)["state"] == "succeeded"
        names = {line.partition("=")[0] for line in client.log(run).splitlines()}
    assert "MUSTER_RUN" in names and "OF_THE_SERVER" not in names
    assert not [name for name in names if "KEY" in name or name == "MUSTER_HOME"]


def test_a_job_writes_to_the_servers_store_with_a_key_that_ends_with_it(client: RunClient, administered: Administered) -> None:
    key = client.http.post("/api/v1/keys", json={"name": "mine"}).json()
    bucket = f"bucket-{client.project}"
    store = boto3.client(
        "s3",
        endpoint_url=administered.server.store,
        region_name="us-east-1",
        aws_access_key_id=key["key"]["id"],
        aws_secret_access_key=key["secret"],
    )
    store.create_bucket(Bucket=bucket)
    text = f"import moxing as mox\nmox.file.write('obs://{bucket}/in/a.txt', 'from moxing')\n"
    made = client.submit("boot: make.py", code=client.send_code(make__py=text))
    assert client.wait(made)["state"] == "succeeded", client.log(made)
    job = f"command: cp $data/a.txt $out/b.txt\ninputs: {{data: {{url: 'obs://{bucket}/in', access: env}}}}\n"
    run = client.submit(f"{job}outputs: {{out: {{url: 'obs://{bucket}/out', access: env}}}}")
    assert client.wait(run)["state"] == "succeeded", client.log(run)
    assert store.get_object(Bucket=bucket, Key="out/b.txt")["Body"].read() == b"from moxing"
    store.close()
    missing = client.post(f"command: cat\ninputs: {{data: 'obs://{bucket}/nothing'}}")
    assert (missing.status_code, [one["field"] for one in missing.json()["problems"]]) == (400, ["inputs.data"])
    with administered.server.database() as opened, opened.read() as connection:
        kept = connection.execute(select(runs.c.access_key, runs.c.secrets_encrypted).where(runs.c.id == run)).one()
    assert tuple(kept) == (None, None)


def test_only_missing_files_of_code_are_sent_and_checked(client: RunClient) -> None:
    code = client.send_code(a__py="print(1)", b__py="print(2)")
    entries = [["file", "0" * 64, "c.py"]]
    found = client.http.post("/api/v1/code", json={"entries": entries}).json()
    assert found["missing"] == ["0" * 64] and found["code"] != code
    path = f"/api/v1/code/{found['code']}"
    assert client.http.put(path, content=tar({"0" * 64: b"other"})).json()["missing"] == ["0" * 64]
    assert client.http.put(path, content=tar({"1" * 64: b"other"})).status_code == 400
    assert client.http.put(path, content=b"no archive").status_code == 400
    refused = client.post("command: 'true'", code=found["code"])
    assert (refused.status_code, "were not sent" in refused.json()["reason"]) == (409, True)


def test_each_user_has_room_for_so_much_code(tmp_path: Path) -> None:
    store = CodeStore(tmp_path, CodeQuota(100_000))

    def send(user: str, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        digest, missing = store.announce(user, [["file", name, "data"]])
        if missing:
            assert store.receive(user, digest, io.BytesIO(tar({name: content}))) == []
        return digest

    first = send("ann", b"a" * 60_000)
    assert send("ann", b"a" * 60_000) == first  # what is there takes no more
    with pytest.raises(Denied, match="leave data out") as refused:
        send("ann", b"b" * 60_000)
    assert refused.value.status == 413
    send("bob", b"b" * 60_000)
    with pytest.raises(Denied, match="leave data out"):
        store.share("ann", "bob", first)
    with pytest.raises(Denied, match="leave data out"):
        store.announce("ann", [["link", "x" * 4000, f"{number:02}"] for number in range(20)])


def test_a_user_without_room_is_told_so(serve_muster: ServeMuster) -> None:
    server = serve_muster("--code-quota", "1M")
    with run_client(server, server.make_administrator()) as client:
        content = b"x" * 2_000_000
        name = hashlib.sha256(content).hexdigest()
        announced = client.http.post("/api/v1/code", json={"entries": [["file", name, "data"]]}).json()
        refused = client.http.put(f"/api/v1/code/{announced['code']}", content=tar({name: content}))
        assert (refused.status_code, "leave data out" in refused.json()["reason"]) == (413, True)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.SYMTYPE, tarfile.GNUTYPE_SPARSE])
def test_archives_with_other_things_than_files_take_no_memory(tmp_path: Path, kind: bytes) -> None:
    store = CodeStore(tmp_path)
    digest, missing = store.announce("u", [["file", hashlib.sha256(b"x").hexdigest(), "a"]])
    member = tarfile.TarInfo(missing[0])
    member.type, member.size = kind, 200 << 20
    with open(tmp_path / "archive", "wb+") as archive:
        archive.write(member.tobuf(tarfile.USTAR_FORMAT))
        archive.truncate(512 + (200 << 20))
        archive.seek(0, os.SEEK_END)
        archive.write(tar({missing[0]: b"x"}))
        archive.seek(0)
        tracemalloc.start()
        try:
            assert store.receive("u", digest, archive) == []  # an extended header is skipped
            assert kind == tarfile.XHDTYPE
        except Denied as error:
            assert (error.status, kind == tarfile.XHDTYPE) == (400, False)
        finally:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert most < 16 << 20


def test_an_archive_of_a_file_with_a_negative_size_is_refused(tmp_path: Path) -> None:
    store = CodeStore(tmp_path)
    digest, missing = store.announce("u", [["file", hashlib.sha256(b"x").hexdigest(), "a"]])
    member = tarfile.TarInfo(missing[0])
    member.size = -1024
    with pytest.raises(Denied, match="no whole tar archive"):
        store.receive("u", digest, io.BytesIO(member.tobuf(tarfile.GNU_FORMAT)))


@pytest.mark.parametrize(
    "entries",
    [
        [["file", "0" * 64, "../x"]],
        [["file", "0" * 64, "/x"]],
        [["link", "/etc", "a"], ["file", "0" * 64, "a/passwd"]],
        [["folder", "b"], ["folder", "a"]],
        [["folder", "a"], ["folder", "a"]],
        [["device", "a"]],
        [["file", "short", "a"]],
        [["file", "0" * 64, "x" * 300]],
    ],
)
def test_code_that_leads_out_of_its_place_is_refused(client: RunClient, entries: list[list[str]]) -> None:
    assert client.http.post("/api/v1/code", json={"entries": entries}).status_code == 400


def test_the_defaults_of_a_project_are_those_of_its_jobs(client: RunClient, administered: Administered) -> None:
    with administered.server.http(administered.administrator) as admin:
        changed = admin.patch(f"/api/v1/projects/{client.project}", json={"defaults": {"env": {"WORD": "x"}, "retries": 1}})
        assert changed.status_code == 200
    run = client.submit("command: echo $WORD\nretries: 0")
    assert client.wait(run)["state"] == "succeeded"
    assert client.log(run) == "x\n"
    assert client.get(run)["job"]["retries"] == 0


def test_a_job_names_its_project_and_its_pool_and_the_request_wins(client: RunClient) -> None:
    job = f"command: echo\nproject: {client.project}\npool: local\n"
    named = client.get(client.submit(job, project=None))
    assert (named["project"], named["pool"]) == (client.project, "local")
    unknown = client.post("command: echo\nproject: nobodys\n", project=None)
    assert (unknown.status_code, "project" in unknown.json()["reason"]) == (404, True)
    elsewhere = client.post("command: echo\npool: nowhere\n")
    assert (elsewhere.status_code, "there is no pool `nowhere`" in elsewhere.json()["reason"]) == (400, True)
    assert client.get(client.submit("command: echo\nproject: nobodys\n"))["project"] == client.project


def test_nothing_of_the_supervisors_of_ended_runs_stays_behind(client: RunClient) -> None:
    submitted = [client.submit("command: echo") for _ in range(3)]
    for run in submitted:
        client.wait(run)
    pids = [int(client.get(run)["handle"].split(":")[0]) for run in submitted]
    until(lambda: not any(proc.stat(pid) for pid in pids))  # a process that nobody has reaped still has its line there


def test_runs_wait_in_the_order_of_submission_and_say_why(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    (server.data / "config.toml").write_text("[pools.small]\ntrusted = true\nruns = 1\n")
    server.kill()
    server.start()
    with run_client(server, server.make_administrator()) as client:
        made = [client.submit(f"command: echo {number}; sleep 1000\ngrace: 0s\nname: j{number}") for number in range(3)]
        until(lambda: client.get(made[0])["state"] == "running")
        until(lambda: [client.get(run)["position"] for run in made] == [None, 1, 2])
        until(lambda: "the pool has 1 run, and takes no more at once" in client.get(made[2])["reason"])
        assert client.http.post(f"/api/v1/runs/{made[1]}/stop", json={}).status_code == 200
        stopped = client.wait(made[1])
        assert (stopped["state"], stopped["attempt"]) == ("stopped", 0)
        client.http.post(f"/api/v1/runs/{made[0]}/stop", json={"now": True})
        until(lambda: client.get(made[2])["state"] == "running")
        client.http.post(f"/api/v1/runs/{made[2]}/stop", json={"now": True})
        assert client.wait(made[2])["state"] == "stopped"


def test_events_tell_each_who_may_see_them_what_changes(administered: Administered, client: RunClient) -> None:
    with any_client(administered) as stranger:
        run = client.submit("command: echo hello")
        assert client.wait(run)["state"] == "succeeded"
        theirs = stranger.submit("command: echo hello")
        assert stranger.wait(theirs)["state"] == "succeeded"
        seen: list[tuple[str, str]] = []
        for after in (0, 1 << 61):  # the latter as if an older database had been put back: all is told again
            with client.http.stream("GET", "/api/v1/events", params={"after": after}) as answer:
                for line in answer.iter_lines():
                    event = json.loads(line)
                    seen += [(event["run"]["run"], event["run"]["state"])] if event else []
                    if seen.count((run, "succeeded")) > (after > 0):
                        break
    assert theirs not in [found for found, _ in seen]


def test_disabling_a_user_ends_the_runs_on_request(administered: Administered) -> None:
    with any_client(administered) as client, administered.server.http(administered.administrator) as admin:
        running = client.submit("command: echo ready; sleep 1000\ngrace: 0s")
        until(lambda: client.get(running)["state"] == "running")
        before = client.submit("command: echo ready; sleep 1000\ngrace: 0s")
        until(lambda: client.get(before)["state"] == "running")
        waiting = client.submit(f"command: echo hello\nafter: {{{before}: succeeded}}")
        name = client.get(running)["user"]
        until(lambda: _quiet(client, running, before))  # no change of their own brings the request to the loop
        changed = admin.patch(f"/api/v1/users/{name}", json={"disabled": True, "stop_runs": True})
        assert changed.status_code == 200, changed.text
        for run in (running, before, waiting):
            ended = admin.get(f"/api/v1/runs/{run}/wait", params={"seconds": 60}).json()
            assert (ended["state"], f"{name} was disabled" in ended["reason"]) == ("stopped", True), run
        logged = admin.get("/api/v1/audit", params={"target": waiting}).json()["items"]
        assert [entry["what"] for entry in logged] == ["run.stop", "run.submit"]


def _quiet(client: RunClient, *runs: str) -> bool:
    """True if nothing about these runs has changed for a while."""

    def tags() -> list[str]:
        return [client.http.get(f"/api/v1/runs/{run}").headers["etag"] for run in runs]

    before = tags()
    time.sleep(3)
    return tags() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
def test_new_jobs_are_refused_before_the_disk_is_full(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    with run_client(server, administrator) as client:
        code = client.send_code()
        server.kill()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", server.data], check=True)
        try:
            server.start()
            with run_client(server, server.make_administrator()) as other:
                assert other.wait(other.submit("command: echo there is room"))["state"] == "succeeded"
                sent = other.send_code()
                (server.data / "large").write_bytes(bytes(100 << 20))
                assert other.http.post("/api/v1/code", json={"entries": []}).status_code == 507
                refused = other.post("command: echo hello", code=sent)
                assert (refused.status_code, "almost full" in refused.json()["reason"]) == (507, True)
        finally:
            server.kill()
            subprocess.run(["umount", "-l", server.data], check=True)
    assert code


def executed(client: RunClient, run: str, typed: list[bytes], **fields: object) -> tuple[bytes, bytes, int]:
    """Runs a command beside rank 0 and types; returns what it wrote to both streams, and its exit code."""
    written, errors, code = b"", b"", -1
    with client.http.stream("POST", f"/api/v1/runs/{run}/exec", json=fields) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            found = json.loads(line)
            written += base64.b64decode(found.get("data", ""))
            errors += base64.b64decode(found.get("error", ""))
            code = found.get("code", code)
            for data in typed if "session" in found else ():
                path = f"/api/v1/runs/{run}/exec/{found['session']}"
                assert client.http.post(path, json={"data": base64.b64encode(data).decode()}).json() == {"taken": len(data)}
    return written, errors, code


def test_a_command_runs_beside_a_rank_with_and_without_a_terminal(client: RunClient, administered: Administered) -> None:
    run = client.submit("command: echo ready; sleep 1000\ngrace: 0s")
    next(line for line in client.follow(run) if "log" in line)
    script = "cat; echo $MUSTER_RANK $MUSTER_RUN >&2; exit 7"
    assert executed(client, run, [b"typed\n", b""], command=["sh", "-c", script]) == (b"typed\n", f"0 {run}\n".encode(), 7)
    assert executed(client, run, [b""], command=["sh", "-c", "exit 0", "x" * 60_000])[2] == 0
    with administered.server.http(administered.administrator) as admin:
        logged = admin.get("/api/v1/audit", params={"target": run}).json()["items"][0]
    words = logged["after"]["command"]
    assert (logged["what"], words[:3], words[3][:4], len(words[3]) < 250) == ("run.exec", ["sh", "-c", "exit 0"], "xxxx", True)
    written, _, code = executed(client, run, [b"tty; stty size\nexit 3\n"], command=["bash", "--norc"], rows=33, columns=99)
    assert (b"33 99" in written, b"/dev/pts/" in written, code) == (True, True, 3), written
    client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
    assert client.wait(run)["state"] == "stopped"
    refused = client.http.post(f"/api/v1/runs/{run}/exec", json={"command": ["id"]})
    assert (refused.status_code, "is not running" in refused.json()["reason"]) == (409, True)


def test_input_that_a_command_does_not_read_keeps_nobody_waiting(client: RunClient) -> None:
    run = client.submit("command: echo ready; sleep 1000\ngrace: 0s")
    next(line for line in client.follow(run) if "log" in line)
    fields = {"command": ["sh", "-c", "sleep 3; wc -c"]}
    data = base64.b64encode(b"x" * 100_000).decode()
    with (
        client.http.stream("POST", f"/api/v1/runs/{run}/exec", json=fields) as answer,
        ThreadPoolExecutor(60) as senders,
    ):
        lines = map(json.loads, answer.iter_lines())
        path = f"/api/v1/runs/{run}/exec/{next(lines)['session']}"
        sent = [senders.submit(client.http.post, path, json={"data": data}) for _ in range(60)]  # more than it has threads
        assert client.http.get("/healthz", timeout=10).status_code == 200
        taken = sum(one.result().json()["taken"] for one in sent)
        client.http.post(path, json={"data": ""})
        assert int(base64.b64decode(next(line["data"] for line in lines if "data" in line))) == taken
        assert taken > 0


def test_a_command_that_writes_all_the_time_ends_with_the_login(client: RunClient, administered: Administered) -> None:
    run = client.submit("command: echo ready; sleep 1000\ngrace: 0s")
    next(line for line in client.follow(run) if "log" in line)
    name = client.http.get("/api/v1/me").json()["name"]
    fields = {"command": ["sh", "-c", "while true; do echo x; sleep 0.5; done"]}
    with (
        client.http.stream("POST", f"/api/v1/runs/{run}/exec", json=fields) as answer,
        administered.server.http(administered.administrator) as admin,
    ):
        lines = map(json.loads, answer.iter_lines())
        next(line for line in lines if "data" in line)
        assert admin.patch(f"/api/v1/users/{name}", json={"disabled": True}).status_code == 200
        assert len(list(islice(lines, 60))) < 60  # the stream ends
        admin.post(f"/api/v1/runs/{run}/stop", json={"now": True})


@pytest.mark.parametrize("size", [{}, {"rows": 24, "columns": 80}])
def test_a_process_that_a_command_left_behind_keeps_nobody_waiting(client: RunClient, size: dict[str, int]) -> None:
    run = client.submit("command: echo ready; sleep 1000\ngrace: 0s")
    next(line for line in client.follow(run) if "log" in line)
    fields = {"command": ["sh", "-c", "setsid sleep 1000 & echo left; sleep 1000"], **size}
    with client.http.stream("POST", f"/api/v1/runs/{run}/exec", json=fields) as answer:
        next(line for line in map(json.loads, answer.iter_lines()) if "data" in line)
    for _ in range(20):  # the server notices at some time that its client is gone
        assert client.http.get("/healthz", timeout=10).status_code == 200
        time.sleep(0.05)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives users accounts")
def test_each_user_has_an_account_that_reads_nothing_of_others_or_of_the_server(administered: Administered) -> None:
    data = administered.server.data
    with any_client(administered) as ann, any_client(administered) as bob:
        waiting = ann.submit("command: echo private > note; id -u; sleep 1000\ngrace: 0s")
        next(line for line in ann.follow(waiting) if "log" in line)
        script = f"id -u; whoami; for way in server.db secrets.key store code homes; do ls {data}/$way; cat {data}/$way; done"
        script += f"; cat {data}/homes/local/*/runs/*/attempts/1/nodes/0/work/note"
        found = bob.submit(f"command: '{script}'")
        assert bob.wait(found)["attempt"] == 1
        uid, name, *rest = bob.log(found).splitlines()
        assert (int(uid) >= 700_000, name) == (True, bob.get(found)["user"])
        assert uid != ann.log(waiting).strip()
        assert "private" not in rest
        refused = [line for line in rest if "cannot" in line or "No such" in line or "denied" in line.lower()]
        assert len(refused) >= 9, rest
        ann.http.post(f"/api/v1/runs/{waiting}/stop", json={"now": True})
        assert ann.wait(waiting)["state"] == "stopped"


def test_code_that_nobody_used_for_long_is_deleted_and_what_waits_keeps_its_own(tmp_path: Path) -> None:
    store, home = CodeStore(tmp_path / "code"), str(tmp_path / "home")
    for text in (b"old", b"needed", b"new"):
        name = hashlib.sha256(text).hexdigest()
        digest, missing = store.announce("u-1", [["file", name, text.decode()]])
        assert store.receive("u-1", digest, io.BytesIO(tar({name: text}))) == [] and missing == [name]
        store.place("u-1", digest, home)
    folders = {next(path.iterdir()).name: path for path in Path(home, "code").iterdir()}
    for path in [*(tmp_path / "code").glob("*/*"), folders["old"], folders["needed"]]:
        os.utime(path, (0, 0))
    store.prune([home], {folders["needed"].name})
    kept = {path.stem for path in (tmp_path / "code").glob("*/*")}
    assert kept == {folders["needed"].name, hashlib.sha256(b"needed").hexdigest()}
    assert sorted(path.name for path in Path(home, "code").glob("*/*")) == ["needed", "new"]
    store.ensure("u-1", folders["needed"].name, home)


def test_jobs_reach_the_store_of_a_server_that_speaks_tls(serve_muster: ServeMuster, tmp_path: Path) -> None:
    certify(tmp_path, "127.0.0.1")
    authority = tmp_path / "ca.pem"
    server = serve_muster("--cert", tmp_path / "server.pem", "--key", tmp_path / "server.key")
    server.trust = ssl.create_default_context(cafile=authority)
    with run_client(server, server.make_administrator()) as client:
        key = client.http.post("/api/v1/keys", json={"name": "mine"}).json()
        keys = {"aws_access_key_id": key["key"]["id"], "aws_secret_access_key": key["secret"]}
        store = boto3.client("s3", endpoint_url=server.store, region_name="us-east-1", verify=str(authority), **keys)
        store.create_bucket(Bucket="over-tls")
        store.close()
        run = client.submit("command: echo safe > $out/word\noutputs: {out: {url: 'obs://over-tls/out', access: env}}")
        assert client.wait(run)["state"] == "succeeded", client.get(run)
        read = client.submit("command: cat $data/word\ninputs: {data: {url: 'obs://over-tls/out', access: env}}")
        assert client.wait(read)["state"] == "succeeded"
        assert client.log(read) == "safe\n"
