"""The environment of a rank: the submitter's, less keys that are not for it, plus what the plan, secrets and setup say."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from muster.linux import keys, proc

# Which devices a rank sees is for the plan to say: the submitter's choice would renumber those that the run holds.
MASKS = frozenset(("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"))

# So is who a rank is: a submitter that is itself a rank of something would make all of them one and the same.
RANKS = frozenset(("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "RANK"))
WITHHELD = MASKS | RANKS

# Variables that a batch system sets for processes that it starts itself. Ranks are started by an agent, not by it.
BATCH = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PMI_", "PMIX_")


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


def exported(before: Mapping[str, str], dumped: bytes) -> dict[str, str]:
    """The variables that a setup script changed, from the environment at its end."""
    own = {"_", "SHLVL", "PWD", "OLDPWD"}
    return {name: value for name, value in proc.variables(dumped).items() if before.get(name) != value and name not in own}


def given() -> dict[str, str]:
    """The environment that this process was started with: to its own, Python adds a locale where there is none."""
    return proc.environment(os.getpid())
