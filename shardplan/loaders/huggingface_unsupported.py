"""What in a Hugging Face configuration tells of layers that cannot be planned, and the words for them.

Source: Transformers 5 models/<model_type>/configuration_*.py and modeling_*.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAMBA = "state-space (Mamba) layers"
_DELTA = "linear attention (Gated DeltaNet) layers"
_ENCODER = "an encoder"

UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(
        ("mamba", "mamba2", "falcon_mamba", "jamba", "bamba", "zamba", "zamba2", "nemotron_h", "falcon_h1"), _MAMBA
    ),
    "granitemoehybrid": _MAMBA,
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "olmo_hybrid"), _DELTA
    ),
    **dict.fromkeys(("minimax", "minimax_text_01", "minimax_m1"), "linear (lightning) attention layers"),
    "kimi_linear": "linear attention (Kimi Delta) layers",
    **dict.fromkeys(("rwkv", "xlstm", "recurrent_gemma"), "recurrent layers"),
    **dict.fromkeys(("lfm2", "lfm2_moe"), "short-convolution layers"),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), "a sparse attention indexer"),
    "deepseek_v4": "compressed attention layers",
    "longcat_flash": "shortcut-connected mixture-of-experts layers",
    "mllama": "cross-attention layers",
    **dict.fromkeys(("gemma3n", "gemma3n_text"), "layers with per-layer embeddings"),
    **dict.fromkeys(("gemma4", "gemma4_text"), "attention layers with heads of two widths"),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "distilbert", "deberta-v2", "modernbert", "electra"), _ENCODER),
    **dict.fromkeys(("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "marian", "whisper", "t5gemma"), _ENCODER),
    **dict.fromkeys(("vit", "clip", "siglip", "wav2vec2", "hubert"), _ENCODER),
}
"""What cannot be planned, by model_type: the kind of layer that stands in the way."""

TELLING_KEYS: dict[str, str] = {
    **dict.fromkeys(("ssm_cfg", "mamba_d_state", "mamba_d_conv", "ssm_state_size", "hybrid_override_pattern"), _MAMBA),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads", "linear_attn_config", "attn_type_list"), _DELTA),
    **dict.fromkeys(("index_topk", "index_n_heads", "index_head_dim"), "a sparse attention indexer"),
    "cross_attention_layers": "cross-attention layers",
    "is_encoder_decoder": _ENCODER,
    "compress_ratios": "compressed attention layers",
    "hidden_size_per_layer_input": "layers with per-layer embeddings",
    "num_kv_shared_layers": "layers that share keys and values",
}
"""Keys that, set to anything but nothing, tell of layers that cannot be planned, whatever the model_type."""

LAYER_KINDS: dict[str, str] = {
    "linear_attention": _DELTA,
    "mamba": _MAMBA,
    "conv": "short-convolution layers",
    "recurrent": "recurrent layers",
}
"""Values of layer_types, beside those for softmax attention, in words."""

SOFTMAX_KINDS = frozenset({"full_attention", "sliding_attention", "chunked_attention", "attention"})
"""Values of layer_types that are softmax attention."""

LAYER_LISTS = frozenset({"attn_type_list"})
"""Keys with a number a layer: 1 is softmax attention, 0 linear."""


def is_softmax_only(part: Mapping[str, Any]) -> bool:
    """Whether a configuration says of every layer that it is softmax attention, whatever its family also has."""
    kinds, numbers = part.get("layer_types"), part.get("attn_type_list")
    if isinstance(kinds, list) and kinds:
        return all(isinstance(kind, str) and kind in SOFTMAX_KINDS for kind in kinds)
    return isinstance(numbers, list) and bool(numbers) and all(number == 1 for number in numbers)


def seeming(part: Mapping[str, Any]) -> str:
    """What the sizes of a configuration of an unknown family look like, in words."""
    heads, kv = part.get("num_attention_heads"), part.get("num_key_value_heads")
    if part.get("kv_lora_rank"):
        attention = "latent attention"
    elif isinstance(heads, int) and isinstance(kv, int) and kv != heads:
        attention = f"grouped-query attention ({heads} query, {kv} key-value heads)"
    elif isinstance(heads, int):
        attention = f"multi-head attention ({heads} heads)"
    else:
        attention = "attention of a shape it does not say"
    experts = next((part[key] for key in ("n_routed_experts", "num_local_experts", "num_experts") if part.get(key)), 0)
    blocks = f"a mixture of {experts} experts" if experts else "a dense feed-forward block"
    return f"by its sizes it has {attention} and {blocks}"
