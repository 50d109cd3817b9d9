"""Makes a package with the tree and the name that AISBench's build gives it, reproducible byte for byte."""

import gzip
import hashlib
import io
import os
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

from muster import __version__
from muster.aisbench.config import python_file, shell_file
from muster.aisbench.config.values import ConfigValue, Findings
from muster.job.rules import SECRET
from muster.records.files import temporary_name

TEMPLATE = Path(__file__).with_name("template")
# The path of each file of the template in the package; a workload may have its own.
TEMPLATE_PATHS = {
    "ais-bench-stubs": "ais-bench-stubs",
    "README.md": "README.md",
    "benchmark.sh": "code/benchmark.sh",
    "ais_utils.py": "code/ais_utils.py",
    "train_modelarts.py": "code/common/train_modelarts.py",
    "muster.sh": "code/common/muster.sh",
    "config.sh": "code/config/config.sh",
    "modelarts_config.template": "code/config/modelarts_config.py",
    "config.json": "code/config.json",
    "system.json": "code/system.json",
}
WORKLOAD_FILES = ("code", "config", "doc", "config.json", "system.json", "README.md", "ais_utils.py")
EMPTY_FOLDERS = ("log", "result", "tmp")
EXECUTABLES = ("ais-bench-stubs", "code/benchmark.sh")
IGNORED = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".git", ".venv", ".DS_Store")
# How training code reports the metrics of a benchmark; it must report both.
REPORTS = {
    "throughput": re.compile(rb"throughput_|record\.(?:metric|timer)|MLLOG|set_result"),
    "accuracy": re.compile(rb"accuracy|eval_acc|MLLOG"),
}
VENDORS = {"train": ("huawei", "nvidia"), "inference": ("language", "vision", "recommendation")}


@dataclass(frozen=True)
class PackageName:
    """The parts of a package's name."""

    workload: str
    arch: str
    mode: str = "train"
    vendor: str = "huawei"
    version: str = ""
    type: str = ""

    @property
    def name(self) -> str:
        words = "_".join(word for word in (self.version, self.type) if word)
        return f"{self.mode}_{self.vendor}_{self.workload}-Ais-Benchmark-Stubs-{self.arch}-1.0-{words}"


def check(folder: Path, naming: PackageName) -> Findings:
    """Checks that the package of a workload can be measured, and holds no credentials."""
    findings = Findings()
    at = ConfigValue(None, str(folder))
    if naming.vendor not in VENDORS[naming.mode]:
        findings.problem(
            None, "--vendor", f"`{naming.vendor}` is none of {naming.mode}", f"take {' or '.join(VENDORS[naming.mode])}"
        )
    if naming.version and not re.fullmatch(r"r[0-9]+\.[0-9]+", naming.version):
        findings.problem(None, "--version", f"`{naming.version}` is no version of a workload", "write one such as r1.3")
    if naming.type and not naming.version:
        findings.problem(None, "--type", "stands behind a version in the name", "add --version, such as r1.3")
    if not re.fullmatch(r"[A-Za-z0-9_.]+", naming.workload):
        findings.problem(None, "--workload", f"`{naming.workload}` is no name", "it takes letters, digits, `_` and `.`")
    code = _code(folder, findings)
    if not code:
        findings.problem(at, "", "has no directory `code` with the training code", "put the program there")
        return findings
    _check_reports(folder / "code" if (folder / "code").is_dir() else folder, list(code.values()), findings)
    _check_configuration(folder, findings)
    return findings


def _code(folder: Path, findings: Findings) -> dict[str, Path]:
    """Returns the training code by its path in the package: `code/`, or beside the job files, with `common`."""
    if (folder / "code").is_dir():
        parts = {"code": folder / "code"}
    elif not any(folder.glob("*.py")):
        return {}
    else:
        parts = {"code": folder, "code/common": folder.parent / "common"}
    found = {}
    for prefix, part in parts.items():
        for path in _files(part, findings):
            inside = path.relative_to(part)
            if part != folder or (inside.parts[0] not in WORKLOAD_FILES and path.suffix != ".yaml"):
                found[f"{prefix}/{inside.as_posix()}"] = path
    return found


