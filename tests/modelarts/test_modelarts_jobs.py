"""Version 2 of ModelArts' training API: the vendor's unchanged SDK drives a real server with a real pool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import huaweicloudsdkmodelarts.v1 as ma
import pytest
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.exceptions.exceptions import ClientRequestException, ServerResponseException, ServiceResponseException
from huaweicloudsdkcore.sdk_request import SdkRequest
from huaweicloudsdkcore.signer.signer import Signer
from huaweicloudsdkcore.utils.http_utils import sanitize_for_serialization
from modelarts_scene import CPU, PYTORCH, Client, Scene, new_client, refusal, served
from modelarts_scene import collected as collected

from authority import certify

pytestmark = pytest.mark.filterwarnings("ignore:ssl.PROTOCOL_TLS is deprecated:DeprecationWarning")  # of esdk-obs-python
OFFERED = """batch_delete_training_job change_training_job_description create_training_job delete_training_job
    list_training_job_events list_training_job_stages list_training_job_tasks list_training_jobs
    show_training_flavor_max_available_resource show_training_job_details show_training_job_engines show_training_job_flavors
    show_training_job_logs_from_aom show_training_job_logs_preview show_training_job_metrics show_training_quotas
    stop_training_job validate_training_job_name""".split()
DOCUMENT = Path(__file__).parents[2] / "docs/modelarts.md"
OF_TRAINING = r"train|algorithm|auto_search|_ft_|event_categories|save_image"  # names of the SDK's calls
CONFIG = """
[modelarts.flavors."modelarts.vm.gpu.v100"]
device = "cpu"
devices = 2
"""
STEPS = """import os, sys
print("arguments", sys.argv[1:], flush=True)
print("variables", os.environ["LEVEL"], os.environ["VC_TASK_INDEX"], flush=True)
for step in range(120):
    print("step", step, flush=True)
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("authority")
    certify(folder, "127.0.0.1")
    words = ("--cert", str(folder / "server.pem"), "--key", str(folder / "server.key"))
    with served(*words, authority=str(folder / "ca.pem"), config=CONFIG) as found:
        yield found


@pytest.fixture(scope="module")
def client(scene: Scene) -> Client:
    return new_client(scene)


@pytest.fixture(scope="module")
def finished(client: Client) -> Any:
    """A job that has ended well."""
    job = client.job(
        "steps",
        STEPS,
        metadata={
            "description": "counts",
            "workspace_id": "0",
            "annotations": {"fault-tolerance/job-retry-num": "1", "own": "kept"},
        },
        algorithm={
            "parameters": [ma.Parameters(name="epochs", value="2")],
            "environments": {"LEVEL": "3"},
        },
        spec={
            "log_export_path": ma.LogExportPath(obs_url=f"/{client.bucket}/log/"),
            "auto_stop": ma.AutoStop(time_unit="HOURS", duration=1),
            "schedule_policy": ma.SchedulePolicy(priority=3, preemptible=True),
            "notification": ma.Notification(topic_urn="urn:x", events=["JobFailed"]),
        },
        nodes=2,
    )
    made = client.create(job)
    assert made.status_code == 201
    assert (made.status.phase, made.status.secondary_phase) in [
        ("Pending", "Queuing"),
        ("Pending", "Creating"),
        ("Running", "Running"),
    ]
    return client.wait(made.metadata.id)


def refused(call: Any, *words: Any) -> tuple[int, str, str]:
    with pytest.raises(ServiceResponseException) as found:
        call(*words)
    return refusal(found.value)


