"""Makes job fields of the ModelArts configuration of a package."""

from dataclasses import dataclass

from muster.aisbench.config import common_fields as common
from muster.aisbench.config.job_text import JobField, origin
from muster.aisbench.config.mode import V2
from muster.aisbench.config.session_config import WHOLE_NODE, Session, check, parameters_name
from muster.aisbench.config.values import ConfigValue, Findings
from muster.aisbench.package import Choices, Package
from muster.job.rules import SECRET

# Settings that only the cloud uses: remarks in the job file.
CLOUD_ONLY = {
    "framework_version": "names the image of the cloud; here the program runs with the Python of `python`",
    "pool_id": "names a pool of the cloud",
    "train_instance_type": "names machines of the cloud; its cards are `devices`",
    "nas_type": "mounts a disk of the cloud",
    "nas_share_addr": "mounts a disk of the cloud",
    "nas_mount_path": "mounts a disk of the cloud",
    "job_description_prefix": "describes the job in the cloud",
}
READ_VARIABLES = ("PYTHON_COMMAND", "SINGLESERVER_MODE", "MODELARTS_VERSION")  # of config.sh, in this mode
ACCESS_ONLY = ("project_id", "iam_endpoint", "modelarts_endpoint")


def fields(package: Package, choices: Choices, code: str, findings: Findings) -> list[JobField]:
    """Returns the fields of the job; `code` is the path of its code relative to the job file."""
    if choices.boot:
        findings.note(None, "--boot", "is not used: modelarts_config.py names the boot file", "change `boot_file` there")
    config = check(package, choices.devices, findings)
    if config is None:
        return []
    reader = _Fields(config, package, findings, choices)
    reader.leave_out()
    made = [*reader.program(code), *reader.size(), *reader.data(), *common.environment(package)]
    return [*made, *common.measuring(package, findings)]


@dataclass(frozen=True)
class _Fields(Session):
    choices: Choices

    def program(self, code: str) -> list[JobField]:
        framework = self.framework()
        if framework == "command":
            at, name = self.config.get("framework_type"), f"{self.package.session}.framework_type"
            message = f"`{self.text('framework_type')}` starts the program once per node, and so does the job"
            self.findings.note(at, name, message)
        uploaded = _url(self.text("code_dir"))
        fields = [
            JobField("name", self.text("job_name"), self.origin("job_name")),
            JobField("framework", framework, self.origin("framework_type")),
            JobField("compat", "modelarts-v2" if self.package.kind == V2 else "modelarts-v1", self.version()),
            JobField("code", code or uploaded, "the training code of the package" if code else self.origin("code_dir")),
            JobField("boot", self.boot_in_code() or "", self.origin("boot_file")),
        ]
        return fields + common.python(self.package, self.findings)

    def size(self) -> list[JobField]:
        count = self.config.get("train_instance_count")
        nodes = count.value if count is not None and isinstance(count.value, int) else 1
        cards = self.choices.devices or self.cards_per_node()
        comment = self.origin("train_instance_type")
        if not cards:
            cards, comment = WHOLE_NODE, "a pool does not name its number of cards; 8 are taken"
            name = f"{self.package.session}.pool_id"
            message = "names a pool, which does not name its number of cards, and 8 are taken"
            self.findings.note(self.config.get("pool_id"), name, message, "say `--devices` if it has others")
        elif self.choices.devices:
            comment = "from --devices"
        fields = [JobField("nodes", nodes, self.origin("train_instance_count")), JobField("devices", cards, comment)]
        if self.framework() == "mindspore":
            fields.append(JobField("rank_table", "1.0", "as the platform writes it"))
        return fields

    def data(self) -> list[JobField]:
        out = _url(self.text("out_base_url")) + self.choices.folder
        comment = self.origin("out_base_url")
        folder = "a folder for the job" if self.package.kind == V2 else "a folder V1, V2, ... for each version"
        how = "this is one for the run" if self.choices.folder else "Muster distinguishes old files from new ones"
        where = f"{comment}; the old tool made {folder}, {how}"
        parameters = [JobField(name, value.value, value.location) for name, value in self.pairs()]
        fields = [
            JobField("inputs", [JobField("data_url", _url(self.text("inputs")), self.origin("inputs"))]),
            JobField("outputs", [JobField("train_url", out, where)]),
            JobField("log_url", out, comment),
        ]
        comment = self.origin(parameters_name(self.package.kind))
        return [*fields, JobField("parameters", parameters, comment)] if parameters else fields

    def leave_out(self) -> None:
        for name, why in CLOUD_ONLY.items():
            if value := self.resource(name):
                self.findings.leave_out(self.config.get(name), f"{self.package.session}.{name}", f"`{value}` {why}")
        access = self.package.settings.get("access_config")
        for name in ACCESS_ONLY:
            found = access.get(name) if access else None
            if found is not None and not found.empty:
                self.findings.leave_out(found, f"access_config.{name}", f"`{found.value}` is for the cloud")
        unread = [name for name in self.package.variables if name not in READ_VARIABLES and not SECRET.search(name)]
        if unread:
            at = ConfigValue(None, self.package.variables[unread[0]].file)
            self.findings.leave_out(at, "", f"sets {', '.join(unread)}, which do not reach the training in ModelArts mode")

    def version(self) -> str:
        found = self.package.variable("MODELARTS_VERSION")
        return origin("MODELARTS_VERSION", found) if found and not self.choices.version else "the version of ModelArts"

    def origin(self, name: str) -> str:
        found = self.config.get(name)
        return origin(f"{self.package.session}.{name}", found) if found else ""


def _url(path: str) -> str:
    return f"obs:/{path}" if path.startswith("/") else path
