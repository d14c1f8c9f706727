"""The moments of a training step at which a device's temporaries peak, each a sum of tensors in flight.

Letters: L layers, D model width, F feed-forward width, V vocabulary, N query heads, K key-value heads, H head width,
n tokens of a micro-step on a device, R rows of the expert buffers, t tensor and c context degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.cost.activations import (
    LANES,
    Local,
    head_bytes,
    kept,
    local,
    named_bytes,
    offloaded,
    spared,
    width_bytes,
)
from shardplan.cost.parameters import parameter_tensors
from shardplan.cost.sharding import copy_elements, sharded_elements
from shardplan.cost.term import Term
from shardplan.spec import DTYPE_BYTES

if TYPE_CHECKING:
    from shardplan.candidates import Candidates
    from shardplan.spec import Case, Layer
    from shardplan.units import Floats


@dataclass(frozen=True)
class Moment:
    name: str
    terms: tuple[tuple[str, Term], ...]
    factor: Any = 1.0

    @property
    def bytes(self):
        return sum(term.value for _, term in self.terms) * self.factor


@dataclass(frozen=True)
class Moments:
    moments: tuple[Moment, ...]
    error_band: Floats
    offloaded_bytes: Floats


def times(c, x):
    return c * x

def T(kind, name, value):
    return (kind, Term(name, ident, {"x": value}))

def ident(x):
    return x

FRAG = 1.018


def expert_rows(case: Case, ff, here: Local) -> Floats:
    rt = case.runtime
    e = here.expert
    k, E = ff.n_active_experts, ff.n_experts
    if rt.ragged_buffer_factor > 0:
        f = np.where(e > 1, rt.ragged_buffer_factor, 1.0)
    else:
        f = np.where(e > 1, np.minimum(e, E / k), 1.0)
    return here.tokens * k * f


def moments(case: Case, cand: Candidates) -> Moments:
    arch, opt, rt = case.architecture, case.workload.optimizer, case.runtime
    here = local(case, cand)
    n, t, c = here.tokens, here.tensor, here.context
    D, V = arch.model_width, arch.vocab_size
    ones = np.ones(len(cand))
    tensors = parameter_tensors(arch)
    scanned = [x for x in tensors if x.group is not None]
    outer = [x for x in tensors if x.group is None]
    P = sum(sharded_elements(x, cand) for x in scanned)
    Pm = sum(sharded_elements(x, cand) for x in scanned if x.role not in ("norm", "bias"))
    wb = DTYPE_BYTES[opt.weight_dtype]
    gb = 4 if wb == 4 and opt.gradient_dtype == "float32" else 2
    sparse_core = case.cluster.chip.jax_devices_per_chip == 2
    fs = cand.degree("fsdp", "fsdp_transpose", "context", "expert")
    windowed = (fs > 4) & (fs < 64)
    tiled = cand.num_vocab_tiling > 1
    q = cand.num_vocab_tiling
    logit = 2 * n * V / t
    nD = width_bytes(n, D, t)
    base = []
    base.append(T("weight_copies_bytes", "weight_casts_bytes", 2.0 * Pm if wb == 4 else 0 * ones))
    blocks = sum(g.count for g in arch.layer_groups)
    base.append(T("saved_activations_bytes", "layer_inputs_bytes", np.where(offloaded(cand, "decoder_layer_input"), 0, nD * blocks)))
    host = np.where(offloaded(cand, "decoder_layer_input"), nD * blocks, 0)
    for gi, g in enumerate(arch.layer_groups):
        for li, l in enumerate(g.layers):
            rows = expert_rows(case, l.feed_forward, here) if l.feed_forward.is_moe else n
            for nm, by in named_bytes(l, D, here, rows).items():
                names = (nm,)
                if nm == "moe_mlpwi_0": names = (nm, "mlpwi_0")
                k = kept(cand, *names)
                if k.any():
                    base.append(T("saved_activations_bytes", f"saved_{nm}_bytes", by * k * g.count * l.count))
                host = host + by * offloaded(cand, *names) * g.count * l.count
    grads = T("gradients_bytes", "layer_gradients_bytes", gb * P)
    head_full = 2.0 * D * V / t
    head_shard = sum(sharded_elements(x, cand) for x in outer)
    out = []
    # loss
    loss = [*base, T("logits_bytes", "logits_bytes", 2 * logit / q), T("gathered_weights_bytes", "gathered_head", head_full), T("layer_work_bytes", "residual", 4 * nD)]
    out.append(Moment("loss", tuple(loss)))
    keepdl = np.where(tiled, 0, np.where(sparse_core | (fs >= 64), logit, np.where(windowed, 4.0 * D * V / t / fs, head_full)))
    for gi, g in enumerate(arch.layer_groups):
        work = [layer_terms(case, cand, l, here, sparse_core, windowed) for l in g.layers]
        for li, (l, w) in enumerate(zip(g.layers, work)):
            pers = [*base, grads, T("logits_bytes", "logits_gradient", keepdl), T("layer_work_bytes", "head_residuals", np.where(tiled, 1, 3) * nD)]
            for nm, ts in w.items():
                out.append(Moment(f"{nm} {gi}.{li}", tuple(pers + ts)))
    return Moments(tuple(Moment(m.name, m.terms, FRAG) for m in out), 0.06 * ones, host)


def layer_terms(case, cand, l: Layer, here: Local, sc, windowed):
    a, ff, D = l.attention, l.feed_forward, case.architecture.model_width
    n, t, c = here.tokens, here.tensor, here.context
    N, K = a.n_query_heads, a.n_key_value_heads
    nD = width_bytes(n, D, t)
    q = head_bytes(n, N, a.qk_width, t); kv = head_bytes(n, K, a.qk_width + a.v_width, t) * c; o = head_bytes(n, N, a.v_width, t)
    lse = np.where(spared(cand, "context"), 1, LANES) * 4 * n * N / t
    att = [T("layer_work_bytes", "attention_residuals", q + kv + o + lse), T("layer_work_bytes", "residual_stream", 4 * nD)]
    attw = 2.0 * D * (N * a.qk_width + K * (a.qk_width + a.v_width) + N * a.v_width) / t
    r = {}
    if not ff.is_moe:
        F = width_bytes(n, ff.width, t)
        if ff.gated:
            cnt = 6.0 - spared(cand, "mlpwi_0") - spared(cand, "mlpwi_1") - (0 if sc else 2)
        else:
            cnt = 3.0 - spared(cand, "mlpwi")
        W = 2.0 * D * ff.width / t
        r["feed_forward_backward"] = [*att, T("layer_work_bytes", "feed_forward_work", cnt * F), T("gathered_weights_bytes", "gathered", attw + 2 * W + (0 if sc else W))]
        wg = ~windowed * 2 * (ff.n_matrices * W + attw)
        r["weight_gradients"] = [T("layer_work_bytes", "residual_stream", 3 * nD), T("gathered_weights_bytes", "unreduced_gradients", wg)]
    else:
        R = expert_rows(case, ff, here)
        RD, RF = width_bytes(R, D, 1), width_bytes(R, ff.width, t)
        W = 2.0 * D * ff.width * ff.n_experts / here.expert / t
        r["experts_backward"] = [*att, T("moe_dispatch_bytes", "rows_D", 6 * RD), T("moe_dispatch_bytes", "rows_F", 3 * RF), T("gathered_weights_bytes", "gathered", attw + W)]
    return r
