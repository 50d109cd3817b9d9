"""The old `modelarts` package beside MoXing: scripts submit jobs with it, in a Python that has neither Muster nor an SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from modelarts_scene import CPU, Client, new_client, served
from modelarts_scene import collected as collected

from muster.cli.moxing_path_command import placed
from muster_server import PASSWORD

ENGINES = """
[modelarts.engines."mindspore_1.3.0-cann_5.0.2-py_3.7-euler_2.8.3-aarch64"]
framework = "command"
name = "Ascend-Powered-Engine"
version = "mindspore_1.3.0-cann_5.0.2-py_3.7-euler_2.8.3-aarch64"
"""
FRAMEWORK = {
    "framework_type": "Ascend-Powered-Engine",
    "framework_version": "mindspore_1.3.0-cann_5.0.2-py_3.7-euler_2.8.3-aarch64",
}
TRAIN = """
import os, sys
import moxing as mox
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
print("epochs", given["epochs"], flush=True)
number = int(mox.file.read(os.path.join(given["data_url"], "number.txt")))
mox.file.write(os.path.join(given["train_url"], "throughput_0.json"), str(number * 2.0))
"""
LOGIN = """
import json, os, sys
given = json.loads(sys.argv[1])
from modelarts.session import Session
url, store = given["url"], given["store"]
Session.set_endpoint(iam_endpoint=url, obs_endpoint=store, modelarts_endpoint=url, region_name="here")
session = Session(access_key=given["key"], secret_key=given["secret"], project_id=given["project"], region_name="here")
"""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(config=ENGINES) as scene:
        made = new_client(scene)
        made.put("data/number.txt", "21")
        made.put("app/train.py", TRAIN)
        yield made


def run(home: Path, client: Client, script: str, login: str = LOGIN, **more: Any) -> subprocess.CompletedProcess[str]:
    server = client.scene.server
    given = {
        "url": server.url,
        "store": server.store,
        "key": client.key,
        "secret": client.secret,
        "project": client.project_id,
        "bucket": client.bucket,
        "name": client.name,
        "password": PASSWORD,
        "cpu": CPU,
        "framework": FRAMEWORK,
        **more,
    }
    home.mkdir(exist_ok=True)
    words = [sys.executable, "-S", "-s", "-c", login + textwrap.dedent(script), json.dumps(given)]
    settings = {**os.environ, "PYTHONPATH": str(placed(home, sys.executable))}
    return subprocess.run(words, capture_output=True, text=True, env=settings, timeout=100)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What a script printed last, as JSON."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


WAIT_V1 = """
import time
from modelarts.estimator import JOB_STATE, Estimator
def ended(job):
    while True:
        info = job.get_job_info()
        if JOB_STATE[info["status"]] not in ("JOBSTAT_INIT", "JOBSTAT_WAITING", "JOBSTAT_RUNNING", "JOBSTAT_KILLING"):
            return info
        time.sleep(0.1)
def estimator(**more):
    at = "/" + given["bucket"]
    return Estimator(
        modelarts_session=session, code_dir=at + "/app/", boot_file=at + "/app/train.py", log_url=more["output_path"],
        hyperparameters=[{"label": "epochs", "value": 3}], pool_id=None, train_instance_type=given["cpu"],
        train_instance_count=1, nas_type=None, job_description="one", user_command=None, **given["framework"], **more
    )
