"""Published pairs and series that change one thing, with what the model says of each run.

Third-party rows (Hy3 295B, Qwen3 235B on 64 chips) are self-reported and played no part in the calibration.
"""

from __future__ import annotations

import json
from typing import Any

from places import DATA

from benchmarks.published import Run, read_runs
from shardplan.cost.estimate import step_time_of

PATH = DATA / "ablations_tpu.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in PATH.read_text().splitlines()]
RUNS = dict(zip((row["id"] + row["group"] for row in ROWS), read_runs(PATH), strict=True))
GROUPS = tuple(dict.fromkeys(row["group"] for row in ROWS))
SAME = 0.015
"""Measured differences below this are within what a software version changes: no order is asserted."""


def predicted_s(row: dict[str, Any]) -> float:
    """Predicted step time."""
    run: Run = RUNS[row["id"] + row["group"]]
    return float(step_time_of(run.case, run.candidates)[0])


def predicted_cost(row: dict[str, Any]) -> float:
    """Predicted seconds for every token of a device."""
    run: Run = RUNS[row["id"] + row["group"]]
    return predicted_s(row) / float(run.candidates.per_device_batch[0]) / run.case.workload.sequence_length


def misordered(rows: list[dict[str, Any]], costs: list[float]) -> list[tuple[str, str]]:
    """Pairs whose predicted order is not the measured one: the faster, the slower."""
    return [
        (better["id"], worse["id"])
        for better, cheap in zip(rows, costs, strict=True)
        for worse, dear in zip(rows, costs, strict=True)
        if worse["cost"] > better["cost"] * (1 + SAME) and cheap >= dear
    ]