def _check_reports(folder: Path, code: list[Path], findings: Findings) -> None:
    texts = [path.read_bytes() for path in code if path.suffix in (".py", ".sh") or not path.suffix]
    for metric, pattern in REPORTS.items():
        if not any(pattern.search(text) for text in texts):
            hint = "write the result files of AISBench, or use `from muster import record`"
            findings.problem(ConfigValue(None, str(folder)), "", f"holds nothing that reports {metric}", hint)


def _check_configuration(folder: Path, findings: Findings) -> None:
    """Adds a problem for each key and password that is filled in, because packages are passed on."""
    settings, variables = folder / "config/modelarts_config.py", folder / "config/config.sh"
    values: dict[str, ConfigValue] = {}
    if settings.is_file():
        access = (python_file.read(str(settings), findings) or {}).get("access_config")
        values.update(access.items() if access else ())
    if variables.is_file():
        values.update(shell_file.read(str(variables), {"BASE_PATH": "", "CODE_PATH": "", "HOME": ""}, findings))
    for name, found in values.items():
        if SECRET.search(name) and not found.empty:
            findings.problem(found, name, "is filled in, and a package is passed on to others", "empty it")


def pack(folder: Path, naming: PackageName, target: Path) -> Path:
    """Writes the package of a checked workload, and returns its path."""
    files = {path: (TEMPLATE / name).read_bytes() for name, path in TEMPLATE_PATHS.items()}
    runtype = "modelarts" if naming.type == "modelarts" else "cluster_offline"
    files["code/benchmark.sh"] = files["code/benchmark.sh"].replace(
        b'RUNTYPE="cluster_offline"', f'RUNTYPE="{runtype}"'.encode()
    )
    executables = set(EXECUTABLES)
    for inside, path in {**_code(folder, Findings()), **_settings(folder)}.items():
        target_path = "README.md" if inside == "README.md" else f"code/{inside}"
        files[target_path] = path.read_bytes()
        if os.access(path, os.X_OK):
            executables.add(target_path)
    files["code/doc/version.txt"] = _version(naming, files).encode()
    target.mkdir(parents=True, exist_ok=True)
    result = target / f"{naming.name}.tar.gz"
    temporary = Path(temporary_name(str(result)))
    try:
        temporary.write_bytes(_archive(naming.name, files, executables))
        temporary.replace(result)
    finally:
        temporary.unlink(missing_ok=True)
    return result


def _settings(folder: Path) -> dict[str, Path]:
    """Returns the files of a workload beside its code, by their path in the package."""
    entries = [folder / name for name in WORKLOAD_FILES if name != "code" and (folder / name).exists()]
    paths = [path for entry in entries for path in ([entry] if entry.is_file() else _files(entry, Findings()))]
    return {path.relative_to(folder).as_posix(): path for path in paths}


def shipped_workloads() -> dict[str, Path]:
    """Returns the workloads that come with Muster, by name, in the installed package or in the source tree."""
    package = Path(__file__).parent.parent
    roots = (package / "workloads", package.parent.parent / "workloads")
    return {path.parent.name: path.parent for root in roots for path in sorted(root.glob("*/train.py"))}


def _version(naming: PackageName, files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(name for name in files if name.startswith("code/code/")):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return f"muster:{__version__}\nversion:{naming.version}\ntype:{naming.type}\ncode_sha256:{digest.hexdigest()}\n"


def _files(folder: Path, findings: Findings) -> list[Path]:
    found = []
    for path in sorted(folder.rglob("*")):
        if set(path.relative_to(folder).parts) & set(IGNORED) or path.suffix == ".pyc":
            continue
        if path.is_symlink():
            findings.problem(ConfigValue(None, str(path)), "", "is a link, and a package holds files", "copy the file there")
        elif path.is_file():
            found.append(path)
    return found


def _archive(name: str, files: dict[str, bytes], executables: set[str]) -> bytes:
    folders = {f"{name}/{folder}" for folder in EMPTY_FOLDERS} | {name}
    for path in files:
        folders.update(f"{name}/{above.as_posix()}" for above in Path(path).parents if above.as_posix() != ".")
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for member in sorted([*folders, *(f"{name}/{path}" for path in files)]):
            path = member.removeprefix(f"{name}/")
            info = tarfile.TarInfo(member)
            info.mtime = 0
            if member in folders:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            else:
                info.size, info.mode = len(files[path]), 0o755 if path in executables else 0o644
                archive.addfile(info, io.BytesIO(files[path]))
    return packed.getvalue()
