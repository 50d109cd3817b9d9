"""The Job: what a user asks for. One definition, from which checks, JSON Schema and documentation are made."""

from __future__ import annotations

import re
from typing import Any

from muster.dataclass import asdict, dataclass, replace
from muster.job import endpoints as reaching
from muster.job import kinds, queue
from muster.job.bench import BENCH, KNOWN, Bench, Metric, Metrics
from muster.job.data import Data, Layouts, Url, Urls
from muster.job.kinds import declared, engine_options, fields_of

FRAMEWORKS = ("command", "pytorch", "mindspore", "paddle", "tensorflow", "horovod", "mpi")
LAUNCHERS = ("horovod", "mpi")  # frameworks whose own launcher starts the ranks, over ssh
COMPATS = ("modelarts-v1", "modelarts-v2", "apulis")
CAUSES = ("exit", "signal", "oom", "silent", "lost", "setup", "input")
PORTS = range(20000, 32000)  # below Linux' ephemeral ports, so that no outgoing connection takes one
PLACE = re.compile(r"\$\{?[@*]")  # where a command for bash says that its parameters go
# The names of variables that hold keys and passwords end like this; for Python's `re` and for `grep -E`.
SECRET_NAME = (
    "SECRET(_?KEY|_?ID)?|PASSWORD|PASSWD|PASSPHRASE|TOKEN|CREDENTIALS?|API_?KEY|ACCESS_?KEY(_?ID)?|PRIVATE_?KEY"
    "|STORAGE_KEY|ACCOUNT_KEY|(^|_)[AS]K"
)
MOST_DEVICES = 4000
MOST_NODES = 20000


