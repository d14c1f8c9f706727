"""Formulas of the memory model: bytes on a device of one kind of buffer, times the number `c` of them alive together.

Letters: L layers, D model width, F feed-forward width, V vocabulary, N query heads, K key-value heads, H and J widths of
a key and a value head, T sequence, n tokens a layer works on at once, R rows of the expert buffers, E experts, C slots an
expert, P weight elements of a device, W of a whole matrix; t tensor, x context and e expert degree, q vocabulary tiles;
g and w bytes of a gradient and a weight. Activations are bfloat16: 2 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardplan.units import Floats, Ints


def weight_copies_bytes(P: Floats) -> Floats:
    """The device's shards of the scanned layers in bfloat16, made once and kept through both passes. Source: buffer dumps."""
    return 2 * P


def layer_gradients_bytes(P: Floats, g: Floats) -> Floats:
    """Gradients of all scanned layers, stacked, sharded as the weights. Source: buffer dumps."""
    return g * P


def accumulated_gradients_bytes(P: Floats, w: int) -> Floats:
    """Sum of the micro-steps' gradients, and the outer weights in bfloat16. Source: maxtext reference 4.3."""
    return w * P


def layer_inputs_bytes(L: Floats, n: Floats, D: int, t: Floats) -> Floats:
    """The residual stream entering every scanned block, kept for the backward pass. Source: maxtext reference 3.2."""
    return 2 * L * n * D / t


def kept_bytes(L: Floats, a: Floats) -> Floats:
    """A named activation of a bytes in each of L layers, kept by the remat policy. Source: maxtext reference 3.2."""
    return L * a


def logits_bytes(c: Floats, n: Floats, V: int, t: Floats, q: Ints) -> Floats:
    """Logits or their gradient; both fit in bfloat16, the float32 softmax is fused. Source: buffer dumps."""
    return c * 2 * n * V / (t * q)


def output_head_bytes(c: Floats, D: int, V: int, t: Floats) -> Floats:
    """Output head gathered over all axes but tensor, or its gradient before the reduce-scatter. Source: buffer dumps."""
    return c * 2 * D * V / t


def stream_bytes(c: Floats, n: Floats, D: int, t: Floats) -> Floats:
    """Residual-stream tensors: the tensor axis splits their width. Source: maxtext reference 1.4."""
    return c * 2 * n * D / t


def gathered_stream_bytes(c: Floats, n: Floats, D: int) -> Floats:
    """Residual-stream tensors gathered over the tensor axis for a matmul. Source: buffer dumps."""
    return c * 2 * n * D


def attention_bytes(  # noqa: PLR0913, PLR0917 - one letter a size
    n: Floats, N: int, K: int, H: int, J: int, x: Floats | float, t: Floats
) -> Floats:
    """Queries and attention output, keys and values of the whole sequence. Source: buffer dumps."""
    return 2 * n * (N * (H + J) + x * K * (H + J)) / t


def statistics_bytes(n: Floats, N: int, S: Floats, t: Floats) -> Floats:
    """Log-sum-exp of each query in float32, S lanes wide: 128 as the kernel writes it. Source: buffer dumps."""
    return 4 * n * N * S / t


def scores_bytes(c: Floats, n: Floats, N: int, T: int, t: Floats) -> Floats:
    """Scores of unfused attention: every query against every key. Source: buffer dumps."""
    return c * 2 * n * N * T / t


def feed_forward_bytes(c: Floats, n: Floats, F: int, t: Floats) -> Floats:
    """Hidden activations of the feed-forward block and their gradients. Source: buffer dumps."""
    return c * 2 * n * F / t


def expert_rows_bytes(c: Floats, R: Floats, D: int) -> Floats:
    """Routed tokens of model width, sorted by expert. Source: buffer dumps."""
    return c * 2 * R * D


def expert_hidden_bytes(c: Floats, R: Floats, F: int, t: Floats) -> Floats:
    """Hidden activations of the routed tokens and their gradients. Source: buffer dumps."""
    return c * 2 * R * F / t


def slots_bytes(c: float, n: Floats, E: int, C: Floats) -> Floats:
    """Combine weights of each token for each slot of each expert. Source: maxtext reference 2.5; buffer dumps."""
    return c * 2 * n * E * C


def expert_weights_bytes(c: Floats, W: int, e: Floats, t: Floats) -> Floats:
    """Expert matrices of W elements gathered over the axes that split the width, or their gradients before the scatter.

    Source: buffer dumps.
    """
    return c * 2 * W / (e * t)


def matrices_bytes(c: Floats, W: int, t: Floats) -> Floats:
    """W weight elements of a layer gathered in bfloat16, or their gradients before the scatter. Source: buffer dumps."""
    return c * 2 * W / t


def products_bytes(L: int, D: int, t: Floats) -> Floats:
    """Products of the layers' matrices with their transposes, two in float32 and four in bfloat16. Source: buffer dump."""
    return 16 * L * D**2 / t


def given_back_bytes(s: Floats, b: Floats) -> Floats:
    """Share s of b waiting bytes that the compiler computes again rather than holds. Source: buffer dumps."""
    return -s * b


def relief_bytes(o: Floats) -> Floats:
    """What the compiler saves of the o bytes beyond the limit before it gives up. Source: refused points of the corpus."""
    return -1.0 * o


def fragmentation_bytes(f: float, b: Floats) -> Floats:
    """Holes between the b bytes that come and go: what the compiler cannot fill of its heap. Source: buffer dumps."""
    return f * b
