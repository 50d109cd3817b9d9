"""Sections of the portal, as the navigation at the top of each page shows them."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request

from muster.server.core.access import Principal, may


@dataclass(frozen=True)
class Section:
    """An entry of the navigation. It is shown where the server has a page at its path, to those whom `allowed` lets see it."""

    name: str  # its text is `shell.NAME`
    path: str
    allowed: Callable[[Principal], bool] = lambda principal: True
    shortcut: str = ""  # the key after `g`


SECTIONS = (
    Section("home", "/", shortcut="h"),
    Section("jobs", "/jobs", shortcut="j"),
    Section("submit", "/submit", lambda principal: principal.scope == "write", shortcut="s"),
    Section("cluster", "/cluster", shortcut="c"),
    Section("results", "/results", shortcut="r"),
    Section("projects", "/projects"),
    Section("administration", "/admin/users", lambda principal: may(principal, "users.list")),
)
OF_RESULTS = (
    Section("results", "/results"),
    Section("ranking", "/ranking"),
    Section("plans", "/plans"),
    Section("refused", "/refused"),
)
OF_ADMINISTRATION = (Section("users", "/admin/users"), Section("audit", "/admin/audit"), Section("settings", "/admin/settings"))


def parts(request: Request, section: str) -> tuple[Section, ...]:
    """The pages within a section; the tester alone shows its own in the navigation at the top."""
    if not hasattr(request.app.state, "paths"):
        return ()
    return {"results": OF_RESULTS, "administration": OF_ADMINISTRATION}.get(section, ())


def sections(request: Request, principal: Principal) -> list[Section]:
    """The sections that this server has and the user may see; the tester alone has those of results."""
    paths: set[str] | None = getattr(request.app.state, "paths", None)
    if paths is None:
        return list(OF_RESULTS)
    return [section for section in SECTIONS if section.path in paths and section.allowed(principal)]
