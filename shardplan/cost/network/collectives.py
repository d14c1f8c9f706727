"""What one collective costs on the torus and across slices: pure functions of letters.

Letters: V bytes of the array gathered over the group, B bytes one device puts in, N devices of the group in a slice,
K slices of the group, W bytes a second a device receives from its group (both directions of a ring), w bytes a second of
the scarcest link on an all-to-all's way, e fraction of the rate that is reached, q devices along the longest axis over
its directions, c launches, a seconds a launch, h hops, t seconds a hop.
Source: scaling book, sharding; the book leaves out the part a device already has, which is N to infinity here.
"""

# ruff: noqa: PLR0913, PLR0917 - a formula has as many letters as it has

from __future__ import annotations

from typing import Any

import numpy as np


def received_bytes(V: Any, N: Any) -> Any:
    """Bytes a device receives to gather an array, or to have its shard reduced. Source: scaling book, sharding, AllGather."""
    return V * (1 - 1 / N)


def reduced_bytes(V: Any, N: Any) -> Any:
    """Bytes of an all-reduce: a reduce-scatter and an all-gather. Source: scaling book, sharding, AllReduce."""
    return 2 * V * (1 - 1 / N)


def passed_bytes(B: Any) -> Any:
    """Bytes a device passes to the next. Source: scaling book, sharding, permute."""
    return B * 1


def left_bytes(B: Any, K: Any) -> Any:
    """Bytes of an all-to-all that leave the slice. Source: scaling book, sharding, AllToAll."""
    return B * (1 - 1 / K)


def dcn_passed_bytes(B: Any, K: Any) -> Any:
    """Bytes a device at the edge of its slice passes on. Source: scaling book, training, pipelining."""
    return B * (K > 1)


def dcn_gathered_bytes(V: Any, N: Any, K: Any) -> Any:
    """Bytes of a slice's shard that a device fetches from, or adds up over, the other slices. Source: scaling book, training, several slices."""
    return V / N * (1 - 1 / K)


def dcn_reduced_bytes(V: Any, N: Any, K: Any) -> Any:
    """Bytes a device receives to all-reduce its shard over the slices. Source: scaling book, training, several slices."""
    return 2 * V / N * (1 - 1 / K)


def gather_s(V: Any, N: Any, W: Any) -> Any:
    """Seconds of an all-gather at the full rate. Source: scaling book, sharding: V / (W M) on rings, (N - 1) V / (N W) on a line."""
    return V * (1 - 1 / N) / W


def reduce_s(V: Any, N: Any, W: Any) -> Any:
    """Seconds of an all-reduce at the full rate: a reduce-scatter and an all-gather. Source: scaling book, sharding."""
    return 2 * V * (1 - 1 / N) / W


def exchange_s(B: Any, q: Any, w: Any) -> Any:
    """Seconds of an all-to-all at the full rate: V A / (4 N W) with V = B N, its longest axis A, and W = 2 w on a ring.

    Source: scaling book, sharding, bisection of an N-dimensional torus.
    """
    return B * q / (4 * w)


def latency_s(c: Any, h: Any, t: Any) -> Any:
    """Seconds of the hops alone. Source: scaling book, sharding: half a ring, or a whole line, of 1 us hops."""
    return c * h * t


def timed_gather_s(V: Any, N: Any, W: Any, e: Any, c: Any, a: Any, h: Any, t: Any) -> Any:
    """Seconds of all-gathers or reduce-scatters. Source: `gather_s`, rules/calibration/ici.yaml."""
    return c * a + np.maximum(V * (1 - 1 / N) / (W * e), c * h * t)


def timed_reduce_s(V: Any, N: Any, W: Any, e: Any, c: Any, a: Any, h: Any, t: Any) -> Any:
    """Seconds of all-reduces. Source: `reduce_s`, rules/calibration/ici.yaml."""
    return c * a + np.maximum(2 * V * (1 - 1 / N) / (W * e), 2 * c * h * t)


def timed_exchange_s(B: Any, q: Any, w: Any, e: Any, c: Any, a: Any, h: Any, t: Any) -> Any:
    """Seconds of all-to-alls. Source: `exchange_s`, rules/calibration/ici.yaml."""
    return c * a + np.maximum(B * q / (4 * w * e), c * h * t)


def timed_permute_s(B: Any, w: Any, e: Any, c: Any, a: Any, t: Any) -> Any:
    """Seconds of passing on to the neighbour, one link at a time. Source: rules/calibration/ici.yaml."""
    return c * a + np.maximum(B / (w * e), c * t)


def dcn_gather_s(V: Any, N: Any, K: Any, W: Any, e: Any) -> Any:
    """Seconds to fetch a slice's shard from the other slices before gathering inside the slice; W is egress of a device."""
    return V / N * (1 - 1 / K) / (W * e)


def dcn_reduce_s(V: Any, N: Any, K: Any, W: Any, e: Any) -> Any:
    """Seconds to reduce a slice's shard over the slices, after reducing inside the slice. Source: scaling book, training."""
    return 2 * V / N * (1 - 1 / K) / (W * e)


def dcn_permute_s(B: Any, K: Any, W: Any, e: Any) -> Any:
    """Seconds of a permute over slices: every iteration waits for the devices that pass on to another slice."""
    return B * (K > 1) / (W * e)


def dcn_exchange_s(B: Any, K: Any, W: Any, e: Any) -> Any:
    """Seconds of the part of an all-to-all that leaves the slice."""
    return B * (1 - 1 / K) / (W * e)
