"""Elements a token leaves behind in one layer for the backward pass, by MaxText's name of the tensor.

Source: maxtext reference 3.1. A name that the backward pass does not read costs nothing to save.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardplan.spec import Layer

_NORMS_WITH_POST = 4


def named_widths(layer: Layer, D: int, *, is_last: bool) -> dict[str, float]:
    """Elements a token of every named tensor of the layer."""
    a, block = layer.attention, layer.feed_forward
    queries = a.n_query_heads * a.qk_width
    keys, values = a.n_key_value_heads * a.qk_width, a.n_key_value_heads * a.v_width
    widths: dict[str, float] = {"decoder_layer_input": D, "out_proj": D}
    widths["context"] = widths["attention_out"] = a.n_query_heads * a.v_width
    if a.fused_qkv:
        widths["qkv_proj"] = queries + keys + values
    else:
        widths |= {"query_proj": queries, "key_proj": keys, "value_proj": values}
    if a.kind == "mla":
        widths |= {"query_wa_proj": a.query_rank, "mla_q": a.query_rank, "mla_kv": a.key_value_rank}
        widths["kv_wa_proj"] = a.key_value_rank + a.rope_width
    hidden = block.total_shared_width if block.is_moe else block.width
    widths |= {"mlpwi_0": hidden, "mlpwi_1": hidden} if block.gated else {"mlpwi": hidden}
    if block.is_moe:
        k, F = block.n_active_experts, block.width
        widths["mlpwi_0"] = widths.get("mlpwi_0", 0) + k * F
        widths |= {
            "moe_mlpwi_0": k * F,
            "moe_mlpwi_1": k * F,
            "moe_mlpwo": k * D,
            "mlpwo": k * D,
            "moe_x_sorted": k * D,
        }
    elif layer.n_norms >= _NORMS_WITH_POST or not is_last:
        widths["mlpwo"] = D
    return widths


_TWINS = (("moe_mlpwi_0", "mlpwi_0"), ("moe_mlpwo", "mlpwo"))
"""Names of one and the same tensor: kept once, whichever is named."""


def saved_width(layer: Layer, D: int, names: frozenset[str], *, is_last: bool) -> float:
    """Elements a token that a policy keeps on the device, beside the layer's input."""
    return offloaded_width(layer, D, names - {"decoder_layer_input"}, is_last=is_last)


def offloaded_width(layer: Layer, D: int, names: frozenset[str], *, is_last: bool) -> float:
    """Elements a token of the named tensors of one layer."""
    twins = frozenset(a for a, b in _TWINS if b in names)
    widths = named_widths(layer, D, is_last=is_last)
    return sum(width for name, width in widths.items() if name in names - twins)
