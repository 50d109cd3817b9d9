"""Keys that a script brings itself, with `mox.file.set_auth`: they come with each request and are kept in memory alone."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from muster.dataclass import replace
from muster.storage import Access, Settings, Storage

MOST = 16  # storages that are kept open for keys of scripts; ranks of one run bring the same


class StorageCache:
    """The storage with the settings of the run, and a cache of storages for keys that scripts bring."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._own = Storage(settings)
        self._others: OrderedDict[str, Storage] = OrderedDict()

    def of(self, auth: Mapping[str, Any] | None) -> tuple[Storage, str]:
        """The storage for a request, and a text that is the same for the same keys."""
        if not auth:
            return self._own, ""
        key = json.dumps(auth, sort_keys=True)
        with self._lock:
            if key not in self._others:
                self._others[key] = Storage(changed(self._settings, auth))
            self._others.move_to_end(key)
            while len(self._others) > MOST:
                self._others.popitem(last=False)
            return self._others[key], key


def changed(settings: Settings, auth: Mapping[str, Any]) -> Settings:
    """Settings with the server and the keys that a script gave."""
    return replace(settings, obs=_access(settings.obs, auth), s3=_access(settings.s3, auth))


def _access(access: Access, auth: Mapping[str, Any]) -> Access:
    if auth.get("ak"):
        access = replace(access, access_key=auth["ak"], secret_key=auth.get("sk", ""), token=auth.get("token", ""))
    if auth.get("server"):
        kept = {name: getattr(access, name) for name in ("ca", "access_key", "secret_key", "token", "timeout")}
        return Access.completed(_endpoint(auth), "", _style(auth, ""), **kept)
    return replace(access, style=_style(auth, access.style))


def _style(auth: Mapping[str, Any], otherwise: str) -> str:
    given = auth.get("path_style")
    return otherwise if given is None else "path" if given else "virtual"


def _endpoint(auth: Mapping[str, Any]) -> str:
    """A server as scripts name it, `obs.cn-north-4.myhuaweicloud.com`, as the URL that it is."""
    server = str(auth["server"]).rstrip("/")
    if "://" not in server:
        server = "{}://{}".format("https" if auth.get("is_secure", True) else "http", server)
    return "{}:{}".format(server, auth["port"]) if auth.get("port") else server
