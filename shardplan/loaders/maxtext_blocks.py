"""The layer groups that each MaxText decoder block makes of a model file. Source: MaxText 0.2.5 models/*.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shardplan.loaders.patterns import pattern_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardplan.loaders.maxtext_schema import MaxTextModel

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
