"""What is trained: the structure of a decoder-only transformer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from shardplan.spec.scalars import MAX_PARAMETERS, Count, Flag, Input, OptionalCount, Text


class Attention(Input):
    """Softmax attention of one layer: multi-head, grouped or multi-query (`gqa`), or multi-head latent (`mla`)."""

    kind: Literal["gqa", "mla"] = "gqa"
    """`gqa` covers multi-head, grouped and multi-query attention; `mla` is latent attention."""
    n_query_heads: Count
    """N, query heads."""
    n_key_value_heads: Count
    """K, key-value heads; divides N. For `mla` equal to N."""
    head_width: Count | None = None
    """H, width of one query, key and value head (`gqa`)."""
    window: Count | None = None
    """Tokens a query may look back on (sliding), or the chunk length (chunked); null for full causal attention."""
    window_kind: Literal["sliding", "chunked"] = "sliding"
    """Whether the window slides with the query or is a fixed chunk."""
    qk_norm: Literal["none", "head", "full"] = "none"
    """Normalisation of queries and keys: `head` shares H scales over heads, `full` has one scale a channel."""
    bias: Flag = False
    """Whether the query, key and value projections have biases."""
    output_bias: Flag = False
    """Whether the output projection has a bias."""
    sinks: Flag = False
    """Whether each query head has a learned sink logit."""
    fused_qkv: Flag = False
    """Whether one matrix projects query, key and value."""
    query_rank: OptionalCount = 0
    """Rank of the query compression (`mla`); 0 for a full-rank query projection."""
    key_value_rank: OptionalCount = 0
    """Rank of the key-value compression (`mla`)."""
    nope_width: OptionalCount = 0
    """Width of a head's part without rotary embedding (`mla`)."""
    rope_width: OptionalCount = 0
    """Width of a head's part with rotary embedding (`mla`)."""
    value_width: OptionalCount = 0
    """Width of one value head (`mla`)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.n_query_heads % self.n_key_value_heads:
            msg = f"n_query_heads {self.n_query_heads} is not a multiple of n_key_value_heads {self.n_key_value_heads}"
            raise ValueError(msg)
        latent = (self.key_value_rank, self.nope_width, self.rope_width, self.value_width)
        if self.kind == "mla" and not all(latent):
            msg = "mla needs key_value_rank, nope_width, rope_width and value_width"
            raise ValueError(msg)
        if self.kind == "mla" and self.n_query_heads != self.n_key_value_heads:
            msg = "mla needs n_key_value_heads equal to n_query_heads"
            raise ValueError(msg)
        if self.kind == "gqa" and self.head_width is None:
            msg = "gqa needs head_width"
            raise ValueError(msg)
        if self.kind == "gqa" and any((*latent, self.query_rank)):
            msg = "key_value_rank, query_rank, nope_width, rope_width and value_width belong to kind mla"
            raise ValueError(msg)
        return self

    @property
    def qk_width(self) -> int:
        """Width of one query or key head."""
        return self.nope_width + self.rope_width if self.kind == "mla" else int(self.head_width or 0)

    @property
    def v_width(self) -> int:
        """Width of one value head."""
        return self.value_width if self.kind == "mla" else int(self.head_width or 0)


class FeedForward(Input):
    """Feed-forward part of one layer: dense, or a mixture of experts with optional shared experts."""

    kind: Literal["dense", "moe"] = "dense"
    """`dense`, or `moe` for a mixture of experts."""
    width: Count
    """F, hidden width of the dense block; of one routed expert when `moe`."""
    gated: Flag = True
    """Three matrices (gate, up, down) if true, else two."""
    bias: Flag = False
    """Whether the matrices have biases."""
    n_experts: OptionalCount = 0
    """E, routed experts."""
    n_active_experts: OptionalCount = 0
    """k, routed experts a token visits."""
    n_shared_experts: OptionalCount = 0
    """Experts every token visits."""
    shared_width: OptionalCount = 0
    """Hidden width of one shared expert; 0 means as wide as a routed one."""
    shared_gate: Flag = False
    """Whether a learned gate (D weights) scales what the shared experts add."""
    router_embedding: Literal["embed", "embed_router"] = "embed"
    """Logical axis of the router's input dimension in MaxText (DeepSeek-style routers are not split by expert)."""
    score_bias: Flag = False
    """Whether the router adds E untrained biases to its scores (aux-loss-free balancing): stored, not parameters."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        routed = (self.n_experts, self.n_active_experts)
        if self.kind == "moe" and not all(routed):
            msg = "moe needs n_experts and n_active_experts of at least 1"
            raise ValueError(msg)
        if self.kind == "moe" and self.n_active_experts > self.n_experts:
            msg = f"n_active_experts {self.n_active_experts} exceeds n_experts {self.n_experts}"
            raise ValueError(msg)
        if self.kind == "dense" and any((*routed, self.n_shared_experts, self.shared_width, self.shared_gate)):
            msg = "n_experts, n_active_experts, n_shared_experts and shared_width belong to kind moe"
            raise ValueError(msg)
        return self

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to experts."""
        return self.kind == "moe"

    @property
    def total_shared_width(self) -> int:
        """Hidden width of all shared experts together; 0 without any."""
        return self.n_shared_experts * (self.shared_width or self.width)

    @property
    def n_matrices(self) -> int:
        """Weight matrices of one feed-forward block."""
        return 3 if self.gated else 2


