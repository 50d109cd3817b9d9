"""What happened to a job, in the sentences of events and in the stages that the service tells apart."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from muster.bench.report.phrase import Phrase
from muster.server.modelarts.stored import Stored
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.reading import history

ERRORS = ("failure", "failed", "lost", "error")
STAGES = (
    ("scheduling", Phrase("waiting for its turn", "等待调度")),
    ("preparing", Phrase("starting nodes and fetching code and data", "准备节点、代码与数据")),
    ("running", Phrase("running", "运行中")),
    ("end", Phrase("ended", "已结束")),
)
CREATED = Phrase("The job was put into the queue.", "作业已进入队列。")
NOT_USED = Phrase(
    "The image is not used: the program runs with what the machines of the pool have.",
    "未使用镜像：程序使用资源池机器上的环境运行。",
)


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def events(platform: Platform, job: Stored, language: str) -> list[dict[str, Any]]:
    """What happened, the oldest first; each with its time in seconds as `at`."""
    row = job.row
    found = [_event(row.created, "Info", CREATED.within(language))]
    if _object(_object(job.body, "algorithm"), "engine").get("image_url"):
        found.append(_event(row.created, "Warning", NOT_USED.within(language)))
    if row.stage in (rows.RUNNING, rows.ENDED):
        found += [_of_run(event) for event in history.events(platform.run_dir(row))]
    return found


def _of_run(event: dict[str, Any]) -> dict[str, Any]:
    words = str(event["event"])
    details = ", ".join(f"{name} {value}" for name, value in event["details"].items())
    where = "" if event["node"] is None else f" on worker-{event['node']}"
    level = "Error" if any(word in words for word in ERRORS) else "Info"
    return _event(event["time"], level, f"{words}{where}{': ' + details if details else ''}")


def _event(at: float, level: str, message: str) -> dict[str, Any]:
    return {"at": at, "time": moment(at), "level": level, "source": "Muster", "message": message}


def stages(job: Stored, attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stages of each attempt; those of the first begin with the submission."""
    begins = job.row.created
    found = []
    for order, attempt in enumerate(attempts or [{}], 1):
        started = attempt.get("started")
        ranks = [one["started"] for one in attempt.get("ranks") or [] if one.get("started")]
        running, ended = min(ranks, default=None), attempt.get("ended")
        times = [(begins, started or ended), (started, running or ended), (running, ended), (ended, ended)]
        inner = []
        for number, ((name, words), (first, last)) in enumerate(zip(STAGES, times, strict=True), 1):
            if first is None:
                continue
            about = {"job_id": job.id, "name": name, "en_message": words.en, "zh_message": words.zh, "stage_order": number}
            inner.append({**about, "start_time": moment(first), "end_time": moment(last) if last else "", "sub_stages": []})
        found.append({"record_order": order, "stages": inner})
        begins = ended or begins
    return found


def _object(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}
