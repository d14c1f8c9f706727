"""Units of rule facts: what may be compared with what, and how a value is written for people.

A unit is text: "" for a pure number, a product of powers such as `bytes`, `s`, `flops/bytes`; two more kinds are not
quantities: `truth` (yes or no) and `choice` (one of a few words).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from shardplan.units import (
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_flops,
    format_fraction,
    format_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TRUTH: Final = "truth"
CHOICE: Final = "choice"
FRACTION: Final = "fraction"
BASE_UNITS: Final = ("bytes", "flops", "s", "tokens", "", "usd")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a name in an expression stands for."""

    unit: str
    """A unit as in this module's first lines, `fraction` (a pure number shown in percent), `truth` or `choice`."""
    choices: tuple[str, ...] = ()
    """Words a `choice` may be."""


Dimension = tuple[tuple[str, int], ...]
"""Base units with their powers, sorted by name; empty for a pure number."""


@cache
def dimension(unit: str) -> Dimension:
    """The powers of base units behind a unit's text; ValueError for a base unit that does not exist."""
    powers: Counter[str] = Counter()
    if unit not in ("", FRACTION):
        upper, *lower = unit.split("/")
        for sign, names in ((1, upper.split("*")), (-1, lower)):
            for name in names:
                if name not in (*BASE_UNITS, "1"):
                    raise ValueError(f"unknown unit {name!r} in {unit!r}; the units are {', '.join(BASE_UNITS)}")
                powers[name] += sign
    return tuple(sorted((name, power) for name, power in powers.items() if power and name != "1"))


def combine(left: Dimension, right: Dimension, sign: int) -> Dimension:
    """The dimension of a product (sign 1) or a quotient (sign -1)."""
    powers = Counter(dict(left))
    for name, power in right:
        powers[name] += sign * power
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def unit_text(of: Dimension) -> str:
    """A dimension as a unit's text, for messages: `flops/bytes`, or `a pure number`."""
    upper = [name for name, power in of for _ in range(power)]
    lower = [name for name, power in of for _ in range(-power)]
    if not upper and not lower:
        return "a pure number"
    return "/".join(["*".join(upper) or "1", *lower])


_WRITERS: Final[dict[str, Callable[[float], str]]] = {
    "bytes": format_bytes,
    "s": format_seconds,
    "flops": format_flops,
    "bytes/s": format_bytes_per_s,
    FRACTION: format_fraction,
}


def format_quantity(value: object, unit: str) -> str:
    """A fact's value for people: bytes in GiB, seconds in s, truths as yes or no, other units written behind."""
    if unit == TRUTH:
        return "yes" if value else "no"
    if unit == CHOICE:
        return str(value)
    number = float(value)  # type: ignore[arg-type]
    if unit in _WRITERS:
        return _WRITERS[unit](number)
    text = _plain(number)
    return f"{text} {_spelled(unit)}" if unit else text


def _spelled(unit: str) -> str:
    """A unit as people say it: `FLOPs/byte` for `flops/bytes`."""
    upper, *lower = unit.replace("flops", "FLOPs").split("/")
    return "/".join([upper, *(name.removesuffix("s") or name for name in lower)])


def _plain(number: float) -> str:
    """Whole numbers with thousands separators up to a million, then with a letter; others with four digits."""
    if abs(number) >= 1e7:  # noqa: PLR2004 - shown, not computed with
        return format_count(number)
    return f"{number:,.0f}" if number.is_integer() or abs(number) >= 1e3 else f"{number:.4g}"  # noqa: PLR2004