def test_a_job_is_shown_with_all_that_came_and_how_it_ended(client: Client, finished: Any) -> None:
    assert finished.status.phase == finished.status.secondary_phase == "Completed", finished.status
    assert finished.status.tasks == ["worker-0", "worker-1"]
    assert [(one.task, one.exit_code, one.message) for one in finished.status.task_statuses] == [
        ("worker-0", 0, ""),
        ("worker-1", 0, ""),
    ]
    assert finished.status.duration > 0 and finished.status.start_time > 1_700_000_000_000
    assert finished.status.running_records[0].start_type == "init_or_rescheduled"
    metadata, spec = finished.metadata, finished.spec
    assert (metadata.name, metadata.description, metadata.user_name) == ("steps", "counts", client.name)
    assert metadata.annotations == {"fault-tolerance/job-retry-num": "1", "own": "kept"}
    assert (spec.resource.flavor_id, spec.resource.pool_id, spec.resource.node_count) == (CPU, "local", 2)
    assert finished.algorithm.parameters[0].to_dict()["value"] == "2"
    whole = client.raw("GET", f"/training-jobs/{metadata.id}").json()
    assert whole["spec"]["notification"] == {"topic_urn": "urn:x", "events": ["JobFailed"]}
    with client.scene.server.http(client.token) as http:
        run = http.get("/api/v1/runs/last").json()["run"]
        job = http.get(f"/api/v1/runs/{run}").json()["job"]
    assert (job["compat"], job["framework"], job["priority"], job["preemptible"]) == ("modelarts-v2", "pytorch", 200, True)
    assert (job["time_limit"], job["retries"], job["nodes"], job["devices"]) == (3600.0, 1, 2, 1)


def test_logs_come_whole_by_line_and_from_the_store(client: Client, finished: Any) -> None:
    job_id = finished.metadata.id
    preview = client.sdk.show_training_job_logs_preview(
        ma.ShowTrainingJobLogsPreviewRequest(training_job_id=job_id, task_id="worker-1")
    )
    assert preview.current_size == preview.full_size == len(preview.content.encode())
    lines = preview.content.splitlines()
    assert lines[-1] == "step 119" and "arguments ['--epochs=2']" in lines and "variables 3 1" in lines

    def part(**words: Any) -> Any:
        request = ma.ShowTrainingJobLogsFromAomRequest(training_job_id=job_id, task_id="worker-1", **words)
        return client.sdk.show_training_job_logs_from_aom(request)

    last = part()
    assert (last.lines, last.end_line, last.content.splitlines()) == (50, str(len(lines)), lines[-50:])
    earlier = part(base_line=last.start_line, lines=20)
    assert earlier.content.splitlines() == lines[-70:-50]
    first = part(order="asc", lines=5)
    assert (first.start_line, first.end_line, first.content.splitlines()) == ("1", "5", lines[:5])
    assert part(order="asc", base_line="5", lines=2).content.splitlines() == lines[5:7]
    assert part(order="asc", base_line=str(len(lines))).content == ""
    address = client.raw("GET", f"/training-jobs/{job_id}/tasks/worker-1/logs/url").json()["obs_url"]
    with client.scene.server.http() as http:
        answer = http.get(address)
    assert (answer.status_code, answer.text.splitlines()) == (200, lines), lines[:3]
    with client.scene.server.http() as http:
        assert http.request("PUT", address, content=b"x").status_code == 403
    request = ma.ShowTrainingJobLogsPreviewRequest(training_job_id=job_id, task_id="worker-2")
    assert refused(client.sdk.show_training_job_logs_preview, request)[:2] == (400, "ModelArts.2788")


