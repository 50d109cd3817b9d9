"""The Job described for others: JSON Schema for editors, and the page `docs/job-file.md`."""

from __future__ import annotations

from typing import Any

from muster.job.model import FIELDS

# Such a job starts no program of its own.
_AN_ENVIRONMENT = {"required": ["kind"], "properties": {"kind": {"const": "environment"}}}


# Such a job starts no program of its own.
_AN_ENVIRONMENT = {"required": ["kind"], "properties": {"kind": {"const": "environment"}}}


def schema() -> dict[str, Any]:
    """The JSON Schema of a job file."""
    properties = {}
    for name, field in FIELDS.items():
        properties[name] = {**field.metadata["kind"].schema(), "description": field.metadata["about"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Muster job",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "oneOf": [{"required": ["boot"]}, {"required": ["command"]}, _AN_ENVIRONMENT],
    }


def page() -> str:
    """The text of docs/job-file.md."""
    lines = [
        "# The job file",
        "",
        "<!-- made by `make docs` from src/muster/job/model.py; edit the model, not this page -->",
        "",
        "One YAML file describes a job. Every field but `boot` or `command` can be left out; `--set name=value`",
        "overrides any, nested ones too (`--set parameters.epochs=3`); `command` and `boot` take each other's place.",
        "Times are written as `30s`, `10m`, `2h`, `1d` or `1h30m`, sizes in powers of 1024.",
        "`muster run --check JOB` checks a file, `muster schema` prints its JSON Schema.",
        "",
        "| field | takes | default |",
        "|---|---|---|",
    ]
    for name, field in FIELDS.items():
        default = field.metadata["default"] or f"`{field.default}`"
        lines.append(f"| [`{name}`](#{name}) | {field.metadata['kind'].words} | {default} |")
    for name, field in FIELDS.items():
        about, example = field.metadata["about"], field.metadata["example"]
        lines.append(f"\n## {name}\n\n{about}\n\n```yaml\n{name}: {example}\n```")
    return "\n".join(lines) + "\n"
