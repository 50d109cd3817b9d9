"""Style sheets and scripts of all pages, which need no login.

All of them lie below one digest of their contents, so that browsers keep them for good and modules import each other by
relative paths. `static/vendor` holds code of others, which `make portal` fetches; the wheel has it.
"""

import gzip
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from muster.bench.report.formats import as_html
from muster.server.pages.texts import TEXTS
from muster.tester.errors import Denied

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).with_name("static")
NEEDED = "vendor/uPlot.esm.js"  # one of the files that `make portal` fetches
KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"
_DARK = re.compile(r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root[^{]*(\{[^}]*\})\s*\}")


@dataclass(frozen=True)
class Asset:
    content: bytes
    compressed: bytes
    kind: str
    etag: str


@cache
def assets() -> dict[str, Asset]:
    """All files by their paths; those that are made from Python come with them."""
    files = [path for path in FOLDER.rglob("*") if path.suffix in KINDS]
    found = {str(path.relative_to(FOLDER)): path.read_bytes() for path in files}
    found |= {"report.css": _report_style().encode(), "report.js": as_html.script().encode(), "texts.js": _texts().encode()}
    return {name: _asset(name, content) for name, content in sorted(found.items())}


@cache
def digest() -> str:
    """A digest of all files."""
    return hashlib.sha256("".join(name + asset.etag for name, asset in assets().items()).encode()).hexdigest()[:12]


def url(name: str) -> str:
    """The address of a file. Raises KeyError where there is none."""
    assets()[name]
    return f"/assets/{digest()}/{name}"


def complete() -> bool:
    """False in a checkout in which `make portal` was not run."""
    return NEEDED in assets()


@router.get("/assets/{version}/{name:path}")
def asset(request: Request, version: str, name: str) -> Response:
    """One file. A page of another version gets the current one, which nobody keeps."""
    found = assets().get(name)
    if found is None:
        raise Denied(404, "there is no such file")
    headers = {"ETag": found.etag, "Cache-Control": FOREVER if version == digest() else "no-cache", "Vary": "Accept-Encoding"}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.compressed, media_type=found.kind, headers={**headers, "Content-Encoding": "gzip"})
    return Response(found.content, media_type=found.kind, headers=headers)


def _asset(name: str, content: bytes) -> Asset:
    etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return Asset(content, gzip.compress(content, 9, mtime=0), KINDS[Path(name).suffix], etag)


def _report_style() -> str:
    """The style sheet of reports, whose dark colours hold also where the viewer chose them."""
    style = as_html.style()
    dark = _DARK.search(style)
    return style + (f'\n@media screen {{ :root[data-theme="dark"] {dark[1]} }}\n' if dark else "")


def _texts() -> str:
    """All texts as a module of JavaScript."""
    return f"export const TEXTS = {json.dumps(TEXTS, ensure_ascii=False, separators=(',', ':'))};\n"
