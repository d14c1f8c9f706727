"""Printing a result: the format, and a closed pipe that changes nothing about the answer."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import typer

from shardplan.render import Format, Style, render

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

    from shardplan.errors import ExitCode
    from shardplan.render.page import Page


def show(
    result: BaseModel | Sequence[BaseModel],
    page: Callable[[], Page],
    output: Format | None,
    width: int | None,
) -> None:
    """Print a result; `page` is what people read."""
    emit(render(result, page, style(output, width)))


def style(output: Format | None, width: int | None) -> Style:
    """The format that was asked for, by default a table on a terminal, else plain text."""
    return Style(output or (Format.TABLE if sys.stdout.isatty() else Format.PLAIN), width)


def emit(text: str) -> None:
    """Write to stdout. A reader that has gone (`| head`) has seen enough: the exit code stays the answer's."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Guard: Python flushes stdout once more when it ends, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnicodeEncodeError:
        sys.stdout.buffer.write(text.encode(sys.stdout.encoding, errors="replace"))
        sys.stdout.flush()


def finish(code: ExitCode) -> NoReturn:
    """End the command with an exit code."""
    raise typer.Exit(code)