"""


def test_a_job_of_version_1_and_another_version_of_it(home: Path, client: Client) -> None:
    script = """
    at = "/" + given["bucket"]
    assert Estimator.get_job_list(session, per_page=10, page=1, order="asc", search_content="Old_job")["job_total_count"] == 0
    assert "cpu.1" in Estimator.get_train_instance_types(modelarts_session=session)
    assert given["framework"] in Estimator.get_framework_list(session)
    job = estimator(output_path=at + "/out/V1/").fit(inputs=at + "/data/", wait=False, job_name="Old_job")
    first = ended(job)
    again = estimator(output_path=at + "/out/V2/").create_job_version(
        job_id=job.job_id, pre_version_id=job.version_id, inputs=at + "/data/", wait=False, job_desc="two"
    )
    second = ended(again)
    log = "obs:/" + at + "/out/V1/" + first["resource_id"] + "-job-Old_job-0.log"
    assert session.obs.is_obs_path_exists(log) and not session.obs.is_obs_path_exists(log + "x")
    session.obs.download_file(log, given["folder"] + "/log")
    log = open(given["folder"] + "/log").read()
    print(json.dumps({"first": first, "second": second, "log": log, "tail": job.get_job_log()["content"]}))
    """
    found = told(run(home, client, WAIT_V1 + textwrap.dedent(script), folder=str(home.parent)))
    assert [found[one]["status"] for one in ("first", "second")] == [10, 10]
    assert [found[one]["version_name"] for one in ("first", "second")] == ["V0001", "V0002"]
    assert "epochs 3" in found["log"] and "epochs 3" in found["tail"]
    assert client.get("out/V1/throughput_0.json") == b"42.0"
    assert client.get("out/V2/throughput_0.json") == b"42.0"


JOB_V2 = """
from modelarts.estimatorV2 import JOB_STATE, Estimator
from modelarts.train_params import InputData, OutputData, TrainingFiles
at = "obs://" + given["bucket"]
def fit(name, wait=False, **more):
    estimator = Estimator(
        session=session, training_files=TrainingFiles(code_dir=at + "/app/", boot_file=more.pop("boot", at + "/app/train.py")),
        log_url=at + "/logs/", parameters=[{"name": "epochs", "value": 3}], pool_id=None, user_command=None,
        outputs=[OutputData(obs_path=at + "/" + name + "/", name="train_url")], train_instance_type=given["cpu"],
        train_instance_count=1, job_description="one", **{**given["framework"], **more}
    )
    return estimator.fit(inputs=[InputData(obs_path=at + "/data/", name="data_url")], wait=wait, job_name=name)
"""


def test_a_job_of_version_2_is_waited_for(home: Path, client: Client) -> None:
    script = """
    job = fit("waited", wait=True)
    info = job.get_job_info()
    listed = Estimator.get_job_list(session, offset=0, limit=10)["items"]
    prefix = at + "/logs/modelarts-job-" + info["metadata"]["id"] + "-worker-0.log"
    assert session.obs.is_obs_path_exists(prefix)
    names = [one["metadata"]["name"] for one in listed]
    print(json.dumps({"info": info, "listed": names, "log": job.get_job_log()["content"]}))
    """
    found = told(run(home, client, JOB_V2 + textwrap.dedent(script)))
    assert found["info"]["status"]["phase"] == "Completed"
    assert "waited" in found["listed"] and "epochs 3" in found["log"]
    assert client.get("waited/throughput_0.json") == b"42.0"


def test_a_job_is_stopped_by_its_id_and_one_that_fails_is_an_error_for_who_waits(home: Path, client: Client) -> None:
    client.put("app/sleep.py", "import time\ntime.sleep(1000)\n")
    client.put("app/fail.py", "raise SystemExit(3)\n")
    script = """
    from modelarts.exceptions import ModelArtsError
    job = fit("slept", boot="sleep.py")
    phase = Estimator.control_job_by_id(session=session, job_id=job.job_id)["status"]["phase"]
    try:
        fit("broken", wait=True, boot="fail.py")
    except ModelArtsError as error:
        print(json.dumps({"phase": phase, "said": str(error)}))
    """
    found = told(run(home, client, JOB_V2 + textwrap.dedent(script)))
    assert found["phase"] in ("Terminating", "Terminated")
    assert "ended as Failed" in found["said"]


SERVERS = """
import os, sys
import moxing as mox
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
assert os.environ["SINGLESERVER_MODE"] == "True"
server = os.environ.get("VC_TASK_INDEX") or os.environ["BATCH_TASK_INDEX"]
place = given["train_url"].rstrip("/")
for rank in range(2):
    mox.file.make_dirs(f"{place}/{server}")
    mox.file.write(f"{place}/{server}/throughput_{rank}.json", str(float(server) + rank))
