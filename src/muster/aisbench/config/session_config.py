"""`session_config` and `session_config_v2`, sections of modelarts_config.py: reads and checks them.

The checks are those that the cloud would make, before anything is sent there.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.aisbench.config.mode import V2
from muster.aisbench.config.values import UNREAD, ConfigValue, Findings
from muster.aisbench.package import Package
from muster.job.kinds import nearest
from muster.job.rules import SECRET

PATHS = ("inputs", "code_dir", "out_base_url")
NEEDED = (*PATHS, "boot_file", "job_name")
RESOURCES = ("pool_id", "train_instance_type", "train_instance_count", "nas_type", "nas_share_addr", "nas_mount_path")
KNOWN = (*NEEDED, "framework_type", "framework_version", *RESOURCES, "job_description_prefix")
STAMP = len("2022_07_13-13_24_43")  # what V2 appends to the name of a job
MAX_NAME = 64
BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")
KEY = re.compile(r"[\w+/=.~\-]{8,}")
LABEL = re.compile(r"[^\s=\-][^\s=]*")
RESERVED = ("data_url", "train_url")  # parameters that the platform passes itself
WHOLE_NODE = 8  # cards that each node of several must have
# The number of cards in the name of an instance type; those without a number have one.
CARDS = (
    re.compile(r"\.(?:kat1|visual)\.(\d*)xlarge(?:\.public)?$"),
    re.compile(r"\.snt9b?\d*\.(?:\d*)xlarge\.(\d+)$"),
    re.compile(r"\.gpu\.(\d*)(?:p4|p100|v100|t4|tnt004|pnt004)$"),
)


@dataclass(frozen=True)
class Session:
    """A section of modelarts_config.py, of the version that the package is for."""

    config: ConfigValue
    package: Package
    findings: Findings

    def text(self, name: str) -> str:
        """Returns a field that is a text; empty where it is not."""
        found = self.config.get(name)
        return found.value.strip() if found is not None and isinstance(found.value, str) else ""

    def resource(self, name: str) -> str:
        """Returns a pool or an instance type; people write None as a text, too."""
        value = self.text(name)
        return "" if value == "None" else value

    def pairs(self) -> Iterator[tuple[str, ConfigValue]]:
        """Yields the valid parameters of the boot file."""
        found = self.config.get(parameters_name(self.package.kind))
        for entry in found.value if found is not None and isinstance(found.value, list) else []:
            label, value = entry.get(self.label), entry.get("value")
            if label and value and isinstance(label.value, str) and isinstance(value.value, str):
                yield label.value, value

    @property
    def label(self) -> str:
        """The key of a parameter's name."""
        return "name" if self.package.kind == V2 else "label"

    def boot_in_code(self) -> str | None:
        """Returns the boot file relative to the code directory; None where it is outside."""
        boot, code = self.text("boot_file"), self.text("code_dir").rstrip("/") + "/"
        return boot[len(code) :] or None if boot.startswith(code) else None

    def cards_per_node(self) -> int:
        """Returns the cards of the instance type; 0 where its name does not say."""
        matches = (pattern.search(self.resource("train_instance_type")) for pattern in CARDS)
        return next((int(found.group(1) or 1) for found in matches if found), 0)

    def framework(self) -> str:
        """Returns `mindspore` for Ascend, where there is a rank table and one rank per card, else `command`: one per node."""
        return "mindspore" if self.text("framework_type").lower() in ("", "ascend-powered-engine") else "command"


def parameters_name(kind: str) -> str:
    """The key of the list of parameters, in a version of ModelArts."""
    return "parameters" if kind == V2 else "hyperparameters"


def check(package: Package, devices: int, findings: Findings) -> ConfigValue | None:
    """Checks the section of the package's version and returns it; `devices` is the number of cards per node, if given."""
    config = package.settings.get(package.session)
    if config is not None and config.value is UNREAD:
        return None
    if config is None or not isinstance(config.value, dict):
        hint = f"write it as `{package.session} = ed({{...}})`, or choose the other version with MODELARTS_VERSION in config.sh"
        findings.problem(ConfigValue(None, package.file), package.session, "is missing", hint)
        return None
    checker = _Checker(config, package, findings)
    checker.check_keys()
    checker.check_paths()
    checker.check_boot_file()
    checker.check_name()
    checker.check_parameters()
    checker.check_resources(devices)
    return config


