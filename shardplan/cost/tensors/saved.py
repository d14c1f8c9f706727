"""The tensors of a layer that a remat policy can keep: who they are, how large, and which work they spare.

The one table of it: memory counts its bytes, time its traffic and what need not be computed again. A tensor that spares
work takes room, and one that no backward step reads is not there at all.

Letters: D model width, F feed-forward width, N query heads, K key-value heads. Names are those of MaxText's checkpoints,
widths those of one token, or of one routed row. Source: MaxText 0.2.5 layers/attentions.py, attention_mla.py, linears.py,
moe.py (`checkpoint_name`), nnx_decoders.py get_remat_policy; maxtext reference 3.1, 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.spec import Attention, FeedForward, Layer, LayerGroup
    from shardplan.units import Floats

INPUT = "decoder_layer_input"
"""What enters a layer: kept in any case, in host memory if the policy says so."""

ACTIVATION_BYTES = 2
"""Activations are bfloat16, whatever the weights are stored in."""

STATISTICS_BYTES = 4
"""Log-sum-exp of one query head in float32, kept beside the attention kernel's output."""

LANES = 128
"""Width the last dimension of a TPU array is padded to; softmax statistics are stored this wide inside the kernel."""

NORMS_WITH_POST = 4
"""Normalisations of a layer that also has some after its blocks."""

Sets: TypeAlias = tuple[frozenset[str], ...]
"""Sets of kept names, any one of which spares a piece of work; the empty set spares it always."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One tensor of a layer that a policy can keep."""

    name: str
    names: frozenset[str]
    """Names in a remat policy that keep it."""
    row_bytes: float
    """Bytes of one row, as stored, before the tensor axis splits it."""
    part: Literal["input", "attention", "feed_forward"]
    is_routed: bool = False
    """Whether its rows are those of the experts' buffer rather than tokens."""
    is_split: bool = True
    """Whether the tensor axis splits a row."""

    def bytes(self, tokens: Floats, routed_rows: Floats, t: Floats) -> Floats:
        """Bytes on a device that holds so many tokens and routed rows, with tensor degree t."""
        rows = routed_rows if self.is_routed else tokens
        return rows * self.row_bytes / (t if self.is_split else 1.0)


