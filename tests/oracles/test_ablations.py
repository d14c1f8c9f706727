"""Published pairs and series that change one thing: the predicted order is the measured one.

Third-party rows (Hy3 295B, Qwen3 235B on 64 chips) are self-reported and played no part in the calibration.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardplan.cost.comm import collectives
from shardplan.cost.step_time import step_time
from shardplan.published import Run, read_runs

PATH = Path(__file__).parent.parent / "data" / "ablations_tpu.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in PATH.read_text().splitlines()]
RUNS = dict(zip((row["id"] + row["group"] for row in ROWS), read_runs(PATH), strict=True))
GROUPS = sorted({row["group"] for row in ROWS})
SAME = 0.015
"""Measured differences below this are within what a software version changes: no order is asserted."""


def _cost(row: dict[str, Any]) -> float:
    """Predicted seconds for every token of a device."""
    run: Run = RUNS[row["id"] + row["group"]]
    seconds = step_time(run.case, run.candidates, collectives(run.case, run.candidates)).estimate_s[0]
    return float(seconds / run.candidates.per_device_batch[0] / run.case.workload.sequence_length)


@pytest.mark.parametrize("group", GROUPS)
def test_the_predicted_order_is_the_measured_one(group: str) -> None:
    rows = [row for row in ROWS if row["group"] == group]
    costs = [_cost(row) for row in rows]
    for i, better in enumerate(rows):
        for j, worse in enumerate(rows):
            if worse["cost"] > better["cost"] * (1 + SAME):
                assert costs[i] < costs[j], f"{better['id']} is faster than {worse['id']}"


NEVER_SEEN = [row for row in ROWS if row["third_party"] and row["step_time_s"]]


@pytest.mark.parametrize("row", NEVER_SEEN, ids=lambda row: f"{row['group']}: {row['id']}")
def test_runs_of_third_parties_are_met_without_being_fitted(row: dict[str, Any]) -> None:
    run = RUNS[row["id"] + row["group"]]
    seconds = step_time(run.case, run.candidates, collectives(run.case, run.candidates)).estimate_s[0]
    assert seconds == pytest.approx(row["step_time_s"], rel=0.16)
