"""The jobs of the service, in both versions of its API, with one interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from muster.dataclass import dataclass
from muster.engines.modelarts.node import shown
from muster.engines.modelarts.node.client import Client, Refused, Unanswered, objects
from muster.engines.modelarts.node.shown import Shown, sentence

DUPLICATE = "ModelArts.2751"
NO_JOB = "ModelArts.2775"
V2 = "/v2/{project_id}"
V1 = "/v1/{project_id}"
PAGE = 50
MOST_PAGES = 20
ID = r"[0-9A-Za-z_-]{1,64}"  # of a job; it stands in addresses
# Where version 1 lists specs and engines: the path, the field of the list, and what names one.
OFFERED = {
    "spec_id": ("/job/resource-specs", "specs", ("spec_code",)),
    "engine_id": ("/job/ai-engines", "engines", ("engine_name", "engine_version")),
}
LINES = 500  # of a log at once, the most that the service gives


@dataclass(frozen=True)
class JobId:
    """The id of a job, with that of its version where it has some."""

    job: str
    version: str = ""


class NotOffered(Refused):
    """The service has no spec or engine of a name."""

    def __init__(self, message: str, known: str) -> None:
        super().__init__("", f"{message}; it has {known}")
        self.known = known  # the names of those that it has


@dataclass(frozen=True)
class Page:
    """Lines of a log, and where they begin and end by the service's own count."""

    first: str
    last: str
    lines: list[str]


class Jobs(Protocol):
    def create(self, body: Mapping[str, Any]) -> JobId: ...

    def find(self, name: str) -> list[JobId]:
        """The jobs of exactly this name, the oldest first."""

    def show(self, job: JobId) -> Shown: ...

    def stop(self, job: JobId) -> None: ...

    def waits_for(self, job: JobId) -> str:
        """What the service says about a job that waits; empty where it says nothing."""

    def page(self, job: JobId, node: int, behind: str) -> Page:
        """The lines of a node's log behind a place."""

    def hosts(self, job: JobId) -> dict[int, dict[str, str]]:
        """Where the nodes are, as far as the service says it."""

    def writers(self) -> dict[str, str]:
        """The outputs of jobs that have not ended, with the names of these."""


def of(client: Client, version: str) -> Jobs:
    return JobsV1(client) if version == "v1" else JobsV2(client)