def padded(width: int) -> int:
    """A last dimension as stored: whole lanes."""
    return -(-width // LANES) * LANES


def block_layers(group: LayerGroup) -> Iterator[tuple[Layer, int, bool]]:
    """The layers of one recomputed block: kind, number of them, and whether it is the one that ends the block."""
    for place, layer in enumerate(group.layers):
        ends = int(place == len(group.layers) - 1)
        yield from ((layer, n, last) for n, last in ((layer.count - ends, False), (ends, True)) if n)


@cache
def saved_tensors(layer: Layer, D: int, *, is_last: bool) -> tuple[Saved, ...]:
    """Every tensor of a layer that the backward pass may need back; `is_last` of its recomputed block."""
    ff = layer.feed_forward
    output = [Saved("mlpwo", frozenset({"mlpwo"}), ACTIVATION_BYTES * D, "feed_forward")]
    return (
        Saved(INPUT, frozenset({INPUT}), ACTIVATION_BYTES * D, "input"),
        *_attention(layer.attention, D),
        *(_routed(ff, D) if ff.is_moe else ()),
        *_dense(ff),
        *(output if not ff.is_moe and needs_output(layer, is_last=is_last) else ()),
    )


def needs_output(layer: Layer, *, is_last: bool) -> bool:
    """Whether the backward pass reads the feed-forward block's output.

    It feeds only the residual stream, which the next layer's input holds, unless a norm follows it or the next layer lies
    in the same recomputed block. Source: MaxText layers/linears.py; models/gemma2.py, gemma3.py (norm after the block).
    """
    return layer.n_norms >= NORMS_WITH_POST or not is_last


def _attention(a: Attention, D: int) -> Iterator[Saved]:
    """Queries, and keys as many, are stored head by head in whole lanes; fewer keys with the sequence as last dimension."""
    N, K = a.n_query_heads, a.n_key_value_heads
    query = N * padded(a.qk_width)
    key, value = K * (padded(a.qk_width) if a.kind == "mla" else a.qk_width), K * a.v_width

    def named(name: str, width: int, *, extra_bytes: int = 0, is_split: bool = True) -> Saved:
        row_bytes = ACTIVATION_BYTES * width + extra_bytes
        return Saved(name, frozenset({name}), row_bytes, "attention", is_split=is_split)

    if a.fused_qkv:
        yield named("qkv_proj", query + key + value)
    else:
        yield from (named("query_proj", query), named("key_proj", key), named("value_proj", value))
    yield named("context", N * a.v_width, extra_bytes=STATISTICS_BYTES * N)
    yield named("attention_out", N * a.v_width)
    yield named("out_proj", D)
    if a.kind == "mla":
        yield named("kv_wa_proj", a.key_value_rank + a.rope_width, is_split=False)
        yield named("mla_kv", a.key_value_rank, is_split=False)
        if a.query_rank:
            yield from (named(name, a.query_rank, is_split=False) for name in ("query_wa_proj", "mla_q"))


def _dense(ff: FeedForward) -> Iterator[Saved]:
    """Hidden activations of the dense block, or of the shared experts."""
    width, prefix = (ff.total_shared_width, "shared_") if ff.is_moe else (ff.width, "")
    for name in hidden_names(ff) if width else ():
        yield Saved(prefix + name, frozenset({name}), ACTIVATION_BYTES * width, "feed_forward")


def _routed(ff: FeedForward, D: int) -> Iterator[Saved]:
    """What goes into the experts and comes out; the first hidden activation and the output have the dense block's names too."""
    for name in hidden_names(ff):
        names = {f"moe_{name}", *(() if name == "mlpwi_1" else (name,))}
        yield Saved(f"moe_{name}", frozenset(names), ACTIVATION_BYTES * ff.width, "feed_forward", is_routed=True)
    for name, names in (("moe_mlpwo", {"moe_mlpwo", "mlpwo"}), ("moe_x_sorted", {"moe_x_sorted"})):
        yield Saved(name, frozenset(names), ACTIVATION_BYTES * D, "feed_forward", is_routed=True, is_split=False)


def hidden_names(ff: FeedForward) -> tuple[str, ...]:
    """Names of a feed-forward block's hidden activations."""
    return ("mlpwi_0", "mlpwi_1") if ff.gated else ("mlpwi",)


# --- what they spare -------------------------------------------------------------------------------------------------

NEVER: Sets = (frozenset(),)
"""Work that no backward pass repeats."""


def spared_by(layer: Layer, *, is_last: bool) -> dict[str, Sets]:
    """The kept tensors that make each piece of a layer's work unnecessary in the backward pass, by the work's name.

    Matrices have the names of `time.compute`; `attention` is the kernel. What is not named is always repeated.
    """
    ff = layer.feed_forward
    first = hidden_names(ff)[0]
    output: tuple[str, ...] = ("mlpwo",) if layer.n_norms >= NORMS_WITH_POST else ("mlpwo", INPUT)
    down = _any_of(*output) if needs_output(layer, is_last=is_last) else NEVER
    return {
        "query": _any_of("query_proj"),
        "key": _any_of("key_proj"),
        "value": _any_of("value_proj"),
        "qkv": _any_of("qkv_proj"),
        "query_down": _any_of("mla_q", "query_wa_proj"),
        "query_up": _any_of("query_proj"),
        "key_value_down": _any_of("mla_kv", "kv_wa_proj"),
        "key_value_up": (frozenset({"key_proj", "value_proj"}),),
        "attention": _any_of("context"),
        "out": _any_of("out_proj"),
        "gate": _any_of(first),
        "up": _any_of("mlpwi_1"),
        "down": down,
        "expert_gate": _any_of(first, f"moe_{first}"),
        "expert_up": _any_of("moe_mlpwi_1"),
        "expert_down": _any_of("mlpwo", "moe_mlpwo"),
    }


def _any_of(*names: str) -> Sets:
    return tuple(frozenset({name}) for name in names)
