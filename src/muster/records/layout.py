"""Where everything of a run lies. The one place that knows these paths."""

from __future__ import annotations

import os


def home() -> str:
    """The directory of all runs: $MUSTER_HOME, else ~/.muster."""
    return os.path.abspath(os.environ.get("MUSTER_HOME") or os.path.expanduser("~/.muster"))


def make_home() -> str:
    path = home()
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def is_number(name: str) -> bool:
    """True if a name is a number as Muster writes them; other scripts have digits, too, and ranks choose names as they like."""
    return name.isascii() and name.isdigit() and len(name) < 10


# All that a node writes in its directory, with the most bytes that are read of a file.
NODE_TOPICS = {  # published to the supervisor, each as `<topic>.json`
    **dict.fromkeys(("facts", "failed", "stop-request"), 16 << 20),
    **dict.fromkeys(("noted", "ready", "up", "done", "uploading", "holding"), 1 << 10),
}
NODE_FILES = {
    **{f"{topic}.json": most for topic, most in NODE_TOPICS.items()},
    **dict.fromkeys(("plan.json", "exit.json", "system.json", "before.json", "failure.json", "ranktable.json"), 64 << 20),
    **dict.fromkeys(("hostfile", "hosts", "pids.json"), 16 << 20),
    **dict.fromkeys(("events.jsonl", "metrics.jsonl", "agent.log"), 128 << 20),
    "endpoints.json": 64 << 10,
    "beat": 64,
}
NODE_FOLDERS = frozenset("logs stacks results work inputs outputs log root bin probe".split())


class NodeDir:
    """The files that one node writes during one attempt."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.facts = path + "/facts.json"
        self.plan = path + "/plan.json"
        self.events = path + "/events.jsonl"
        self.exit = path + "/exit.json"
        self.failure = path + "/failure.json"  # which rank failed first that another process than the agent has started
        self.beat = path + "/beat"  # when its machine last said that it is alive
        self.pids = path + "/pids.json"  # of its ranks, as its own processes see them
        self.metrics = path + "/metrics.jsonl"
        self.system = path + "/system.json"
        self.agent_log = path + "/agent.log"
        self.service_log = path + "/service.log"  # what the service that runs the job has of it, where the agent has its own
        self.endpoints = path + "/endpoints.json"  # how its endpoints stand
        self.hosts = path + "/hosts"
        self.logs = path + "/logs"
        self.stacks = path + "/stacks"
        self.results = path + "/results"
        self.work = path + "/work"
        self.root = path + "/root"  # directories of a simulated node's own, such as /cache
        self.bin = path + "/bin"  # programs that stand in for others

    def topic(self, name: str) -> str:
        """The file in which the node publishes a topic."""
        return f"{self.path}/{name}.json"

    def log(self, process: str) -> str:
        return f"{self.logs}/{process}.log"

    def rank_logs(self) -> list[str]:
        """The logs that ranks of this node have begun."""
        names = os.listdir(self.logs) if os.path.isdir(self.logs) else []
        return [f"{self.logs}/{name}" for name in names if name.startswith("rank-")]


class AttemptDir:
    def __init__(self, path: str) -> None:
        self.path = path
        self.number = int(os.path.basename(path))
        self.world = path + "/world.json"
        self.meet = path + "/meet"  # of the channel: what is announced, and links to what nodes publish
        self.stop = self.meet + "/stop"  # why the gang was stopped, as announced
        self.nodes = path + "/nodes"
        self.ssh = path + "/ssh"  # keys and configurations, by node, while the attempt lasts
        self.root = path + "/root"  # directories that all nodes see, where a platform has such

    @property
    def run(self) -> RunDir:
        return RunDir(os.path.dirname(os.path.dirname(self.path)))

    def node(self, index: int) -> NodeDir:
        return NodeDir(f"{self.nodes}/{index}")

    def node_indexes(self) -> list[int]:
        return _numbers(self.nodes)


class RunDir:
    def __init__(self, path: str) -> None:
        self.path = path
        self.id = os.path.basename(path)
        self.home = os.path.dirname(os.path.dirname(path))
        self.job = path + "/job.json"
        self.job_file = path + "/job.yaml"
        self.run = path + "/run.json"
        self.script = path + "/batch.sh"  # what was submitted, where that was a script
        self.submissions = path + "/submissions"  # later ones than that of run.json
        self.shared = path + "/shared"
        self.events = path + "/events.jsonl"
        self.log = path + "/supervisor.log"
        self.stop = path + "/stop.json"
        self.kill = path + "/kill.json"
        self.preempt = path + "/preempt.json"  # that the run has to leave its devices, until it is continued
        self.service = path + "/modelarts.json"  # the jobs of a service that its attempts are
        self.chosen = path + "/chosen.json"  # the devices that a server's queue has chosen, which others may take first
        self.final = path + "/final.json"
        self.lock = path + "/reconcile.lock"  # of the one process that does what the supervisor cannot
        self.attempts = path + "/attempts"
        self.retention = path + "/retention.json"  # of a server's run: what was deleted of it, and when

    def submission(self, number: int) -> str:
        return f"{self.submissions}/{number}.json"

    def submission_numbers(self) -> list[int]:
        return _numbers(self.submissions, ".json")

    def attempt(self, number: int) -> AttemptDir:
        return AttemptDir(f"{self.attempts}/{number}")

    def attempt_numbers(self) -> list[int]:
        return _numbers(self.attempts)

    def last_attempt(self) -> AttemptDir | None:
        numbers = self.attempt_numbers()
        return self.attempt(numbers[-1]) if numbers else None


class BenchDir:
    """One measurement: which runs were made for it, and what came of them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.id = os.path.basename(path)
        self.home = os.path.dirname(os.path.dirname(path))
        self.bench = path + "/bench.json"
        self.result = path + "/result.json"
        self.report = path + "/report.html"


def benches_dir(home_path: str) -> str:
    return home_path + "/benches"


def bench_dir(home_path: str, bench_id: str) -> BenchDir:
    return BenchDir(f"{home_path}/benches/{bench_id}")


def runs_dir(home_path: str) -> str:
    return home_path + "/runs"


def run_dir(home_path: str, run_id: str) -> RunDir:
    return RunDir(f"{home_path}/runs/{run_id}")


def _numbers(path: str, end: str = "") -> list[int]:
    try:
        names = [name[: len(name) - len(end)] for name in os.listdir(path) if name.endswith(end)]
        return sorted(int(name) for name in names if is_number(name))
    except (FileNotFoundError, NotADirectoryError):
        return []
