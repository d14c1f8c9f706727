"""The bands of a chip nobody has measured are what the measured chips show when each is left out in turn."""

from __future__ import annotations

import numpy as np
import pytest
from places import DATA

from benchmarks.compared import read_corpus
from benchmarks.left_out import CORPUS, MEMORY_SHARE, TIME_SHARE, band, memory_errors, time_errors
from shardplan.cost.calibration import constant


@pytest.mark.slow
def test_the_time_band_is_that_of_the_worst_chip_left_out() -> None:
    errors = time_errors()
    assert len(errors) >= 3
    assert constant("overlap", "uncalibrated_band") == pytest.approx(band(errors, TIME_SHARE), abs=0.02)


@pytest.mark.slow
def test_the_memory_band_is_that_of_the_worst_chip_left_out() -> None:
    records = [record for name in CORPUS for record in read_corpus(DATA / name)]
    errors = memory_errors(records)
    assert len(errors) >= 4
    assert constant("memory", "uncalibrated_band") == pytest.approx(band(errors, MEMORY_SHARE), abs=0.02)


def test_the_band_is_the_worst_chips() -> None:
    assert band({"a": np.array([0.1, -0.5]), "b": np.array([0.2, 0.2])}, 1.0) == 0.5
