"""Facts about the model. What must divide is a greatest common divisor over all layers; 0 where no layer has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from shardplan.catalogue.dimension import TRUTH
from shardplan.judge.facts.observation import Fact, Observation

if TYPE_CHECKING:
    from shardplan.spec import FeedForward


def _blocks(o: Observation) -> list[FeedForward]:
    return [layer.feed_forward for layer in o.layers]


def _experts(o: Observation) -> list[FeedForward]:
    return [block for block in _blocks(o) if block.is_moe]


def _tensor_divisor(o: Observation) -> int:
    architecture, sizes = o.case.architecture, o.sizes
    return math.gcd(architecture.vocab_size, architecture.model_width, sizes.query_heads, sizes.kv_heads)


def _active_width(o: Observation) -> int:
    """Least hidden width a token passes: of a dense block, or of its experts and the shared ones together."""
    return min(b.n_active_experts * b.width + b.total_shared_width if b.is_moe else b.width for b in _blocks(o))


FACTS: Final = (
    Fact("layers", "", "Decoder layers.", lambda o: o.case.architecture.n_layers),
    Fact("width", "", "Model width D.", lambda o: o.case.architecture.model_width),
    Fact("vocabulary", "", "Vocabulary size V.", lambda o: o.case.architecture.vocab_size),
    Fact("query_heads", "", "Query heads N, common divisor over the layers.",
         lambda o: o.sizes.query_heads),
    Fact("kv_heads", "", "Key-value heads K, common divisor over the layers.",
         lambda o: o.sizes.kv_heads),
    Fact("kv_share", "", "Key-value heads over query heads, largest of the layers.",
         lambda o: max(layer.attention.n_key_value_heads / layer.attention.n_query_heads for layer in o.layers)),
    Fact("tensor_divisor", "", "What a tensor degree must divide: common divisor of heads, vocabulary and model width.",
         _tensor_divisor),
    Fact("latent_rank", "", "Ranks of latent attention, common divisor; 0 without any.",
         lambda o: o.sizes.latent_rank),
    Fact("feed_forward_width", "", "Feed-forward widths, shared and routed experts included, common divisor.",
         lambda o: o.sizes.feed_forward_width),
    Fact("active_width", "", "Least feed-forward width a token passes in one layer: F, or that of its k experts together.",
         _active_width),
    Fact("matrices", "", "Matrices of a feed-forward block: 3 gated, else 2; the fewest of the layers.",
         lambda o: min(block.n_matrices for block in _blocks(o))),
    Fact("is_moe", TRUTH, "Whether any layer routes tokens to experts.", lambda o: o.case.architecture.is_moe),
    Fact("experts", "", "Routed experts E, common divisor over the layers; 0 in a dense model.",
         lambda o: o.sizes.experts),
    Fact("active_experts", "", "Routed experts k that a token visits, most of the layers; 0 in a dense model.",
         lambda o: max((block.n_active_experts for block in _experts(o)), default=0)),
    Fact("expert_width", "", "Width of one routed expert, least of the layers; 0 in a dense model.",
         lambda o: min((block.width for block in _experts(o)), default=0)),
    Fact("sparsity", "", "Experts over active experts, E / k, largest of the layers; 1 in a dense model.",
         lambda o: max((block.n_experts / block.n_active_experts for block in _experts(o)), default=1.0)),
    Fact("mtp_layers", "", "Multi-token-prediction modules.", lambda o: o.case.architecture.n_mtp_layers),
)  # fmt: skip
