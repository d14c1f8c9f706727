"""Published network measurements against what the model says: one line each, predicted over measured within a bound."""

from __future__ import annotations

import pytest
from measured_collectives import MEASUREMENTS, Measurement, predicted_s


@pytest.mark.parametrize("one", MEASUREMENTS, ids=lambda one: f"{one.chip} {one.name} [{one.source[:40]}]")
def test_a_published_measurement_is_met(one: Measurement) -> None:
    low, high = one.within
    assert low <= predicted_s(one) / one.seconds <= high
