"""`session_config` and `session_config_v2`: every check that the cloud would make, made before anything is sent there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from muster.aisbench.config import flavors
from muster.aisbench.config.found import UNREAD, Findings, Found
from muster.aisbench.config.mode import V2
from muster.aisbench.package import Package
from muster.job.kinds import nearest
from muster.job.rules import SECRET

PATHS = ("inputs", "code_dir", "out_base_url")
NEEDED = (*PATHS, "boot_file", "job_name")
RESOURCES = ("pool_id", "train_instance_type", "train_instance_count", "nas_type", "nas_share_addr", "nas_mount_path")
KNOWN = (*NEEDED, "framework_type", "framework_version", *RESOURCES, "job_description_prefix")
STAMP = len("2022_07_13-13_24_43")  # what V2 appends to the name of a job
MOST_NAME = 64
BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")
KEY = re.compile(r"[\w+/=.~\-]{8,}")
LABEL = re.compile(r"[^\s=\-][^\s=]*")
OWN = ("data_url", "train_url")  # labels that the platform passes itself


def check(package: Package, devices: int, findings: Findings) -> Found | None:
    """The section that counts, after a look at all of it; `devices` are the cards per node that the user says."""
    config = package.settings.get(package.session)
    if config is not None and config.value is UNREAD:
        return None
    if config is None or not isinstance(config.value, dict):
        hint = f"write it as `{package.session} = ed({{...}})`, or choose the other version with MODELARTS_VERSION in config.sh"
        findings.wrong(Found(None, package.file), package.session, "is missing", hint)
        return None
    look = _Look(config, package, findings)
    look.keys()
    look.paths()
    look.boot_file()
    look.name()
    look.parameters()
    look.resources(devices)
    return config


def text(config: Found, name: str) -> str:
    """A field as text; empty where it is none."""
    found = config.get(name)
    return found.value.strip() if found is not None and isinstance(found.value, str) else ""


def resource(config: Found, name: str) -> str:
    """A pool or a type of machines; people write None as a text, too."""
    found = text(config, name)
    return "" if found == "None" else found


def pairs(config: Found, kind: str) -> Iterator[tuple[str, Found]]:
    """The parameters of the boot file that are written as they must be."""
    found = config.get(_list_name(kind))
    for entry in found.value if found is not None and isinstance(found.value, list) else []:
        label, value = entry.get(_label_name(kind)), entry.get("value")
        if label and value and isinstance(label.value, str) and isinstance(value.value, str):
            yield label.value, value


def _list_name(kind: str) -> str:
    return "parameters" if kind == V2 else "hyperparameters"


def _label_name(kind: str) -> str:
    return "name" if kind == V2 else "label"


class _Look:
    """One look at a section; each method is about one subject."""

    def __init__(self, config: Found, package: Package, findings: Findings) -> None:
        self.config = config
        self.package = package
        self.findings = findings

    def wrong(self, name: str, message: str, hint: str, at: Found | None = None) -> None:
        self.findings.wrong(at or self.config.get(name) or self.config, f"{self.package.session}.{name}", message, hint)

    def refused(self, name: str, message: str, hint: str) -> None:
        self.findings.refused(self.config.get(name) or self.config, f"{self.package.session}.{name}", message, hint)

    def note(self, name: str, message: str, hint: str = "") -> None:
        self.findings.note(self.config.get(name) or self.config, f"{self.package.session}.{name}", message, hint)

    def keys(self) -> None:
        known = [*KNOWN, _list_name(self.package.kind)]
        other = _list_name("V1" if self.package.kind == V2 else V2)
        for name, _ in self.config.items():
            if name == other:
                form = f"`{_list_name(self.package.kind)}` with `{_label_name(self.package.kind)}` and `value`"
                self.wrong(name, f"belongs to the other version of ModelArts than {self.package.kind}", f"write {form}")
            elif name not in known:
                meant = nearest(name, known)
                self.wrong(name, "is not known", f"did you mean `{meant}`?" if meant else "remove it")
        for name in NEEDED:
            found = self.config.get(name)
            if found is None or found.empty:
                self.wrong(name, "is missing" if found is None else "is empty", "fill it in")
            elif not isinstance(found.value, str):
                self.wrong(name, "is not a text", "put it into quotes")

    def paths(self) -> None:
        for name in PATHS:
            path = text(self.config, name)
            if not path:
                continue
            self._path(name, path)
            if not path.endswith("/"):
                reason = ": ModelArts refuses it as ModelArts.2791" if self.package.kind == V2 else ""
                self.wrong(name, f"`{path}` does not end with a slash{reason}", f"write `{path}/`")
        buckets = {name: text(self.config, name).strip("/").partition("/")[0] for name in ("code_dir", "out_base_url")}
        if self.package.kind == V2 and all(buckets.values()) and len(set(buckets.values())) > 1:
            message = "lies in another bucket than out_base_url, where the old tool put the code by mistake"
            self.note("code_dir", message, "Muster keeps to what is written")

    def _path(self, name: str, path: str) -> None:
        bucket = path.strip("/").partition("/")[0]
        if "://" in path:
            self.wrong(name, f"`{path}` has a scheme", f"write `/{path.partition('://')[2]}`")
        elif not path.startswith("/"):
            self.wrong(name, f"`{path}` does not start with a slash", f"write `/{path}`")
        elif not BUCKET.fullmatch(bucket):
            message = f"`{path}` starts with `{bucket}`, which cannot be the name of a bucket"
            self.wrong(name, message, "it takes 3 to 63 small letters, digits, `.` and `-`")
        elif {".", ".."} & set(path.split("/")):
            self.wrong(name, f"`{path}` holds `.` or `..`", "write the path without")
        elif "//" in path:
            self.wrong(name, f"`{path}` holds two slashes in a row", "remove one of them")

    def boot_file(self) -> None:
        boot, code = text(self.config, "boot_file"), text(self.config, "code_dir")
        if not boot:
            return
        self._path("boot_file", boot)
        if boot.endswith("/"):
            self.wrong("boot_file", f"`{boot}` ends with a slash", "name the Python file")
        elif code and boot_in_code(self.config) is None:
            self.wrong("boot_file", f"`{boot}` is outside of code_dir, `{code}`", "name a file below code_dir")
        elif code and self.package.code:
            inside = boot_in_code(self.config)
            if not os.path.isfile(f"{self.package.code}/{inside}"):
                self.wrong("boot_file", f"names `{inside}`, which is not in {self.package.code}", "check the name of the file")

    def name(self) -> None:
        name = text(self.config, "job_name")
        if not name:
            return
        if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_\-]*", name):
            self.wrong("job_name", f"`{name}` is no name for a job", "it takes letters, digits, `_` and `-`, a letter in front")
        elif len(name) > MOST_NAME:
            self.wrong("job_name", f"is {len(name)} characters long, and a job's name has {MOST_NAME}", "shorten it")
        elif self.package.kind == V2 and len(name) + STAMP > MOST_NAME:
            message = f"is {len(name)} characters long, and with its time stamp of {STAMP} passes the limit of {MOST_NAME}"
            self.refused("job_name", message, f"keep it to {MOST_NAME - STAMP} characters")

    def parameters(self) -> None:
        name, label = _list_name(self.package.kind), _label_name(self.package.kind)
        found = self.config.get(name)
        if found is None or found.value is None:
            return
        if not isinstance(found.value, list):
            self.wrong(name, "is not a list", f"write entries such as {{'{label}': 'epoch_size', 'value': '90'}}")
            return
        seen: dict[str, Found] = {}
        for entry in found.value:
            self._parameter(entry, name, label, seen)

    def _parameter(self, entry: Found, name: str, label: str, seen: dict[str, Found]) -> None:
        form = f"write {{'{label}': 'epoch_size', 'value': '90'}}"
        if not isinstance(entry.value, dict) or set(entry.value) != {label, "value"}:
            self.wrong(name, f"has an entry without `{label}` and `value` alone", form, entry)
            return
        key, value = entry.value[label], entry.value["value"]
        if not isinstance(key.value, str) or not LABEL.fullmatch(key.value):
            hint = "it takes letters and digits, without spaces, `=` and dashes in front"
            self.wrong(name, f"has a `{label}` that cannot be one", hint, key)
            return
        if not isinstance(value.value, str):
            message = f"is {_kind_of(value.value)}, and all values are texts"
            self.wrong(f"{name}.{key.value}", message, f"write '{value.value}' in quotes", value)
        if key.value in seen:
            self.wrong(f"{name}.{key.value}", f"stands twice, on line {seen[key.value].line} too", "remove one of them", key)
        if SECRET.search(key.value) and KEY.fullmatch(str(value.value)):
            message = "looks like a key, which the job file, every record of a run and the list of processes would show"
            hint = "remove it, name its variable under `secrets` of the job, and have the program read that"
            self.findings.note(value, f"{self.package.session}.{name}.{key.value}", message, hint)
        if key.value in OWN:
            self.wrong(f"{name}.{key.value}", "is passed by the platform itself", "remove it", key)
        seen[key.value] = key

    def resources(self, devices: int) -> None:
        pool_set, flavor_set = (bool(resource(self.config, name)) for name in ("pool_id", "train_instance_type"))
        for name in ("pool_id", "train_instance_type"):
            if text(self.config, name) == "None":
                self.note(name, "is the text `None`, and counts as nothing", "write None without quotes")
        if pool_set and flavor_set:
            hint = "set train_instance_type to None: the pool has a type of its own"
            self.refused("pool_id", "and train_instance_type are both set", hint)
        if not pool_set and not flavor_set:
            self.wrong("train_instance_type", "and pool_id are both empty", "name a type such as modelarts.kat1.8xlarge")
        cards = devices or flavors.cards(resource(self.config, "train_instance_type"))
        if flavor_set and not cards:
            known = "kat1.xlarge, kat1.2xlarge, kat1.4xlarge and kat1.8xlarge are 1, 2, 4 and 8 cards"
            shown = text(self.config, "train_instance_type")
            self.wrong("train_instance_type", f"`{shown}` does not tell its cards", f"{known}; or say `--devices`")
        self._count(cards)

    def _count(self, cards: int) -> None:
        count = self.config.get("train_instance_count")
        if count is None:
            self.note("train_instance_count", "is missing, and 1 is taken")
        elif not isinstance(count.value, int) or isinstance(count.value, bool) or count.value < 1:
            self.wrong("train_instance_count", "is not a number of nodes", "write 1 or more, without quotes")
        elif count.value > 1 and cards and cards < flavors.WHOLE:
            message = f"is {count.value} with {cards} of {flavors.WHOLE} cards each, and several nodes must have all of them"
            self.refused("train_instance_count", message, "take nodes of 8 cards, or one node")


def boot_in_code(config: Found) -> str | None:
    """The boot file relative to the code directory; None where it is outside."""
    boot, code = text(config, "boot_file"), text(config, "code_dir").rstrip("/") + "/"
    return boot[len(code) :] or None if boot.startswith(code) else None


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return f"the truth value {value}"
    return f"the number {value}" if isinstance(value, int | float) else "empty" if value is None else "no plain value"
