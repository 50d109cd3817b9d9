"""Options and arguments that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.engines import registry
from muster.job.kinds import Duration, Item, Size, Wrong

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", is_flag=True, help="Print JSON.")
overrides = click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE", help="Override a field of the job; may be repeated."
)
where_to_run = click.option(
    "--engine", type=click.Choice(registry.NAMES), help="Where to run. [default: the one of config.toml, else local]"
)


if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    TextType = click.ParamType[str]
else:
    TextType = click.ParamType  # not generic before click 8.4


class RunName(TextType):
    """The id of a run, a unique beginning of one, or `last`."""

    name = "run"

    def known(self, server: str | None) -> list[str]:
        """The names that runs have here, or on the server that is chosen."""
        from muster.cli import places

        return ["last", *places.run_ids(server)]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self.known(ctx.params.get("server")) if name.startswith(incomplete)]


class Bytes(TextType):
    """A size such as `2G`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return Size().read(Item(value, value)) if isinstance(value, str) else value
        except Wrong:
            self.fail(f"`{value}` is not a size such as `500M` or `2G`", param, ctx)


class HostsName(TextType):
    """A group of hosts of config.toml, or hosts by comma."""

    name = "hosts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not value.strip(" ,"):
            self.fail("it names no host; give a group of config.toml, or hosts by comma", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from muster import config
        from muster.records.layout import home

        try:
            groups = config.load(home()).sites.get("ssh") or {}
        except config.ConfigError:
            return []  # the command itself says what is wrong
        return [CompletionItem(name) for name in groups if name.startswith(incomplete)]


class Time(TextType):
    """A time such as `30s`, `10m` or `2h`; plain seconds are understood too."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, float):
            return value
        text = f"{value}s" if re.fullmatch(r"[0-9.]+", value) else value
        try:
            return Duration(zero=True).read(Item(text, text))
        except Wrong:
            self.fail(f"`{value}` is not a time such as `30s`, `12h` or `30d`", param, ctx)


class WithWords(click.Command):
    """A command that keeps the words behind `--` apart, in `ctx.meta["words"]`: they are a program to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["words"] = args[at + 1 :]
            args = args[:at]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" in error.message:
                hint = f"a program and its words stand behind `--`: {ctx.command_path} ... -- python train.py"
                raise click.UsageError(f"{error.message}; {hint}", ctx) from None
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def run_argument(**settings: Any) -> Callable[[F], F]:
    return click.argument("run" if "nargs" not in settings else "runs", type=RunName(), **settings)
