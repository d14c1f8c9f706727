"""What one dense layer, or the attention of any layer, holds in its backward pass.

The compiler's schedule is the same for every layer of a kind: recompute the forward pass, then go back through the
feed-forward block, then attention. Counts of live buffers are read off buffer assignments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.memory import terms
from shardplan.cost.memory.setting import Part, Setting, part
from shardplan.cost.tensors.parameters import layer_tensors
from shardplan.cost.tensors.saved import LANES, hidden_names, padded

if TYPE_CHECKING:
    from shardplan.spec import FeedForward, Layer
    from shardplan.units import Bools, Floats

BLOCK_NORMS = 2
"""Normalisations of a layer before its blocks; more come after them, and need the blocks' outputs back."""


# --- what is alive through a layer's backward pass -----------------------------------------------------------------------


def recomputed(layer: Layer, setting: Setting) -> list[Part]:
    """The stream around the layer's blocks, and its attention, as the layer goes back itself."""
    after = 0.0 if layer.n_norms <= BLOCK_NORMS else 2.0
    single = (setting.here.rows <= 1).astype(np.float64)
    copies = 0.0 if setting.fuses_matmuls else 3.0 * single
    whole = 0.0 if layer.feed_forward.is_moe else 2.0
    return [stream(setting, 3.0 + after + copies), gathered_stream(setting, whole), *attention(layer, setting)]


def held(layer: Layer, setting: Setting) -> list[Part]:
    """The same of a layer that ran to its end while a later one goes back: its output is there too."""
    after = 0.0 if layer.n_norms <= BLOCK_NORMS else 3.0
    whole = 0.0 if layer.feed_forward.is_moe else 2.0
    return [stream(setting, 4.0 + after), gathered_stream(setting, whole), *attention(layer, setting)]


def stream(setting: Setting, count: Floats | float) -> Part:
    """Tensors of the residual stream."""
    here = setting.here
    return part(
        "layer_work", "layer_stream", terms.stream_bytes, c=count, n=here.tokens, D=setting.width, t=here.tensor
    )


def gathered_stream(setting: Setting, count: Floats | float) -> Part:
    """Tensors of the residual stream gathered over the tensor axis."""
    c, n = count * setting.split, setting.here.tokens
    return part("layer_work", "tensor_gathered", terms.gathered_stream_bytes, c=c, n=n, D=setting.width)


def attention(layer: Layer, setting: Setting) -> list[Part]:
    """Queries, keys, values and output, and the softmax statistics or, unfused, the scores."""
    a, n, t, runtime = layer.attention, setting.here.tokens, setting.here.tensor, setting.case.runtime
    N, K, H, J = a.n_query_heads, a.n_key_value_heads, padded(a.qk_width), padded(a.v_width)
    x = setting.here.context
    found = [part("layer_work", "attention", terms.attention_bytes, n=n, N=N, K=K, H=H, J=J, x=x, t=t)]
    if a.qk_norm != "none":
        found.append(part("layer_work", "unnormed", terms.attention_bytes, n=n, N=N, K=K, H=H, J=0, x=1.0, t=t))
    if runtime.attention == "dot_product":
        return [*found, _scores(layer, setting, 1.0)]
    if runtime.tokamax_splash:
        found.append(queries(layer, setting, 1.0))
    return [*found, softmax_statistics(layer, setting)]


def queries(layer: Layer, setting: Setting, count: Floats | float) -> Part:
    """Arrays as large as the queries: pieces of their rotation, and copies in another layout."""
    n, t = setting.here.tokens, setting.here.tensor
    W = layer.attention.n_query_heads * padded(layer.attention.qk_width)
    return part("layer_work", "query_copies", terms.feed_forward_bytes, c=count, n=n, F=W, t=t)


def softmax_statistics(layer: Layer, setting: Setting) -> Part:
    """Log-sum-exp of every query: whole lanes as the kernel writes it, one number as it is kept."""
    n, t, N = setting.here.tokens, setting.here.tensor, layer.attention.n_query_heads
    S = 1.0 + (LANES - 1.0) * setting.recomputed("context")
    return part("layer_work", "softmax_statistics", terms.statistics_bytes, n=n, N=N, S=S, t=t)


def hidden(ff: FeedForward, setting: Setting, count: Floats | float) -> Part:
    """Hidden activations of the dense block."""
    n, t = setting.here.tokens, setting.here.tensor
    return part("layer_work", "hidden", terms.feed_forward_bytes, c=count, n=n, F=ff.width, t=t)


def gathered_weights(setting: Setting, W: int, count: Floats | float) -> Part:
    """Matrices of one layer of W elements together, gathered, or their gradients before they are split."""
    return part("gathered_weights", "gathered_matrices", terms.matrices_bytes, c=count, W=W, t=setting.here.tensor)


def attention_weights(layer: Layer, setting: Setting) -> int:
    """Elements of the attention matrices of a layer."""
    return sum(t.size for t in layer_tensors(layer, setting.case.architecture) if t.role == "attention")


def recomputed_hidden(ff: FeedForward, setting: Setting) -> Floats:
    """Hidden activations of the dense block that are recomputed rather than read back."""
    return setting.recomputed(*hidden_names(ff))


