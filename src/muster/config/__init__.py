"""The settings of a user: `config.toml` in MUSTER_HOME, with profiles that hold secrets.

```toml
engine = "slurm"             # where jobs run unless the command says so; without it `local`
server = "default"           # the login, or the address, of the server that commands use; without it this machine

[local]
namespaces = true            # false: simulated nodes share the machine's process ids and host name

[storage]                    # where obs:// and s3:// URLs live; without it under MUSTER_HOME
endpoint = "https://obs.cn-north-4.myhuaweicloud.com"
keys = "~/.muster/keys"      # a file like ~/.aws/credentials, readable by you alone

[resolve]                    # addresses of names that the name service does not know; see docs/storage.md
"obs.private.example" = "10.0.0.5"
"*.obs.private.example" = "10.0.0.5"

[power]                      # how the power of nodes is measured; see docs/sampling.md
redfish = "https://bmc.example/redfish/v1/Chassis/1/Power"
user = "reader"
password_secret = "BMC_PASSWORD"

[slurm]                      # what the engine `slurm` asks for; see docs/slurm.md
partition = "train"
python = "/usr/bin/python3"  # of the nodes

[hosts.lab]                  # servers that the engine `ssh` reaches; see docs/ssh-hosts.md
nodes = ["10.0.0.11", "train@node12:2222", "node[20-27]"]

[pools.lab]                  # of `muster serve`: where its users' jobs run; see docs/server.md
engine = "ssh"
hosts = "lab"

[webhooks]                   # of `muster serve`; see docs/projects.md
allow = ["10.0.0.0/8"]

[buckets]                    # of `muster serve`; see docs/store.md
per_user = 100               # how many a user may own

[modelarts]                  # the service that the engine `modelarts` submits to; see docs/modelarts.md
region = "cn-north-4"
project = "0a1b2c..."
store = "obs://bucket/muster"

[modelarts.flavors."modelarts.vm.gpu.v100"]  # of `muster serve`; see docs/modelarts.md
device = "nvidia"

[tester]                     # where `muster bench` and `muster tester send` send results
url = "https://tester.example:9527"
token = "..."                # or MUSTER_TESTER_TOKEN, in the environment or a profile's secrets
ca = "tester-ca.pem"         # the authority of its certificate, where the system does not know it

[profiles.default.secrets]   # the file must be readable by you alone (chmod 600)
WANDB_API_KEY = "..."
```
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.addresses import Addresses
from muster.config import buckets, modelarts, pools, power, resolving, stores, tester, webhooks
from muster.config.sections import ConfigError, Secrets, Setting, TomlSection, TomlTable
from muster.dataclass import dataclass, field
from muster.job.kinds import Choice, Flag, Item, Kind, Wrong, declared, engine_options, typed

__all__ = ["ENGINES", "Config", "ConfigError", "addresses", "load", "server"]

ENGINES = ("local", "slurm", "ssh", "modelarts")  # the names; the engines themselves are in `muster.engines`


@dataclass(frozen=True)
class Local:
    """Settings of simulated nodes."""

    namespaces: bool = declared(Flag(), True, "Whether they have process ids and host names of their own.")


@dataclass(frozen=True)
class Profile:
    """Secrets and stores that $MUSTER_PROFILE chooses."""

    secrets: dict[str, str] = declared(Secrets(), {}, "Variables that jobs can name.")
    storage: stores.Stores = declared(stores.SECTION, stores.Stores(), "Stores of this profile.")
    modelarts: modelarts.Service = declared(modelarts.SERVICE, modelarts.Service(), "The ModelArts of this profile.")


@dataclass(frozen=True)
class Site(Kind):
    """The section of an engine, declared by it."""

    engine: str

    def read(self, item: Item) -> Any:
        return TomlSection(engine_options(self.engine).Site).read(item)


class Groups(Kind):
    """Groups of hosts by name, declared by the engine ssh."""

    def read(self, item: Item) -> Any:
        return TomlTable(TomlSection(engine_options("ssh").Site)).read(item)


@dataclass(frozen=True)
class Sections:
    """All that config.toml can hold."""

    engine: str = declared(Choice(ENGINES), "local", "Where jobs run unless the command says so.")
    server: str = declared(Setting(), "", "The login or address of the server that commands use.")
    local: Local = declared(TomlSection(Local), Local(), "Simulated nodes.")
    storage: stores.Stores = declared(stores.SECTION, stores.Stores(), "Stores.")
    resolve: Addresses = declared(resolving.Names(), Addresses(), "Addresses of host names.")
    power: power.Power = declared(power.SECTION, power.Power(), "The power of nodes.")
    tester: tester.Tester = declared(tester.SECTION, tester.Tester(), "The tester that results are sent to.")
    slurm: Any = declared(Site("slurm"), None, "The Slurm site.")
    hosts: Any = declared(Groups(), None, "Groups of hosts that are reached over ssh.")
    pools: dict[str, pools.Pool] = declared(pools.Pools(), {}, "Pools of `muster serve`.")
    webhooks: webhooks.Webhooks = declared(webhooks.SECTION, webhooks.Webhooks(), "Webhooks of `muster serve`.")
    buckets: buckets.Buckets = declared(buckets.SECTION, buckets.Buckets(), "Buckets of `muster serve`.")
    modelarts: modelarts.ModelArts = declared(modelarts.SECTION, modelarts.ModelArts(), "ModelArts.")
    profiles: dict[str, Profile] = declared(TomlTable(TomlSection(Profile), pattern=r"[\s\S]*"), {}, "Profiles by name.")


@dataclass(frozen=True)
class Config:
    """The settings of a user, with those of the chosen profile."""

    engine: str = "local"
    namespaces: bool = True
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)  # by kind of URL: obs, s3
    tester: tester.Tester = field(default_factory=tester.Tester, repr=False)
    power: power.Power = field(default_factory=power.Power, repr=False)
    sites: Mapping[str, Any] = field(default_factory=dict)  # by engine, where its section is given
    pools: Mapping[str, pools.Pool] = field(default_factory=dict)
    webhooks: webhooks.Webhooks = field(default_factory=webhooks.Webhooks)
    buckets: buckets.Buckets = field(default_factory=buckets.Buckets)
    service: modelarts.Service = field(default_factory=modelarts.Service, repr=False)  # the ModelArts that runs jobs
    modelarts: modelarts.ModelArts = field(default_factory=modelarts.ModelArts, repr=False)
    server: str = ""  # the login or the address of a server, where commands use one
    addresses: Addresses = field(default_factory=Addresses)  # of host names, for connections of Muster itself

    def options(self, engine: str) -> Any:
        """The site's options of an engine."""
        return self.sites.get(engine) or engine_options(engine).Site()


