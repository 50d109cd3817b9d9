"""`session.obs`: files in the store of a session, by the functions of `moxing`."""

import importlib
import os
from typing import Any


class Obs:
    """Files of a store, named `obs://bucket/key` or `/bucket/key`.

    The key of the session is that of `moxing` from then on: scripts use both for the same files.
    """

    def __init__(self, access_key: str, secret_key: str, endpoint: str) -> None:
        self._files: Any = importlib.import_module("moxing.framework.file")
        if access_key and secret_key:
            self._files.set_auth(ak=access_key, sk=secret_key, server=endpoint)

    def is_obs_path_exists(self, obs_path: str) -> bool:
        return bool(self._files.exists(_url(obs_path)))

    def download_file(self, src_obs_file: str, dst_local_dir: str) -> None:
        """Downloads one file, to a name or into a directory."""
        self._files.copy(_url(src_obs_file), dst_local_dir)

    def download_dir(self, src_obs_dir: str, dst_local_dir: str) -> None:
        self._files.copy_parallel(_url(src_obs_dir), dst_local_dir)

    def upload_file(self, src_local_file: str, dst_obs_dir: str) -> None:
        """Uploads one file: into a directory if the name ends in a slash."""
        self._files.copy(src_local_file, _into(_url(dst_obs_dir), src_local_file))

    def upload_dir(self, src_local_dir: str, dst_obs_dir: str) -> None:
        """Uploads a directory with its name, as the vendor's package does."""
        name = os.path.basename(os.path.abspath(src_local_dir))
        self._files.copy_parallel(src_local_dir, _url(dst_obs_dir).rstrip("/") + "/" + name)

    def copy(self, src_path: str, dst_path: str, keep_last_dir: bool = True) -> None:
        """Copies a file or a directory in any direction."""
        if not self._files.is_directory(src_path):
            self._files.copy(src_path, _into(dst_path, src_path))
            return
        last = "/" + os.path.basename(src_path.rstrip("/")) if keep_last_dir else ""
        self._files.copy_parallel(src_path, dst_path.rstrip("/") + last)

    def create_directory(self, bucket_path: str, dir_name: str = "") -> None:
        self._files.make_dirs(_url(bucket_path).rstrip("/") + "/" + dir_name)

    def delete_object(self, object_path: str) -> None:
        self._files.remove(_url(object_path), recursive=True)


def _url(path: str) -> str:
    return path if "://" in path else "obs:/" + path


def _into(target: str, source: str) -> str:
    return target + os.path.basename(source) if target.endswith("/") else target
