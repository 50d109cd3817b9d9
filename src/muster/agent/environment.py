"""The environment of a rank: the submitter's, less keys that are not for it, plus what the plan, secrets and setup say."""

from __future__ import annotations

import os
from typing import Dict, Mapping, Sequence

# Keys to storage and clouds. A rank gets one only when the job's `secrets` names it.
KEYS = frozenset(
    """
AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_SECURITY_TOKEN
OBS_ACCESS_KEY_ID OBS_SECRET_ACCESS_KEY OBS_SECURITY_TOKEN OBS_AK OBS_SK
S3_ACCESS_KEY_ID S3_SECRET_ACCESS_KEY ACCESS_KEY_ID SECRET_ACCESS_KEY
HUAWEICLOUD_SDK_AK HUAWEICLOUD_SDK_SK HUAWEICLOUD_SDK_SECURITY_TOKEN HW_ACCESS_KEY HW_SECRET_KEY OS_ACCESS_KEY OS_SECRET_KEY
CLOUD_SDK_AK CLOUD_SDK_SK MINIO_ACCESS_KEY MINIO_SECRET_KEY MINIO_ROOT_USER MINIO_ROOT_PASSWORD
ALIBABA_CLOUD_ACCESS_KEY_ID ALIBABA_CLOUD_ACCESS_KEY_SECRET OSS_ACCESS_KEY_ID OSS_ACCESS_KEY_SECRET
TENCENTCLOUD_SECRET_ID TENCENTCLOUD_SECRET_KEY AZURE_STORAGE_KEY AZURE_STORAGE_SAS_TOKEN AZURE_CLIENT_SECRET
GOOGLE_APPLICATION_CREDENTIALS
""".split()
)


def base(submitter: Mapping[str, str]) -> Dict[str, str]:
    """What of the submitter's environment reaches a rank."""
    return {
        name: value
        for name, value in submitter.items()
        if name not in KEYS and name != "_" and not (name.startswith("MUSTER_") and name != "MUSTER_HOME")
    }


def compose(planned: Mapping[str, str], secrets: Sequence[str], exported: Mapping[str, str], cwd: str) -> Dict[str, str]:
    """The environment of a process: each layer over the one before."""
    environment = base(os.environ)
    environment.update(planned)
    environment.update({name: os.environ[name] for name in secrets if name in os.environ})
    environment.update(exported)
    environment["PWD"] = cwd
    return environment


def exported(before: Mapping[str, str], dumped: bytes) -> Dict[str, str]:
    """What a setup script changed, from the environment that it left behind."""
    after = {}
    for entry in dumped.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals:
            after[os.fsdecode(name)] = os.fsdecode(value)
    own = {"_", "SHLVL", "PWD", "OLDPWD"}
    return {name: value for name, value in after.items() if before.get(name) != value and name not in own}
