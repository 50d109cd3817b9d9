"""Parts of a training job of the second version."""

from typing import Any, Dict, Optional


class TrainingFiles:
    """The directory of the code, and the script in it that is started."""

    def __init__(self, code_dir: str, boot_file: str, **others: Any) -> None:
        self.code_dir = code_dir
        self.boot_file = boot_file


class _Data:
    def __init__(
        self,
        obs_path: str,
        name: str,
        access_method: Optional[str] = None,
        local_path: Optional[str] = None,
        **others: Any,
    ) -> None:
        self.obs_path = obs_path
        self.name = name
        self.access_method = access_method
        self.local_path = local_path

    def to_request(self) -> Dict[str, Any]:
        request: Dict[str, Any] = {"name": self.name, "remote": {"obs": {"obs_url": service_path(self.obs_path)}}}
        if self.access_method:
            request["access_method"] = self.access_method
        if self.local_path:
            request["local_dir"] = self.local_path
        return request


class InputData(_Data):
    """Data that the job reads."""


class OutputData(_Data):
    """Where what the job writes is kept."""


def service_path(path: str) -> str:
    """A URL as the service writes it: `/bucket/key`."""
    for scheme in ("obs:/", "s3:/"):
        if path.startswith(scheme + "/"):
            return path[len(scheme) :]
    return path


def boot_path(code_dir: str, boot_file: str) -> str:
    """The script that is started, which may be named within its directory."""
    boot = service_path(boot_file)
    return boot if boot.startswith("/") else service_path(code_dir).rstrip("/") + "/" + boot
