"""The channel as a directory that supervisor and nodes share.

What a node publishes lies among its own files; `meet/` holds a link to it and what is announced, so that one directory
shows all news.
"""

from __future__ import annotations

import os
from typing import Any

from muster.channel.base import Message
from muster.channel.heartbeat import Heartbeats, send_heartbeats
from muster.linux.watch import Watch
from muster.records.files import is_there, read_mapping, read_object, temporary_name, write_json
from muster.records.layout import NODE_TOPICS, AttemptDir, RunDir, is_number

WORLD, KEYS = "world", "keys"
ANNOUNCED = (KEYS, WORLD, "ready", "stop", "release", "kill")


class _Directory:
    def __init__(self, attempt: AttemptDir) -> None:
        self._attempt = attempt
        self._watch = Watch()
        self._watch.add(attempt.meet)
        self._known: set[str] = set()  # names in `meet/` that were taken in
        self._begun = False

    def fileno(self) -> int:
        return self._watch.fileno()

    @property
    def polling(self) -> bool:
        return self._watch.polling

    def close(self) -> None:
        self._watch.close()

    def _path(self, topic: str) -> str:
        """The file of an announcement. Keys lie where they are deleted with the attempt."""
        places = {WORLD: self._attempt.world, KEYS: self._attempt.ssh + "/keys.json"}
        return places.get(topic, f"{self._attempt.meet}/{topic}")

    def _new_names(self) -> list[str]:
        """Names that appeared in `meet/` since the last call, in that order."""
        names = [name for _, name in self._watch.drain()]
        if "" in names or not self._begun:  # events were lost, or none were recorded yet
            names += sorted(os.listdir(self._attempt.meet))
        self._begun = True
        return [name for name in dict.fromkeys(names) if name and name not in self._known]


class DirectoryNode(_Directory):
    def __init__(self, attempt: AttemptDir, node: int) -> None:
        super().__init__(attempt)
        self._dir = attempt.node(node)
        self._link = f"{attempt.meet}/{{}}.{node}"
        self._target = f"../nodes/{node}/{{}}.json"
        self._announced: dict[str, dict[str, Any]] = {}

    def publish(self, topic: str, data: dict[str, Any]) -> None:
        write_json(self._dir.topic(topic), data)
        self.show(topic)

    def show(self, topic: str) -> None:
        """Lets the supervisor see a topic whose file is there."""
        _link(self._target.format(topic), self._link.format(topic))

    def listen(self) -> bool:
        new = [name for name in self._new_names() if "." not in name]
        self._known.update(new)
        return bool(new)

    def announced(self, topic: str) -> dict[str, Any] | None:
        if topic not in self._announced and (topic in self._known or topic == KEYS):
            data = read_mapping(self._path(topic))
            if data is None:
                self._known.discard(topic)
            else:
                self._announced[topic] = data
        return self._announced.get(topic)

    def show_life(self) -> None:
        send_heartbeats(self._dir.beat)


class DirectorySupervisor(_Directory):
    def __init__(self, run: RunDir, attempt: AttemptDir, count: int) -> None:
        for folder in (attempt.meet, attempt.nodes):
            os.makedirs(folder, exist_ok=True)
        super().__init__(attempt)
        self._shared = run.shared
        self._count = count
        self._heartbeats = Heartbeats(attempt, count)
        self._published: dict[str, dict[int, dict[str, Any]]] = {}
        self._unread: list[str] = []  # names whose file could not be read yet
        self._stopped = False

    def announce(self, topic: str, data: dict[str, Any]) -> None:
        self._stopped |= topic == "stop"
        if topic == KEYS:
            os.makedirs(self._attempt.ssh, 0o700, exist_ok=True)
        write_json(self._path(topic), data)
        if topic == WORLD:
            _link("../world.json", f"{self._attempt.meet}/{topic}")

    def news(self) -> list[Message]:
        names, self._unread = [*self._unread, *self._new_names()], []
        return [message for message in map(self._take, dict.fromkeys(names)) if message is not None]

    def _take(self, name: str) -> Message | None:
        topic, _, number = name.rpartition(".")
        if topic not in NODE_TOPICS or not is_number(number) or int(number) >= self._count or name in self._known:
            return None
        node = int(number)
        data = read_mapping(self._attempt.node(node).topic(topic), NODE_TOPICS[topic])
        if data is None:
            self._unread.append(name)
            return None
        self._known.add(name)
        self._published.setdefault(topic, {})[node] = data
        return Message(node, topic, data)

    def published(self, topic: str) -> dict[int, dict[str, Any]]:
        return self._published.get(topic, {})

    def has_ended(self, node: int) -> bool:
        path = self._attempt.node(node).exit
        return is_there(path) and bool(read_object(path))  # what a rank put there says nothing

    def silent(self) -> set[int]:
        self._heartbeats.look()
        return self._heartbeats.silent(self._stopped)

    def progress(self) -> object:
        """The sizes and times of all logs, results and shared files; clocks of other machines do not matter."""
        nodes = [self._attempt.node(node) for node in self._attempt.node_indexes()]
        found: dict[str, tuple[int, int]] = {}
        tops = [self._shared, *(folder for node in nodes for folder in (node.logs, node.results))]
        for top in [top for top in tops if not os.path.islink(top)]:  # that a rank has made
            for folder, _, names in os.walk(top):
                for path in [os.path.join(folder, name) for name in names]:
                    try:
                        info = os.lstat(path)
                    except OSError:
                        continue  # it was removed meanwhile, which the next look shows
                    found[path] = (info.st_size, info.st_mtime_ns)
        return found


def _link(target: str, path: str) -> None:
    """Makes a symbolic link."""
    try:
        os.symlink(target, path)
    except FileExistsError:  # that a rank has made
        os.rename(path, temporary_name(path))
        os.symlink(target, path)
