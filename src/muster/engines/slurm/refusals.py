"""Explains why sbatch rejected a job, from its error lines and the options of the script."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Rights = Callable[[], dict[str, list[str]]]
"""Returns the accounts of the user, each with its QOS; nothing where they are unknown."""

LIMITS = "`scontrol show partition` shows its limits"
SEE = "see [slurm] in config.toml and `slurm` in the job"
MEMORY = ("no node gives a job that much memory", "`scontrol show config` shows MaxMemPerNode; set `memory`")
# By Slurm's own words, whose beginnings are the same in all versions: what they mean, and what to do.
MEANINGS = {
    "invalid account": ("you may not use {account} here", "yours are {accounts}"),
    "invalid qos": ("you may not use {qos} here", "yours are {all_qos}"),
    "user's group not permitted": ("its partition is not for your group", "`scontrol show partition` shows for whom it is"),
    "no partition specified": ("there is no default partition", "set `partition` below [slurm] in config.toml"),
    "node count specification": ("its partition gives a job more or fewer nodes", LIMITS),
    "requested time limit": ("its partition gives no job that much time", f"{LIMITS}; set `time_limit`"),
    "more processors": ("its partition gives no job that many CPUs", f"{LIMITS}; set `cpus`"),
    "memory required": MEMORY,
    "memory specification": MEMORY,
    "invalid generic resource": ("no node has such devices", "`gres` below [slurm] says what the site calls them"),
    "invalid feature": ("no node has {constraint}", "`sinfo --format=%f` shows the features of the nodes"),
    "requested reservation": ("there is no {reservation} for you", "`scontrol show reservation` shows those that there are"),
}


def explained(lines: Sequence[str], script: str, rights: Rights) -> str:
    """One sentence about what is wrong and one about what to do, from the lines that sbatch wrote about a script."""
    said = [line.removeprefix("Batch job submission failed: ") for line in lines]
    text = "; ".join(said)
    if "accounting/QOS policy" in text:
        limits = [spelled(line) for line in said if re.fullmatch(r"(QOS|Assoc)\w+", line)]
        which = f" ({', '.join(limits)})" if limits else ""
        return f"Slurm refuses the job: it is beyond a limit of its QOS or account{which}; ask for less, or {SEE}"
    for words, (meaning, advice) in MEANINGS.items():
        if words in text.lower():
            names = {**_options(script), **(_rights(rights()) if "yours" in advice else {})}
            return f"Slurm refuses the job: {meaning.format(**names)} ({text}); {advice.format(**names)}"
    return f"Slurm refuses the job: {text}; {SEE}, `sinfo` shows the partitions"


def spelled(reason: str) -> str:
    """`QOSMaxCpuPerUserLimit` as `max cpu per user`."""
    bare = re.sub(r"^(QOS|Assoc)(?=[A-Z])|(?<=[a-z])Limit$", "", reason).replace("Grp", "Group")
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", bare).lower()


def _options(script: str) -> dict[str, str]:
    """The options of a script as words for a sentence."""
    names = {"account": "account", "qos": "QOS", "constraint": "the feature", "reservation": "reservation"}
    given = dict(re.findall(r"^#SBATCH --([a-z]+)=(.*)$", script, re.MULTILINE))
    return {name: f"{word} `{given[name]}`" if name in given else f"your default {word}" for name, word in names.items()}


def _rights(found: dict[str, list[str]]) -> dict[str, str]:
    everywhere = "shown by `sacctmgr show assoc user=$USER format=account,qos`"
    all_qos = sorted({name for names in found.values() for name in names})
    return {"accounts": ", ".join(sorted(found)) or everywhere, "all_qos": ", ".join(all_qos) or everywhere}
