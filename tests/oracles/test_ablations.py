"""Published pairs and series that change one thing: the predicted order is the measured one."""

from __future__ import annotations

from typing import Any

import pytest
from ablations import GROUPS, ROWS, misordered, predicted_cost, predicted_s


@pytest.mark.parametrize("group", GROUPS)
def test_the_predicted_order_is_the_measured_one(group: str) -> None:
    rows = [row for row in ROWS if row["group"] == group]
    assert misordered(rows, [predicted_cost(row) for row in rows]) == []


NEVER_SEEN = [row for row in ROWS if row["third_party"] and row["step_time_s"]]


@pytest.mark.parametrize("row", NEVER_SEEN, ids=lambda row: f"{row['group']}: {row['id']}")
def test_runs_of_third_parties_are_met_without_being_fitted(row: dict[str, Any]) -> None:
    assert predicted_s(row) == pytest.approx(row["step_time_s"], rel=0.16)
