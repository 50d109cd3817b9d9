"""The source tree shows its parts: small folders, and documents whose links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "src/muster").rglob("__init__.py"))
TOPS = ("src", "tests", "docs", "examples", "benchmarks", "workloads", "scripts")
PAGES = ("*.md", "docs/**/*.md", "[!.]*/README.md", "[!.]*/*/README.md")
DOCUMENTS = sorted({path for pages in PAGES for path in ROOT.glob(pages)})


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(ROOT / "src")))
def test_no_folder_but_that_of_the_commands_has_more_than_fifteen_modules(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert folder.name == "cli" or len(modules) <= 15


def test_every_target_that_ci_calls_is_there_once() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert len(targets) == len(set(targets))
    assert set(re.findall(r"make ([a-z-]+)", (ROOT / ".ci/run").read_text())) <= set(targets)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_documents_lead_to_files(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (document.parent / target).exists()] == []


BUILT = [ROOT / "CONTRIBUTING.md", ROOT / "docs/architecture.md", *sorted((ROOT / "docs/internals").glob("*.md"))]
OF_RUNS = {"meet/", "nodes/K/", "submissions/"}  # folders of a run directory


@pytest.mark.parametrize("document", BUILT, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_folders_that_documents_name_are_there(document: Path) -> None:
    tree = {f"/{path.relative_to(ROOT)}{'/' if path.is_dir() else ''}" for top in TOPS for path in (ROOT / top).rglob("*")}
    tree |= {f"/{top}/" for top in TOPS}
    named = set(re.findall(r"`([a-z][\w/.-]*(?:\.py|/))`", document.read_text())) - OF_RUNS
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in tree)] == []
