from __future__ import annotations

import math
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan import units

BINARY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
DECIMAL = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
COUNT = {"": 1, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "Q": 1e15}
SECONDS = {"days": 86400, "h": 3600, "min": 60, "s": 1, "ms": 1e-3, "µs": 1e-6}

magnitudes = st.floats(min_value=1e-3, max_value=1e17)


def test_constants_are_binary_for_memory_and_decimal_for_the_rest() -> None:
    assert (units.KIB, units.MIB, units.GIB, units.TIB) == (2**10, 2**20, 2**30, 2**40)
    assert (units.KB, units.MB, units.GB, units.TB) == (1e3, 1e6, 1e9, 1e12)
    assert (units.US, units.MS, units.MINUTE_S, units.HOUR_S, units.DAY_S) == (1e-6, 1e-3, 60, 3600, 86400)


@pytest.mark.parametrize(
    ("b", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1023.99 * 1024, "1.0 MiB"),
        (94.74 * 2**30, "94.7 GiB"),
        (103.2 * 2**30, "103.2 GiB"),
        (-(2**31), "-2.0 GiB"),
        (2**70, "1024.0 EiB"),
        (math.inf, "inf B"),
    ],
)
def test_bytes_have_one_decimal_and_a_binary_prefix(b: float, text: str) -> None:
    assert units.format_bytes(b) == text


@pytest.mark.parametrize(
    ("s", "text"),
    [
        (0, "0 s"),
        (3.4e-4, "340 µs"),
        (0.0121, "12.1 ms"),
        (0.34, "340 ms"),
        (0.9996, "1.00 s"),
        (12.2, "12.2 s"),
        (119, "119 s"),
        (120, "2.00 min"),
        (7200, "2.00 h"),
        (1_036_800, "12.0 days"),
        (1e-12, "1.00e-06 µs"),
        (math.inf, "inf s"),
    ],
)
def test_seconds_come_in_the_unit_a_person_would_choose(s: float, text: str) -> None:
    assert units.format_seconds(s) == text


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0"),
        (512, "512"),
        (1.5, "1.50"),
        (70_553_706_496, "70.6B"),
        (671e9, "671B"),
        (15e12, "15.0T"),
        (999.9e9, "1.00T"),
    ],
)
def test_counts_have_three_digits(n: float, text: str) -> None:
    assert units.format_count(n) == text


def test_rates_say_that_they_are_rates() -> None:
    assert units.format_flops(4.59e15) == "4.59 PFLOPs"
    assert units.format_flops_per_s(459e12) == "459 TFLOP/s"
    assert units.format_bytes_per_s(90e9) == "90.0 GB/s"
    assert units.format_fraction(0.4196) == "42.0%"


@pytest.mark.parametrize("infinite", [math.inf, -math.inf, math.nan])
def test_no_formatter_stumbles_over_what_is_not_finite(infinite: float) -> None:
    for write in (units.format_bytes, units.format_seconds, units.format_count, units.format_flops):
        assert str(infinite) in write(infinite)


@given(magnitudes)
def test_formatted_bytes_read_back_within_half_a_digit(b: float) -> None:
    number, prefix = units.format_bytes(b).split()
    assert float(number) * BINARY[prefix] == pytest.approx(b, abs=0.51 if prefix == "B" else 0.051 * BINARY[prefix])


@given(magnitudes)
def test_formatted_seconds_read_back_within_half_a_digit(s: float) -> None:
    number, unit = units.format_seconds(s).split()
    assert float(number) * SECONDS[unit] == pytest.approx(s, rel=5.01e-3)


@given(magnitudes)
def test_formatted_counts_and_rates_read_back_within_half_a_digit(n: float) -> None:
    count = re.fullmatch(r"([\d.e+-]+)([kMBTQ]?)", units.format_count(n))
    assert count
    assert float(count[1]) * COUNT[count[2]] == pytest.approx(n, rel=5.01e-3)
    number, unit = units.format_flops_per_s(n).split()
    assert float(number) * DECIMAL[unit.removesuffix("FLOP/s")] == pytest.approx(n, rel=5.01e-3)


@given(magnitudes)
def test_formatting_never_shows_more_digits_than_it_claims(x: float) -> None:
    digits = re.sub(r"\D", "", re.split(r"[e ]", units.format_bytes_per_s(x))[0]).lstrip("0")
    assert len(digits) <= 3


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_sign_is_only_a_sign(x: float) -> None:
    for write in (units.format_bytes, units.format_seconds, units.format_count, units.format_flops):
        assert write(-abs(x)).lstrip("-") == write(abs(x))


@pytest.mark.parametrize(
    ("written", "count"),
    [
        (12, 12),
        (2e6, 2_000_000),
        ("12", 12),
        ("2M", 2_000_000),
        ("15T", 15 * 10**12),
        ("1.5B", 1_500_000_000),
        ("1.5 b", 1_500_000_000),
        ("8k", 8_000),
        ("128Ki", 131_072),
        ("4Mi", 4 * 2**20),
        ("14.8T", 14_800_000_000_000),
        (10**30, 10**30),
    ],
)
def test_counts_are_read_exactly(written: object, count: int) -> None:
    assert units.parse_count(written) == count


@pytest.mark.parametrize(
    "written",
    [
        True,
        None,
        1.5,
        math.nan,
        math.inf,
        "",
        "M",
        "-2M",
        "1.2345k",
        "2 M B",
        "1e6",
        "0x10",
        "٣",
        [2],
        "9" * 40,
    ],
)
def test_what_is_no_count_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="whole number"):
        units.parse_count(written)


@given(st.integers(min_value=0, max_value=10**15))
def test_a_count_reads_back_from_its_own_text(n: int) -> None:
    assert units.parse_count(str(n)) == n
    assert units.parse_count(f"{n}k") == 1000 * n


@pytest.mark.parametrize(
    ("written", "fraction"),
    [(0.05, 0.05), ("5%", 0.05), ("12.5 %", 0.125), (0, 0.0), (1, 1.0), ("100%", 1.0)],
)
def test_fractions_are_read_as_numbers_or_percentages(written: object, fraction: float) -> None:
    assert units.parse_fraction(written) == pytest.approx(fraction)


@pytest.mark.parametrize(
    "written", [5, -0.1, "101%", "5", "%", True, None, math.nan, math.inf, 10**400, -(10**400), [1]]
)
def test_what_is_no_fraction_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="fraction"):
        units.parse_fraction(written)


def test_the_foundation_imports_nothing_heavy() -> None:
    program = (
        "import sys, shardplan.units, shardplan.errors, shardplan.source, shardplan.data\n"
        "print(sorted({'numpy', 'pydantic', 'yaml', 'rich', 'typer'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
