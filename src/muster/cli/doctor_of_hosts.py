"""`muster doctor --hosts`: what the hosts of the engine ssh have, as a table, and what is in the way of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from muster import config
from muster.cli import output
from muster.cli.output import fit, style, terminal_width
from muster.cli.screen import SPIN, live_line
from muster.dataclass import asdict, replace
from muster.engines.ssh import fitness, groups
from muster.engines.ssh.options import OPTIONS, HostsOptions
from muster.engines.ssh.report import Link, Report
from muster.engines.ssh.survey import Survey
from muster.job.kinds import Item, Wrong, nearest
from muster.launch.start import packed_agent
from muster.records.layout import home
from muster.records.text.units import duration, size

QUICK = 1.0  # seconds for which hosts may be silent without a word
NAMED = 4  # hosts that are waited for and named
NARROW = 24  # columns that are left for devices, at least; else the path of Python is left out
MEGABYTE = 1e6
OF_JOBS = (
    "unresolved",
    "programs",
    "job_python",
    "job_python_version",
    "uses",
    "unanswered",
)  # fields of a report that are not shown


def examine(text: str, links: bool, limit: float, json: bool) -> int:
    """Asks hosts, prints what they say, and returns the exit code: 1 where one of them is not fit for a run."""
    settings = config.load(home())
    hosts = _meant(text, settings)
    with Survey(hosts, packed_agent.content(home()), limit) as survey:
        with live_line(partial(_waiting, survey, f"asking {_count(hosts.nodes)}")):
            reports = survey.reports()
        measured = []
        if links:
            with live_line(partial(_waiting, survey, "measuring links")):
                measured = survey.links(reports)
    if reports[0].unresolved and reports[0].host == text and text not in (settings.sites.get("ssh") or {}):
        raise click.UsageError(_unknown(text, settings))
    fit_for_runs = all(not fitness.in_the_way(report, hosts) for report in reports) and not any(
        link.problem for link in measured
    )
    if json:
        output.print_json(_as_json(reports, measured, hosts, fit_for_runs))
    else:
        _print(reports, measured, hosts)
    return 0 if fit_for_runs else 1


def _meant(text: str, settings: config.Config) -> HostsOptions:
    """The hosts that a user means. Raises UsageError."""
    try:
        own: HostsOptions = OPTIONS.read(Item(text, text))
    except Wrong as wrong:
        raise click.UsageError(f"--hosts {text}: {wrong.each[0].message}; {wrong.each[0].hint}") from None
    hosts, problems = groups.meant(own, settings.sites.get("ssh") or {})
    for _, message, hint in problems:
        raise click.UsageError(f"--hosts {text}: {message}; {hint}")
    return replace(hosts, nodes=tuple(dict.fromkeys(hosts.nodes)))


def _unknown(text: str, settings: config.Config) -> str:
    """What to say of a name that is neither a group nor that of a host."""
    known = list(settings.sites.get("ssh") or {})
    meant = nearest(text, known)
    named = (
        f"did you mean `{meant}`?"
        if meant
        else f"there are {', '.join(f'`{name}`' for name in known)}"
        if known
        else "it has none"
    )
    return f"--hosts {text}: config.toml has no group `{text}`, and no host has that name; {named}"


def _waiting(survey: Survey, doing: str, elapsed: float) -> str:
    waiting = list(survey.waiting)
    if elapsed < QUICK or not waiting:
        return ""
    more = f" and {len(waiting) - NAMED} more" if waiting[NAMED:] else ""
    text = f"{doing}, waiting for {', '.join(waiting[:NAMED])}{more}  {int(elapsed) // 60}:{int(elapsed) % 60:02d}"
    return f"{SPIN[int(elapsed * 10) % len(SPIN)]} {style(fit(text, terminal_width(2) - 3), dim=True)}"


def _as_json(reports: Sequence[Report], links: Sequence[Link], hosts: HostsOptions, fit_for_runs: bool) -> dict[str, Any]:
    found = []
    for report in reports:
        ways = {"in_the_way": fitness.in_the_way(report, hosts), "notes": fitness.notes(report, hosts)}
        found.append({name: value for name, value in asdict(report).items() if name not in OF_JOBS} | ways)
    differ = fitness.differences(reports)
    return {"fit": fit_for_runs, "hosts": found, "links": [asdict(link) for link in links], "differences": differ}


def _print(reports: Sequence[Report], links: Sequence[Link], hosts: HostsOptions) -> None:
    heads = ["", "HOST", "PYTHON", "CPUS", "MEMORY", "DISK", "/TMP", "CLOCK", "NAMESPACES", *_if(hosts.ssh, "SSH"), "DEVICES"]
    rows = [_row(report, hosts, report.python_path) for report in reports]
    if sys.stdout.isatty() and output.left_for_last(heads, rows) < min(NARROW, max(len(row[-1]) for row in rows)):
        rows = [_row(report, hosts, "") for report in reports]
    output.table(heads, rows, [_below(report, hosts) for report in reports])
    if links:
        click.echo()
        output.table(["LINK", "MB/S", "ADDRESSES"], [_link_row(link) for link in links])
    click.echo()
    for difference in fitness.differences(reports):
        click.echo("\n".join(output.under(difference, fg="yellow")))
    fit_ones = sum(not fitness.in_the_way(report, hosts) for report in reports)
    failed = sum(bool(link.problem) for link in links)
    broken = f"; {failed} of {len(links)} links do not work" if failed else ""
    click.echo(f"{fit_ones} of {_count(reports)} can run jobs{broken}")


def _count(hosts: Sequence[object]) -> str:
    return f"{len(hosts)} host{'s' * (len(hosts) != 1)}"


def _row(report: Report, hosts: HostsOptions, python_path: str) -> list[str]:
    mark = "✗" if fitness.in_the_way(report, hosts) else "✓"
    if report.problem:
        return [mark, report.host, *"-" * (8 + bool(hosts.ssh))]
    return [
        mark,
        report.host,
        f"{report.python} {python_path}".rstrip(),
        f"{report.cpus} {report.machine}",
        size(report.memory),
        size(report.directory.free),
        size(report.tmp.free),
        _clock(report),
        "no" if report.namespaces else "yes" if hosts.namespaces else "off",
        *_if(hosts.ssh, "no" if report.ssh else "yes"),
        fitness.described(report) or "none",
    ]


def _if(wanted: object, cell: str) -> list[str]:
    return [cell] if wanted else []


def _clock(report: Report) -> str:
    """How far a clock is ahead, as exactly as it is known."""
    ahead = report.clock
    if abs(ahead) <= report.clock_error:
        return "same"
    return f"{'+' if ahead > 0 else '-'}{duration(abs(ahead))}"


def _below(report: Report, hosts: HostsOptions) -> list[str]:
    reasons = [line for reason in fitness.in_the_way(report, hosts) for line in output.under(reason, fg="red")]
    return reasons + [line for note in fitness.notes(report, hosts) for line in output.under(note, dim=True)]


def _link_row(link: Link) -> list[str]:
    speed = "-" if link.problem else output.number(link.bytes_per_second / MEGABYTE)
    where = link.problem or f"{link.source_address} → {link.target_address}"
    return [f"{link.source} → {link.target}", speed, where]
