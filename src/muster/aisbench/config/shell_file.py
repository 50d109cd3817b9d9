"""Reads a shell file of settings without running it: assignments, quotes, comments, and variables that were set before."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from muster.aisbench.config.values import ConfigValue, Findings, read_text

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HOME = re.compile(r"~(?=[/:\s;&|]|\Z)")
BEFORE_HOME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=(.*:)?", re.DOTALL)
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}$`]*))?\})")


@dataclass
class _Word:
    text: str = ""
    line: int = 0
    commands: bool = False  # it contains a command substitution
    unknown: list[str] = field(default_factory=list)  # variables that are not set
    quoted: bool = False


def read(path: str, given: Mapping[str, str], findings: Findings) -> dict[str, ConfigValue]:
    """Returns the variables that the file sets; `given` are those that are set before."""
    text = read_text(path, findings)
    if text is None:
        return {}
    variables: dict[str, ConfigValue] = {}
    scanner = _Scanner(text, dict(given))
    for words in scanner.statements():
        _statement(words, path, variables, scanner.known, findings)
    if scanner.open:
        findings.problem(ConfigValue(None, path, scanner.open), "", "opens a quote that is never closed", "close it")
    return variables


def _statement(
    words: list[_Word], path: str, variables: dict[str, ConfigValue], known: dict[str, str], findings: Findings
) -> None:
    first = words[0]
    exported = first.text in ("export", "declare", "readonly") and not first.quoted
    if spaced := _spaced(words[1:] if exported else words):
        message = "has a space beside `=`, which a shell takes for the end"
        findings.problem(ConfigValue(None, path, first.line), spaced, message, f"write `{spaced}=...` without spaces")
        return
    if first.text == "unset":
        for word in words[1:]:
            variables.pop(word.text, None)
            known.pop(word.text, None)
        return
    for word in words[1:] if exported else words:
        name, equals, value = word.text.partition("=")
        at = ConfigValue(value, path, word.line)
        if exported and (word.text.startswith("-") or (not equals and NAME.fullmatch(word.text))):
            continue  # `declare -x`, or the export of something set before
        if not equals or not NAME.fullmatch(name):
            findings.note(at, "", "holds a command, which is not carried out", "put it into `setup` of the job if it is needed")
            return
        if word.commands:
            findings.problem(at, name, "takes the output of a command, and nothing is executed here", "write the value itself")
        elif word.unknown:
            listed = ", ".join(f"`{unknown}`" for unknown in word.unknown)
            findings.problem(at, name, f"uses {listed}, which is not set before", "write the value itself")
        else:
            variables[name] = at
            known[name] = value


def _spaced(words: list[_Word]) -> str:
    """Returns the name in `NAME = value`, `NAME= value` or `NAME =value`, which are no assignments; else an empty text."""
    for word, after in pairwise(words):
        name = word.text.removesuffix("=")
        parted = word.text != name and not word.quoted and "=" not in after.text
        if NAME.fullmatch(name) and (parted or after.text.startswith("=")):
            return name
    return ""


class _Scanner:
    """Splits a shell text into statements of words, and expands variables."""

    def __init__(self, text: str, known: dict[str, str]) -> None:
        self.text = text
        self.known = known
        self.at = 0
        self.line = 1
        self.open = 0  # the line of a quote that is never closed

    def statements(self) -> Iterator[list[_Word]]:
        words: list[_Word] = []
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter in " \t":
                self.at += 1
            elif letter == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif letter in "\n;&|":
                self._advance(1)
                if words:
                    yield words
                words = []
            elif self.text.startswith("\\\n", self.at):
                self._advance(2)
            else:
                words.append(self._word())
        if words:
            yield words

    def _advance(self, count: int) -> str:
        passed = self.text[self.at : self.at + count]
        self.line += passed.count("\n")
        self.at += count
        return passed

    def _through(self, end: int) -> str:
        """Reads on through the closing letter at `end`; to the end of the text where there is none."""
        if end < 0:
            self.open = self.line
            end = len(self.text)
        return self._advance(end - self.at + 1)

    def _word(self) -> _Word:
        word = _Word(line=self.line)
        quote = 0  # the line of a double quote that is open
        while self.at < len(self.text) and (quote or self.text[self.at] not in " \t\n;&|"):
            letter = self.text[self.at]
            if letter == '"':
                word.quoted = True
                quote = 0 if quote else self.line
                self._advance(1)
            elif letter == "\\" and (not quote or self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n")):
                word.text += self._advance(2)[1:].replace("\n", "")
            elif letter == "'" and not quote:
                word.quoted = True
                word.text += self._through(self.text.find("'", self.at + 1)).strip("'")
            elif letter == "~" and not quote and HOME.match(self.text, self.at) and BEFORE_HOME.fullmatch(word.text):
                self._advance(1)
                word.text += self.known.get("HOME", "~")
            else:
                self._plain(word)
        self.open = quote or self.open
        return word

    def _plain(self, word: _Word) -> None:
        """Reads one character, variable or command substitution."""
        if self.text[self.at] == "`" or self.text.startswith("$(", self.at):
            word.commands = True
            ticked = self.text[self.at] == "`"
            self._through(self.text.find("`", self.at + 1) if ticked else _closing(self.text, self.at + 1))
        elif found := VARIABLE.match(self.text, self.at):
            name, default = found.group(1) or found.group(2), found.group(3)
            if name not in self.known and default is None:
                word.unknown.append(name)
            word.text += self.known.get(name, default or "")
            self._advance(len(found.group()))
        elif self.text[self.at] == "$":
            word.unknown.append(self._advance(2))
        else:
            word.text += self._advance(1)


def _closing(text: str, start: int) -> int:
    """Returns the index at which the parenthesis at `start` is closed; -1 where it is not."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1
