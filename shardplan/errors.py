"""What goes wrong and how it is said: places, diagnostics, the error tree and the exit codes.

The user's fault is a `ShardplanError` that carries every `Diagnostic` found; ours is an `assert`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """What a job script may conclude from the end of a run; one meaning each."""

    YES = 0
    """Done, and the answer is yes."""
    NO = 1
    """Done, and the answer is no: the plan, or every plan, does not fit."""
    CANNOT_RUN = 2
    """The question could not be asked: usage or input."""
    INVALID = 3
    """MaxText or the hardware would refuse the sharding."""
    BUG = 70
    """A fault of shardplan itself."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C."""


INPUT_CODES: Final = {
    "SP001": "The file cannot be opened.",
    "SP002": "The file is not UTF-8 text.",
    "SP003": "The input is too large, nested too deeply, or expands too far.",
    "SP004": "The text is not well-formed YAML or JSON.",
    "SP005": "A key is given twice.",
    "SP006": "The input is empty, or holds more than one document.",
    "SP007": "The input uses a feature of YAML that is not read here.",
    "SP008": "A number has too many digits, or text is not valid Unicode.",
    "SP010": "A key is not known here.",
    "SP011": "A required key is missing.",
    "SP012": "A value has the wrong type.",
    "SP013": "A value is out of range.",
    "SP014": "A value is not one of the choices.",
    "SP015": "Values do not agree with each other, or cannot be modelled.",
}
"""Every code a reader of input may give, with the one sentence that explains it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a source; lines and columns count from 1, None where only the source is known."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.source, self.line, self.column) if part is not None)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing the user can mend: what, where, and at most one hint."""

    code: str
    message: str
    mark: Mark | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.mark}: " if self.mark else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.code} {self.message}{hint}"


class ShardplanError(Exception):
    """Everything wrong with what the user gave, found in one pass."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANNOT_RUN

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        assert self.diagnostics, "an error without a diagnostic says nothing"
        super().__init__(*self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)


class InputError(ShardplanError):
    """The input cannot be read or makes no sense."""


class InvalidShardingError(ShardplanError):
    """The input is clear, but MaxText or the hardware would refuse it."""

    exit_code = ExitCode.INVALID


class DisagreementError(ValueError):
    """What a validator of a record raises when values do not agree; `at` leads from the record to the one to blame."""

    def __init__(self, message: str, *, at: tuple[str | int, ...] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint


def suggest(word: object, known: Iterable[object]) -> str | None:
    """The known word nearest to a misspelt one as "did you mean ...?", or None if nothing is near."""
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else None


def nearest(word: object, known: Iterable[object]) -> str | None:
    """The known word nearest to a misspelt one, or None if nothing is near."""
    from difflib import get_close_matches

    by_lower = {str(name).lower(): str(name) for name in known}
    # Guard: difflib is quadratic in the word; a pasted megabyte is no typo.
    near = get_close_matches(str(word).lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None
