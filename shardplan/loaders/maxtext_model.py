"""MaxText model files (`configs/models/*.yml`) to an Architecture, by decoder block.

Sizes left out are those of MaxText's base.yml. Keys that change no tensor and no window (rotary settings, tokenizers)
are passed over. Source: MaxText 0.2.5 models/*.py; maxtext reference 5.1 and 5.2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from shardplan.errors import Diagnostic, InputError, suggest
from shardplan.loaders.patterns import pattern_groups
from shardplan.source import Document, build
from shardplan.spec import Architecture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


UNSUPPORTED_BLOCKS = {
    "qwen3_next": "linear attention (Gated DeltaNet) layers",
    "qwen3_5": "linear attention (Gated DeltaNet) layers",
    "qwen3_custom_moe": "mixture-of-experts layers in a latent width",
    "gemma4": "attention layers with heads of two widths",
    "gemma4_small": "layers with per-layer embeddings and shared keys and values",
    "deepseek4": "compressed attention layers",
    "simple": "toy layers without attention",
    "simple_mlp": "toy layers without attention",
}
"""Decoder blocks of MaxText that cannot be planned, with what they are made of."""


UNSUPPORTED_KEYS: dict[str, tuple[Callable[[MaxTextModel], bool], str]] = {
    "use_indexer": (lambda m: m.use_indexer, "a sparse attention indexer"),
    "use_multimodal": (lambda m: m.use_multimodal, "an encoder for images or sound"),
    "share_kv_projections": (lambda m: m.share_kv_projections, "keys and values from one projection"),
    "num_kv_shared_layers": (lambda m: m.num_kv_shared_layers > 0, "layers that share keys and values"),
    "engram_layers": (lambda m: bool(m.engram_layers), "engram memory tables"),
    "attention_type": (
        lambda m: m.attention_type not in {"global", "local_sliding", "chunk", "mla"},
        "attention of a kind that is not global, local_sliding, chunk or mla",
    ),
}
"""Keys that turn a model into one that cannot be planned, when, and what it then has."""


def read_maxtext_model(document: Document, name: str, maxtext_model_name: str | None = None) -> Architecture:
    """The architecture a MaxText model file describes; raises InputError for layers that cannot be planned."""
    model = build(MaxTextModel, document)
    if model.decoder_block not in BLOCKS:
        raise InputError([_unknown_block(model.decoder_block, document)])
    problems = [
        Diagnostic("SP015", f"{key}: {what} cannot be planned", document.mark((key,)))
        for key, (applies, what) in UNSUPPORTED_KEYS.items()
        if applies(model)
    ]
    if model.global_parameter_scale & (model.global_parameter_scale - 1):
        message = f"global_parameter_scale: {model.global_parameter_scale} is not a power of two"
        problems.append(Diagnostic("SP013", message, document.mark(("global_parameter_scale",))))
    if problems:
        raise InputError(problems)
    groups = list(BLOCKS[model.decoder_block](model))
    architecture = {
        "name": name,
        "model_width": model.base_emb_dim * model.scale.emb,
        "vocab_size": model.vocab_size,
        "tied_embeddings": model.logits_via_embedding,
        "layer_groups": groups,
        "n_mtp_layers": max(0, model.mtp_num_layers),
        "n_positions": max(0, model.trainable_position_size),
        "norm_bias": model.decoder_block == "gpt3",
        "norm_axis": "fsdp" if ["norm", "fsdp"] in [_plain(rule) for rule in model.logical_axis_rules] else "tensor",
        "maxtext_model_name": maxtext_model_name,
        "notes": tuple(_notes(model)),
    }
    return build(Architecture, Document(architecture, document.name))


def is_maxtext_model(document: Document) -> bool:
    """Whether a document looks like a MaxText model file."""
    value = document.value
    return isinstance(value, dict) and ("decoder_block" in value or any(str(k).startswith("base_") for k in value))


def _plain(rule: Any) -> Any:
    return list(rule) if isinstance(rule, (list, tuple)) else rule


def _notes(model: MaxTextModel) -> Iterator[str]:
    if model.override_logical_axis_rules:
        yield "the model file replaces MaxText's axis rules; shardplan plans with the default ones"
    if model.num_experts > 1 and model.decoder_block in DENSE_BLOCKS:
        yield f"num_experts {model.num_experts} has no effect in decoder block {model.decoder_block}, as in MaxText"


def _unknown_block(block: str, document: Document) -> Diagnostic:
    mark = document.mark(("decoder_block",))
    if block in UNSUPPORTED_BLOCKS:
        return Diagnostic("SP015", f"decoder_block {block}: {UNSUPPORTED_BLOCKS[block]} cannot be planned", mark)
    hint = suggest(block, BLOCKS) or f"known here: {', '.join(sorted(BLOCKS))}"
    return Diagnostic("SP014", f"unknown decoder_block {block[:60]!r}", mark, hint)


# --- parts of a layer ------------------------------------------------------------------------------------------------


def _attention(m: MaxTextModel, **more: Any) -> dict[str, Any]:
    heads = {
        "n_query_heads": m.base_num_query_heads * m.scale.heads,
        "n_key_value_heads": m.base_num_kv_heads * m.scale.heads,
    }
    if m.attention_type == "mla":
        return heads | {
            "kind": "mla",
            "query_rank": m.q_lora_rank,
            "key_value_rank": m.kv_lora_rank,
            "nope_width": m.qk_nope_head_dim,
            "rope_width": m.qk_rope_head_dim,
            "value_width": m.v_head_dim,
        }
    window: dict[str, Any] = {}
    if m.attention_type == "local_sliding":
        window = _sliding(m)
    elif m.attention_type == "chunk":
        window = _chunked(m)
    return heads | {"head_width": m.head_dim, "fused_qkv": m.fused_qkv} | window | more


def _sliding(m: MaxTextModel) -> dict[str, Any]:
    return {"window": m.sliding_window_size} if m.sliding_window_size > 0 else {}


def _chunked(m: MaxTextModel) -> dict[str, Any]:
    return {"window": m.chunk_attn_window_size, "window_kind": "chunked"} if m.chunk_attn_window_size > 0 else {}


def _dense(m: MaxTextModel, **more: Any) -> dict[str, Any]:
    return {"width": m.base_mlp_dim * m.scale.heads, "gated": m.is_gated, **more}


def _moe(m: MaxTextModel, **more: Any) -> dict[str, Any]:
    width = m.base_moe_mlp_dim if m.base_moe_mlp_dim > 0 else m.base_mlp_dim
    return {
        "kind": "moe",
        "width": width * m.scale.heads,
        "gated": m.is_gated,
        "n_experts": m.num_experts,
        "n_active_experts": m.num_experts_per_tok,
        **more,
    }


def _shared_moe(m: MaxTextModel) -> dict[str, Any]:
    return _moe(m, n_shared_experts=max(0, m.shared_experts), router_embedding="embed_router")


def _layer(attention: dict[str, Any], feed_forward: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"attention": attention, "feed_forward": feed_forward, **more}


def _head_norm(m: MaxTextModel) -> dict[str, Any]:
    return {"qk_norm": "head"} if m.use_qk_norm else {}


# --- decoder blocks --------------------------------------------------------------------------------------------------


def _depth(m: MaxTextModel) -> int:
    return m.base_num_decoder_layers * m.scale.layers


def _uniform(m: MaxTextModel, layer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"count": _depth(m), "layers": [layer]}


def _llama2(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    yield from _uniform(m, _layer(_attention(m), _dense(m)))


def _qwen2(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    yield from _uniform(m, _layer(_attention(m, bias=m.attention_bias, **_head_norm(m)), _dense(m)))


def _qwen3(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    yield from _uniform(m, _layer(_attention(m, **_head_norm(m)), _dense(m)))


def _gpt3(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    yield from _uniform(m, _layer(_attention(m, bias=True, output_bias=True), _dense(m, bias=True)))


def _mixtral(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    yield from _uniform(m, _layer(_attention(m), _moe(m)))


def _qwen3_moe(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    yield from _uniform(m, _layer(_attention(m, **_head_norm(m)), _moe(m)))


def _gemma2(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    """Each config layer is a pair: sliding, then full attention."""
    more = {"n_norms": 2 + m.use_post_attn_norm + m.use_post_ffw_norm}
    local = _layer(_attention(m, **_sliding(m)), _dense(m), **more)
    yield {"count": _depth(m), "layers": [local, _layer(_attention(m), _dense(m), **more)], "one_input": True}


def _gemma3(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    """Five sliding layers, then one of full attention."""
    more = {"n_norms": 2 + m.use_post_attn_norm + m.use_post_ffw_norm}
    local = _layer(_attention(m, qk_norm="head", **_sliding(m)), _dense(m), **more)
    full = _layer(_attention(m, qk_norm="head"), _dense(m), **more)
    yield from pattern_groups([full if i % 6 == 5 else local for i in range(_depth(m))], 6)  # noqa: PLR2004


def _olmo3(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    """Three sliding layers, then one of full attention."""
    more: dict[str, Any] = {"bias": m.attention_bias, "output_bias": m.attention_bias}
    more |= {"qk_norm": "full"} if m.use_qk_norm else {}
    local, full = (_layer(_attention(m, **more, **w), _dense(m)) for w in (_sliding(m), {}))
    layers = [full if i % 4 == 3 else local for i in range(_depth(m))]  # noqa: PLR2004
    yield from pattern_groups(layers, m.inhomogeneous_layer_cycle_interval)


def _gpt_oss(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    """A sliding layer, then one of full attention."""
    more = {"bias": m.attention_bias, "output_bias": m.attention_bias, "sinks": m.attention_sink}
    moe = _moe(m, bias=m.mlp_bias)
    local, full = (_layer(_attention(m, **more, **w), moe) for w in (_sliding(m), {}))
    layers = [full if i % 2 else local for i in range(_depth(m))]
    yield from pattern_groups(layers, m.inhomogeneous_layer_cycle_interval)


def _llama4(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    """Chunked attention but for the layers without rotary positions; every n-th layer a mixture of experts."""
    layers = []
    for i in range(1, _depth(m) + 1):
        is_full = m.nope_layer_interval > 0 and i % m.nope_layer_interval == 0
        attention = _attention(m, **({} if is_full else _chunked(m)))
        is_moe = i % m.interleave_moe_layer_step == 0
        layers.append(_layer(attention, _shared_moe(m) if is_moe else _dense(m)))
    yield from pattern_groups(layers, m.inhomogeneous_layer_cycle_interval)


def _envy(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    """Dense layers, every n-th a mixture of experts."""
    attention, norms = _attention(m, **_head_norm(m)), 2 + m.use_post_ffw_norm
    step = m.interleave_moe_layer_step
    layers = [
        _layer(attention, _moe(m) if i % step == 0 else _dense(m), n_norms=norms) for i in range(1, _depth(m) + 1)
    ]
    yield from pattern_groups(layers, math.lcm(step, m.inhomogeneous_layer_cycle_interval))


def _deepseek(m: MaxTextModel) -> Iterator[dict[str, Any]]:
    """Dense layers first, then mixtures of experts with shared ones."""
    n_dense = max(0, m.first_num_dense_layers)
    if n_dense:
        yield {"count": n_dense, "layers": [_layer(_attention(m), _dense(m))]}
    moe = _shared_moe(m) | {"score_bias": m.routed_bias}
    if _depth(m) > n_dense:
        yield {"count": _depth(m) - n_dense, "layers": [_layer(_attention(m), moe)]}


BLOCKS: dict[str, Callable[[MaxTextModel], Iterator[dict[str, Any]]]] = {
    "llama2": _llama2,
    "mistral": _llama2,
    "gemma": _llama2,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gpt3": _gpt3,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "olmo3": _olmo3,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3_moe,
    "gpt_oss": _gpt_oss,
    "llama4": _llama4,
    "envy": _envy,
    "deepseek": _deepseek,
}
"""What each decoder block makes of a model file: layer groups."""

DENSE_BLOCKS = frozenset({"llama2", "mistral", "gemma", "qwen2", "qwen3", "gpt3", "gemma2", "gemma3", "olmo3"})
"""Decoder blocks without experts."""
