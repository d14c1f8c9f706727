"""Named activations of one layer: bytes on a device, and where each candidate's remat policy keeps them.

Letters: n tokens of a micro-step on a device, D model width, F feed-forward width, N query heads, K key-value heads,
H head width, t tensor degree. Names are MaxText's checkpoint names. Source: maxtext reference 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.tensors.sharding import ACTIVATION_RULES

if TYPE_CHECKING:
    from shardplan.spec import Attention, Case, FeedForward, Layer
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Bools, Floats

ACTIVATION_BYTES = 2
"""Activations are bfloat16, whatever the weights are stored in."""

LANES = 128
"""Width the last dimension of a TPU array is padded to; softmax statistics are stored this wide inside the kernel."""


def padded(width: int) -> int:
    """A last dimension as stored: whole lanes."""
    return -(-width // LANES) * LANES


@dataclass(frozen=True, slots=True)
class Local:
    """What one device holds of the batch in one micro-step. Columns `(n,)`."""

    rows: Floats
    """Sequences a layer works on at once: of the micro-step, or of one microbatch of the pipeline."""
    tokens: Floats
    """Tokens a layer works on at once, after the context axis."""
    head_tokens: Floats
    """Tokens of the loss: those of the whole micro-step, which pipeline stages split too."""
    tensor: Floats
    context: Floats
    expert: Floats


def local(case: Case, candidates: Candidates) -> Local:
    """The batch of one micro-step on a device, for each candidate."""
    whole = candidates.per_device_batch * candidates.devices / candidates.degree(*ACTIVATION_RULES["batch"])
    rows = whole / candidates.pipeline_microbatches
    context = candidates.degree(*ACTIVATION_RULES["length"])
    tokens_per_row = case.workload.sequence_length / context
    return Local(
        rows=rows,
        tokens=rows * tokens_per_row,
        head_tokens=whole / candidates.degree("pipeline") * tokens_per_row,
        tensor=candidates.degree("tensor").astype(np.float64),
        context=context.astype(np.float64),
        expert=candidates.degree("expert").astype(np.float64),
    )


def kept(candidates: Candidates, *names: str) -> Bools:
    """Candidates whose policy keeps one of the names on the device, `(n,)`."""
    return np.array([bool(policy.device & set(names)) for policy in candidates.remat_policies])[candidates.remat]


def offloaded(candidates: Candidates, *names: str) -> Bools:
    """Candidates whose policy keeps one of the names in host memory, `(n,)`."""
    return np.array([bool(policy.offload & set(names)) for policy in candidates.remat_policies])[candidates.remat]


def spared(candidates: Candidates, *names: str) -> Bools:
    """Candidates that need not recompute: one of the names is kept somewhere, `(n,)`."""
    return kept(candidates, *names) | offloaded(candidates, *names)


def attention_heads_bytes(n: Floats, N: int, H: int, t: Floats) -> Floats:
    """Queries, keys, values or attention output of one layer. Source: maxtext reference 3.1."""
    return 2 * n * N * H / t


def statistics_bytes(n: Floats, N: int, t: Floats) -> Floats:
    """Log-sum-exp of every query in float32, as kept. Source: maxtext reference 3.1."""
    return 4 * n * N / t


def width_bytes(n: Floats, D: int, t: Floats) -> Floats:
    """One residual-stream tensor of a layer; the tensor axis splits its width. Source: maxtext reference 1.4."""
    return 2 * n * D / t


def latent_bytes(n: Floats, r: int) -> Floats:
    """Compressed queries or keys and values of MLA, which no axis splits. Source: maxtext reference 3.1."""
    return 2 * n * r


def named_bytes(layer: Layer, width: int, here: Local, rows: Floats) -> dict[str, Floats]:
    """Bytes of each named activation of one layer; `rows` are those of the expert buffers, `(n,)`."""
    return {**_attention(layer.attention, width, here), **_feed_forward(layer.feed_forward, width, here, rows)}


def _attention(a: Attention, D: int, here: Local) -> dict[str, Floats]:
    """Queries, and keys as many, are kept head by head in whole lanes; fewer keys with the sequence as last dimension."""
    n, t, N, K = here.tokens, here.tensor, a.n_query_heads, a.n_key_value_heads
    found = {
        "query_proj": attention_heads_bytes(n, N, padded(a.qk_width), t),
        "key_proj": attention_heads_bytes(n, K, padded(a.qk_width) if a.kind == "mla" else a.qk_width, t),
        "value_proj": attention_heads_bytes(n, K, a.v_width, t),
        "context": attention_heads_bytes(n, N, a.v_width, t) + statistics_bytes(n, N, t),
        "attention_out": attention_heads_bytes(n, N, a.v_width, t),
        "out_proj": width_bytes(n, D, t),
    }
    if a.fused_qkv:
        found["qkv_proj"] = found.pop("query_proj") + found.pop("key_proj") + found.pop("value_proj")
    if a.kind == "mla":
        found["kv_wa_proj"] = latent_bytes(n, a.key_value_rank + a.rope_width)
        found["mla_kv"] = latent_bytes(n, a.key_value_rank)
        if a.query_rank:
            found["query_wa_proj"] = found["mla_q"] = latent_bytes(n, a.query_rank)
    return found


def _feed_forward(ff: FeedForward, D: int, here: Local, rows: Floats) -> dict[str, Floats]:
    """Hidden activations, and for experts what is routed in and out.

    A dense block's `mlpwo` is named too, but no backward pass needs it: keeping it costs nothing.
    """
    n, t = here.tokens, here.tensor
    hidden = ("mlpwi_0", "mlpwi_1") if ff.gated else ("mlpwi",)
    if not ff.is_moe:
        return {name: width_bytes(n, ff.width, t) for name in hidden}
    one = np.ones_like(t)
    found = {f"moe_{name}": width_bytes(rows, ff.width, t) for name in hidden}
    found |= {name: width_bytes(rows, D, one) for name in ("moe_mlpwo", "moe_x_sorted")}
    if ff.n_shared_experts:
        found |= {f"shared_{name}": width_bytes(n, ff.total_shared_width, t) for name in hidden}
    return found


POLICY_NAMES = {
    "moe_mlpwi_0": ("moe_mlpwi_0", "mlpwi_0"),
    "moe_mlpwo": ("moe_mlpwo", "mlpwo"),
    "shared_mlpwi_0": ("mlpwi_0",),
    "shared_mlpwi_1": ("mlpwi_1",),
    "shared_mlpwi": ("mlpwi",),
}
"""Names in a remat policy that keep an activation, where they are not its own. `moe_mlpwi_1` has only its own.

Source: maxtext reference 3.1, 3.2.
"""
