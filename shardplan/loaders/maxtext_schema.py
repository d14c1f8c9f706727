"""The keys of a MaxText model file (`configs/models/*.yml`) that shape its tensors.

Sizes left out are those of MaxText's base.yml. Keys that change no tensor and no window (rotary settings, tokenizers)
are passed over. Source: MaxText 0.2.5 configs/base.yml; maxtext reference 5.1 and 5.2.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Size = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Depth = Annotated[int, Field(strict=True, ge=1, le=10_000)]
MaybeSize = Annotated[int, Field(strict=True, ge=-1, le=10**9)]
Flag = Annotated[bool, Field(strict=True)]


class MaxTextModel(BaseModel):
    """The keys of a model file that shape its tensors, with base.yml's values."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    decoder_block: str = "llama2"
    global_parameter_scale: Annotated[int, Field(strict=True, ge=1, le=2**15)] = 1
    base_emb_dim: Size = 2048
    base_num_query_heads: Size = 16
    base_num_kv_heads: Size = 16
    base_mlp_dim: Size = 7168
    base_moe_mlp_dim: MaybeSize = -1
    base_num_decoder_layers: Depth = 16
    head_dim: Size = 128
    vocab_size: Size = 32000
    mlp_activations: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("silu", "linear")
    logits_via_embedding: Flag = False
    num_experts: Size = 1
    num_experts_per_tok: Size = 1
    shared_experts: MaybeSize = 0
    first_num_dense_layers: MaybeSize = 0
    interleave_moe_layer_step: Size = 1
    inhomogeneous_layer_cycle_interval: Size = 1
    mtp_num_layers: MaybeSize = 0
    attention_type: str = "global"
    sliding_window_size: MaybeSize = 0
    chunk_attn_window_size: MaybeSize = 0
    nope_layer_interval: MaybeSize = -1
    q_lora_rank: MaybeSize = 0
    kv_lora_rank: MaybeSize = 512
    qk_nope_head_dim: MaybeSize = 128
    qk_rope_head_dim: MaybeSize = 64
    v_head_dim: MaybeSize = 128
    use_qk_norm: Flag = False
    use_post_attn_norm: Flag = False
    use_post_ffw_norm: Flag = False
    attention_bias: Flag = False
    attention_sink: Flag = False
    mlp_bias: Flag = False
    routed_bias: Flag = False
    fused_qkv: Flag = False
    trainable_position_size: MaybeSize = -1
    use_indexer: Flag = False
    use_multimodal: Flag = False
    share_kv_projections: Flag = False
    num_kv_shared_layers: MaybeSize = 0
    engram_layers: tuple[Any, ...] = ()
    logical_axis_rules: tuple[Any, ...] = ()
    override_logical_axis_rules: Flag = False

    @property
    def scale(self) -> Scale:
        """How much `global_parameter_scale` multiplies each size."""
        return Scale.of(self.global_parameter_scale)

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward block has a gate."""
        return len(self.mlp_activations) > 1


class Scale(BaseModel):
    """Factors that a `global_parameter_scale` of 2**n multiplies the base sizes by."""

    emb: int
    heads: int
    layers: int

    @classmethod
    def of(cls, scale: int) -> Scale:
        """Heads and feed-forward width grow first, then the model width, then the layers."""
        base, rest = divmod(scale.bit_length() - 1, 3)
        return cls(emb=2 ** (base + (rest > 1)), heads=2 ** (base + (rest > 0)), layers=2**base)