class _Checker(Session):
    """Checks one section; each method checks one subject."""

    def problem(self, name: str, message: str, hint: str, at: ConfigValue | None = None) -> None:
        self.findings.problem(at or self.config.get(name) or self.config, f"{self.package.session}.{name}", message, hint)

    def cloud_problem(self, name: str, message: str, hint: str) -> None:
        self.findings.cloud_problem(self.config.get(name) or self.config, f"{self.package.session}.{name}", message, hint)

    def note(self, name: str, message: str, hint: str = "") -> None:
        self.findings.note(self.config.get(name) or self.config, f"{self.package.session}.{name}", message, hint)

    def check_keys(self) -> None:
        known = [*KNOWN, parameters_name(self.package.kind)]
        other = parameters_name("V1" if self.package.kind == V2 else V2)
        for name, _ in self.config.items():
            if name == other:
                form = f"`{parameters_name(self.package.kind)}` with `{self.label}` and `value`"
                self.problem(name, f"belongs to the other version of ModelArts than {self.package.kind}", f"write {form}")
            elif name not in known:
                meant = nearest(name, known)
                self.problem(name, "is not known", f"did you mean `{meant}`?" if meant else "remove it")
        for name in NEEDED:
            found = self.config.get(name)
            if found is None or found.empty:
                self.problem(name, "is missing" if found is None else "is empty", "fill it in")
            elif not isinstance(found.value, str):
                self.problem(name, "is not a text", "put it into quotes")

    def check_paths(self) -> None:
        for name in PATHS:
            path = self.text(name)
            if not path:
                continue
            self._path(name, path)
            if not path.endswith("/"):
                reason = ": ModelArts refuses it as ModelArts.2791" if self.package.kind == V2 else ""
                self.problem(name, f"`{path}` does not end with a slash{reason}", f"write `{path}/`")
        buckets = {name: self.text(name).strip("/").partition("/")[0] for name in ("code_dir", "out_base_url")}
        if self.package.kind == V2 and all(buckets.values()) and len(set(buckets.values())) > 1:
            message = "lies in another bucket than out_base_url, where the old tool put the code by mistake"
            self.note("code_dir", message, "Muster keeps to what is written")

    def _path(self, name: str, path: str) -> None:
        bucket = path.strip("/").partition("/")[0]
        if "://" in path:
            self.problem(name, f"`{path}` has a scheme", f"write `/{path.partition('://')[2]}`")
        elif not path.startswith("/"):
            self.problem(name, f"`{path}` does not start with a slash", f"write `/{path}`")
        elif not BUCKET.fullmatch(bucket):
            message = f"`{path}` starts with `{bucket}`, which cannot be the name of a bucket"
            self.problem(name, message, "it takes 3 to 63 small letters, digits, `.` and `-`")
        elif {".", ".."} & set(path.split("/")):
            self.problem(name, f"`{path}` holds `.` or `..`", "write the path without")
        elif "//" in path:
            self.problem(name, f"`{path}` holds two slashes in a row", "remove one of them")

    def check_boot_file(self) -> None:
        boot, code = self.text("boot_file"), self.text("code_dir")
        if not boot:
            return
        self._path("boot_file", boot)
        if boot.endswith("/"):
            self.problem("boot_file", f"`{boot}` ends with a slash", "name the Python file")
        elif code and self.boot_in_code() is None:
            self.problem("boot_file", f"`{boot}` is outside of code_dir, `{code}`", "name a file below code_dir")
        elif code and self.package.code:
            inside = self.boot_in_code()
            if not os.path.isfile(f"{self.package.code}/{inside}"):
                self.problem(
                    "boot_file", f"names `{inside}`, which is not in {self.package.code}", "check the name of the file"
                )

    def check_name(self) -> None:
        name = self.text("job_name")
        if not name:
            return
        if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_\-]*", name):
            self.problem(
                "job_name", f"`{name}` is no name for a job", "it takes letters, digits, `_` and `-`, a letter in front"
            )
        elif len(name) > MAX_NAME:
            self.problem("job_name", f"is {len(name)} characters long, and a job's name has {MAX_NAME}", "shorten it")
        elif self.package.kind == V2 and len(name) + STAMP > MAX_NAME:
            message = f"is {len(name)} characters long, and with its time stamp of {STAMP} passes the limit of {MAX_NAME}"
            self.cloud_problem("job_name", message, f"keep it to {MAX_NAME - STAMP} characters")

    def check_parameters(self) -> None:
        name, label = parameters_name(self.package.kind), self.label
        found = self.config.get(name)
        if found is None or found.value is None:
            return
        if not isinstance(found.value, list):
            self.problem(name, "is not a list", f"write entries such as {{'{label}': 'epoch_size', 'value': '90'}}")
            return
        seen: dict[str, ConfigValue] = {}
        for entry in found.value:
            self._parameter(entry, name, label, seen)

    def _parameter(self, entry: ConfigValue, name: str, label: str, seen: dict[str, ConfigValue]) -> None:
        form = f"write {{'{label}': 'epoch_size', 'value': '90'}}"
        if not isinstance(entry.value, dict) or set(entry.value) != {label, "value"}:
            self.problem(name, f"has an entry without `{label}` and `value` alone", form, entry)
            return
        key, value = entry.value[label], entry.value["value"]
        if not isinstance(key.value, str) or not LABEL.fullmatch(key.value):
            hint = "it takes letters and digits, without spaces, `=` and dashes in front"
            self.problem(name, f"has a `{label}` that cannot be one", hint, key)
            return
        if not isinstance(value.value, str):
            message = f"is {_kind_of(value.value)}, and all values are texts"
            self.problem(f"{name}.{key.value}", message, f"write '{value.value}' in quotes", value)
        if key.value in seen:
            self.problem(f"{name}.{key.value}", f"stands twice, on line {seen[key.value].line} too", "remove one of them", key)
        if SECRET.search(key.value) and KEY.fullmatch(str(value.value)):
            message = "looks like a key, which the job file, every record of a run and the list of processes would show"
            hint = "remove it, name its variable under `secrets` of the job, and have the program read that"
            self.findings.note(value, f"{self.package.session}.{name}.{key.value}", message, hint)
        if key.value in RESERVED:
            self.problem(f"{name}.{key.value}", "is passed by the platform itself", "remove it", key)
        seen[key.value] = key

    def check_resources(self, devices: int) -> None:
        pool_set, flavor_set = (bool(self.resource(name)) for name in ("pool_id", "train_instance_type"))
        for name in ("pool_id", "train_instance_type"):
            if self.text(name) == "None":
                self.note(name, "is the text `None`, and counts as nothing", "write None without quotes")
        if pool_set and flavor_set:
            hint = "set train_instance_type to None: the pool has a type of its own"
            self.cloud_problem("pool_id", "and train_instance_type are both set", hint)
        if not pool_set and not flavor_set:
            self.problem("train_instance_type", "and pool_id are both empty", "name a type such as modelarts.kat1.8xlarge")
        cards = devices or self.cards_per_node()
        if flavor_set and not cards:
            known = "kat1.xlarge, kat1.2xlarge, kat1.4xlarge and kat1.8xlarge are 1, 2, 4 and 8 cards"
            shown = self.text("train_instance_type")
            self.problem("train_instance_type", f"`{shown}` does not name its number of cards", f"{known}; or say `--devices`")
        self._count(cards)

    def _count(self, cards: int) -> None:
        count = self.config.get("train_instance_count")
        if count is None:
            self.note("train_instance_count", "is missing, and 1 is taken")
        elif not isinstance(count.value, int) or isinstance(count.value, bool) or count.value < 1:
            self.problem("train_instance_count", "is not a number of nodes", "write 1 or more, without quotes")
        elif count.value > 1 and cards and cards < WHOLE_NODE:
            message = f"is {count.value} with {cards} of {WHOLE_NODE} cards each, and several nodes must have all of them"
            self.cloud_problem("train_instance_count", message, "take nodes of 8 cards, or one node")


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return f"the truth value {value}"
    return f"the number {value}" if isinstance(value, int | float) else "empty" if value is None else "no plain value"
