"""Bytes the compiler put into collectives of MaxText's train step, against the bytes we say move."""

from __future__ import annotations

import pytest
from compiled_collectives import POINTS, Compiled, predicted_megabytes


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_bytes_by_axis_and_kind_are_the_compiler_s(point: Compiled) -> None:
    assert predicted_megabytes(point) == pytest.approx(point.megabytes, rel=0.005)
