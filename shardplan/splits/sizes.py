"""What mesh degrees must divide: sizes of a model as greatest common divisors over its layers, and the tile of its attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardplan.maxtext.tiles import nearest_tile

if TYPE_CHECKING:
    from shardplan.spec import Architecture, Case


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes that tensors are split along; 0, which every degree divides, where no layer has them."""

    query_heads: int
    kv_heads: int
    latent_rank: int
    """Ranks of queries, keys and values in latent attention."""
    feed_forward_width: int
    """Widths of dense blocks, routed and shared experts."""
    experts: int

    @classmethod
    def of(cls, architecture: Architecture) -> Sizes:
        """The sizes of a model."""
        layers = [layer for layer, _ in architecture.layers]
        attentions, blocks = [layer.attention for layer in layers], [layer.feed_forward for layer in layers]
        return cls(
            query_heads=math.gcd(*(a.n_query_heads for a in attentions)),
            kv_heads=math.gcd(*(a.n_key_value_heads for a in attentions)),
            latent_rank=math.gcd(*(rank for a in attentions for rank in (a.query_rank, a.key_value_rank))),
            feed_forward_width=math.gcd(*(width for b in blocks for width in (b.width, b.total_shared_width))),
            experts=math.gcd(*(b.n_experts for b in blocks if b.is_moe)),
        )


def attention_tile(case: Case) -> int | None:
    """Tokens of an attention tile: the one nearest to what the case wants that fills the sequence; None if none does."""
    return nearest_tile(case.runtime.attention_tile_tokens, case.workload.sequence_length)


def pipelined_blocks(architecture: Architecture) -> int:
    """Blocks MaxText would spread over pipeline stages: all, or all after a leading dense group; 1 if it cannot.

    Of blocks with several layers it builds too many (every block once a layer), so they are not pipelined either.

    Source: MaxText checks P1, P8 and P10, reference section 2.6.
    """
    *leading, last = architecture.layer_groups
    if architecture.n_mtp_layers or len(leading) > 1 or any(g.layers[0].feed_forward.is_moe for g in leading):
        return 1
    if last.layers_per_block > 1 or last.layers[0].feed_forward.score_bias:
        return 1
    return last.count if not leading or architecture.is_moe else 1
