"""At its threshold each kind of parallelism computes exactly as long as it communicates: both sides spelled out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan.cost.network.intensity import (
    best_fsdp,
    context_tokens,
    expert_width,
    gather_tokens,
    mixed_tokens,
    ridge,
    slice_tokens,
    sparsity,
    tensor_width,
)

RATES = st.floats(1e13, 5e15)
WIRES = st.floats(1e9, 1e12)
SIZES = st.integers(1, 1024)
LINKS = st.sampled_from((0.5, 1.0, 1.5, 2.0, 3.0))


@given(RATES, WIRES, SIZES, LINKS, st.sampled_from((2, 3)))
def test_a_tensor_axis_at_its_threshold_is_balanced(C: float, W: float, Y: int, M: float, m: int) -> None:
    B, D = 1e6, 4096
    F = tensor_width(C / W, Y, M, m)
    assert 2 * m * B * D * F / (Y * C) == pytest.approx(4 * B * D / (W * M))


@given(RATES, WIRES, SIZES, SIZES, st.sampled_from((2, 3)))
def test_an_expert_axis_at_its_threshold_is_balanced(C: float, W: float, A: int, k: int, m: int) -> None:
    tokens, D, Z, b = 1e6, 4096, 4 * A, 4.0
    F = expert_width(C / W, A, b, m)
    exchanged = tokens * k * D * b
    assert 2 * m * tokens * k * D * F / (Z * C) == pytest.approx(exchanged * A / (4 * Z * W))


@given(RATES, WIRES, LINKS, SIZES, st.sampled_from((1, 4, 8, 64)))
def test_a_context_axis_at_its_threshold_is_balanced(C: float, W: float, M: float, T: int, K: int) -> None:
    N, H = 64, 128
    shard = context_tokens(C / W, M, K, N)
    assert 2 * T * shard * N * H / C == pytest.approx(4 * T * K * H / (W * M))


@given(RATES, WIRES, LINKS, SIZES)
def test_a_gather_at_its_threshold_is_balanced(C: float, W: float, M: float, E: int) -> None:
    D, F, k = 4096, 16384, 1
    tokens = gather_tokens(C / W, M, sparsity(E, k, 1))
    assert 4 * tokens * k * D * F / C == pytest.approx(4 * E * D * F / (W * M))


@given(st.floats(1.0, 512.0), st.integers(1, 512))
def test_sparsity_is_what_moves_over_what_is_used_and_never_below_one(ratio: float, Z: int) -> None:
    assert sparsity(ratio, 1.0, Z) == max(ratio / Z, 1.0)
    assert sparsity(1.0, 1.0, Z) == 1.0


@given(st.integers(1, 10**9), SIZES, st.integers(2, 10**4), LINKS)
def test_the_best_mix_communicates_equally_on_both_axes(B: int, F: int, N: int, ratio: float) -> None:
    X = best_fsdp(B, F, N, ratio)
    D, W, M_y = 4096, 1e11, 1.0
    assert 4 * D * F * X / (N * W * ratio * M_y) == pytest.approx(4 * B * D / (X * W * M_y))


def test_chips_have_the_published_intensities() -> None:
    assert ridge(2307e12, 2 * 100e9) == pytest.approx(11_535)
    assert ridge(459e12, 2 * 90e9) == pytest.approx(2_550)
    assert slice_tokens(ridge(459e12, 6.25e9), 1.0) == pytest.approx(73_440)


def test_columns_and_scalars_give_the_same() -> None:
    degrees = np.array([2.0, 4.0, 8.0])
    assert tensor_width(11535.0, degrees, 1.0, 3).tolist() == [tensor_width(11535.0, d, 1.0, 3) for d in degrees]
    assert mixed_tokens(11535.0, degrees, 2, 1).tolist() == [mixed_tokens(11535.0, d, 2, 1) for d in degrees]
