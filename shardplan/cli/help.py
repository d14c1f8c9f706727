"""Help texts: a command's docstring, and what its exit codes mean."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from shardplan.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

MEANINGS = {
    ExitCode.YES: "done",
    ExitCode.NO: "the answer is no: it does not fit",
    ExitCode.CANNOT_RUN: "could not run: usage or input",
    ExitCode.INVALID: "MaxText or the hardware would refuse the sharding",
    ExitCode.BUG: "a fault of shardplan; please report it",
    ExitCode.INTERRUPTED: "interrupted",
}
OWN_WORDS = (ExitCode.YES, ExitCode.NO, ExitCode.INVALID)
"""Codes whose meaning a command can put in its own words."""
NEVER = "not used by this command"


def help_text(command: Callable[..., Any]) -> str:
    r"""The docstring of a command, with `\b` as the mark typer knows a paragraph to be left as it is by."""
    return inspect.cleandoc(command.__doc__ or "").replace(r"\b", "\b")


def exit_codes(yes: str | None = None, no: str | None = None, invalid: str | None = None) -> str:
    """The list of exit codes for the end of a help text, with a command's own words where it has them."""
    own = {ExitCode.YES: yes or "done", ExitCode.NO: no or NEVER, ExitCode.INVALID: invalid or NEVER}
    lines = [f"  {code:<5}{own.get(code, meaning)}" for code, meaning in MEANINGS.items()]
    return "\n".join(("\b", "Exit codes:", *lines))