def held_dense(layer: Layer, setting: Setting) -> list[Part]:
    """All a dense layer of a block holds while another goes back."""
    ff = layer.feed_forward
    return [*held(layer, setting), hidden(ff, setting, 1.0 + recomputed_hidden(ff, setting))]


def apart_dense(layer: Layer, setting: Setting) -> list[Part]:
    """What a dense layer of a block holds beside another if its own input is kept: recomputed when its turn comes.

    Its attention made early, or gradients that wait for their matrices: together as much as four of the residual stream.
    Source: buffer dump of gemma3-12b, blocks of 6.
    """
    assert not layer.feed_forward.is_moe
    return [stream(setting, 4.0)]


def waiting_hidden(layer: Layer, setting: Setting) -> list[Part]:
    """Hidden activations and gradients of the block's last layer, whose matrices' gradients come last. Source: same dump."""
    ff = layer.feed_forward
    return [hidden(ff, setting, 2.0 + ff.gated)]


def staged_dense(layer: Layer, setting: Setting) -> list[Part]:
    """All a dense layer of a pipeline stage holds while another goes back: its weight gradients come last."""
    ff = layer.feed_forward
    weights = attention_weights(layer, setting) + setting.width * ff.width * (ff.n_matrices - 1)
    return [
        *recomputed(layer, setting),
        hidden(ff, setting, 2.0 + 2.0 * ff.gated),
        gathered_weights(setting, weights, setting.gathers),
    ]


# --- the moments of a dense layer ------------------------------------------------------------------------------------------


def dense_moments(layer: Layer, setting: Setting) -> dict[str, list[Part]]:
    """Everything a dense layer holds at each moment of its backward pass, by the moment's name."""
    ff, alive, gather = layer.feed_forward, recomputed(layer, setting), setting.gathers
    inner, block = attention_weights(layer, setting), setting.width * ff.width
    everything = inner + ff.n_matrices * block
    outputs = 1.0 + ff.gated
    apart = _separate(setting)
    # SparseCores gather into one buffer and hand over another: whole matrices are there twice.
    whole = (1.0 if setting.fuses_matmuls else 2.0) * gather * ~setting.ring
    gradient = stream(setting, 1.0)
    # Attention is recomputed for its gradients alone, so late that its rotation is alive here too.
    rotating = (setting.kept("out_proj") & (setting.recomputed("query_proj") > 0)).astype(np.float64)
    return {
        "feed_forward_backward": [
            gradient,
            *alive,
            queries(layer, setting, 4.0 * rotating),
            gathered_stream(setting, 2.0),
            hidden(
                ff, setting, recomputed_hidden(ff, setting) + outputs * (1.0 + apart) + setting.split - setting.lean
            ),
            gathered_weights(setting, inner, gather),
            gathered_weights(setting, block, gather * (ff.n_matrices - apart)),
        ],
        "attention_backward": [
            gradient,
            *(p for p in alive if p[1].name != "softmax_statistics_bytes"),
            gathered_stream(setting, 3.0),
            hidden(ff, setting, 1.0 + outputs),
            *_attention_gradients(layer, setting),
            gathered_weights(setting, inner, gather),
        ],
        "attention_recomputed": [
            gradient,
            *alive,
            softmax_statistics(layer, setting),
            gathered_weights(setting, inner, gather),
        ],
        "weight_gathers": [gradient, *alive, gathered_weights(setting, everything, whole)],
        "weight_gradients": [gradient, gathered_weights(setting, everything, whole)],
    }


def _separate(setting: Setting) -> Floats:
    """1 where the hidden gradients are an elementwise step of their own beside its inputs, else 0: fused into matmuls.

    They fuse too where attention's matmuls are kept but not its kernel: the kernel's recomputation moves away then.
    """
    if setting.fuses_matmuls:
        return np.zeros(len(setting.candidates))
    kernel_alone = setting.kept("out_proj") & setting.kept("query_proj") & (setting.recomputed("context") > 0)
    apart: Bools = setting.ring & ~(kernel_alone & (setting.recomputed("mlpwi_0", "mlpwi_1") == 2))  # noqa: PLR2004
    return apart.astype(np.float64)


def _attention_gradients(layer: Layer, setting: Setting) -> list[Part]:
    """Gradients of queries, keys, values and output; unfused, two more arrays of scores."""
    a, n, t = layer.attention, setting.here.tokens, setting.here.tensor
    N, K, H, J = a.n_query_heads, a.n_key_value_heads, padded(a.qk_width), padded(a.v_width)
    x = setting.here.context
    rotation = 2.0 + setting.kept("query_proj").astype(np.float64)
    found = [
        part("layer_work", "attention_gradients", terms.attention_bytes, n=n, N=N, K=K, H=H, J=J, x=x, t=t),
        queries(layer, setting, rotation),
    ]
    return found if setting.case.runtime.attention == "flash" else [*found, _scores(layer, setting, 2.0)]


def _scores(layer: Layer, setting: Setting, count: float) -> Part:
    n, t, T = setting.here.tokens, setting.here.tensor, setting.case.workload.sequence_length
    return part("layer_work", "scores", terms.scores_bytes, c=count, n=n, N=layer.attention.n_query_heads, T=T, t=t)