mox.file.write(f"{place}/accuracy_{server}.json", "0.75")
"""


def test_a_benchmark_of_each_server_alone_is_read_from_its_outputs(home: Path, client: Client) -> None:
    """What AISBench's scripts do in both versions: a directory for the results, the code, the job, its logs, its numbers."""
    script = """
    import moxing as mox
    from modelarts.estimator import JOB_STATE as STATES, Estimator as Old
    from modelarts.estimatorV2 import Estimator
    from modelarts.train_params import InputData, OutputData, TrainingFiles
    import time
    at, code = "/" + given["bucket"], given["folder"]
    mox.file.copy_parallel(code, "obs:/" + at + "/servers/")
    same = dict(given["framework"], train_instance_type=given["cpu"], train_instance_count=2, user_command=None)
    def numbers(place):
        found = {}
        for server in ("0", "1"):
            for name in (server + "/throughput_0.json", server + "/throughput_1.json", "accuracy_" + server + ".json"):
                with mox.file.File("obs:/" + place + name, "r") as file:
                    found[name] = float(file.read())
        return found
    def waited(job, state, good):
        while state(job.get_job_info()) != good:
            time.sleep(0.1)
    places = [at + "/single/V1/", at + "/single/V2/"]
    for place in places:
        mox.file.make_dirs("obs:/" + place)
    files = dict(code_dir=at + "/servers/", boot_file=at + "/servers/train.py")
    one = Old(modelarts_session=session, log_url=places[0], output_path=places[0], hyperparameters=[], **files, **same)
    first = one.fit(inputs=at + "/data/", wait=False, job_name="Single_1")
    waited(first, lambda info: STATES[info["status"]], "JOBSTAT_COMPLETED")
    files = TrainingFiles(**{name: "obs:/" + value for name, value in files.items()})
    two = Estimator(session=session, training_files=files, log_url="obs:/" + places[1], pool_id=None, parameters=[],
                    outputs=[OutputData(obs_path="obs:/" + places[1], name="train_url")], **same)
    second = two.fit(inputs=[InputData(obs_path="obs:/" + at + "/data/", name="data_url")], wait=False, job_name="single-2")
    waited(second, lambda info: info["status"]["phase"], "Completed")
    logs = ["obs:/" + places[0] + first.get_job_info()["resource_id"] + "-job-Single_1-1.log",
            "obs:/" + places[1] + "modelarts-job-" + second.job_id + "-worker-1.log"]
    there = [session.obs.is_obs_path_exists(log) for log in logs]
    print(json.dumps({"numbers": [numbers(place) for place in places], "logs": there}))
    """
    code = home.parent / "servers"
    code.mkdir()
    (code / "train.py").write_text(SERVERS)
    (code / "ma-pre-start.sh").write_text("export SINGLESERVER_MODE=True\n")
    found = told(run(home, client, script, folder=str(code)))
    each = {f"{server}/throughput_{rank}.json": float(server + rank) for server in (0, 1) for rank in (0, 1)}
    assert found["numbers"] == [{**each, "accuracy_0.json": 0.75, "accuracy_1.json": 0.75}] * 2
    assert found["logs"] == [True, True]


def test_the_newest_version_of_a_job_is_found_by_its_name_and_stopped(home: Path, client: Client) -> None:
    client.put("app/sleep.py", "import time\ntime.sleep(1000)\n")
    script = """
    at = "/" + given["bucket"]
    started = Estimator(
        modelarts_session=session, code_dir=at + "/app/", boot_file=at + "/app/sleep.py", log_url=at + "/stopped/",
        output_path=at + "/stopped/", train_instance_type=given["cpu"], **given["framework"]
    ).fit(inputs=at + "/data/", wait=False, job_name="stopped")
    [job] = Estimator.get_job_list(session, per_page=10, page=1, order="asc", search_content="stopped")["jobs"]
    said = Estimator(modelarts_session=session, job_id=job["job_id"], version_id=job["version_id"]).stop_job_version()
    print(json.dumps({"said": said, "before": JOB_STATE[job["status"]], "after": ended(started)["status"]}))
    """
    found = told(run(home, client, WAIT_V1 + textwrap.dedent(script)))
    assert (found["said"], found["after"]) == ({"is_success": True}, 12)
    assert found["before"] in ("JOBSTAT_INIT", "JOBSTAT_WAITING", "JOBSTAT_RUNNING")


