"""What ModelArts would refuse is asked of it before anything is uploaded: flavors, engines, outputs in use, quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from modelarts_scene import collected as collected
from vendor_answers import Answer, answering

from muster.engines.modelarts import limits
from muster.engines.modelarts.limits import Found
from muster.engines.modelarts.node.account import Account
from muster.engines.modelarts.node.client import Client
from muster.engines.modelarts.options import ModelArtsOptions
from muster.job import Job
from muster.job.data import Data

FLAVORS = [{"flavor_id": "modelarts.vm.gpu.v100"}]
ENGINES = [{"engine_id": "pytorch_1.8.0"}]
UNKNOWN = {"error_code": "ModelArts.2781", "error_msg": "Invalid flavor"}
OFFERED: dict[str, Any] = {
    "/v2/training-job-flavors": {"flavors": FLAVORS},
    "/v2/training-job-engines": {"items": ENGINES},
    "/v2/training-quotas": {"quotas": [{"resource": "job-num", "quota": 2, "used": 1}]},
    "/v2/training-job-searches": {"items": []},
    "/v1/job/resource-specs": {"is_success": True, "specs": [{"spec_id": 4, "spec_code": "modelarts.vm.gpu.v100"}]},
    "/v1/job/ai-engines": {
        "is_success": True,
        "engines": [{"engine_id": 13, "engine_name": "PyTorch", "engine_version": "PyTorch-1.0.0"}],
    },
    "/v1/training-jobs": {"is_success": True, "job_total_count": 1, "job_count_limit": 1, "quotas": 2, "jobs": []},
}
JOBS = {
    "v2": Job(boot="a.py", modelarts=ModelArtsOptions(api="v2", flavor="modelarts.vm.gpu.v100", engine="pytorch_1.8.0")),
    "v1": Job(boot="a.py", modelarts=ModelArtsOptions(api="v1", flavor="modelarts.vm.gpu.v100", engine="PyTorch-1.0.0")),
}


@pytest.fixture
def found() -> Iterator[Callable[..., list[Found]]]:
    """What is found wrong with a job where the service offers this, and answers this to other paths."""
    made: list[Client] = []

    def ask(job: Job, **answers: Any) -> list[Found]:
        offered = {**OFFERED, **answers}

        def answer(method: str, path: str, body: Any) -> Answer:
            known = offered.get(path) or offered.get(path.partition("?")[0])
            return (400, {}, UNKNOWN) if known is None else (200, {}, known)

        with answering(answer) as service:
            made.append(Client(Account(service.url, project="project", access_key="a", secret_key="s", timeout=5.0)))
            return limits.online(made[-1], job)

    yield ask
    for client in made:
        client.close()


def with_options(api: str, **options: Any) -> Job:
    given = {"api": api, "flavor": "modelarts.vm.gpu.v100", "engine": "", **options}
    return Job(boot="a.py", modelarts=ModelArtsOptions(**given))


@pytest.mark.parametrize("api", ["v2", "v1"])
def test_a_job_that_the_service_takes_is_not_refused(found: Callable[..., list[Found]], api: str) -> None:
    assert found(JOBS[api]) == []


@pytest.mark.parametrize(
    ("api", "options", "refused"),
    [
        ("v2", {"flavor": "none"}, "modelarts.flavor"),
        ("v2", {"flavor": "none", "pool": "pool7c1"}, "modelarts.flavor"),
        ("v2", {"engine": "none"}, "modelarts.engine"),
        ("v1", {"flavor": "none"}, "modelarts.flavor"),
        ("v1", {"engine": "none"}, "modelarts.engine"),
    ],
)
def test_what_the_service_does_not_have_is_named_with_what_it_has(
    found: Callable[..., list[Found]], api: str, options: dict[str, str], refused: str
) -> None:
    [(field, message, hint)] = found(with_options(api, **options))
    assert (field, "which the service does not have" in message) == (refused, True)
    assert hint.startswith("it has modelarts.vm.gpu.v100") or hint.startswith("it has pytorch") or "PyTorch-1.0.0" in hint


def test_numbers_of_version_1_and_flavors_of_dedicated_pools_are_not_on_the_lists(found: Callable[..., list[Found]]) -> None:
    assert found(with_options("v1", flavor="77", engine="5")) == []
    most = {"cpu_core_num": 8, "mem_size": 64}
    path = "/v2/training-pool-flavors?flavor_id=modelarts.pool.visual.xlarge&pool_id=pool7c1"
    assert found(with_options("v2", flavor="modelarts.pool.visual.xlarge", pool="pool7c1"), **{path: most}) == []


def test_a_quota_that_is_used_up_is_found_in_both_versions(found: Callable[..., list[Found]]) -> None:
    full = {"quotas": [{"resource": "job-num", "quota": 2, "used": 2}]}
    assert found(JOBS["v2"], **{"/v2/training-quotas": full}) == [
        ("", "the quota of 2 jobs is used up in ModelArts", "wait for a job, or ask for more")
    ]
    unlimited = {"quotas": [{"resource": "job-num", "quota": -1, "used": 2}]}
    assert found(JOBS["v2"], **{"/v2/training-quotas": unlimited}) == []
    none_left = {**OFFERED["/v1/training-jobs"], "job_count_limit": 0}
    assert [words for _, words, _ in found(JOBS["v1"], **{"/v1/training-jobs": none_left})] == [
        "the quota of jobs is used up in ModelArts"
    ]


def test_an_output_to_which_a_job_of_version_1_writes_is_refused(found: Callable[..., list[Found]]) -> None:
    running = {"is_success": True, "jobs": [{"job_id": 3, "version_id": 4, "job_name": "other"}]}
    answers = {
        "/v1/training-jobs?per_page=50&status=8": running,
        "/v1/training-jobs/3/versions/4": {"is_success": True, "train_url": "/bucket/out/"},
    }
    job = Job(boot="a.py", outputs={"train_url": Data("obs://bucket/out")}, modelarts=JOBS["v1"].modelarts)
    [(field, message, _)] = found(job, **answers)
    assert (field, message) == ("outputs.train_url", "is obs://bucket/out, to which the job other writes")
