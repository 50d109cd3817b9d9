"""Every text of the portal's pages and scripts, in English and Chinese: one module of this package for each page.

Templates write `t("jobs.title")`, attributes `said(placeholder="jobs.search")`, scripts `say("jobs.title")`. What users named
or programs said is shown as it is.
"""

from markupsafe import Markup, escape

from muster.bench.report.phrase import Phrase
from muster.server.pages.texts import accounts, cluster, endpoints, home, job, jobs, projects, results, settings, shell, submit

MODULES = (shell, home, jobs, job, endpoints, submit, cluster, projects, accounts, settings, results)
TEXTS: dict[str, tuple[str, str]] = {key: texts for module in MODULES for key, texts in module.TEXTS.items()}


class Text(Phrase):
    """A phrase in which what stands between backticks, such as a command or a field, becomes code on a page."""

    def __html__(self) -> str:
        english, chinese = _with_code(self.en), _with_code(self.zh)
        if english == chinese:
            return english
        return Markup('<span class="en" lang="en">{}</span><span class="zh" lang="zh-CN">{}</span>').format(english, chinese)


def _with_code(text: str) -> Markup:
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them is part of a name
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def say(key: str, **values: object) -> Phrase:
    """A text in both languages, with values (phrases among them) put in their places. Raises KeyError."""
    english, chinese = TEXTS[key]
    return Text(english.format_map(_within(values, "en")), chinese.format_map(_within(values, "zh")))


def said(language: str, **attributes: str) -> Markup:
    """Attributes of an element in the language of the page; scripts say them again when the language is switched.

    `text` stands for the content of an element that takes no spans, such as an option.
    """
    names = {name.replace("_", "-"): key for name, key in attributes.items()}
    shown = [Markup('{}="{}"').format(name, say(key).within(language)) for name, key in names.items() if name != "text"]
    keys = ";".join(f"{name}={key}" for name, key in names.items())
    return Markup(" ").join([*shown, Markup('data-say="{}"').format(keys)])


def _within(values: dict[str, object], language: str) -> dict[str, object]:
    return {name: value.within(language) if isinstance(value, Phrase) else value for name, value in values.items()}
