"""Where each kind of parallelism stops being compute-bound: the roofline thresholds, one formula each.

C FLOP/s and W bytes/s of the same thing (a chip and its links, or a device and its share), a = C / W FLOPs per byte,
M torus axes in use (a line counts half), F feed-forward width, E experts, k active experts, Z devices that share them,
T sequence, Y tensor and X fsdp degree, m matrices in a feed-forward block, N query and K key-value heads,
b bytes per element sent and returned by the two all-to-alls. Arguments are scalars or columns; results follow them.
Source: scaling book, May 2026, training roofline chapter; where a docstring names another source, that one.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def ridge(C: Any, W: Any) -> Any:
    """FLOPs per byte above which compute outlasts a link or memory of W bytes/s. Source: scaling book, roofline."""
    return C / W


def sparsity(E: Any, k: Any, Z: Any) -> Any:
    """How many times more weights are moved than used: experts over active ones, per expert group of Z; at least 1.

    Source: scaling book, training, MoE row; the division by Z follows from sharding the experts over Z devices.
    """
    return np.maximum(E / (k * Z), 1.0)


def gather_tokens(a: Any, M: Any, s: Any) -> Any:
    """Tokens each gathered (or reduced) weight must serve for FSDP or data parallelism to hide it; s as `sparsity`.

    The condition B / N > a / M. Source: scaling book, training, rows DP and FSDP (TR-02, TR-03).
    """
    return s * a / M


def tensor_width(a: Any, Y: Any, M: Any, m: Any) -> Any:
    """Feed-forward width below which tensor parallelism of degree Y waits for its activations.

    The condition Y < M F / a for two matrices (TR-08b); three matrices do 3/2 of the work for the same bytes.
    Source: scaling book, training, row TP; the factor for gated blocks is derived.
    """
    return 2 / m * Y * a / M


def mixed_tokens(a: Any, F: Any, M_x: Any, M_y: Any) -> Any:
    """Tokens a chip below which even the best mix of FSDP and tensor parallelism waits, overlapping both.

    Source: scaling book, training, row FSDP+TP (TR-12, TR-13, TR-16, TR-25).
    """
    return a**2 / (M_x * M_y * F)


def best_fsdp(B: Any, F: Any, N: Any, M: Any) -> Any:
    """FSDP degree that balances both sides of an FSDP x tensor mesh of N chips; M is M_x / M_y, B tokens in all.

    Source: scaling book, training, X_opt (TR-11, TR-26).
    """
    return np.sqrt(B / F * M * N)


def slice_tokens(a: Any, s: Any) -> Any:
    """Tokens a slice needs so that the gradient sum over the data-centre network is hidden; a = C / W_dcn of a chip.

    Source: scaling book, training, data parallelism across slices (TR-14).
    """
    return s * a


def expert_width(a: Any, A: Any, b: Any, m: Any) -> Any:
    """Width of one expert below which its two all-to-alls outlast its m matmuls; A chips along the longest axis.

    6 B k D F / (Z C) against A (b B k D) / (4 Z W) for three matrices: B, k, D and Z cancel. A line doubles A.
    Source: derived from the scaling book's all-to-all on a torus; reference b.8.
    """
    return b / (8 * m) * A * a


def context_tokens(a: Any, M: Any, K: Any, N: Any) -> Any:
    """Tokens of a context shard below which gathering keys and values outlasts causal attention.

    4 T K H bytes against 2 T (T / c) N H FLOPs. Source: derived from the scaling book's gather; reference b.6.
    """
    return 2 * K / N * a / M
