"""One collective: the book's problems, and laws of the formulas."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from shardplan.cost.network import collectives as formulas

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = {v["id"]: v for v in json.loads((DATA / "scaling_book_vectors.json").read_text())}
LARGE = math.inf
"""The book leaves out the part a device already has: a group without end."""

COVERED: dict[str, Callable[..., Any]] = {
    "SH-05": lambda V, W_bidi: formulas.gather_s(V, LARGE, W_bidi),
    "SH-06": lambda V, N, W_oneway: formulas.gather_s(V=V, N=N, W=W_oneway),
    "SH-07": lambda N, t_hop: formulas.latency_s(1, N - 1, t_hop),
    "SH-10": lambda B, D, Y, W_bidi: formulas.gather_s(2 * B * D / Y, LARGE, W_bidi),
    "SH-11": lambda B, D, W_bidi, axes: formulas.gather_s(2 * B * D, LARGE, axes * W_bidi),
    "SH-12": lambda B, D, X, Y, W_bidi: formulas.reduce_s(2 * B * D / (X * Y), LARGE, W_bidi),
    "SH-15": lambda C, W_bidi: 2 * C * formulas.gather_s(1, LARGE, W_bidi),
    "SH-18": lambda D: _exchange_over_gather(D, directions=1),
    "SH-19": lambda N: _exchange_over_gather(N, directions=2),
    "SH-20": lambda V, A, N, W_bidi: formulas.exchange_s(V / N, A / 2, W_bidi / 2),
}


def _exchange_over_gather(devices: float, directions: int) -> float:
    """Seconds of an all-to-all over those of an all-gather on one ring that sends in one or both directions."""
    link = 1.0
    exchange = formulas.exchange_s(1 / devices, devices / directions, link)
    # A ring of one direction cannot choose the shorter way: paths are twice as long.
    shorter = 2 if directions == 1 else 1
    return float(shorter * exchange / formulas.gather_s(1.0, LARGE, directions * link))


@pytest.mark.parametrize("name", COVERED)
def test_a_problem_of_the_book_has_its_answer(name: str) -> None:
    vector = VECTORS[name]
    expected = vector["expected"]
    assert COVERED[name](**vector["inputs"]) == pytest.approx(expected["value"], rel=expected["tolerance_rel"])


BYTES = st.floats(0, 1e12)
DEVICES = st.integers(1, 4096)
RATE = st.floats(1e6, 1e13)


@given(BYTES, DEVICES, RATE)
def test_an_all_reduce_is_two_gathers(V: float, N: int, W: float) -> None:
    assert formulas.reduce_s(V, N, W) == pytest.approx(2 * formulas.gather_s(V, N, W))


@given(BYTES, DEVICES, RATE)
def test_a_ring_takes_half_as_long_as_a_line(V: float, N: int, W: float) -> None:
    assert formulas.gather_s(V, N, 2 * W) == pytest.approx(formulas.gather_s(V, N, W) / 2)
    assert formulas.exchange_s(V, N / 2, W) == pytest.approx(formulas.exchange_s(V, N, W) / 2)


@given(BYTES, RATE)
def test_a_group_of_one_moves_nothing(V: float, W: float) -> None:
    assert formulas.gather_s(V, 1, W) == formulas.reduce_s(V, 1, W) == formulas.received_bytes(V, 1) == 0
    assert formulas.dcn_gather_s(V, 8, 1, W, 1.0) == formulas.dcn_exchange_s(V, 1, W, 1.0) == 0


@given(BYTES, BYTES, DEVICES, RATE)
def test_more_bytes_never_take_less_time(first: float, second: float, N: int, W: float) -> None:
    few, many = sorted((first, second))
    timing = {"N": N, "W": W, "e": 0.9, "c": 1.0, "a": 1e-5, "h": 3.0, "t": 1e-6}
    assert formulas.timed_gather_s(V=few, **timing) <= formulas.timed_gather_s(V=many, **timing)
    assert formulas.timed_reduce_s(V=few, **timing) <= formulas.timed_reduce_s(V=many, **timing)


@given(BYTES, DEVICES, RATE)
def test_hops_bound_small_messages(V: float, N: int, W: float) -> None:
    seconds = formulas.timed_gather_s(V=V, N=N, W=W, e=1.0, c=2.0, a=0.0, h=5.0, t=1e-6)
    assert seconds == pytest.approx(max(formulas.gather_s(V, N, W), formulas.latency_s(2.0, 5.0, 1e-6)))


@given(BYTES, st.integers(1, 512), st.integers(1, 32), RATE)
def test_only_the_shard_of_a_slice_crosses_to_other_slices(V: float, N: int, K: int, W: float) -> None:
    assert formulas.dcn_reduce_s(V, N, K, W, 1.0) == pytest.approx(formulas.reduce_s(V / N, K, W))
    assert formulas.dcn_reduced_bytes(V, N, K) == pytest.approx(2 * formulas.dcn_gathered_bytes(V, N, K))
