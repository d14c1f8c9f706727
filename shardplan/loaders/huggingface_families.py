"""Families of Hugging Face models: what a `model_type` means for the tensors, and its configuration's defaults.

A config.json leaves out what its class has as default; those defaults are data here. Source: Transformers 5
models/<model_type>/configuration_*.py (defaults) and modeling_*.py (biases, norms, windows).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

Switch: TypeAlias = bool | str
"""On, off, or as the key of the configuration with this name says."""


@dataclass(frozen=True, slots=True)
class Family:
    """The layers a model_type is built of."""

    defaults: dict[str, Any] = field(default_factory=dict)
    """Values of keys that a config.json may leave out."""
    tied: bool = False
    """Default of tie_word_embeddings."""
    qkv_bias: Switch = False
    output_bias: Switch = False
    mlp_bias: Switch = False
    qk_norm: Literal["none", "head", "full", "use_qk_norm"] = "none"
    n_norms: int = 2
    norm_bias: bool = False
    gated: bool = True
    has_positions: bool = False
    """Whether positions are learned embeddings."""
    is_latent: bool = False
    """Whether attention is multi-head latent."""
    has_sinks: bool = False
    windows: Literal["none", "all", "use_sliding_window", "max_window_layers", "pattern", "chunked"] = "none"
    """Which layers look back over `sliding_window` only (`chunked`: in chunks), unless `layer_types` says it."""
    pattern: int = 0
    """Every so many layers one has full attention."""
    one_input: bool = False
    """Whether MaxText takes such a run of layers for one."""
    experts: Literal["none", "all", "sparse_step", "dense_first", "interleaved"] = "none"
    """Which layers are mixtures of experts."""
    shared_gate: bool = False
    score_bias: Switch = False


_LLAMA = Family(
    {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    mlp_bias="mlp_bias",
)
_MISTRAL = Family(
    {**_LLAMA.defaults, "intermediate_size": 14336, "num_key_value_heads": 8, "sliding_window": 4096}, windows="all"
)
_QWEN2 = Family(
    {
        "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28,
    },
    qkv_bias=True,
    windows="max_window_layers",
)  # fmt: skip
_QWEN3 = replace(
    _QWEN2,
    defaults={**_QWEN2.defaults, "head_dim": 128},
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
)
_QWEN3_MOE = Family(
    {
        "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
        "num_attention_heads": 32, "num_key_value_heads": 4, "sliding_window": 4096, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1,
    },
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
    windows="use_sliding_window",
    experts="sparse_step",
)  # fmt: skip
_GEMMA = Family(
    {
        "vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
    },
    tied=True,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
)  # fmt: skip
_GEMMA2 = replace(
    _GEMMA,
    defaults={
        "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
    },
    n_norms=4,
    windows="pattern",
    pattern=2,
    one_input=True,
)  # fmt: skip
_OLMO2 = replace(_LLAMA, defaults={**_LLAMA.defaults, "vocab_size": 50304}, mlp_bias=False, qk_norm="full")
_DEEPSEEK = Family(
    {
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "moe_layer_freq": 1,
    },
    is_latent=True,
    experts="dense_first",
)  # fmt: skip
_DEEPSEEK_V3 = replace(
    _DEEPSEEK,
    defaults={
        **_DEEPSEEK.defaults, "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
        "num_hidden_layers": 61, "num_attention_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1,
        "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
    },
    score_bias=True,
)  # fmt: skip

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "mixtral": replace(
        _MISTRAL,
        defaults={**_MISTRAL.defaults, "sliding_window": None, "num_local_experts": 8, "num_experts_per_tok": 2},
        experts="all",
    ),
    "qwen2": _QWEN2,
    "qwen2_moe": Family(
        {
            "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
            "num_attention_heads": 16, "num_key_value_heads": 16, "sliding_window": 4096, "max_window_layers": 28,
            "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "decoder_sparse_step": 1,
            "shared_expert_intermediate_size": 5632, "qkv_bias": True,
        },
        qkv_bias="qkv_bias",
        windows="max_window_layers",
        experts="sparse_step",
        shared_gate=True,
    ),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": replace(
        _GEMMA2, defaults={**_GEMMA2.defaults, "vocab_size": 262208}, qk_norm="head", pattern=6
    ),
    "olmo2": _OLMO2,
    "olmo3": replace(
        _OLMO2, defaults={**_OLMO2.defaults, "sliding_window": 4096}, windows="pattern", pattern=4
    ),
    "olmoe": replace(
        _OLMO2,
        defaults={
            "vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 2048, "num_hidden_layers": 16,
            "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
        },
        experts="all",
    ),
    "gpt_oss": Family(
        {
            "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
            "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
            "attention_bias": True, "num_local_experts": 128, "num_experts_per_tok": 4,
        },
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias=True,
        has_sinks=True,
        windows="pattern",
        pattern=2,
        experts="all",
    ),
    "deepseek_v2": replace(
        _DEEPSEEK,
        defaults={
            **_DEEPSEEK.defaults, "vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "n_routed_experts": 64, "n_shared_experts": 2,
            "moe_intermediate_size": 1407, "first_k_dense_replace": 0,
        },
    ),
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "llama4_text": Family(
        {
            "vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
            "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
            "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
            "no_rope_layer_interval": 4, "attention_chunk_size": 8192,
        },
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        windows="chunked",
        experts="interleaved",
    ),
    "phi3": Family(
        {**_LLAMA.defaults, "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "sliding_window": None},
        windows="all",
    ),
    "smollm3": replace(
        _LLAMA,
        defaults={
            "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
            "num_attention_heads": 16, "num_key_value_heads": 4,
        },
        tied=True,
    ),
    "granite": _LLAMA,
    "glm4_moe": Family(
        {
            "vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 46,
            "num_attention_heads": 96, "num_key_value_heads": 8, "n_routed_experts": 128, "n_shared_experts": 1,
            "num_experts_per_tok": 8, "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        },
        qkv_bias="attention_bias",
        qk_norm="use_qk_norm",
        experts="dense_first",
        score_bias=True,
    ),
    "starcoder2": Family(
        {
            "vocab_size": 49152, "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30,
            "num_attention_heads": 24, "num_key_value_heads": 2, "sliding_window": None, "use_bias": True,
        },
        tied=True,
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        windows="all",
        norm_bias=True,
        gated=False,
    ),
    "gpt2": Family(
        {
            "vocab_size": 50257, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
            "max_position_embeddings": 1024,
        },
        tied=True,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        has_positions=True,
        norm_bias=True,
        gated=False,
    ),
    "gpt_neox": Family(
        {
            "vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
            "num_attention_heads": 64, "attention_bias": True,
        },
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias=True,
        norm_bias=True,
        gated=False,
    ),
}  # fmt: skip
"""What can be planned, by model_type."""

SAME_AS = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
}
"""Multimodal model_types whose text decoder is of another type."""
