"""A text in English and Chinese: a page holds both and shows one."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from muster.bench.report.texts import TEXTS


@dataclass(frozen=True)
class Phrase:
    """The same thing said twice. Where it becomes part of a page it is escaped."""

    en: str
    zh: str

    def within(self, language: str) -> str:
        return self.zh if language == "zh" else self.en

    def __html__(self) -> str:
        if self.en == self.zh:
            return Markup.escape(self.en)
        return Markup('<span class="en" lang="en">{}</span><span class="zh" lang="zh-CN">{}</span>').format(self.en, self.zh)

    @property
    def svg(self) -> Markup:
        """The same for a text inside a drawing."""
        if self.en == self.zh:
            return Markup.escape(self.en)
        return Markup('<tspan class="en">{}</tspan><tspan class="zh">{}</tspan>').format(self.en, self.zh)


def say(key: str, **values: object) -> Phrase:
    """A text of the list, with values (phrases among them) put in their places."""
    english, chinese = TEXTS[key]
    return Phrase(english.format_map(_within(values, "en")), chinese.format_map(_within(values, "zh")))


def same(text: object) -> Phrase:
    """A name given by users or programs, which is not translated."""
    return Phrase(str(text), str(text))


def named(name: str) -> Phrase:
    """A metric or phase by the name that people know, else as its script called it."""
    return say(f"name.{name}") if f"name.{name}" in TEXTS else same(name)


def both(english: str, chinese: str) -> Markup:
    """A text in both languages, ready for a page."""
    return Markup(Phrase(english, chinese).__html__())


def joined(phrases: Sequence[Phrase], comma: tuple[str, str] = (", ", "、")) -> Phrase:
    return Phrase(comma[0].join(phrase.en for phrase in phrases), comma[1].join(phrase.zh for phrase in phrases))


def _within(values: dict[str, object], language: str) -> dict[str, object]:
    return {name: value.within(language) if isinstance(value, Phrase) else value for name, value in values.items()}