@dataclass(frozen=True)
class Job:
    name: str = declared(
        kinds.Name(),
        "",
        "The name of the job; the ids of its runs start with it.",
        "resnet50-cifar10",
        "the name of the job file",
    )
    framework: str = declared(
        kinds.Choice(FRAMEWORKS, (("torch", "pytorch"), ("tf", "tensorflow"), ("paddlepaddle", "paddle"), ("bash", "command"))),
        "command",
        "How the ranks find each other: which variables and files each of them is given.",
        "pytorch",
    )
    per: str = declared(
        kinds.Choice(("node", "device"), (("rank", "device"), ("host", "node"), ("gpu", "device"))),
        "",
        "With framework `command`: start the program once per node or once per device.",
        "device",
        "`node`",
    )
    code: str = declared(
        kinds.Text(),
        "",
        "The directory with the program, relative to the job file, or a URL. A snapshot of it is what runs: "
        "at most 512 MB and 20,000 files, without version control, virtual environments, caches and "
        "what `.musterignore` names.",
        "./resnet50",
        "the directory of the job file",
    )
    boot: str = declared(
        kinds.Text(), "", "The Python file to run, inside `code`. Either this or `command`.", "train.py", "none"
    )
    command: str | tuple[str, ...] = declared(
        kinds.Command(),
        "",
        'What to run: a string is run by bash, a list is an argv. `parameters` follow, or stand where a string says `"$@"`.',
        "bash run.sh",
        "none",
    )
    python: str = declared(
        kinds.Text(),
        "",
        "The Python that runs `boot`: a name on your PATH, or a path, relative to the job file.",
        ".venv/bin/python",
        "the first `python` or `python3` on your PATH",
    )
    setup: str = declared(
        kinds.Text(),
        "",
        "Run by bash once per node before the ranks; what it exports reaches them.",
        "source /opt/cann/set_env.sh",
        "none",
    )
    nodes: int = declared(
        kinds.Count(1, MOST_NODES, f"a run can have {MOST_NODES} nodes at most"), 1, "How many nodes take part.", "2"
    )
    ps: int = declared(
        kinds.Count(0, MOST_NODES),
        0,
        "With framework `tensorflow`: how many parameter servers run beside the workers.",
        "1",
    )
    devices: int = declared(
        kinds.Count(1, MOST_DEVICES, f"every rank may need a port of its own, and a node has {MOST_DEVICES} to give"),
        1,
        "Devices per node; each of them gets a rank.",
        "8",
    )
    device: str = declared(
        kinds.Choice(
            ("auto", "cpu", "nvidia", "ascend"),
            (("gpu", "nvidia"), ("cuda", "nvidia"), ("npu", "ascend"), ("huawei", "ascend"), ("910", "ascend")),
        ),
        "auto",
        "What the devices are; `auto` takes the accelerators of the machine, or simulates them on its CPU.",
        "ascend",
    )
    rank_table: str = declared(
        kinds.Choice(("none", "lab", "pods", "1.0"), (("1", "1.0"), ("0.1", "lab"))),
        "",
        "With framework `mindspore`: the format of the HCCL rank table; `none` forms the dynamic cluster instead.",
        '"1.0"',
        "`1.0` on Ascend devices, else `none`",
    )
    cpus: int | None = declared(
        kinds.Count(1, 100000), None, "CPUs that a node's processes may use.", "24", "all of the machine"
    )
    memory: int | None = declared(
        kinds.Size(),
        None,
        "Memory that a node's processes may use together; more of it ends the run.",
        "96G",
        "all of the machine",
    )
    compat: str = declared(
        kinds.Choice(
            COMPATS,
            (("modelarts", "modelarts-v2"), ("v1", "modelarts-v1"), ("v2", "modelarts-v2"), ("dlws", "apulis")),
        ),
        "",
        "The platform that the program was written for: its variables, directories, arguments and files are there.",
        "modelarts-v1",
        "none",
    )
    inputs: dict[str, Data] = declared(
        Urls(),
        {},
        "Data that the program reads, by name: copied to each node before it starts and passed as `--name=path`, "
        "or as a variable (`{url: ..., access: env}`). A directory of this machine is passed as it is; "
        "with `compat: modelarts-v1` the URL itself is.",
        "{data_url: obs://ms-dataset/cifar-10}",
        "none",
    )
    outputs: dict[str, Data] = declared(
        Urls(),
        {},
        "Directories that the program fills, by name, passed as `inputs` are. Every 30 seconds and at the end, "
        "however that comes, what is in them reaches its URL; with `compat: modelarts-v1` the URL itself is passed.",
        "{train_url: obs://resnet50-train/output}",
        "none",
    )
    requires: dict[str, tuple[str, ...]] = declared(
        Layouts(),
        {},
        "Files and directories that inputs must contain, checked in the store before the run starts; directories end with `/`.",
        "{data_url: [train/, val/, ms_bert_large.ckpt]}",
        "nothing",
    )
    log_url: str = declared(
        Url(),
        "",
        "Where the logs of ranks and parameter servers are copied at the end, under the file names of the platform that "
        "`compat` names.",
        "obs://resnet50-train/log",
        "none",
    )
    keep_alive: float | None = declared(
        kinds.Duration(),
        None,
        "With `compat: apulis`: how long `sleep infinity` in a command keeps a finished run alive.",
        "1h",
        "not at all",
    )
    parameters: dict[str, str] = declared(
        kinds.Pairs(
            "parameter",
            r"^[^\s=\-][^\s=]*$",
            "any letters but spaces and `=`, without dashes in front",
            "{epoch_size: 90}",
        ),
        {},
        "Passed to the program as `--name=value`, the text exactly as written.",
        "{epoch_size: 90}",
        "none",
    )
    env: dict[str, str] = declared(
        kinds.Pairs("variable", kinds.ENV_NAME, "letters, digits and `_`, not a digit in front", '{GLOG_v: "3"}'),
        {},
        "Environment variables of every process, the text exactly as written. Keys and passwords belong into `secrets`.",
        '{GLOG_v: "3"}',
        "none",
    )
    secrets: tuple[str, ...] = declared(
        kinds.Names(),
        (),
        "Variables taken from your environment or profile when the run starts; they are never stored.",
        "[WANDB_API_KEY]",
        "none",
    )
    ssh: bool | None = declared(
        kinds.Flag(),
        None,
        "Nodes reach each other by `ssh node-1`, with servers and keys of the run's own. Without it there is no ssh between "
        "nodes of real machines; simulated ones have it where a framework or a platform needs it (docs/ssh.md).",
        "true",
        "with simulated nodes: `true` for frameworks `horovod` and `mpi` and for `compat: apulis`; else `false`",
    )
    workdir: str = declared(
        kinds.Choice(("node", "rank")),
        "node",
        "Ranks share a working copy of the code per node, or have one each.",
        "rank",
    )
    time_limit: float | None = declared(
        kinds.Duration(), None, "The run fails when it takes longer, over all attempts.", "2h", "none"
    )
    silent_limit: float | None = declared(
        kinds.Duration(),
        None,
        "No output and no progress for this long: stacks are dumped and the run fails.",
        "20m",
        "none",
    )
    grace: float = declared(
        kinds.Duration(zero=True),
        30.0,
        "The time that processes have between the stop signal and the kill.",
        "30s",
        "`30s`",
    )
    retries: int = declared(
        kinds.Count(0, 1000), 0, "How often a failed run is tried again; never after a stop or the time limit.", "2"
    )
    retry_on: tuple[int | str, ...] = declared(
        kinds.Causes(CAUSES), (), "Which failures are tried again: exit codes and causes.", "[137, lost]", "all"
    )
    hold_on_failure: float | None = queue.HOLD_ON_FAILURE

    project: str = queue.PROJECT
    pool: str = queue.POOL
    priority: int | None = queue.PRIORITY_FIELD
    preemptible: bool = queue.PREEMPTIBLE
    after: dict[str, str] = queue.AFTER
    constraints: queue.Constraints | None = queue.CONSTRAINTS_FIELD
    queue_limit: float | None = queue.QUEUE_LIMIT

    kind: str = reaching.KIND
    endpoints: dict[str, reaching.Endpoint] = reaching.ENDPOINTS
    login: bool = reaching.LOGIN_FIELD
    idle_limit: float | None = reaching.IDLE_FIELD

    bench: Bench | None = declared(
        BENCH,
        None,
        "How `muster bench` measures the job: nodes together or each alone, how often, and which targets and limits must hold.",
        "{scope: server, repeats: 3, combine: median, targets: {accuracy: 0.76}, limits: {nodes: 5%}}",
        "one run over all nodes",
    )
    metrics: dict[str, Metric] = declared(
        Metrics(),
        {},
        "The metrics of the job, by name, and patterns that find them in the log of an unchanged script. "
        "A benchmark fails when one of them is missing.",
        "{throughput: {pattern: 'fps: ([0-9.]+)', unit: images/s}}",
        "`throughput`, `accuracy`, `loss` and `eval_loss` are known",
    )
    sample: float = declared(
        kinds.Duration(zero=True),
        1.0,
        "The interval at which CPU, memory, disk, network, devices and power are sampled; `0` for none.",
        "5s",
        "`1s`",
    )
    slurm: Any = declared(
        kinds.EngineOptions("slurm"),
        None,
        "With `--engine slurm`: the options of this job, over those of the site in `config.toml` (docs/slurm.md).",
        "{partition: train, account: vision, options: [--nice=100]}",
        "those of the site",
    )
    hosts: Any = declared(
        kinds.EngineOptions("ssh"),
        None,
        "With `--engine ssh`: a group of hosts of `config.toml`, a list of hosts, or a mapping with both and more "
        "(docs/ssh-hosts.md).",
        "[node1, train@node2:2222]",
        "the group in `config.toml` if there is one only",
    )

    modelarts: Any = declared(
        kinds.EngineOptions("modelarts"),
        None,
        "With `--engine modelarts`: pool, flavor, engine or image, over those in `config.toml` (docs/modelarts.md).",
        "{flavor: modelarts.vm.gpu.v100, engine: pytorch_1.8.0-cuda_10.2-py_3.7-ubuntu_18.04-x86_64}",
        "those of `[modelarts]`",
    )

    @property
    def ranks_per_node(self) -> int:
        return 1 if self.framework == "command" and self.per != "device" else self.devices

    @property
    def ports_per_node(self) -> int:
        """Ports that a node holds: the first of node 0 is the master port; some frameworks need one more, or one per rank.

        The last ones are those of the endpoints that Muster starts.
        """
        if self.framework in ("paddle", "tensorflow"):
            return 1 + self.devices + len(self.started_endpoints)
        return 1 + bool(self.compat) + (self.framework == "mindspore") + len(self.started_endpoints)

    @property
    def started_endpoints(self) -> tuple[str, ...]:
        """The endpoints that Muster starts itself."""
        return tuple(name for name in self.endpoints if name in reaching.HELPERS)

    @property
    def is_environment(self) -> bool:
        return self.kind == reaching.ENVIRONMENT

    @property
    def has_keys(self) -> bool:
        """True if the nodes of a run share keys: of its ssh servers, or of its endpoints."""
        return bool(self.ssh or self.login or self.endpoints)

    @property
    def npu(self) -> bool:
        """True if the job is for Ascend devices, real or simulated: then there is a rank table."""
        return self.rank_table != "none" and (self.device == "ascend" or bool(self.rank_table))

    @property
    def alone(self) -> bool:
        """True if the first node alone runs the program, which starts processes on the others itself."""
        return self.framework in LAUNCHERS or (
            self.compat == "apulis" and self.framework == "command" and self.per != "device" and not self.npu
        )

    @property
    def ranks(self) -> int:
        return 1 if self.alone and self.framework == "command" else self.nodes * self.ranks_per_node

    @property
    def programs(self) -> list[tuple[str, int, int]]:
        """The processes that a run waits for: name, rank and node of each."""
        if self.alone:
            return [("main", 0, 0)]
        return [(f"rank-{rank}", rank, rank // self.ranks_per_node) for rank in range(self.ranks)]

    @property
    def servers(self) -> bool:
        """True if every node is measured alone."""
        return self.bench is not None and self.bench.scope == "server"

    @property
    def own_servers(self) -> bool:
        """True if the script itself makes a world of every node: then it gets the ranks of all of them."""
        return self.servers and self.env.get("SINGLESERVER_MODE") == "True"

    @property
    def apart(self) -> bool:
        """True if Muster makes a world of every node: each is started as a job of one node."""
        return self.servers and not self.own_servers

    def only(self, index: int) -> Job:
        """The job of one node where each has its own: its outputs must not meet those of others."""
        outputs = {name: data.below(str(index)) for name, data in self.outputs.items()}
        return replace(self, nodes=1, outputs=outputs)

    @property
    def needed(self) -> tuple[str, ...]:
        """The metrics without which a benchmark has no result."""
        bench = self.bench or Bench()
        return tuple(dict.fromkeys([bench.metric, *bench.targets, *self.metrics]))

    def metric(self, name: str) -> Metric:
        """A metric as the job declares it or as it is known; for `bench.metric` and targets higher is better by default."""
        metric = self.metrics.get(name) or KNOWN.get(name) or Metric()
        judged = self.bench is not None and name in (self.bench.metric, *self.bench.targets)
        return replace(metric, better="higher") if judged and not metric.better else metric

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Job:
        """A Job from its recorded form; a record is checked when it is made, not when it is read."""
        known = {key: value for key, value in data.items() if key in FIELDS}  # an older record may have had others
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in known.items()}
        for key in ("inputs", "outputs"):
            values[key] = {name: Data(**data) for name, data in values.get(key, {}).items()}
        if values.get("bench"):
            values["bench"] = BENCH.from_json(values["bench"])
        if values.get("constraints") is not None:
            values["constraints"] = queue.CONSTRAINTS.from_json(values["constraints"])
        values["endpoints"] = reaching.endpoints_from_json(values.get("endpoints"))
        for field, engine in (("slurm", "slurm"), ("hosts", "ssh"), ("modelarts", "modelarts")):
            if values.get(field):
                values[field] = engine_options(engine).OPTIONS.from_json(values[field])
        values["metrics"] = {name: Metric(**entry) for name, entry in values.get("metrics", {}).items()}
        values["requires"] = {name: tuple(layout) for name, layout in values.get("requires", {}).items()}
        return cls(**values)


FIELDS = fields_of(Job)
