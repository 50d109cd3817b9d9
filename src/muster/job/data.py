"""The kinds of values for data: URLs and paths, and the files that inputs must contain."""

from __future__ import annotations

import re
from typing import Any

from muster.dataclass import dataclass, replace
from muster.job.kinds import ENV_NAME, SCALAR, Choice, Item, Kind, Wrong, each, nearest, numbered, scalar, word


@dataclass(frozen=True)
class Data:
    """The URL of an input or output, and whether the program gets its path as a parameter or as a variable."""

    url: str
    access: str = "parameter"  # or env

    def below(self, name: str) -> Data:
        """The same, in a directory inside it."""
        closing = "/" if self.url.endswith("/") else ""
        return replace(self, url=f"{self.url.rstrip('/')}/{name}{closing}")


def local_path(url: str) -> str:
    """The path that a URL names on the machine that reads it; empty for one of a store."""
    return url[len("file://") :] if url.startswith("file://") else "" if "://" in url else url


class Urls(Kind):
    """A mapping of names to URLs or paths; the long form also has `access`."""

    words = "a mapping of names to URLs or paths"
    pattern = r"^[A-Za-z_][A-Za-z0-9_\-]*$"
    access = Choice(("parameter", "env"), (("environment", "env"), ("variable", "env"), ("argument", "parameter")))

    def read(self, item: Item) -> dict[str, Data]:
        if not isinstance(item.value, dict):
            raise Wrong(f"is {item.shown}; it takes {self.words}", "such as `{data_url: obs://bucket/data}`")
        return dict(each(item.value.items(), self._pair))

    def _pair(self, name: str, item: Item) -> tuple[str, Data]:
        if not re.fullmatch(self.pattern, name):
            raise Wrong("cannot be the name of an input or output", "it takes letters, digits, `_` and `-`, a letter in front")
        if not isinstance(item.value, dict):
            return name, Data(url(item))
        for unknown in [field for field in item.value if field not in ("url", "access")]:
            raise Wrong(f"has no field `{unknown}`", "it takes `url` and `access`")
        if "url" not in item.value:
            raise Wrong("has no `url`", "write `{url: obs://bucket/data, access: env}`")
        given = item.value.get("access")
        data = Data(url(item.value["url"]), self.access.read(given) if given else "parameter")
        if data.access == "env" and not re.fullmatch(ENV_NAME, name):
            raise Wrong("cannot be the name of a variable", "it takes letters, digits and `_`, not a digit in front")
        return name, data

    def put(self, outer: Item, inner: str, item: Item) -> Item:
        """Sets an entry, or one field of it. A URL in the place of a mapping leaves its `access` as it is."""
        name, _, field = inner.partition(".")
        entries = outer.value if isinstance(outer.value, dict) else {}
        old = entries.get(name, Item({}))
        fields = old if isinstance(old.value, dict) else Item({"url": old}, source=item.source)
        if field or (isinstance(old.value, dict) and not isinstance(item.value, dict)):
            item = replace(fields.with_entry([field or "url"], item), line=None, source=item.source)
        return outer.with_entry([name], item)

    def schema(self) -> dict[str, Any]:
        text = Url().schema()
        fields = {"url": text, "access": self.access.schema()}
        long = {"type": "object", "properties": fields, "required": ["url"], "additionalProperties": False}
        return {"type": "object", "propertyNames": {"pattern": self.pattern}, "additionalProperties": {"anyOf": [text, long]}}


SCHEMES = ("obs", "s3", "file")
URL = r"^(?!(obs|s3|file):)(?![\s\S]*://)[\s\S]*\S|^file:///"
URL += r"|^(obs|s3)://(?![\s\S]*/\.{1,2}(/|$))[A-Za-z0-9][A-Za-z0-9._\-]*(/[\s\S]*)?$"


class Url(Kind):
    words = "a URL such as `obs://bucket/logs`, or a path"
    pattern = URL

    def read(self, item: Item) -> str:
        return url(item)


def url(item: Item) -> str:
    """A URL of a known scheme, or a path."""
    text = scalar(item, "a URL or a path")
    if re.search(URL, text):
        return text
    scheme, slashes, _ = text.partition("://")
    if not slashes:
        scheme, _, rest = text.partition(":")
        raise Wrong(f"{item.shown} lacks a slash", f"write `{scheme}://{rest.lstrip('/')}`, or `./{text}` for a path")
    if scheme not in SCHEMES:
        meant = nearest(scheme, SCHEMES)
        hint = f"did you mean `{meant}://`?" if meant else "it takes obs://, s3://, file:// and paths"
        raise Wrong(f"has the scheme `{scheme[:20]}`, which is not known", hint)  # the rest may hold a key
    if scheme == "file":
        raise Wrong(f"{item.shown} names no absolute path", "write three slashes, as in `file:///data`")
    if {".", ".."} & set(text.split("/")):
        raise Wrong("has a part `.` or `..`", "name it without")
    raise Wrong("names no bucket", f"write `{scheme}://bucket/key`; access keys belong into config.toml")


class Layouts(Kind):
    """The files and directories that inputs must contain, relative to each; directories end with `/`."""

    words = "a mapping of inputs to lists of files and directories"
    inside = r"^(?!\.{1,2}(/|$))[^/]+(/(?!\.{1,2}(/|$))[^/]+)*/?$"

    def read(self, item: Item) -> dict[str, tuple[str, ...]]:
        if not isinstance(item.value, dict):
            raise Wrong(f"is {item.shown}; it takes {self.words}", "such as `{data_url: [train/, val/]}`")
        return dict(each(item.value.items(), self._layout))

    def _layout(self, name: str, item: Item) -> tuple[str, tuple[str, ...]]:
        if not isinstance(item.value, list) or not item.value:
            raise Wrong(f"is {item.shown}; it takes a list of names", "such as `[train/, val/]`")
        return name, tuple(each(numbered(item), self._name))

    def _name(self, name: str, item: Item) -> str:
        text = word(item)
        if not re.search(self.inside, text):
            raise Wrong(f"{item.shown} is not a name inside the input", "write it relative to the input, such as `train/`")
        return text

    def schema(self) -> dict[str, Any]:
        names = {"type": "array", "minItems": 1, "items": {"type": [*SCALAR, "null"], "pattern": self.inside}}
        return {"type": "object", "additionalProperties": names}