def load(home: str) -> Config:
    """Reads the settings under a home, with those of the profile that $MUSTER_PROFILE names, else `default`.

    Raises ConfigError for unknown or invalid settings.
    """
    path = Path(home) / "config.toml"
    sections = _checked(_read(path), path)
    _refuse_readers(sections, path)
    name = os.environ.get("MUSTER_PROFILE") or "default"
    if name != "default" and name not in sections.profiles:
        known = ", ".join(f"`{name}`" for name in sections.profiles) or "none"
        raise ConfigError(f"{path} has no profile `{name}`, which MUSTER_PROFILE names; it has {known}")
    profile = sections.profiles.get(name, Profile())
    return Config(
        sections.engine,
        sections.local.namespaces,
        profile.secrets,
        stores.merged([sections.storage, profile.storage], path.parent),
        tester.completed(sections.tester, profile.secrets, path.parent),
        sections.power,
        {name: found for name, found in (("slurm", sections.slurm), ("ssh", sections.hosts)) if found is not None},
        sections.pools,
        sections.webhooks,
        sections.buckets,
        modelarts.merged([sections.modelarts, profile.modelarts], path.parent),
        sections.modelarts,
        sections.server,
        sections.resolve,
    )


def server(home: str) -> str:
    """The server that the settings name, if any."""
    return load(home).server if _mentions(home, b"server") else ""


def addresses(home: str) -> Addresses:
    """The addresses of host names that the settings give, if any."""
    return load(home).addresses if _mentions(home, b"resolve") else Addresses()


def _mentions(home: str, word: bytes) -> bool:
    """True if the file has a word; most have neither a server nor addresses, which is seen without reading them all."""
    try:
        return word in (Path(home) / "config.toml").read_bytes()
    except OSError:  # whoever needs the settings says what is wrong with them
        return False


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {str(error.strerror).lower()}; make it a file that you can read") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"{path} is not TOML: {reason}; texts need quotes, and sections brackets") from None


def _checked(data: Mapping[str, Any], path: Path) -> Sections:
    try:
        sections: Sections = TomlSection(Sections).read(typed(data))
    except Wrong as wrong:
        first = wrong.each[0]
        value = first.message.startswith("`")  # the message starts with the value: name and value read as written
        said = f"`{first.name} = {first.message[1:]}" if value else f"`{first.name}` {first.message}"
        raise ConfigError(f"{path}: {said}; {first.hint}") from None
    return sections


def _refuse_readers(sections: Sections, path: Path) -> None:
    profiles = sections.profiles.values()
    of_stores = (sections.storage, *(profile.storage for profile in profiles))
    keys = any(store.has_keys for section in of_stores for store in (section, section.obs, section.s3))
    services = (sections.modelarts, *(profile.modelarts for profile in profiles))
    others = any(found.has_keys for found in services)
    others = others or sections.power.has_password or bool(sections.tester.token)
    others = others or any(profile.secrets for profile in profiles)
    if (keys or others) and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"{path} holds secrets and others can read it; run `chmod 600 {path}`")
