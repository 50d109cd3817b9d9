"""Options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", is_flag=True, help="Print JSON.")
overrides = click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE", help="Override a field of the job; may be repeated."
)


if TYPE_CHECKING:
    TextType = click.ParamType[str]
else:
    TextType = click.ParamType  # not generic before click 8.4


class RunName(TextType):
    """The id of a run, a unique beginning of one, or `last`."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from muster.launch.names import run_ids

        return [CompletionItem(name) for name in ("last", *run_ids()) if name.startswith(incomplete)]


class WithWords(click.Command):
    """A command that keeps the words behind `--` apart, in `ctx.meta["words"]`: they are a program to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["words"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def run_argument(**settings: Any) -> Callable[[F], F]:
    return click.argument("run" if "nargs" not in settings else "runs", type=RunName(), **settings)
