"""Units: constants, numbers for people to read, numbers people write, and the array aliases.

Binary prefixes are for memory (GiB = 2**30 bytes), decimal ones for everything else (GB = 1e9 bytes).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]
    Bools: TypeAlias = NDArray[np.bool_]

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40

KB: Final = 1e3
MB: Final = 1e6
GB: Final = 1e9
TB: Final = 1e12

US: Final = 1e-6
MS: Final = 1e-3
MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_COUNT: Final = ("", "k", "M", "B", "T", "Q")
_DECIMAL: Final = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_SECONDS: Final = ((DAY_S, "days"), (HOUR_S, "h"), (MINUTE_S, "min"), (1.0, "s"), (MS, "ms"))
_TINY_EXPONENT: Final = -5  # smaller numbers are written as 1.00e-06
_LONG_ENOUGH: Final = 2.0  # days, hours and minutes begin at two of them

_WRITTEN_COUNT: Final = re.compile(
    r"(?P<whole>\d{1,24})(?:\.(?P<part>\d{1,24}))?\s*(?P<unit>k|ki|m|mi|b|g|gi|t|ti)?",
    re.ASCII | re.IGNORECASE,
)
_WRITTEN_PERCENT: Final = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*%", re.ASCII)
_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12} | {
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


def format_bytes(b: float) -> str:
    """Bytes with one decimal and a binary prefix: "12.3 GiB", "512 B"."""
    if not math.isfinite(b):
        return f"{b} B"
    value, prefix = _scaled(b, _BINARY, step=KIB, digits=1)
    return f"{value:.0f} {prefix}" if prefix == "B" else f"{value:.1f} {prefix}"


def format_bytes_per_s(rate: float) -> str:
    """Bytes per second with three digits and a decimal prefix, as network and HBM rates are quoted: "90.0 GB/s"."""
    return _decimal(rate, "B/s")


def format_seconds(s: float) -> str:
    """Seconds with three digits in the unit a person would choose: "12.2 s", "340 ms", "3.10 h", "12.0 days"."""
    if not math.isfinite(s) or s == 0:
        return f"{s:.0f} s"
    for unit_s, unit in _SECONDS:
        begin = _LONG_ENOUGH if unit_s > 1 else 1 - 5e-4  # 0.9996 s reads 1.00 s, not 1000 ms
        if abs(s) >= begin * unit_s:
            return f"{_three(s / unit_s)} {unit}"
    return f"{_three(s / US)} µs"


def format_count(n: float) -> str:
    """A count with three digits and the letters used for parameters and tokens: "70.6B", "15.0T", "512"."""
    if not math.isfinite(n):
        return f"{n}"
    value, prefix = _scaled(n, _COUNT, step=1000, digits=None)
    return f"{value:.0f}" if not prefix and value == round(value) else f"{_three(value)}{prefix}"


def format_flops(flops: float) -> str:
    """A number of floating-point operations: "4.59 PFLOPs". A count; for a rate see `format_flops_per_s`."""
    return _decimal(flops, "FLOPs")


def format_flops_per_s(rate: float) -> str:
    """A rate of floating-point operations: "459 TFLOP/s"."""
    return _decimal(rate, "FLOP/s")


def format_fraction(x: float) -> str:
    """A fraction of one as a percentage with one decimal: "42.0%"."""
    return f"{100 * x:.1f}%"


def parse_count(written: object) -> int:
    """The whole number meant by 2000000, 2e6, "2M", "15T" or "128Ki"; letters are decimal, with an i binary.

    Raises ValueError for anything else, also for a number that is not whole.
    """
    if isinstance(written, int) and not isinstance(written, bool):
        return written
    if isinstance(written, float) and written.is_integer():
        return int(written)
    match = _WRITTEN_COUNT.fullmatch(written.strip()) if isinstance(written, str) else None
    if match is None:
        raise ValueError('expected a whole number, or text such as "2M" or "15T"')
    part: str = match["part"] or ""
    unit = _UNITS[(match["unit"] or "").lower()]
    count, rest = divmod(int(match["whole"] + part) * unit, int("1" + "0" * len(part)))
    if rest:
        raise ValueError(f"{written} is not a whole number")
    return count


def parse_fraction(written: object) -> float:
    """The fraction in [0, 1] meant by 0.05 or "5%"; raises ValueError for anything else."""
    percent = _WRITTEN_PERCENT.fullmatch(written.strip()) if isinstance(written, str) else None
    if percent:
        fraction = float(percent[1]) / 100
    elif isinstance(written, (int, float)) and not isinstance(written, bool):
        # Guard: float(10**400) overflows.
        fraction = float(written) if isinstance(written, float) or 0 <= written <= 1 else math.inf
    else:
        raise ValueError('expected a fraction such as 0.05, or "5%"')
    if not 0 <= fraction <= 1:
        raise ValueError('expected a fraction between 0 and 1, or "0%" to "100%"')
    return fraction


def _decimal(x: float, unit: str) -> str:
    if not math.isfinite(x):
        return f"{x} {unit}"
    value, prefix = _scaled(x, _DECIMAL, step=1000, digits=None)
    return f"{_three(value)} {prefix}{unit}"


def _three(x: float) -> str:
    """Three significant digits; all digits before the point are kept."""
    if x == 0:
        return "0"
    exponent = int(f"{x:.2e}".split("e")[1])  # after rounding: 9.996 has the exponent of 10.0
    return f"{x:.{max(0, 2 - exponent)}f}" if exponent > _TINY_EXPONENT else f"{x:.2e}"


def _scaled(x: float, prefixes: tuple[str, ...], *, step: int, digits: int | None) -> tuple[float, str]:
    """The number in the largest prefix that keeps it at one or more after rounding, and that prefix."""
    value = float(x)
    for prefix in prefixes[:-1]:
        shown = round(value, digits) if digits is not None else float(f"{value:.3g}")
        if abs(shown) < step:
            return value, prefix
        value /= step
    return value, prefixes[-1]
