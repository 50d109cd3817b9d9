"""Every text of the portal's pages and scripts, in English and Chinese: one module of this package for each page.

Templates write `t("jobs.title")`, attributes `said(placeholder="jobs.search")`, scripts `say("jobs.title")`. What users named
or programs said is shown as it is.
"""

from markupsafe import Markup

from muster.bench.report.phrase import Phrase
from muster.server.pages.texts import accounts, cluster, endpoints, home, job, jobs, projects, results, shell, submit

MODULES = (shell, home, jobs, job, endpoints, submit, cluster, projects, accounts, results)
TEXTS: dict[str, tuple[str, str]] = {key: texts for module in MODULES for key, texts in module.TEXTS.items()}


def say(key: str, **values: object) -> Phrase:
    """A text in both languages, with values (phrases among them) put in their places. Raises KeyError."""
    english, chinese = TEXTS[key]
    return Phrase(english.format_map(_within(values, "en")), chinese.format_map(_within(values, "zh")))


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