def test_what_happened_is_told_in_events_stages_and_tasks(client: Client, finished: Any) -> None:
    job_id = finished.metadata.id
    events = client.sdk.list_training_job_events(ma.ListTrainingJobEventsRequest(training_job_id=job_id, order="asc", limit=2))
    assert events.events[0].message == "The job was put into the queue." and events.total > len(events.events) == 2
    zh = client.raw("GET", f"/training-jobs/{job_id}/events", params={"order": "asc"}, headers={"X-Language": "zh-cn"}).json()
    assert zh["events"][0]["message"] == "作业已进入队列。"
    assert client.raw("GET", f"/training-jobs/{job_id}/events", params={"pattern": "queue"}).json()["total"] == 1
    stages = client.sdk.list_training_job_stages(ma.ListTrainingJobStagesRequest(training_job_id=job_id))
    assert [one.name for one in stages.running_records[0].stages] == ["scheduling", "preparing", "running", "end"]
    tasks = client.raw("GET", f"/training-jobs/{job_id}/tasks").json()
    assert [(one["task"], one["schedule_count"]) for one in tasks] == [("worker-0", 0), ("worker-1", 0)]
    assert client.sdk.list_training_job_tasks(ma.ListTrainingJobTasksRequest(training_job_id=job_id)).status_code == 200
    metrics = client.sdk.show_training_job_metrics(ma.ShowTrainingJobMetricsRequest(training_job_id=job_id, task_id="worker-0"))
    found = {one.metric: one.value for one in metrics.metrics}
    assert list(found) == ["cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage", "npuUtil", "npuMemUsage"]


def test_what_jobs_may_name_is_listed(client: Client) -> None:
    flavors = client.sdk.show_training_job_flavors(ma.ShowTrainingJobFlavorsRequest())
    ids = [one.flavor_id for one in flavors.flavors]
    assert "cpu.1" in ids and "modelarts.vm.gpu.v100" in ids and flavors.total_count == len(ids)
    only = client.sdk.show_training_job_flavors(ma.ShowTrainingJobFlavorsRequest(flavor_type="Ascend"))
    assert only.flavors == []
    engines = client.sdk.show_training_job_engines(ma.ShowTrainingJobEnginesRequest())
    assert PYTORCH in [one.engine_id for one in engines.items]
    most = client.sdk.show_training_flavor_max_available_resource(
        ma.ShowTrainingFlavorMaxAvailableResourceRequest(flavor_id="cpu.1", pool_id="local")
    )
    assert most.cpu_core_num >= 1 and most.mem_size >= 1
    quotas = client.sdk.show_training_quotas(ma.ShowTrainingQuotasRequest())
    assert [(one.resource, one.quota) for one in quotas.quotas] == [("job-num", 300)]


def test_jobs_are_listed_by_pages_and_filters(scene: Scene) -> None:
    client = new_client(scene)
    names = [f"list-{number}" for number in range(3)]
    made = [client.create(client.job(name)).metadata.id for name in names]
    for job_id in made:
        client.wait(job_id)

    def listed(**words: Any) -> Any:
        return client.sdk.list_training_jobs(ma.ListTrainingJobsRequest(body=ma.JobSearches(**words)))

    found = listed(limit=2, offset=0)
    assert (found.total, found.count, [one.metadata.name for one in found.items]) == (3, 2, ["list-2", "list-1"])
    assert [one.metadata.id for one in listed(limit=2, offset=1, order="desc").items] == [made[0]]

    def names_of(key: str, operator: str, *value: str) -> list[str]:
        wanted = ma.Filter(key=key, operator=operator, value=list(value))
        return [one.metadata.name for one in listed(order="asc", filters=[wanted]).items]

    assert names_of("name", "like", "t-1") == ["list-1"]
    assert names_of("name", "not", "list-1", "list-2") == ["list-0"]
    assert names_of("phase", "in", "Completed") == names
    assert names_of("phase", "in", "Running", "Pending") == []
    assert names_of("create_time", "between", "0", "1000") == []
    assert client.sdk.validate_training_job_name(ma.ValidateTrainingJobNameRequest(job_name="list-0")).is_duplicate is True
    assert client.sdk.validate_training_job_name(ma.ValidateTrainingJobNameRequest(job_name="list-9")).is_duplicate is False
    status, code, said = refused(client.create, client.job("list-0"))
    assert (status, code, "choose another name" in said) == (400, "ModelArts.2751", True)
    chosen = [ma.BatchDeleteJobItem(kind="job", metadata=ma.BatchDeleteJobMetadata(id=one)) for one in made[:2]]
    client.sdk.batch_delete_training_job(ma.BatchDeleteTrainingJobRequest(body=ma.BatchDeleteJobsReq(jobs=chosen)))
    assert [one.metadata.name for one in listed().items] == ["list-2"]


