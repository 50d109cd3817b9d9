"""Keys to stores, clouds and machines: which variables hold one, and how Muster's own keys travel apart from the environment.

An environment can be read through /proc for as long as its process lives. So keys lie in a file in memory, of which processes
hand each other the descriptor, and only those helper programs read it that cannot do without.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

STORAGE, POWER = "MUSTER_STORAGE", "MUSTER_POWER_KEYS"
SERVICE = "MUSTER_SERVICE_KEYS"  # of the cloud that runs the jobs
_OWN = (STORAGE, POWER, SERVICE)
VARIABLE = "MUSTER_KEYS"  # the number of the descriptor
OF_JOB = "MUSTER_JOB_VARIABLES"  # those of a job whose batch job is root's, as JSON: no program of root's is started with them
_NAMED = ("access_key", "secret_key", "token")  # what opens a store, in its settings

# Stores, clouds and the controllers of machines, as a word anywhere in a name or as its first.
_PLACES = frozenset(
    """
AWS AMAZON S3 OBS OSS COS MINIO CEPH RGW SWIFT WASABI AZURE GOOGLE GCP GCS GCLOUD CLOUDSDK HUAWEICLOUD HWCLOUD
ALIBABA ALICLOUD ALIYUN TENCENTCLOUD QCLOUD VOLCENGINE BMC IPMI REDFISH IDRAC ILO MUSTER
""".split()
)
_FIRST = frozenset(("OS", "HW", "CLOUD"))
_SECRETS = frozenset("SECRET TOKEN PASSWORD PASSWD PASSPHRASE CREDENTIAL CREDENTIALS AK SK".split())
_PAIR = re.compile(r"(?:^|_)(?:ACCESS|SECRET)_?KEY(?:_|$)")
_WHOLE = frozenset(("MINIO_ROOT_USER", "AZURE_STORAGE_CONNECTION_STRING"))


def is_key(name: str) -> bool:
    """True if a variable holds a key to a store, a cloud or a machine, by the words of its name.

    A pair of access key and secret key opens a store whatever stands before it. Other secrets (HF_TOKEN, WANDB_API_KEY) are
    what programs are given on purpose, unless a store, a cloud or a machine is named with them.
    """
    words = name.upper().split("_")
    if _PAIR.search(name.upper()) or name.upper() in _WHOLE:
        return True
    if not (_PLACES & set(words) or words[0] in _FIRST):
        return False
    return bool(_SECRETS & set(words)) or (words[-1] in ("KEY", "KEYS") and words[-2:-1] not in (["API"], ["PUBLIC"]))


def apart(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """An environment without Muster's own keys, and these."""
    kept = {name: value for name, value in environment.items() if name not in _OWN}
    return kept, {name: environment[name] for name in _OWN if name in environment}


def put_away(found: Mapping[str, str]) -> int:
    """A descriptor of a file in memory that holds the keys."""
    descriptor = memory_file()
    os.write(descriptor, json.dumps(dict(found)).encode())
    return descriptor


def held() -> int:
    """The descriptor that this process was given; -1 where it was given none."""
    return int(os.environ.get(VARIABLE) or -1)


def read() -> dict[str, str]:
    """The keys, through the descriptor that this process was given."""
    if held() < 0:
        return {name: os.environ[name] for name in _OWN if name in os.environ}
    size = os.fstat(held()).st_size
    return dict(json.loads(os.pread(held(), size, 0)))


def take() -> dict[str, str]:
    """The keys, of which no descriptor is left."""
    found = read()
    drop()
    return found


def drop() -> None:
    """Closes the descriptor: this process and what it starts have no use for keys."""
    if held() >= 0:
        os.close(held())
        del os.environ[VARIABLE]


def any_held() -> bool:
    """True if this process was given a key that opens something."""
    found = read()
    stores = json.loads(found.get(STORAGE) or "{}")
    return POWER in found or any(stores.get(scheme, {}).get(name) for scheme in ("obs", "s3") for name in _NAMED)


def memory_file() -> int:
    """Opens a file without a name or a place on a disk, for what may hold secrets."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("muster")
    import ctypes  # a Python that was built for older systems

    descriptor: int = ctypes.CDLL(None, use_errno=True).memfd_create(b"muster", 1)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "memfd_create")
    return descriptor
