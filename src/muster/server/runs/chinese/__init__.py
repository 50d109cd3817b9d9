"""Chinese for what records and checks say in English: sentences are recognised by templates, and what is not known stays.

Records hold one language, so that every tool reads the same. What programs and people wrote is kept as it is.
"""

from muster.server.runs.chinese import problems, reasons
from muster.server.runs.chinese.templates import Templates

_REASONS = Templates(reasons.TEXTS, "；")
_PROBLEMS = Templates(problems.TEXTS, "；")


def reason(text: str) -> str:
    """Why a run stands as it does, in Chinese as far as it is known."""
    return _REASONS.translate(text)


def problem(text: str) -> str:
    """What is wrong with a field of a job, or what to do about it, in Chinese as far as it is known."""
    return _PROBLEMS.translate(text)