def test_a_running_job_is_described_stopped_and_deleted(client: Client) -> None:
    job_id = client.create(client.job("sleeper", "import time\nprint('up', flush=True)\ntime.sleep(600)\n")).metadata.id
    running = client.wait(job_id, "Running")
    assert running.status.secondary_phase == "Running"
    body = ma.JobUpdateRequestBody(description="sleeps")
    changed = client.sdk.change_training_job_description(
        ma.ChangeTrainingJobDescriptionRequest(training_job_id=job_id, body=body)
    )
    assert changed.status_code == 200 and client.show(job_id).metadata.description == "sleeps"
    terminate = ma.JobActionType(action_type="terminate")
    stopped = client.sdk.stop_training_job(ma.StopTrainingJobRequest(training_job_id=job_id, body=terminate))
    assert stopped.status_code == 202 and stopped.status.phase in ("Terminating", "Terminated")
    ended = client.wait(job_id)
    assert (ended.status.phase, ended.metadata.description) == ("Terminated", "sleeps")
    deleted = client.sdk.delete_training_job(ma.DeleteTrainingJobRequest(training_job_id=job_id))
    assert deleted.status_code == 202
    assert refused(client.show, job_id)[:2] == (400, "ModelArts.2775")


def test_a_job_that_is_deleted_while_it_runs_is_stopped(client: Client) -> None:
    job_id = client.create(client.job("doomed", "import time\ntime.sleep(600)\n")).metadata.id
    client.wait(job_id, "Running")
    client.sdk.delete_training_job(ma.DeleteTrainingJobRequest(training_job_id=job_id))
    assert refused(client.show, job_id)[:2] == (400, "ModelArts.2775")
    with client.scene.server.http(client.token) as http:
        assert http.get("/api/v1/runs/last/wait", params={"seconds": 60}, timeout=90).json()["state"] == "stopped"


def test_a_failure_is_told_in_words_with_its_exit_code(client: Client) -> None:
    job_id = client.create(client.job("broken", "raise SystemExit('no data') if False else SystemExit(7)\n")).metadata.id
    ended = client.wait(job_id)
    assert (ended.status.phase, ended.status.task_statuses[0].exit_code) == ("Failed", 7)
    assert ended.status.task_statuses[0].message
    assert ended.status.running_records[0].end_related_task == "worker-0"
    errors = client.raw("GET", f"/training-jobs/{job_id}/events", params={"level": "Error"}).json()
    assert errors["total"] >= 1


def test_a_command_of_a_custom_image_runs_without_the_image(client: Client) -> None:
    job = client.job("image", engine=ma.JobEngine(image_url="lab/train:1"), algorithm={"command": "echo in $MA_JOB_DIR"})
    job.algorithm.boot_file = None
    job_id = client.create(job).metadata.id
    assert client.wait(job_id).status.phase == "Completed"
    warned = client.raw("GET", f"/training-jobs/{job_id}/events", params={"level": "Warning"}).json()["events"]
    assert "image is not used" in warned[0]["message"]


