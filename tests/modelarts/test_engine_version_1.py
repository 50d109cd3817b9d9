"""Version 1 of ModelArts' training API as the engine asks it: jobs with versions, numbers, errors with the status 200."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from modelarts_scene import collected as collected
from vendor_answers import Answer, answering

from muster.engines.modelarts.node import shown
from muster.engines.modelarts.node.account import Account
from muster.engines.modelarts.node.client import Client, Refused
from muster.engines.modelarts.node.jobs import JobId, JobsV1


def account(url: str) -> Account:
    return Account(url, project="project", access_key="a", secret_key="s", timeout=5.0)


def test_version_1_names_specs_and_engines_by_numbers() -> None:
    def answer(method: str, path: str, body: Any) -> Answer:
        if path.startswith("/v1/job/resource-specs"):
            return 200, {}, {"is_success": True, "specs": [{"spec_id": 4, "spec_code": "modelarts.vm.gpu.v100"}]}
        if path.startswith("/v1/job/ai-engines"):
            return (
                200,
                {},
                {
                    "is_success": True,
                    "engines": [{"engine_id": 13, "engine_name": "PyTorch", "engine_version": "PyTorch-1.0.0"}],
                },
            )
        created.append(body)
        return 200, {}, {"is_success": True, "job_id": "10", "version_id": "11", "status": 1}

    created: list[Any] = []
    with answering(answer) as service:
        client = Client(account(service.url))
        made = JobsV1(client).create(
            {"job_name": "n", "config": {"spec_id": "modelarts.vm.gpu.v100", "engine_id": "pytorch-1.0.0"}}
        )
        assert made == JobId("10", "11")
        assert created[0]["config"] == {"spec_id": 4, "engine_id": 13}
        with pytest.raises(Refused, match=r"no spec `x`; it has modelarts\.vm\.gpu\.v100"):
            JobsV1(client).create({"config": {"spec_id": "x"}})
        client.close()


def test_jobs_are_found_shown_read_and_stopped_by_job_and_version() -> None:
    """Numbers are Longs there, which samples of the documentation show as texts."""
    listed = [
        {"job_id": 9, "version_id": "12", "job_name": "steps-1-a"},
        {"job_id": "10", "version_id": 11, "job_name": "steps-1"},
    ]
    version = "/v1/training-jobs/10/versions/11"
    log = {"is_success": True, "start_line": "7", "end_line": "9", "lines": 2, "content": "one\ntwo\n"}
    asked: list[str] = []

    def answer(method: str, path: str, body: Any) -> Answer:
        asked.append(f"{method} {path}")
        parts = urlsplit(path)
        answers = {
            "/v1/training-jobs": {"is_success": True, "jobs": listed},
            version: {"is_success": True, "status": 11, "start_time": 1000, "duration": 2000, "error_msg": "no data"},
            f"{version}/log/file-names": {"is_success": True, "log_file_list": ["steps-1.0", "steps-1.1"]},
            f"{version}/aom-log": log if parse_qs(parts.query).get("log_file") == ["steps-1.1"] else None,
            f"{version}/stop": {"is_success": False, "error_code": "ModelArts.0105", "error_message": "it has ended"},
        }
        return 200, {}, answers[parts.path]

    with answering(answer) as service:
        client = Client(account(service.url))
        jobs = JobsV1(client)
        [job] = jobs.find("steps-1")
        assert job == JobId("10", "11")
        found = jobs.show(job)
        assert (found.state, found.words, found.ended) == (shown.FAILED, "FAILED: no data", 3.0)
        assert jobs.page(job, 1, "0").lines == ["one", "two"]
        assert jobs.page(job, 2, "0").lines == []  # a node whose log is not there yet
        with pytest.raises(Refused, match=r"it has ended \(ModelArts\.0105\)") as refused:
            jobs.stop(job)
        assert (refused.value.code, asked[-1]) == ("ModelArts.0105", f"POST {version}/stop")
        client.close()
