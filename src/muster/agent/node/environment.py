"""The environment of a rank: the submitter's, less keys that are not for it, plus that of plan, secrets and setup script."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence

from muster.linux import keys, proc

# Which devices a rank sees is for the plan to say: the submitter's choice would renumber those that the run holds.
MASKS = frozenset(("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"))

# So is who a rank is: a submitter that is itself a rank of something would make all of them one and the same.
RANKS = frozenset(("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "RANK"))
WITHHELD = MASKS | RANKS

# Variables that a batch system sets for processes that it starts itself. Ranks are started by an agent, not by it.
BATCH = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PMI_", "PMIX_")

NO_WORD = "it ended without showing what it exports (by `exec`, a trap on EXIT, or too large a variable)"

# Runs the text and shows its environment at the end, also when it exits early or sets a trap of its own.
# It has no variables: under the text's `set -a` they would be exported.
SCRIPT = """trap {quoted_show} EXIT
eval {text}
set -- $?; {show}; exit $1
"""

_given_later: dict[str, str] = {}
_of_job: dict[str, str] = {}  # variables that came apart, because root starts no program with them


def base(submitter: Mapping[str, str]) -> dict[str, str]:
    """The part of the submitter's environment that reaches a rank."""
    return {
        name: value
        for name, value in submitter.items()
        if name not in WITHHELD
        and not keys.is_key(name)  # unless the job's `secrets` names it
        and name != "_"
        and not name.startswith(BATCH)
        and not (name.startswith("MUSTER_") and name != "MUSTER_HOME")
    }


def compose(
    defaults: Mapping[str, str],
    planned: Mapping[str, str],
    secrets: Sequence[str],
    exported: Mapping[str, str],
    cwd: str,
    prefix: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """The environment of a process: each layer over the one before; `prefix` stands first in variables that hold lists."""
    submitter = given()
    environment = dict(defaults, **base(submitter))
    environment.update(planned)
    environment.update({name: submitter[name] for name in secrets if name in submitter})
    environment.update(exported)
    environment["PWD"] = cwd
    for name, paths in prefix.items():
        given_paths = environment.get(name, "").split(":") if environment.get(name) else []
        environment[name] = ":".join([*paths, *(path for path in given_paths if path not in paths)])
    return environment


def given() -> dict[str, str]:
    """The submitter's environment."""
    return {**own(), **_of_job}


def own() -> dict[str, str]:
    """The environment that this process was started with, or given later: os.environ may hold a locale that Python added."""
    return dict(_given_later) or proc.environment(os.getpid())


def take_of_job(place: str) -> None:
    """Takes in the variables of a job that runs as another user: from a file in memory, or from one of root's variables."""
    if not place.isdigit():
        _of_job.update(json.loads(own().get(keys.OF_JOB, "{}")))
        return
    descriptor = int(place)
    _of_job.update(json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0)))
    os.close(descriptor)


def replace(environment: Mapping[str, str]) -> None:
    """Replaces the environment that this process was started with."""
    os.environ.clear()
    os.environ.update(environment)
    _given_later.clear()
    _given_later.update(environment)
    _of_job.clear()


class Setup:
    """A setup script, which bash runs once on a node; `before` is the environment that it starts with."""

    def __init__(self, text: str, before: dict[str, str]) -> None:
        self.before = before
        self.dump = keys.memory_file()  # the environment may hold secrets
        show = f"{shlex.quote(shutil.which('env') or 'env')} -0 >&{self.dump}"
        script = SCRIPT.format(show=show, quoted_show=shlex.quote(show), text=shlex.quote(text))
        self.argv: list[str] = ["bash", "-c", script, "setup"]

    def exported(self) -> dict[str, str] | None:
        """Returns the variables that it changed, once it has ended; None when it did not show its environment."""
        dumped = os.pread(self.dump, os.fstat(self.dump).st_size, 0)
        found, own = proc.variables(dumped), ("_", "SHLVL", "PWD", "OLDPWD")
        changed = {name: value for name, value in found.items() if self.before.get(name) != value and name not in own}
        return changed if dumped else None

    def close(self) -> None:
        os.close(self.dump)
