"""Every text of the portal is there in English and Chinese, and is used."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

from markupsafe import Markup

from muster.server import pages
from muster.server.pages.navigation import OF_ADMINISTRATION, OF_RESULTS, SECTIONS
from muster.server.pages.texts import MODULES, TEXTS, said, say

FOLDER = Path(pages.__file__).parent
FILES = [path for path in FOLDER.rglob("*") if path.suffix in (".py", ".html", ".js") and "vendor" not in path.parts]
SOURCES = [path.read_text("utf-8") for path in FILES if path.parent.name != "texts"]
KEY = r"[a-z]+(?:\.[a-z_-]+)+"
CALLED = r"\b(?:t|say|pair|phrase)\(\s*"
NAMED = r"\b(?:aria_label|placeholder|title|text)=|['\"](?:aria-label|placeholder|text)['\"], "
CALLS = re.compile(rf"""(?:{CALLED}|{NAMED})['"]({KEY})['"]""")
BEGINNINGS = re.compile(r"""["'`]([a-z]+(?:\.[a-z_]+)*\.)(?:["'] ~|\$?\{)""")


def placeholders(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_text_is_there_in_both_languages_with_the_same_places_for_values() -> None:
    assert [key for key, texts in TEXTS.items() if not all(text.strip() for text in texts)] == []
    assert [key for key, (english, chinese) in TEXTS.items() if placeholders(english) != placeholders(chinese)] == []
    chinese = re.compile(r"[\u4e00-\u9fff]")
    assert [key for key, (english, _) in TEXTS.items() if chinese.search(english)] == []
    assert [
        key for key, (_, text) in TEXTS.items() if not chinese.search(text) and not re.fullmatch(r"(Rank|rank \{.*)", text)
    ] == ["console.size"]


def test_no_text_is_declared_twice() -> None:
    assert sum(len(module.TEXTS) for module in MODULES) == len(TEXTS)


def test_every_text_that_is_asked_for_exists() -> None:
    asked = {key for source in SOURCES for key in CALLS.findall(source)}
    assert len(asked) > 100
    assert asked - set(TEXTS) == set()
    beginnings = {start for source in SOURCES for start in BEGINNINGS.findall(source)}
    assert [start for start in beginnings if not any(key.startswith(start) for key in TEXTS)] == []


def test_no_text_is_left_over() -> None:
    mentioned = "\n".join(SOURCES)
    named = tuple(start for source in SOURCES for start in BEGINNINGS.findall(source) if start != "shell.")
    sections = {f"shell.{section.name}" for section in (*SECTIONS, *OF_RESULTS, *OF_ADMINISTRATION)}
    unused = [key for key in TEXTS if not re.search(rf"""['"]{re.escape(key)}['"]""", mentioned) and not key.startswith(named)]
    assert set(unused) - sections == set()


def test_templates_and_scripts_hold_no_words_of_their_own() -> None:
    chinese = re.compile(r"[\u4e00-\u9fff]")
    bare = [path.name for path in FILES if path.suffix == ".js" and chinese.search(path.read_text("utf-8"))]
    assert bare == []
    words = re.compile(r">\s*(?!English<|CSV<)[A-Za-z]{3,}[^<{]*<")  # the same in all languages
    folders = ("runs", "submit", "cluster", "projects", "admin")
    own = [path for folder in folders for path in (FOLDER / "templates" / folder).rglob("*.html")]
    found = {
        path.name: found
        for path in own
        if (found := words.findall(re.sub(r"<pre>.*?</pre>", "", path.read_text("utf-8"), flags=re.S)))
    }
    assert found == {}


def test_attributes_are_escaped_and_can_be_said_again() -> None:
    assert str(say("job.stop.ask", name="<b>").__html__()).count("&lt;b&gt;") == 2
    assert said("zh", aria_label="shell.language") == 'aria-label="语言" data-say="aria-label=shell.language"'


def test_names_of_commands_and_fields_are_code_and_stay_escaped() -> None:
    made = Markup.escape(say("compare.unfound", name="<b>"))
    assert "There is no such run as <code>&lt;b&gt;</code>; choose another." in made
    assert "<code>" not in Markup.escape(say("compare.unfound", name="a`b"))
    assert Markup.escape(say("job.next.waiting")).startswith('<span class="en" lang="en">It starts by itself')