def test_the_flavor_says_how_many_devices_each_node_has(client: Client) -> None:
    program = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"
    made = client.create(client.job("two", program, flavor="modelarts.vm.gpu.v100"))
    ended = client.wait(made.metadata.id)
    assert ended.status.phase == "Completed"
    preview = client.raw("GET", f"/training-jobs/{made.metadata.id}/tasks/worker-0/logs/preview").json()
    assert {"rank 0 of 2", "rank 1 of 2"} <= set(preview["content"].splitlines())


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"flavor": "modelarts.kat1.8xlarge"}, "ModelArts.2763", "8 ascend on each node, and no node has so many"),
        ({"flavor": "nonsense"}, "ModelArts.2781", "there is no flavor `nonsense`"),
        ({"engine": ma.JobEngine(engine_id="cobol_2.0")}, "ModelArts.2780", "there is no engine `cobol_2.0`"),
        ({"nodes": 0}, "ModelArts.2793", "node_count"),
        ({"algorithm": {"environments": {"1BAD": "x"}}}, "ModelArts.2788", "1BAD"),
        ({"algorithm": {"parameters": [ma.Parameters(name="--x", value="1")]}}, "ModelArts.2788", "without dashes in front"),
        ({"spec": {"auto_stop": ma.AutoStop(time_unit="HOURS", duration=-1)}}, "ModelArts.2788", "duration"),
        ({"spec": {"log_export_path": ma.LogExportPath(obs_url="/nobodys/log/")}}, "ModelArts.2791", "log_url"),
        (
            {"spec": {"volumes": [ma.SpecVolumes(nfs=ma.Nfs(nfs_server_path="a:/b", local_path="/c"))]}},
            "ModelArts.0101",
            "volumes",
        ),
    ],
)
def test_mistakes_are_refused_with_the_codes_of_the_service(
    client: Client, change: dict[str, Any], code: str, said: str
) -> None:
    answer = refused(client.create, client.job(**change))
    assert (answer[0], answer[1], said in answer[2]) == (400, code, True), answer


def test_code_that_is_not_in_the_store_is_refused_before_the_job_waits(client: Client) -> None:
    job = client.job("nowhere")
    job.algorithm.boot_file = f"/{client.bucket}/nowhere/code/other.py"
    assert refused(client.create, job)[:2] == (400, "ModelArts.2758")
    job.algorithm.boot_file = f"/{client.bucket}/elsewhere/train.py"
    assert refused(client.create, job)[:2] == (400, "ModelArts.2758")
    job.algorithm.code_dir, job.algorithm.boot_file = "/nobodys/code/", "/nobodys/code/train.py"
    assert refused(client.create, job)[:2] == (400, "ModelArts.2757")


def test_all_other_calls_of_the_sdk_for_training_say_that_they_are_not_offered(client: Client) -> None:
    sdk = client.sdk
    calls = {name for name in dir(sdk) if re.search(OF_TRAINING, name) and not name.startswith("_")}
    others = sorted(calls - {*OFFERED} - {name for name in calls if name.endswith(("_async", "_invoker"))})
    assert len(others) >= 36 and {*OFFERED} < calls
    documented = DOCUMENT.read_text()
    assert [name for name in [*OFFERED, *others] if f"`{name}`" not in documented] == []
    for name in [*others, "list_pools"]:
        kind = getattr(ma, "".join(map(str.capitalize, name.split("_"))) + "Request")
        request = kind(**{field: "x" for field, of in kind.openapi_types.items() if of == "str"})
        with pytest.raises(ServerResponseException) as found:
            getattr(sdk, name)(request)
        assert (found.value.status_code, "does not offer" in found.value.error_msg) == (501, True), name
    assert client.raw("GET", "/no/such/thing").json()["error_code"] == "APIGW.0101"


def test_the_same_signed_request_again_is_the_same_job(client: Client) -> None:
    body = json.dumps(sanitize_for_serialization(client.job("once"))).encode()
    host = client.scene.server.url.partition("://")[2]
    path, headers = f"/v2/{client.project_id}/training-jobs", {"Content-Type": "application/json"}
    request = SdkRequest("POST", "https", host, path, "", [], headers, body)
    Signer(BasicCredentials(client.key, client.secret, client.project_id)).sign(request)
    with client.scene.server.http() as http:
        answers = [http.post(request.resource_path, content=body, headers=request.header_params) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["metadata"]["id"] == answers[1].json()["metadata"]["id"]


def test_wrong_keys_are_refused(client: Client) -> None:
    for changed, said in (
        (replace(client, secret="wrong"), "is not that of this request"),
        (replace(client, key="MKNONE"), "no such access key"),
    ):
        with pytest.raises(ClientRequestException) as found:
            changed.show("x")
        assert (found.value.status_code, found.value.error_code, said in found.value.error_msg) == (401, "APIGW.0301", True)
