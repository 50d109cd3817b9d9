"""Where the stores are and which keys open them, from the environment and config.toml."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from muster.addresses import Addresses
from muster.dataclass import dataclass, field, replace
from muster.storage.errors import InvalidRequest, StorageError
from muster.storage.urls import SCHEMES, SUBMITTER

TIMEOUT = 30.0
STYLES = ("path", "virtual")
KEYS = ("access_key", "secret_key", "token")
OWN = "MUSTER_STORAGE_"
# What the tools of each store read: for a store of its own kind before config.toml, for obs:// the others' after it.
NAMES = {
    "obs": {
        "endpoint": ("OBS_ENDPOINT",),
        "region": ("OBS_REGION",),
        "access_key": ("OBS_ACCESS_KEY_ID", "OBS_AK"),
        "secret_key": ("OBS_SECRET_ACCESS_KEY", "OBS_SK"),
        "token": ("OBS_SECURITY_TOKEN",),
    },
    "s3": {
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "ca": ("AWS_CA_BUNDLE",),
        "access_key": ("AWS_ACCESS_KEY_ID",),
        "secret_key": ("AWS_SECRET_ACCESS_KEY",),
        "token": ("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
    },
}
# Endpoints that mean https without a scheme: a full domain name, at the usual port.
_PUBLIC_NAME = r"(?![\d.]+(:|$))[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+(:443)?"
_LOST = r"(https?)(?:(:)/|//+)(?!/)"  # http:/host and http//host
# Public clouds want the bucket in the host name; most servers that people run themselves do not support it.
_PUBLIC = r"\.(myhuaweicloud|amazonaws|aliyuncs)\.[a-z.]+$"
_REGION = r"(?:obs|s3|oss)[.-]([a-z0-9-]+)\.(?:myhuaweicloud|amazonaws|aliyuncs)\."


@dataclass(frozen=True)
class Access:
    """How to reach one store; without an endpoint its URLs live in the embedded store."""

    endpoint: str = ""
    region: str = ""
    style: str = "path"
    ca: str = ""  # a file of certificates to trust as well, in PEM: the text could be too long for an environment
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    timeout: float = TIMEOUT  # how many seconds a store may be silent
    socket: str = ""  # the name of an abstract socket that leads there, in the place of the endpoint's host

    @classmethod
    def completed(cls, endpoint: str, region: str = "", style: str = "", **others: Any) -> Access:
        """An access whose endpoint may be a bare host; region and style are found from it where they are not given."""
        endpoint = endpoint.strip()
        whole = (endpoint if "://" in endpoint else f"https://{endpoint}").rstrip("/") if endpoint else ""
        parts = _parts(endpoint, whole)
        if whole and whole != endpoint.rstrip("/") and not re.fullmatch(_PUBLIC_NAME, parts.netloc):
            written = f"write http://{endpoint} or https://{endpoint}"
            raise InvalidRequest(f"the endpoint `{endpoint}` does not say whether it speaks http or https; {written}")
        named = re.match(_REGION, parts.hostname or "")
        style = style or ("virtual" if re.search(_PUBLIC, parts.hostname or "") else "path")
        return cls(whole, region or (named.group(1) if named else "us-east-1"), style, **others)

    def virtual(self, bucket: str) -> bool:
        """True if a bucket is part of the host name; over https one with a dot is not, for its certificate would not match."""
        return self.style == "virtual" and not (self.endpoint.startswith("https:") and "." in bucket)


def _parts(endpoint: str, whole: str) -> SplitResult:
    """The parts of an endpoint, which is given as written and with its scheme. Raises InvalidRequest for an invalid one."""
    shown = endpoint.rpartition("@")[2]  # what stands before may be a password
    try:
        parts = urlsplit(whole)
    except ValueError:
        parts = urlsplit("")
    if "@" in parts.netloc:
        raise InvalidRequest("the endpoint of a store holds a name or a password; write it without, and give keys apart")
    lost = re.match(_LOST, endpoint)
    if lost:
        lacking = "slash" if lost.group(2) else "colon"
        written = f"{lost.group(1)}://{re.sub(_LOST, '', shown)}"
        raise InvalidRequest(f"the endpoint `{shown}` lacks a {lacking}; write {written}")
    if whole and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query):
        raise InvalidRequest(f"`{shown}` is not the endpoint of a store; write one such as https://obs.example.com")
    if parts.path:
        raise InvalidRequest(f"the endpoint `{shown}` has a path; name the bucket in the URL, as in obs://bucket/name")
    if not _has_port(parts):
        raise InvalidRequest(f"the endpoint `{shown}` has no port from 1 to 65535 behind its colon; write one such as 9000")
    return parts


def _has_port(parts: SplitResult) -> bool:
    """True if the port is valid, or none is given."""
    try:
        return parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True)
class Settings:
    """All settings of storage on a node, keys included: they are passed in the environment, never on disk."""

    home: str
    obs: Access = Access()
    s3: Access = Access()
    submitter: Access = Access()  # the machine that started the run, where nodes do not see its files
    addresses: Addresses = Addresses()  # of host names

    def access(self, scheme: str) -> Access:
        return {"obs": self.obs, "s3": self.s3, SUBMITTER: self.submitter}[scheme]

    def through(self, submitter: Access) -> Settings:
        """The settings of a node that reaches the machine that started its run, and its embedded store, in one way alone."""
        obs, s3 = (access if access.endpoint else submitter for access in (self.obs, self.s3))
        return Settings(self.home, obs, s3, submitter, self.addresses)

    @property
    def certificates(self) -> list[str]:
        """The files of certificates to trust."""
        return list(dict.fromkeys(access.ca for access in (self.obs, self.s3) if access.ca))

    def with_certificates(self, places: Mapping[str, str]) -> Settings:
        """The same on a machine that has these files elsewhere."""
        obs, s3 = (replace(access, ca=places.get(access.ca, "")) for access in (self.obs, self.s3))
        return replace(self, obs=obs, s3=s3)

    def to_json(self) -> str:
        accesses = {name: vars(self.access(name)) for name in (*SCHEMES, SUBMITTER)}
        return json.dumps({"home": self.home, "addresses": self.addresses.given, **accesses})

    @classmethod
    def from_json(cls, text: str) -> Settings:
        data = json.loads(text)
        obs, s3, submitter = (Access(**data[name]) for name in (*SCHEMES, SUBMITTER))
        return cls(data["home"], obs, s3, submitter, Addresses(data.get("addresses", {})))


def resolve(
    home: str, configured: Mapping[str, Mapping[str, str]], environ: Mapping[str, str], addresses: Addresses | None = None
) -> Settings:
    """The settings of both stores; `configured` are those of config.toml, by scheme, and `addresses` its host names."""
    found = {scheme: _access(scheme, configured.get(scheme, {}), environ) for scheme in SCHEMES}
    return Settings(os.path.abspath(home), found["obs"], found["s3"], addresses=addresses or Addresses())


def _access(scheme: str, configured: Mapping[str, str], environ: Mapping[str, str]) -> Access:
    layers = list(_layers(scheme, configured, environ))
    plain = {name: _first(layers, name) for name in ("endpoint", "region", "style", "ca", "timeout")}
    if not plain["endpoint"]:
        return Access()
    if plain["style"] and plain["style"] not in STYLES:
        raise StorageError("`{}` is not a style of addressing buckets; write path or virtual".format(plain["style"]))
    return Access.completed(
        plain["endpoint"],
        plain["region"],
        plain["style"],
        ca=_certificates(plain["ca"]) if plain["ca"] else "",
        timeout=_seconds(plain["timeout"]) if plain["timeout"] else TIMEOUT,
        **_keys(layers, environ.get("MUSTER_PROFILE") or "default"),
    )


def _layers(scheme: str, configured: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """The settings of each source, the one that counts most first."""
    own = ("endpoint", "region", "style", "ca", "keys", "timeout")
    yield {name: environ.get(OWN + name.upper(), "") for name in own}
    yield _of_tools(scheme, environ)
    yield configured
    if scheme == "obs":
        yield _of_tools("s3", environ)


def _of_tools(scheme: str, environ: Mapping[str, str]) -> dict[str, str]:
    return {field: next((environ[name] for name in names if environ.get(name)), "") for field, names in NAMES[scheme].items()}


def _first(layers: list[Mapping[str, str]], name: str) -> str:
    return next((layer[name] for layer in layers if layer.get(name)), "")


def _keys(layers: list[Mapping[str, str]], profile: str) -> dict[str, str]:
    """The keys of the first place that has any: keys of two places do not belong together."""
    for layer in layers:
        if layer.get("keys"):
            return _key_file(layer["keys"], profile)
        if layer.get("access_key"):
            return {name: layer.get(name, "") for name in KEYS}
    return {}


def _key_file(path: str, profile: str) -> dict[str, str]:
    """Keys from a file in the form of ~/.aws/credentials, which only its owner may read."""
    import configparser  # few have such a file

    path = os.path.expanduser(path)
    parser = configparser.RawConfigParser()
    try:
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            parser.read_file(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"the file of keys {path} cannot be read: {reason}; check `keys`") from None
    except (configparser.Error, UnicodeDecodeError):
        raise StorageError(f"{path} is not a file of keys; write it like ~/.aws/credentials") from None
    if mode & 0o077:
        raise StorageError(f"{path} holds keys and others can read it; run `chmod 600 {path}`")
    section = profile if parser.has_section(profile) else "default"
    names = {"access_key": "aws_access_key_id", "secret_key": "aws_secret_access_key", "token": "aws_session_token"}
    found = {name: parser.get(section, option, fallback="") for name, option in names.items()}
    if not found["access_key"] or not found["secret_key"]:
        raise StorageError(f"{path} has no keys in [{section}]; write aws_access_key_id and aws_secret_access_key there")
    return found


def _certificates(path: str) -> str:
    path = os.path.abspath(os.path.expanduser(path))
    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", "") or "it is not text").lower()
        raise StorageError(f"the certificates in {path} cannot be read: {reason}; check `ca`") from None
    if "BEGIN CERTIFICATE" not in text:
        raise StorageError(f"{path} holds no certificate; `ca` takes a file in PEM")
    return path


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 86400:
        raise StorageError(f"`{text}` is not a number of seconds; write `timeout` such as 30")
    return found
