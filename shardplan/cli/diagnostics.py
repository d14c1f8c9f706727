"""Messages on stderr: what the user can mend, and what only we can."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardplan.errors import Diagnostic
    from shardplan.plan import ProblemOut

ISSUES = "the issue tracker of shardplan"
_RED, _CYAN, _PLAIN = "\x1b[1;31m", "\x1b[36m", "\x1b[0m"


def print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """All of them, in the order of their places, each with its hint on the next line."""
    ordered = sorted(diagnostics, key=_place)
    lines = [line for diagnostic in ordered for line in diagnostic_lines(diagnostic, color=_has_color())]
    if len(ordered) > 1:
        lines.append(f"{len(ordered)} errors")
    _say("\n".join(lines))


def print_problems(problems: Iterable[ProblemOut]) -> None:
    """What stands in the way of a plan, where the result itself is not printed."""
    from shardplan.errors import Diagnostic

    print_diagnostics(Diagnostic(problem.code, problem.message, None, problem.hint) for problem in problems)


def print_warning(text: str) -> None:
    """What a result does not say and should be known before it is used."""
    _say(f"warning: {text}")


def diagnostic_lines(diagnostic: Diagnostic, *, color: bool = False) -> list[str]:
    """`place: error CODE: message`, and the hint below it."""
    error, hint = (f"{_RED}error{_PLAIN}", f"{_CYAN}hint{_PLAIN}") if color else ("error", "hint")
    place = f"{diagnostic.mark}: " if diagnostic.mark else ""
    lines = [f"{place}{error} {diagnostic.code}: {diagnostic.message}"]
    return [*lines, *([f"  {hint}: {diagnostic.hint}"] if diagnostic.hint else [])]


def print_bug(error: BaseException) -> None:
    """One line on a fault of ours, with the place in our code and how to report it."""
    text = " ".join(str(error).split())
    _say(
        f"shardplan: this is a bug of shardplan: {type(error).__name__}{_place_of_bug(error)}{': ' + text if text else ''}\n"
        f"  hint: report it to {ISSUES}, with what SHARDPLAN_DEBUG=1 prints and your input"
    )


def _place_of_bug(error: BaseException) -> str:
    """The innermost line of this package that the error passed through."""
    package = Path(__file__).resolve().parent.parent
    place, trace = "", error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if package in path.parents:
            place = f" at {path.relative_to(package.parent)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    mark = diagnostic.mark
    return ("", 0, 0) if mark is None else (mark.source, mark.line or 0, mark.column or 0)


def _has_color() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _say(text: str) -> None:
    try:
        sys.stderr.write(
            text.encode(sys.stderr.encoding or "utf-8", "backslashreplace").decode(sys.stderr.encoding or "utf-8")
            + "\n"
        )
        sys.stderr.flush()
    except BrokenPipeError:
        pass
