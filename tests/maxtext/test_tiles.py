"""Tiles of attention and of grouped matmuls: which are refused, and which is chosen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan.maxtext.tiles import BACKWARD, FORWARD, KERNELS, LANES, TILES, Span, nearest_tile, span_of, wrong_tiles


@given(st.integers(1, 5000), st.integers(1, 20_000))
def test_the_nearest_tile_is_the_best_of_all(wanted: int, tokens: int) -> None:
    tiles = [side for side in range(LANES, tokens + 1, LANES) if tokens % side == 0]
    found = nearest_tile(wanted, tokens)
    assert (found is None) == (not tiles) == (tokens % LANES != 0)
    if found is not None:
        assert found in tiles
        assert abs(math.log(found / wanted)) <= min(abs(math.log(side / wanted)) for side in tiles) + 1e-12


@given(
    st.integers(1, 5000),
    st.integers(1, 4000),
    st.sampled_from(["all_gather", "ring", "ulysses"]),
    st.sampled_from([1, 2, 4]),
)
def test_a_chosen_tile_is_refused_by_no_kernel(wanted: int, blocks: int, strategy: str, context: int) -> None:
    """One side for queries and keys, that fills a shard."""
    span = span_of(LANES * blocks * context, context, strategy)
    tile = nearest_tile(wanted, span.queries)
    assert tile is not None
    assert list(wrong_tiles(lambda _: tile, span, KERNELS)) == []


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"sa_block_q": 64}, []), ({"sa_block_q": 4}, ["sa_block_q"]), ({"sa_block_q": 192}, ["sa_block_q"]), ({"sa_block_q": 9999}, []),
        ({"sa_block_kv": 256}, ["sa_block_kv_compute"]), ({"sa_block_kv": 256, "sa_block_kv_compute": 256}, []),
        ({"sa_block_kv_compute": 64}, ["sa_block_kv_compute"]), ({"sa_block_kv_dkv": 256}, ["sa_block_kv_dkv_compute"]),
        ({"sa_block_kv_dkv_compute": 1}, []), ({"sa_block_kv_dkv": 64, "sa_block_kv_dkv_compute": 64}, []),
        ({"sa_block_q_dkv": 64}, ["sa_block_q_dkv"]), ({"sa_block_q_dq": 64}, ["sa_block_q_dq"]), ({"sa_block_kv_dq": 64}, ["sa_block_kv_dq"]),
        ({"sa_block_q": 0}, ["sa_block_q"]),
    ],
)  # fmt: skip
def test_what_the_kernels_refuse(changes: dict[str, int], wrong: list[str]) -> None:
    """Source: traced with MaxText 0.2.5 on 4,096 tokens; tests/data/maxtext/traced.jsonl."""
    tiles = dict.fromkeys(TILES, 512) | changes
    found = list(wrong_tiles(tiles.__getitem__, Span(4096, 4096, 4096), KERNELS))
    assert [key for key, _, _ in found] == wrong
    assert all(best is not None for _, _, best in found)


def test_a_fused_backward_pass_has_no_second_kernel() -> None:
    tiles = dict.fromkeys(TILES, 512) | {"sa_block_kv_dq": 64}
    assert list(wrong_tiles(tiles.__getitem__, Span(4096, 4096, 4096), (FORWARD, BACKWARD))) == []


def test_layers_with_sliding_windows_have_keys_of_their_own() -> None:
    assert BACKWARD.of("local_").queries == ("local_sa_block_q_dkv", LANES)
    assert FORWARD.of("") == FORWARD
