"""The source tree shows its parts: small folders, and documents whose links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "src/muster").rglob("__init__.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")])


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(ROOT / "src")))
def test_no_folder_but_that_of_the_commands_has_more_than_fifteen_modules(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert folder.name == "cli" or len(modules) <= 15


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_documents_lead_to_files(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (document.parent / target).exists()] == []