class Layer(Input):
    """One decoder layer, repeated `count` times in a row inside its group's block."""

    attention: Attention
    """The attention part."""
    feed_forward: FeedForward
    """The feed-forward part."""
    count: Count = 1
    """Layers of this kind in a row."""
    n_norms: Count = 2
    """Normalisations over the model width: 2, or 4 with norms after attention and feed-forward too."""


class LayerGroup(Input):
    """A block of consecutive layers, repeated `count` times: one scanned loop, one recomputed block at a time."""

    count: Count
    """Repetitions of the block."""
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    """The layers of one block; a block of one kind of layer may be written flat."""
    one_input: Flag = False
    """Whether MaxText takes the block for one layer, whose input alone has a name."""

    @model_validator(mode="before")
    @classmethod
    def _single_layer(cls, value: Any) -> Any:
        """Let a block of one layer be written flat: count, attention, feed_forward."""
        if isinstance(value, dict) and "layers" not in value and ({"attention", "feed_forward"} & set(value)):
            inner = {k: v for k, v in value.items() if k != "count"}
            return {**({"count": value["count"]} if "count" in value else {}), "layers": [inner]}
        return value

    @property
    def layers_per_block(self) -> int:
        """Decoder layers in one block."""
        return sum(layer.count for layer in self.layers)


class Architecture(Input):
    """The structure of a decoder-only transformer: what its tensors are, not what it is called."""

    name: Text = "inline"
    """What to call the model."""
    model_width: Count
    """D."""
    vocab_size: Count
    """V."""
    tied_embeddings: Flag = False
    """Whether the output layer uses the input embedding's weights."""
    layer_groups: Annotated[tuple[LayerGroup, ...], Field(min_length=1)]
    """The decoder layers, from first to last."""
    n_mtp_layers: OptionalCount = 0
    """Multi-token-prediction modules, each with one more layer of the last kind."""
    n_positions: OptionalCount = 0
    """Learned position embeddings; 0 with rotary ones."""
    norm_bias: Flag = False
    """Whether normalisations have a bias beside the scale."""
    norm_axis: Literal["tensor", "fsdp"] = "tensor"
    """Mesh axis that splits normalisation scales; `fsdp` where MaxText's own model file says so."""
    maxtext_model_name: Text | None = None
    """The `model_name` MaxText knows this architecture by, if any."""
    maxtext_keys: tuple[tuple[Text, int | float | str], ...] = ()
    """MaxText keys beside those of the structure: what training needs and no plan depends on, such as the rotary base."""
    notes: tuple[Text, ...] = ()
    """What a reader of the preset should know."""

    @model_validator(mode="after")
    def _imaginable(self) -> Self:
        """Refuse sizes beyond any machine: counts stay exact in 64 bits below them."""
        D = self.model_width
        rough = D * (2 * self.vocab_size + self.n_positions)
        for layer, count in self.layers:
            a, ff = layer.attention, layer.feed_forward
            heads = (a.n_query_heads + 2 * a.n_key_value_heads) * max(a.qk_width, a.v_width)
            rough += count * (D * (heads + a.query_rank + a.key_value_rank) + a.query_rank * heads)
            rough += count * D * 3 * (max(1, ff.n_experts) * ff.width + ff.total_shared_width)
        if rough > MAX_PARAMETERS:
            msg = f"a model of some {rough:.0e} parameters is beyond planning (at most {MAX_PARAMETERS:.0e})"
            raise ValueError(msg)
        return self

    @property
    def layers(self) -> tuple[tuple[Layer, int], ...]:
        """Each layer kind with how many times it occurs in the whole model, in order of appearance."""
        return tuple((layer, group.count * layer.count) for group in self.layer_groups for layer in group.layers)

    @property
    def n_layers(self) -> int:
        """L, decoder layers without multi-token-prediction modules."""
        return sum(count for _, count in self.layers)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(layer.feed_forward.is_moe for layer, _ in self.layers)
