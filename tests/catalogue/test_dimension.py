from __future__ import annotations

import pytest

from shardplan.catalogue.dimension import combine, dimension, format_quantity, unit_text


@pytest.mark.parametrize("unit", ["bytes", "s", "flops/bytes", "bytes*s", "1/s", "flops/s/bytes"])
def test_a_unit_reads_back_from_its_dimension(unit: str) -> None:
    assert dimension(unit_text(dimension(unit))) == dimension(unit)


def test_pure_numbers_and_fractions_have_no_dimension() -> None:
    assert dimension("") == dimension("fraction") == dimension("s/s") == ()
    assert unit_text(()) == "a pure number"


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown unit 'furlongs'"):
        dimension("furlongs/s")


def test_products_and_quotients_combine() -> None:
    assert combine(dimension("flops/bytes"), dimension("bytes"), 1) == dimension("flops")
    assert combine(dimension("bytes"), dimension("bytes"), -1) == ()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (True, "truth", "yes"),
        (False, "truth", "no"),
        ("fp8", "choice", "fp8"),
        (8, "", "8"),
        (2457.6, "", "2,458"),
        (0.25, "", "0.25"),
        (0.3, "fraction", "30.0%"),
        (2.0**30, "bytes", "1.0 GiB"),
        (12.2, "s", "12.2 s"),
        (8192, "tokens", "8,192 tokens"),
        (15e12, "tokens", "15.0T tokens"),
        (11535.0, "flops/bytes", "11,535 FLOPs/byte"),
        (9e10, "bytes/s", "90.0 GB/s"),
        (4e15, "flops", "4.00 PFLOPs"),
        (float("inf"), "bytes", "inf B"),
    ],
)
def test_values_are_written_for_people(value: object, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


def test_infinite_and_missing_numbers_can_be_written() -> None:
    assert format_quantity(float("inf"), "tokens") == "inf tokens"
    assert format_quantity(float("nan"), "") == "nan"
