"""Rows of the experts' buffers, one count for memory, time and traffic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_cases import MOE_MODEL, case_of

from shardplan.cost.tensors.routing import buffer_share, capacity, rows_per_token
from shardplan.spec import Runtime

FF = MOE_MODEL.layer_groups[0].layers[0].feed_forward
E, k = 24, 4


def rows(expert: int, **runtime: Any) -> float:
    found = rows_per_token(case_of(MOE_MODEL, runtime=Runtime(**runtime)), FF, np.array([expert]))
    return float(np.ravel(found)[0])


@pytest.mark.parametrize(("expert", "wanted"), [(1, k), (2, 2 * k), (6, 6 * k), (8, E), (24, E)])
def test_a_dropless_buffer_is_sized_for_the_worst_case(expert: int, wanted: int) -> None:
    assert rows(expert) == wanted


def test_a_factor_bounds_it_where_experts_are_split() -> None:
    assert rows(8, ragged_buffer_factor=1.5) == 1.5 * k
    assert rows(1, ragged_buffer_factor=1.5) == k


def test_without_a_capacity_every_token_goes_to_every_expert() -> None:
    assert rows(8, sparse_matmul=False) == E


def test_a_capacity_makes_whole_slots() -> None:
    case = case_of(MOE_MODEL, tokens=4096, runtime=Runtime(sparse_matmul=False, capacity_factor=1.25))
    slots = capacity(case, FF, 1.0)
    assert slots == np.floor(np.ceil(4096 * k / E) * 1.25)
    assert rows(8, sparse_matmul=False, capacity_factor=1.25) == pytest.approx(E * slots / 4096)
    assert capacity(case, FF, 4.0) == np.floor(np.ceil(1024 * k / E) * 1.25)


def test_experts_that_are_not_split_need_no_room_for_the_worst() -> None:
    assert (buffer_share(case_of(MOE_MODEL), FF, np.array([1, 1])) == 1).all()
