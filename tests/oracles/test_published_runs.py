"""Step times of Google's own published TPU runs (bf16 and fp8, full configuration), predicted with the shipped constants.

The rows are those of tpu-recipes and MaxText's documentation that state the whole configuration with a step time (three with
tokens a second), and the three context-parallel runs of MaxText's pull request 4687. Left out: int8 (we have no such precision), runs that are no
language model, third parties. Errors are those of step time, never of TFLOP/s.
"""

from __future__ import annotations

import numpy as np
import pytest
from places import DATA

from benchmarks.published import Run, read_runs
from shardplan.cost.network.comm import collectives
from shardplan.cost.time.step_time import Time, step_time

RUNS = read_runs(DATA / "recipes_tpu.jsonl")
WORST = 0.15
MEDIAN, P90 = 0.03, 0.09


def _time(run: Run) -> Time:
    return step_time(run.case, run.candidates, collectives(run.case, run.candidates))


def _error(run: Run) -> float:
    return float(_time(run).estimate_s[0]) / run.step_time_s - 1


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.name} ({run.source})")
def test_a_published_step_time_is_met(run: Run) -> None:
    assert abs(_error(run)) < WORST


def test_most_runs_are_met_closely() -> None:
    errors = np.abs([_error(run) for run in RUNS])
    assert np.median(errors) < MEDIAN
    assert np.quantile(errors, 0.9) < P90


@pytest.mark.parametrize(
    ("name", "published_s", "tolerance"),
    [
        ("ironwood/llama3.1-70b/8k-bf16-tpu7x-4x4x4/xpk@edf6fa7", 12.20, 0.03),
        ("ironwood/llama3.1-70b/128k-bf16-tpu7x-4x8x8/xpk@82a737a", 34.02, 0.05),
    ],
    ids=["70B 8k on 64 chips", "70B 128k on 256 chips"],
)
def test_the_reference_points_are_met(name: str, published_s: float, tolerance: float) -> None:
    run = next(run for run in RUNS if run.name == name)
    assert run.step_time_s == published_s
    assert abs(_error(run)) < tolerance


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_no_published_step_beats_the_lower_bound(run: Run) -> None:
    assert _time(run).lower_s[0] <= run.step_time_s


def test_the_error_band_covers_nine_in_ten_runs() -> None:
    covered = [abs(_error(run)) <= _time(run).error_band[0] for run in RUNS]
    assert np.mean(covered) >= 0.9
