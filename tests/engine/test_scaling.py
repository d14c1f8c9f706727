"""Strong scaling: the same batch on more chips."""

from __future__ import annotations

import pytest
from small_cases import DENSE_MODEL, case_of

from shardplan.engine.scaling import clusters_between, scale
from shardplan.errors import InputError
from shardplan.spec import Workload

CASE = case_of(DENSE_MODEL, "2x2x1", batch=256)


def test_each_size_is_a_slice_that_exists() -> None:
    clusters = list(clusters_between(CASE.cluster, 1, 64))
    assert [c.chips for c in clusters] == [1, 4, 8, 16, 32, 64]
    assert [c.topology for c in clusters][-1] == (4, 4, 4)


def test_beyond_the_largest_slice_there_are_several() -> None:
    v6e = case_of(DENSE_MODEL, "2x2x1").cluster
    trillium = v6e.model_copy(update={"chip": _chip("v6e"), "topology": (2, 2)})
    clusters = list(clusters_between(trillium, 128, 1024))
    assert [(c.chips, c.slices) for c in clusters] == [(128, 1), (256, 1), (512, 2), (1024, 4)]


def _chip(name: str) -> object:
    from shardplan.machine.chips import load_chip

    return load_chip(name)


def test_more_chips_take_less_time_at_falling_efficiency() -> None:
    result = scale(CASE, 4, 64)
    times = [row.estimate_s for row in result.rows]
    assert times == sorted(times, reverse=True)
    assert result.rows[0].efficiency == 1.0
    assert all(0 < (row.efficiency or 0) < 1.1 for row in result.rows)
    late = [row.chips for row in result.rows if row.communication_bound]
    assert result.communication_bound_from == (late[0] if late else None)


def test_days_and_cost_need_tokens_and_a_price() -> None:
    bare = scale(CASE, 4, 4).rows[0]
    assert bare.days is bare.usd is None
    workload = Workload(sequence_length=4096, global_batch=256, training_tokens=10**12)
    cluster = CASE.cluster.model_copy(update={"usd_per_chip_hour": 2.0})
    row = scale(CASE.model_copy(update={"workload": workload, "cluster": cluster}), 4, 4).rows[0]
    assert row.days is not None
    assert row.tokens_per_s is not None
    assert row.days == pytest.approx(10**12 / row.tokens_per_s / 86400)
    assert row.usd == pytest.approx(row.days * 24 * 4 * 2.0)


def test_a_size_on_which_nothing_fits_is_said_so() -> None:
    huge = case_of(DENSE_MODEL.model_copy(update={"vocab_size": 2**23}), "2x2x1", batch=256)
    rows = scale(huge, 1, 16).rows
    assert not rows[0].fits
    first = next(row for row in rows if row.fits)
    assert first.efficiency == 1.0


def test_a_range_without_a_slice_is_refused() -> None:
    with pytest.raises(InputError, match="no tpu7x slice has 3 to 3 chips"):
        scale(CASE, 3, 3)
