"""Makes job fields of the offline configuration of a package (config.sh)."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from muster.aisbench.config import cluster_files
from muster.aisbench.config import common_fields as common
from muster.aisbench.config.access_config import own_secrets
from muster.aisbench.config.job_text import JobField, origin
from muster.aisbench.config.values import ConfigValue, Findings
from muster.aisbench.package import Choices, Package
from muster.job.kinds import ENV_NAME, clean_name
from muster.job.rules import SECRET

DATA = ("TRAIN_DATA_PATH", "EVAL_DATA_PATH")
# Variables that do not become environment of the job: Muster uses or replaces them.
RANKS = ("RANK_SIZE", "DEVICE_NUM")  # those for NVIDIA's GPUs have neither, and one process for all of CUDA_VISIBLE_DEVICES
SIZE = (*RANKS, "RANK_TABLE_FILE", "NODEINFO_FILE", "SINGLE_CARD_INDEX", "CUDA_VISIBLE_DEVICES")
PATHS = ("BASE_PATH", "CODE_PATH", "WORK_PATH", "RESULT_PATH")
POWER = ("BMC_IP", "BMC_USER", "BMC_PASSWORD")
TAKEN = (*SIZE, *PATHS, *POWER, "PYTHON_COMMAND", "SINGLESERVER_MODE", "MODELARTS_VERSION", "RUNTYPE")
BOOTS = ("train.py", "run_pretrain.py", "pretrain.py", "main.py")
STARTS_PYTHON = re.compile(r"^[^#]*(?:PYTHON_COMMAND\}?\"?|python[\d.]*)\s+(?:-\w+\s+)*\S*?(\w+\.py)")
SINGLE_RANK = {"RANK_ID": "0", "RANK_SIZE": "1", "DEVICE_ID": "0", "DEVICE_NUM": "1"}  # without a rank table
RESULTS = 'export RESULT_PATH="$MUSTER_RESULTS"'


def fields(package: Package, choices: Choices, code: str, findings: Findings) -> list[JobField]:
    """Returns the fields of the job; `code` is the path of its code relative to the job file."""
    reader = _Fields(package, findings)
    nodes, devices = reader.size()
    ranks = 1 if reader.gpus else nodes * devices
    reader.leave_out()
    boot = choices.boot or reader.boot()
    made = [
        JobField("name", _name(package), "the name of the package"),
        JobField("framework", "mindspore" if ranks > 1 else "command", "one process" if reader.gpus else "a rank per device"),
        JobField("code", code, "the training code of the package"),
        JobField("boot", boot, "from --boot" if choices.boot else "what the package starts"),
        *(reader.python_of_hosts() if reader.hosts else common.python(package, findings)),
        JobField("nodes", nodes, reader.origin("RANK_SIZE", "divided by DEVICE_NUM")),
        JobField("devices", devices, reader.origin("CUDA_VISIBLE_DEVICES" if reader.gpus else "DEVICE_NUM")),
    ]
    if reader.hosts:
        logins = tuple(host.login for host in reader.hosts)
        made.append(JobField("hosts", logins, reader.origin("NODEINFO_FILE", "which --engine ssh takes")))
    if ranks > 1:
        made.append(JobField("rank_table", "1.0", reader.origin("RANK_TABLE_FILE", "which Muster makes anew for every run")))
    made.append(JobField("workdir", "rank", "as train_parallel0, train_parallel1, ..."))
    made.append(JobField("setup", RESULTS, "where throughput_rank_0, ... and eval_acc.log are looked for"))
    made += reader.data(SINGLE_RANK if ranks == 1 and not reader.gpus else {})
    return [*made, *common.measuring(package, findings)]


class _Fields:
    def __init__(self, package: Package, findings: Findings) -> None:
        self.package = package
        self.findings = findings
        self.gpus = package.variable("CUDA_VISIBLE_DEVICES") if not any(map(package.variable, RANKS)) else None
        self.info = package.variable("NODEINFO_FILE") if not self.gpus else None
        self.listed = cluster_files.hosts(self.info, package.root, findings) if self.info is not None else None
        self.hosts = () if findings.here else self.listed or ()  # those that the job runs on

    def size(self) -> tuple[int, int]:
        """Returns nodes and devices per node, and checks the rules of the offline mode between variables and files."""
        if self.gpus:
            return 1, len(str(self.gpus.value).split(","))
        ranks, devices = map(self._number, RANKS)
        if not ranks or not devices:
            return 1, max(devices, 1)
        at = self.package.variable("RANK_SIZE")
        if ranks % devices:
            message = f"is {ranks}, which is no multiple of DEVICE_NUM, {devices}"
            self.findings.problem(at, "RANK_SIZE", message, "it is the number of servers times DEVICE_NUM")
            return 1, devices
        self._table(ranks, devices)
        self._single_card(ranks, devices)
        return ranks // devices, devices

    def _number(self, name: str) -> int:
        found = self.package.variable(name)
        if found is None:
            self.findings.problem(ConfigValue(None, self.package.file), name, "is not set", f"write `export {name}=8`")
            return 0
        if not re.fullmatch(r"[1-9][0-9]{0,5}", str(found.value)):
            self.findings.problem(found, name, f"`{found.value}` is not a number of ranks", "write 1 or more")
            return 0
        return int(found.value)

    def _table(self, ranks: int, devices: int) -> None:
        at, info = self.package.variable("RANK_TABLE_FILE"), self.info
        table = cluster_files.rank_table(at, self.package.root, self.findings) if at is not None else None
        names = tuple(host.name for host in self.listed or ())
        size = self.package.variable("RANK_SIZE")
        if at is None and ranks > 1:
            self.findings.cloud_problem(size, "RANK_TABLE_FILE", f"is not set, and RANK_SIZE is {ranks}", "name the rank table")
        if at is not None and ranks == 1:
            self.findings.cloud_problem(at, "RANK_TABLE_FILE", "is set, and RANK_SIZE is 1", "remove the line")
        if info is None and ranks > devices:
            message = f"is not set, and {ranks // devices} servers take part"
            self.findings.cloud_problem(size, "NODEINFO_FILE", message, "name the file with their logins")
        if at is not None and table is not None and ranks > 1:
            self._compare(at, table, ranks // devices, devices)
        if table is not None and names and names != table.servers:
            message = f"lists {', '.join(names)}, and the rank table {', '.join(table.servers)}"
            self.findings.problem(info, "NODEINFO_FILE", message, "name the same servers in the same order")
        elif self.hosts and len(names) != ranks // devices:
            message = f"lists {len(names)} servers, and RANK_SIZE / DEVICE_NUM is {ranks // devices}"
            self.findings.problem(info, "NODEINFO_FILE", message, "correct one of them")

    def _compare(self, at: ConfigValue, table: cluster_files.RankTable, nodes: int, devices: int) -> None:
        if len(table.servers) != nodes:
            message = f"has {len(table.servers)} servers, and RANK_SIZE / DEVICE_NUM is {nodes}"
            self.findings.problem(at, "RANK_TABLE_FILE", message, "correct one of them")
        elif any(count != devices for count in table.devices):
            message = f"has servers with {', '.join(map(str, table.devices))} devices, and DEVICE_NUM is {devices}"
            self.findings.problem(at, "RANK_TABLE_FILE", message, "correct one of them")

    def _single_card(self, ranks: int, devices: int) -> None:
        at = self.package.variable("SINGLE_CARD_INDEX")
        if at is None:
            return
        if (ranks, devices) != (1, 1):
            message = f"is set, and RANK_SIZE is {ranks} and DEVICE_NUM {devices}"
            self.findings.problem(at, "SINGLE_CARD_INDEX", message, "it goes with one rank on one device alone")
        elif not str(at.value).isdigit():
            self.findings.problem(at, "SINGLE_CARD_INDEX", f"`{at.value}` is not the number of a card", "write 0 to 7")
        elif self.hosts:
            self.findings.leave_out(at, "SINGLE_CARD_INDEX", f"picks card {at.value}; the first free one of the host is taken")
        else:
            message = f"picks card {at.value}; set ASCEND_RT_VISIBLE_DEVICES={at.value} when you start the job"
            self.findings.leave_out(at, "SINGLE_CARD_INDEX", message)

    def boot(self) -> str:
        """Returns the boot file, which only a shell script of the package names."""
        code = self.package.code
        if not code:
            message = "has no training code: there is no code/code"
            self.findings.problem(ConfigValue(None, self.package.folder), "", message, "name the whole package")
            return ""
        found = next((name for name in (*self._started(), *BOOTS) if os.path.isfile(f"{code}/{name}")), "")
        if not found:
            message = f"does not say which file starts the training in {code}"
            self.findings.problem(ConfigValue(None, self.package.folder), "", message, "say `--boot FILE`")
        return found

    def python_of_hosts(self) -> list[JobField]:
        """The field `python`, which is looked for on the hosts."""
        found = self.package.variable("PYTHON_COMMAND")
        return [JobField("python", str(found.value), self.origin("PYTHON_COMMAND", "on the hosts"))] if found else []

    def data(self, given: Mapping[str, str]) -> list[JobField]:
        inputs, env = [], [JobField(name, value, "one rank alone") for name, value in given.items()]
        for name, at in self.package.variables.items():
            if name in TAKEN or at.empty or SECRET.search(name) or not re.fullmatch(ENV_NAME, name):
                continue
            comment = origin(name, at)
            if name not in DATA or self.hosts:
                where = ", a path on the hosts" if name in DATA else ""
                env.append(JobField(name, str(at.value), comment + where))
                continue
            if not os.path.isdir(str(at.value)):
                self.findings.note(at, name, f"names {at.value}, which is no directory of this machine")
            inputs.append(JobField(name, [JobField("url", str(at.value), comment), JobField("access", "env")]))
        secrets = tuple(name for name in own_secrets(self.package) if name not in POWER)
        fields = [JobField("inputs", inputs), JobField("env", env), JobField("secrets", secrets, "kept in the profile")]
        return [field for field in fields if field.value]

    def leave_out(self) -> None:
        if self.listed and not self.hosts:
            names = ", ".join(host.name for host in self.listed)
            message = f"lists {names}; the nodes of the job are simulated on this machine"
            self.findings.leave_out(self.info, "NODEINFO_FILE", message)
        for host in (host for host in self.hosts if host.has_password):
            message = f"has a password for {host.name}, which is kept nowhere: ssh takes keys"
            self.findings.leave_out(self.info, "NODEINFO_FILE", message, f"install yours with `{host.key_command}`")
        if at := self.package.variable("CUDA_VISIBLE_DEVICES"):
            message = f"picks {at.value}; set CUDA_VISIBLE_DEVICES={at.value} when you start the job"
            self.findings.leave_out(at, "CUDA_VISIBLE_DEVICES", message)
        for name, field in (("BMC_IP", "ipmi_host"), ("BMC_USER", "user")):
            if at := self.package.variable(name):
                message = f"`{at.value}` is for the power of the machine"
                self.findings.leave_out(at, name, message, f"write it as `{field}` below [power] in config.toml")
        if at := self.package.variable("BMC_PASSWORD"):
            hint = 'write `password_secret = "BMC_PASSWORD"` below [power] in config.toml'
            self.findings.leave_out(at, "BMC_PASSWORD", "is in the profile", hint)
        for path in self.package.start_scripts:
            self._start_script(path)
        for path in self.package.env_scripts:
            message = "sets up the environment of the training"
            hint = f"add `. {path}` to `setup` of the job if it needs it"
            if self.hosts:  # only the training code is brought there
                hint = (
                    f"if it needs it, copy it to the training code and add `. ./{os.path.basename(path)}` to `setup` of the job"
                )
            self.findings.leave_out(ConfigValue(None, path), "", message, hint)

    def _started(self) -> list[str]:
        """Python files that shell scripts of the package start; the first is the training."""
        texts = [_text(path) for path in self.package.start_scripts]
        return [name for text in texts for name in re.findall(r"(?:WORK_PATH\}?/code|BASE_PATH\}?/work)/(\S+\.py)", text)]

    def _start_script(self, path: str) -> None:
        """Leaves out where a shell script starts Python: its arguments are not read."""
        for number, line in enumerate(_text(path).splitlines(), 1):
            if found := STARTS_PYTHON.search(line):
                message, hint = f"starts {found.group(1)} with arguments of its own", "write those it needs under `parameters`"
                self.findings.leave_out(ConfigValue(None, path, number), "", message, hint)

    def origin(self, name: str, more: str = "") -> str:
        found = self.package.variable(name)
        return f"{origin(name, found)} {more}".strip() if found else ""


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")


def _name(package: Package) -> str:
    base = Path(package.folder)
    name = base.parent.name if base.name == "code" else base.name
    return clean_name(name.partition("-Ais-Benchmark-Stubs")[0]) or "aisbench"
