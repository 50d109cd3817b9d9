"""From the ModelArts configuration of a package to the fields of a job."""

from __future__ import annotations

from muster.aisbench.config import fields as common
from muster.aisbench.config import flavors, session
from muster.aisbench.config.entries import Entry, origin
from muster.aisbench.config.found import Findings, Found
from muster.aisbench.config.mode import V2
from muster.aisbench.package import Choices, Package
from muster.job.rules import SECRET

# What only the cloud has a use for: kept as remarks in the job file for the day that a job goes there.
CLOUD_ONLY = {
    "framework_version": "names the image of the cloud; here the program runs with the Python of `python`",
    "pool_id": "names a pool of the cloud",
    "train_instance_type": "names machines of the cloud; its cards are `devices`",
    "nas_type": "mounts a disk of the cloud",
    "nas_share_addr": "mounts a disk of the cloud",
    "nas_mount_path": "mounts a disk of the cloud",
    "job_description_prefix": "describes the job in the cloud",
}
READ = ("PYTHON_COMMAND", "SINGLESERVER_MODE", "MODELARTS_VERSION")  # of config.sh, in this mode
ACCESS_ONLY = ("project_id", "iam_endpoint", "modelarts_endpoint")


def fields(package: Package, choices: Choices, code: str, findings: Findings) -> list[Entry]:
    """The fields of the job; `code` is where its code lies as the job file says it."""
    if choices.boot:
        findings.note(None, "--boot", "is not used: modelarts_config.py names the boot file", "change `boot_file` there")
    config = session.check(package, choices.devices, findings)
    if config is None:
        return []
    reader = _Fields(config, package, choices, findings)
    reader.leave()
    entries = [*reader.program(code), *reader.size(), *reader.data(), *common.environment(package)]
    return [*entries, *common.measuring(package, findings)]


class _Fields:
    def __init__(self, config: Found, package: Package, choices: Choices, findings: Findings) -> None:
        self.config = config
        self.package = package
        self.choices = choices
        self.findings = findings

    def program(self, code: str) -> list[Entry]:
        engine = session.text(self.config, "framework_type")
        framework = flavors.framework(engine)
        if framework == "command":
            at, name = self.config.get("framework_type"), f"{self.package.session}.framework_type"
            self.findings.note(at, name, f"`{engine}` starts the program once per node, and so does the job")
        uploaded = _url(session.text(self.config, "code_dir"))
        entries = [
            Entry("name", session.text(self.config, "job_name"), self.said("job_name")),
            Entry("framework", framework, self.said("framework_type")),
            Entry("compat", "modelarts-v2" if self.package.kind == V2 else "modelarts-v1", self.version()),
            Entry("code", code or uploaded, "the training code of the package" if code else self.said("code_dir")),
            Entry("boot", session.boot_in_code(self.config) or "", self.said("boot_file")),
        ]
        return entries + common.python(self.package, self.findings)

    def size(self) -> list[Entry]:
        count = self.config.get("train_instance_count")
        nodes = count.value if count is not None and isinstance(count.value, int) else 1
        cards = self.choices.devices or flavors.cards(session.resource(self.config, "train_instance_type"))
        said = self.said("train_instance_type")
        if not cards:
            cards, said = flavors.WHOLE, "a pool does not tell its cards; 8 are taken"
            name = f"{self.package.session}.pool_id"
            message = "names a pool, which does not tell its cards, and 8 are taken"
            self.findings.note(self.config.get("pool_id"), name, message, "say `--devices` if it has others")
        elif self.choices.devices:
            said = "from --devices"
        entries = [Entry("nodes", nodes, self.said("train_instance_count")), Entry("devices", cards, said)]
        if flavors.framework(session.text(self.config, "framework_type")) == "mindspore":
            entries.append(Entry("rank_table", "1.0", "as the platform writes it"))
        return entries

    def data(self) -> list[Entry]:
        out = _url(session.text(self.config, "out_base_url")) + self.choices.folder
        said = self.said("out_base_url")
        folder = "a folder for the job" if self.package.kind == V2 else "a folder V1, V2, ... for each version"
        how = "this is one for the run" if self.choices.folder else "Muster tells old files from new ones"
        where = f"{said}; the old tool made {folder}, {how}"
        parameters = [Entry(name, value.value, value.place) for name, value in session.pairs(self.config, self.package.kind)]
        entries = [
            Entry("inputs", [Entry("data_url", _url(session.text(self.config, "inputs")), self.said("inputs"))]),
            Entry("outputs", [Entry("train_url", out, where)]),
            Entry("log_url", out, said),
        ]
        name = "parameters" if self.package.kind == V2 else "hyperparameters"
        return [*entries, Entry("parameters", parameters, self.said(name))] if parameters else entries

    def leave(self) -> None:
        for name, why in CLOUD_ONLY.items():
            if value := session.resource(self.config, name):
                self.findings.leave(self.config.get(name), f"{self.package.session}.{name}", f"`{value}` {why}")
        access = self.package.settings.get("access_config")
        for name in ACCESS_ONLY:
            found = access.get(name) if access else None
            if found is not None and not found.empty:
                self.findings.leave(found, f"access_config.{name}", f"`{found.value}` is for the cloud")
        unread = [name for name in self.package.variables if name not in READ and not SECRET.search(name)]
        if unread:
            at = Found(None, self.package.variables[unread[0]].file)
            self.findings.leave(at, "", f"sets {', '.join(unread)}, which do not reach the training in ModelArts mode")

    def version(self) -> str:
        found = self.package.variable("MODELARTS_VERSION")
        return origin("MODELARTS_VERSION", found) if found and not self.choices.version else "the version of ModelArts"

    def said(self, name: str) -> str:
        found = self.config.get(name)
        return origin(f"{self.package.session}.{name}", found) if found else ""


def _url(path: str) -> str:
    return f"obs:/{path}" if path.startswith("/") else path