class JobsV2:
    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, body: Mapping[str, Any]) -> JobId:
        made = self._client.ask("POST", f"{V2}/training-jobs", body=body)
        return JobId(_id(_object(made, "metadata"), "id"))

    def find(self, name: str) -> list[JobId]:
        found = self._search([{"key": "name", "operator": "like", "value": [name]}])
        own = [_object(one, "metadata") for one in found if _object(one, "metadata").get("name") == name]
        own.sort(key=lambda one: str(one.get("create_time")).rjust(20))
        return [JobId(str(one["id"])) for one in own if re.fullmatch(ID, str(one.get("id")))]

    def _search(self, filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for page in range(MOST_PAGES):
            body = {"offset": page, "limit": PAGE, "sort_by": "create_time", "order": "desc", "filters": filters}
            answer = self._client.ask("POST", f"{V2}/training-job-searches", body=body)
            found = objects(answer, "items")
            items += found
            if len(found) < PAGE:
                break
        return items

    def show(self, job: JobId) -> Shown:
        return shown.of_v2(self._client.ask("GET", f"{V2}/training-jobs/{job.job}"))

    def stop(self, job: JobId) -> None:
        self._client.ask("POST", f"{V2}/training-jobs/{job.job}/actions", body={"action_type": "terminate"})

    def waits_for(self, job: JobId) -> str:
        query = [("limit", 1), ("order", "desc")]
        events = objects(self._client.ask("GET", f"{V2}/training-jobs/{job.job}/events", query), "events")
        return sentence(events[0].get("message")) if events else ""

    def page(self, job: JobId, node: int, behind: str) -> Page:
        query = [("base_line", behind), ("lines", LINES), ("order", "asc")]
        return _page(self._client.ask("GET", f"{V2}/training-jobs/{job.job}/logs/worker-{node}", query))

    def hosts(self, job: JobId) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        for one in objects(self._client.ask_any("GET", f"{V2}/training-jobs/{job.job}/tasks")):
            name, _, number = str(one.get("task")).rpartition("-")
            if name == "worker" and number.isascii() and number.isdigit():
                found[int(number)] = {
                    "host": sentence(one.get("host") or one.get("host_ip")),
                    "address": sentence(one.get("ip")),
                }
        return found

    def writers(self) -> dict[str, str]:
        going = {"key": "phase", "operator": "in", "value": ["Creating", "Pending", "Running", "Terminating"]}
        found: dict[str, str] = {}
        for one in self._search([going]):
            for output in objects(_object(one, "algorithm"), "outputs"):
                url = str(_object(_object(output, "remote"), "obs").get("obs_url") or "")
                found[place(url)] = str(_object(one, "metadata").get("name"))
        return found


class JobsV1:
    """Jobs with versions: each attempt is a job with one version."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._logs: list[str] = []

    def _ask(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        answer = self._client.ask(method, V1 + path, **given)
        if answer.get("is_success") is False:
            code = str(answer.get("error_code") or "")
            raise Refused(code, f"{sentence(answer.get('error_message'))} ({code})")
        return answer

    def create(self, body: Mapping[str, Any]) -> JobId:
        made = self._ask("POST", "/training-jobs", body={**body, "config": self._numbered(body["config"])})
        return JobId(_id(made, "job_id"), _id(made, "version_id"))

    def _numbered(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The config with numbers for the spec and the engine, where these are named."""
        named = {field: config[field] for field in OFFERED if isinstance(config.get(field), str)}
        return {**config, **{field: self.number(field, name) for field, name in named.items()}}

    def number(self, field: str, name: str) -> Any:
        """The number of a spec or an engine. Raises NotOffered."""
        path, items, names = OFFERED[field]
        listed = objects(self._ask("GET", path, query=[("job_type", "train")]), items)
        own = [one for one in listed if _named(one, names, name)]
        if not own:
            known = ", ".join(dict.fromkeys(str(one.get(names[-1])) for one in listed[:20]))
            raise NotOffered(f"the service has no {field[:-3]} `{name}`", known)
        return own[0].get(field)

    def left(self) -> int | None:
        """How many jobs may be created yet; None where the service does not say it."""
        found = self._ask("GET", "/training-jobs", query=[("per_page", 1)]).get("job_count_limit")
        return found if isinstance(found, int) else None

    def find(self, name: str) -> list[JobId]:
        query = [("search_content", name), ("per_page", PAGE), ("order", "asc"), ("sortBy", "create_time")]
        jobs = objects(self._ask("GET", "/training-jobs", query=query), "jobs")
        ids = [(str(one.get("job_id")), str(one.get("version_id"))) for one in jobs if one.get("job_name") == name]
        return [JobId(*both) for both in ids if all(re.fullmatch(ID, text) for text in both)]

    def show(self, job: JobId) -> Shown:
        return shown.of_v1(self._ask("GET", f"/training-jobs/{job.job}/versions/{job.version}"))

    def stop(self, job: JobId) -> None:
        self._ask("POST", f"/training-jobs/{job.job}/versions/{job.version}/stop", body={})

    def waits_for(self, job: JobId) -> str:
        return ""  # version 1 does not say it

    def page(self, job: JobId, node: int, behind: str) -> Page:
        version = f"/training-jobs/{job.job}/versions/{job.version}"
        if node >= len(self._logs):
            names = self._ask("GET", f"{version}/log/file-names").get("log_file_list")
            self._logs = [str(name) for name in names] if isinstance(names, list) else []
        if node >= len(self._logs):
            return Page(behind, behind, [])
        query = [("log_file", self._logs[node]), ("base_line", behind), ("lines", LINES), ("order", "asc")]
        return _page(self._ask("GET", f"{version}/aom-log", query=query))

    def hosts(self, job: JobId) -> dict[int, dict[str, str]]:
        return {}  # version 1 does not say it

    def writers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for status in (1, 7, 8):
            for one in objects(self._ask("GET", "/training-jobs", query=[("status", status), ("per_page", PAGE)]), "jobs"):
                version = self._ask("GET", f"/training-jobs/{_id(one, 'job_id')}/versions/{_id(one, 'version_id')}")
                if version.get("train_url"):
                    found[place(str(version["train_url"]))] = str(one.get("job_name"))
        return found


def place(url: str) -> str:
    """A place of the store, however it is written."""
    return (url.partition("://")[2] if "://" in url else url).strip("/")


def _named(one: Mapping[str, Any], names: tuple[str, ...], wanted: str) -> bool:
    parts = [str(one.get(name) or "") for name in names]
    return wanted.lower() in {part.lower() for part in (*parts, "-".join(parts))}


def _page(answer: Mapping[str, Any]) -> Page:
    content = str(answer.get("content") or "")
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    return Page(str(answer.get("start_line") or ""), str(answer.get("end_line") or ""), lines if content else [])


def _id(data: Mapping[str, Any], name: str) -> str:
    """An id. Raises Unanswered: without it the job has to be looked for."""
    value = data.get(name)
    text = str(value) if isinstance(value, (str, int)) else ""
    if not re.fullmatch(ID, text):
        raise Unanswered(f"its answer has no `{name}`")
    return text


def _object(data: Any, name: str) -> Mapping[str, Any]:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}
