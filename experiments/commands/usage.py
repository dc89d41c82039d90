"""A command that was typed wrongly is refused like any other bad input: one line, exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from experiments.console import tell

# Where it stands in typer depends on the version.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class OneLineUsage(TyperGroup):
    """The group of commands, with usage errors in one line."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read what stands before the command."""
        with _one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Read the command and what stands behind it, and run it."""
        with _one_line():
            return super().invoke(ctx)


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # no error: the help is shown
            raise
        said = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
        said = said.replace("Value error, ", "")
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "batchyard"
        tell(f"error: {said.rstrip('.')}; see `{command} --help`")
        raise SystemExit(2) from None
