"""Why an attempt ended as it did, in words, from what agents and ranks wrote down and nothing else."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

from muster.records.files import read_events
from muster.records.layout import AttemptDir
from muster.records.logs import exception_line, last_lines
from muster.records.untrusted import is_regular

TAIL_LINES = 20
USAGE = 2  # the code of a program that was given something wrong, and says so in its last line, as argparse does
NOT_RUN = (126, 127)  # the codes of a shell that could not run a program, or did not find it
# How shells say so, in English and Chinese.
SHELL = re.compile(
    "[:：] ?(command not found|not found|No such file or directory|Permission denied|Is a directory|cannot execute"
    "|bad interpreter|未找到命令|没有那个文件或目录|权限不够|无法执行)|is not on the PATH"
)
NO_MODULE = "; `python` in the job file, or --set python=/path/to/python, names a Python that has it"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _as_signal(code: int | None) -> bool:
    """Whether an exit code is a shell's way to say that its program was killed."""
    return code is not None and 128 < code < 160


def size(number: float) -> str:
    for unit in ("B", "K", "M", "G"):
        if number < 1024:
            return f"{number:.0f}{unit}" if number >= 10 or unit == "B" else f"{number:.1f}{unit}"
        number /= 1024
    return f"{number:.1f}T"


def duration(seconds: float) -> str:
    """A time in the form that a job file takes."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    parts = []
    whole = round(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def over_time(limit: float) -> str:
    return f"it took longer than its time limit of {duration(limit)}"


def who(failure: dict[str, Any]) -> str:
    process = failure.get("process") or ""
    name = f"rank {failure['rank']}" if failure.get("rank", -1) >= 0 and process != "main" else process
    return f"{name} on node {failure['node']}"


def sentence(failure: dict[str, Any], exception: str = "") -> str:
    """One failure in words."""
    kind = failure["kind"]
    if kind == "start":
        text = "{} could not be started: {}".format(who(failure), failure["message"])
    elif kind == "setup":
        text = "{} failed: {}".format(who(failure), failure["message"])
    elif kind == "memory":
        used, limit = size(failure["used"]), size(failure["limit"])
        text = f"the processes of node {failure['node']} used {used} together, more than the job's `memory: {limit}`"
    elif kind == "plan":
        text = str(failure["message"])
    elif kind == "code":
        text = f"the code could not be brought to node {failure['node']} (code {failure['code']}): {failure['message']}"
    elif kind == "input":
        text = f"the inputs of node {failure['node']} could not be fetched: {failure['message']}"
    elif kind == "output":
        text = (
            f"the outputs of node {failure['node']} could not be uploaded and are kept in its directory: {failure['message']}"
        )
    elif kind == "signal":
        text = "{} was killed ({})".format(who(failure), signal_name(failure["signal"]))
    else:
        code = failure["code"]
        text = f"{who(failure)} exited with code {code}"
        if _as_signal(code):
            text += f" (128 + {signal_name(code - 128)})"
    if failure.get("oom"):
        text += "; the kernel's counters show out of memory"
    elif failure.get("oom_before"):
        text += "; the kernel had killed another process of its node for memory"
    text = text if text.endswith(exception) else f"{text}: {exception}"
    return text + NO_MODULE if "ModuleNotFoundError: " in exception else text


def cause(failure: dict[str, Any]) -> str:
    """The cause of a failure in the words of `retry_on`."""
    if failure.get("oom") or failure["kind"] == "memory":
        return "oom"
    if failure["kind"] in ("input", "code"):
        return "input"
    if failure.get("process") == "setup":
        return "setup"
    return {"signal": "signal"}.get(failure["kind"], "exit")


def where_stacks_are(attempt: AttemptDir) -> str:
    """Where to read what the ranks of a silent attempt were doing."""
    dumps = [event for node in attempt.node_indexes() for event in read_events(attempt.node(node).events)]
    dumps = [event for event in dumps if event["event"] == "stacks"]
    if any(event["files"] for event in dumps):
        return f"; the stacks of its ranks are in {attempt.nodes}/*/stacks"
    if any(event.get("in_logs") for event in dumps):
        return "; the stacks of its ranks are at the end of their logs"
    return ""


def details(attempt: AttemptDir, failures: list[dict[str, Any]]) -> dict[str, Any]:
    """The first failure with the end of its log, and the other distinct causes."""
    first = failures[0]
    explained = dict(first, **_log_end(attempt, first))
    explained["sentence"] = sentence(first, explained["exception"])
    seen = {_distinct(first, explained["exception"])}
    others = []
    for failure in failures[1:]:
        exception = _log_end(attempt, failure)["exception"]
        if _distinct(failure, exception) not in seen:
            seen.add(_distinct(failure, exception))
            others.append(sentence(failure, exception))
    explained["others"] = others
    return explained


def _log_end(attempt: AttemptDir, failure: dict[str, Any]) -> dict[str, Any]:
    if not failure.get("process"):
        return {"log": None, "exception": "", "tail": []}
    launched = _first_launched(attempt, failure) if failure["process"] == "main" and not failure.get("signal") else None
    if launched:
        return launched
    path = attempt.node(failure["node"]).log(failure["process"])
    lines = last_lines(path, 1000)
    # Who was killed may have printed a traceback long before: it says nothing about the end.
    exception = "" if failure.get("signal") or _as_signal(failure.get("code")) else exception_line(lines)
    if failure.get("code") != 1 and lines and exception != lines[-1].strip():
        exception = ""  # Python ends with 1 of an exception: this one was handled, and something else ended it
    return {"log": path, "exception": exception or _last_words(failure.get("code"), lines), "tail": lines[-TAIL_LINES:]}


def _last_words(code: int | None, lines: list[str]) -> str:
    """The line in which a program or its shell says what was wrong, where the exit code tells that there is one."""
    if code == USAGE:
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    if code in NOT_RUN:
        return next((line.strip() for line in reversed(lines[-TAIL_LINES:]) if SHELL.search(line)), "")
    return ""


def _first_launched(attempt: AttemptDir, failure: dict[str, Any]) -> dict[str, Any] | None:
    """The end of the log of the rank that failed first, of those that a launcher started: it only says that one did."""
    logs = [attempt.node(node).rank_logs() for node in attempt.node_indexes()]
    regular = (path for paths in logs for path in paths if is_regular(path))
    for path in sorted(regular, key=os.path.getmtime):
        lines = last_lines(path, 1000)
        exception = exception_line(lines)
        if failure.get("code") in NOT_RUN:
            exception = _last_words(failure["code"], lines[-1:])
        if exception and exception == lines[-1].strip():
            name = os.path.basename(path)[: -len(".log")].replace("-", " ")
            return {"log": path, "exception": f"{name}: {exception}", "tail": lines[-TAIL_LINES:]}
    return None


def _distinct(failure: dict[str, Any], exception: str) -> Any:
    return (failure["kind"], failure.get("code"), failure.get("signal"), exception)