def test_what_the_service_refuses_is_said_with_its_code(home: Path, client: Client) -> None:
    script = """
    from modelarts.exceptions import ModelArtsError
    said = []
    for change in ({"framework_version": "none"}, {"train_instance_type": "none"}, {"boot": at + "/app/missing.py"}):
        given["framework"].update({name: value for name, value in change.items() if name.startswith("framework")})
        cpu, given["cpu"] = given["cpu"], change.get("train_instance_type", given["cpu"])
        try:
            fit("refused", **{name: value for name, value in change.items() if name == "boot"})
        except ModelArtsError as error:
            said.append(error.error_code)
        given["cpu"], given["framework"] = cpu, dict(json.loads(sys.argv[1])["framework"])
    print(json.dumps({"codes": said}))
    """
    assert told(run(home, client, JOB_V2 + textwrap.dedent(script)))["codes"] == [
        "ModelArts.2780",
        "ModelArts.2781",
        "ModelArts.2758",
    ]


def test_a_password_logs_in_and_finds_the_only_project(home: Path, client: Client) -> None:
    login = LOGIN.split("session = ")[0] + 'session = Session(username=given["name"], password=given["password"])\n'
    found = told(run(home, client, 'print(json.dumps({"project": session.project_id}))', login))
    assert found["project"] == client.project_id


def test_a_session_without_what_it_needs_says_so(home: Path, client: Client) -> None:
    nowhere = "from modelarts.session import Session\nSession()\n"
    assert "does not know which service" in run(home, client, "", nowhere).stderr
    no_key = LOGIN.split("session = ")[0] + "Session()\n"
    assert "has no access key" in run(home, client, "", no_key).stderr


def test_files_go_both_ways_with_the_key_of_the_session(home: Path, client: Client) -> None:
    folder = home.parent / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    script = """
    at, folder = "obs://" + given["bucket"], given["folder"]
    session.obs.upload_dir(folder, at + "/up/")
    session.obs.upload_file(folder + "/a.txt", "/" + given["bucket"] + "/one/")
    session.obs.copy(src_path=at + "/up/folder", dst_path=folder + "/down", keep_last_dir=False)
    session.obs.copy(src_path=folder + "/a.txt", dst_path=at + "/two/")
    session.obs.download_dir(at + "/two/", folder + "/two")
    session.obs.delete_object(at + "/one/a.txt")
    print(json.dumps({"one": session.obs.is_obs_path_exists(at + "/one/a.txt")}))
    """
    assert told(run(home, client, script, folder=str(folder))) == {"one": False}
    assert client.get("up/folder/a.txt") == b"a"
    assert (folder / "down/a.txt").read_text() == (folder / "two/a.txt").read_text() == "a"


def test_the_vendors_own_package_wins_where_it_is_installed(home: Path, client: Client, tmp_path: Path) -> None:
    home.mkdir()
    vendors = tmp_path / "vendor/modelarts"
    vendors.mkdir(parents=True)
    (vendors / "__init__.py").write_text("own = True\n")
    (vendors / "session.py").write_text("Session = 'the real one'\n")
    script = "import sys; sys.path.append(sys.argv[2]); import modelarts; from modelarts.session import Session; "
    script += "print(modelarts.own, Session)"
    settings = {**os.environ, "PYTHONPATH": str(placed(home, sys.executable))}
    words = [sys.executable, "-S", "-s", "-c", script, "", str(vendors.parent)]
    done = subprocess.run(words, capture_output=True, text=True, env=settings, timeout=60)
    assert (done.stdout, done.stderr) == ("True the real one\n", "")


def test_hosts_are_reached_at_the_addresses_of_the_settings(home: Path, client: Client) -> None:
    server = client.scene.server
    urls = {name: getattr(server, name).replace("127.0.0.1", f"{name}.private.example") for name in ("url", "store")}
    script = """
    import modelarts.session
    modelarts.session.PAUSES = ()
    from modelarts.estimator import Estimator
    types = Estimator.get_train_instance_types(modelarts_session=session)
    print(json.dumps([types, session.obs.is_obs_path_exists("/" + given["bucket"] + "/app/train.py")]))
    """
    unknown = run(home, client, script, **urls)
    assert "url.private.example" in unknown.stderr and "does not answer" in unknown.stderr, unknown.stderr
    (home / "config.toml").write_text('[resolve]\n"*.private.example" = "127.0.0.1"\n')
    types, there = told(run(home, client, script, **urls))
    assert "cpu.1" in types and there
