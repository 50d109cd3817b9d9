"""Reports of results: a page, Markdown, CSV and the terminal, in English and Chinese."""

from muster.bench.report.compare import json
from muster.bench.report.figures import duration, figure, moment
from muster.bench.report.formats.as_csv import csv
from muster.bench.report.formats.as_html import Assets, fragment, html, page, script, style
from muster.bench.report.formats.as_markdown import markdown
from muster.bench.report.formats.as_text import text
from muster.bench.report.phrase import both

__all__ = [
    "Assets",
    "both",
    "csv",
    "duration",
    "figure",
    "fragment",
    "html",
    "json",
    "markdown",
    "moment",
    "page",
    "script",
    "style",
    "text",
]
