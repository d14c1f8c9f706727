"""An architecture as MaxText keys: by the name MaxText knows it by, or spelt out for a decoder block that has its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.errors import Diagnostic, InputError

if TYPE_CHECKING:
    from shardplan.spec import Architecture, Attention, FeedForward, Layer

    Flags = dict[str, int | float | str | bool]


def model_flags(architecture: Architecture) -> Flags:
    """`model_name` alone, or `model_name=default` with the decoder block and every size.

    Raises InputError with each feature that keeps MaxText from expressing an inline architecture.
    """
    if architecture.maxtext_model_name:
        changed = (
            {**dict(architecture.maxtext_keys), "override_model_config": True} if architecture.maxtext_keys else {}
        )
        return {"model_name": architecture.maxtext_model_name, **changed}
    if lacks := lacking(architecture):
        message = f"MaxText has no decoder block for {architecture.name}: {lacks}"
        raise InputError([Diagnostic("SP015", message)])
    first, last = architecture.layer_groups[0].layers[0], architecture.layer_groups[-1].layers[0]
    found: Flags = {
        "model_name": "default",
        "decoder_block": _block(architecture, last),
        "base_emb_dim": architecture.model_width,
        "base_num_decoder_layers": architecture.n_layers,
        "base_num_query_heads": last.attention.n_query_heads,
        "base_num_kv_heads": last.attention.n_key_value_heads,
        "vocab_size": architecture.vocab_size,
        "logits_via_embedding": architecture.tied_embeddings,
        "mlp_activations": "[silu,linear]" if last.feed_forward.gated else "[gelu]",
    }
    found |= dict(architecture.maxtext_keys)
    found |= _attention(last.attention)
    found |= _feed_forward(architecture, first.feed_forward, last.feed_forward)
    if architecture.n_mtp_layers:
        found["mtp_num_layers"] = architecture.n_mtp_layers
    return found


def lacking(architecture: Architecture) -> str:
    """What keeps MaxText from expressing an architecture, in words; empty if nothing does."""
    if architecture.maxtext_model_name:
        return ""
    first, last = architecture.layer_groups[0].layers[0], architecture.layer_groups[-1].layers[0]
    return "; ".join(what for holds, what in _obstacles(architecture, first, last) if holds)


def _obstacles(architecture: Architecture, first: Layer, last: Layer) -> list[tuple[bool, str]]:
    """Whether each feature that no generic decoder block has is present, with its name."""
    groups, deep = architecture.layer_groups, _is_deepseek(architecture, last)
    attention, feed_forward = last.attention, last.feed_forward
    uniform = all(len(group.layers) == 1 for group in groups) and len(groups) <= (2 if deep else 1)
    return [
        (not uniform, "layers of several kinds, other than dense ones before expert ones"),
        (first.attention != attention, "attention that differs between dense and expert layers"),
        (len(groups) > 1 and first.feed_forward.is_moe, "expert layers before dense ones"),
        (attention.window is not None, "windowed attention"),
        (attention.sinks, "attention sinks"),
        (attention.output_bias, "a bias on the attention output"),
        (attention.qk_norm == "full", "normalisation over all heads"),
        (attention.bias and feed_forward.is_moe, "attention biases with experts"),
        (
            deep and (attention.bias or attention.qk_norm != "none"),
            "biases or normalised heads with shared experts",
        ),
        (attention.kind == "mla" and not deep, "latent attention without DeepSeek-style experts"),
        (feed_forward.bias or first.feed_forward.bias, "biases in the feed-forward part"),
        (
            feed_forward.shared_width not in {0, feed_forward.width},
            "shared experts of another width than routed ones",
        ),
        (feed_forward.shared_gate, "a gate on the shared expert"),
        (
            feed_forward.is_moe and deep != (feed_forward.router_embedding == "embed_router"),
            "this router sharding",
        ),
        (any(group.layers[0].n_norms != 2 for group in groups), "norms after the blocks"),  # noqa: PLR2004
        (architecture.n_positions > 0 or architecture.norm_bias, "learned positions or norms with bias"),
        (architecture.norm_axis != "tensor", "norm scales split over fsdp"),
    ]


def _is_deepseek(architecture: Architecture, last: Layer) -> bool:
    feed_forward = last.feed_forward
    return feed_forward.is_moe and (
        len(architecture.layer_groups) > 1
        or feed_forward.n_shared_experts > 0
        or feed_forward.router_embedding == "embed_router"
    )


def _block(architecture: Architecture, last: Layer) -> str:
    """The decoder block with this shape."""
    attention, normed = last.attention, last.attention.qk_norm == "head"
    if _is_deepseek(architecture, last):
        return "deepseek"
    if last.feed_forward.is_moe:
        return "qwen3_moe" if normed else "mixtral"
    if attention.bias:
        return "qwen2"
    return "qwen3" if normed else "llama2"


def _attention(attention: Attention) -> Flags:
    if attention.kind == "mla":
        return {
            "attention_type": "mla",
            "q_lora_rank": attention.query_rank,
            "kv_lora_rank": attention.key_value_rank,
            "qk_nope_head_dim": attention.nope_width,
            "qk_rope_head_dim": attention.rope_width,
            "v_head_dim": attention.value_width,
        }
    found: Flags = {"head_dim": attention.qk_width}
    if attention.qk_norm == "head":
        found["use_qk_norm"] = True
    if attention.bias:
        found["attention_bias"] = True
    if attention.fused_qkv:
        found["fused_qkv"] = True
    return found


def _feed_forward(architecture: Architecture, first: FeedForward, last: FeedForward) -> Flags:
    if not last.is_moe:
        return {"base_mlp_dim": last.width}
    found: Flags = {
        "base_mlp_dim": first.width,
        "base_moe_mlp_dim": last.width,
        "num_experts": last.n_experts,
        "num_experts_per_tok": last.n_active_experts,
    }
    if last.n_shared_experts:
        found["shared_experts"] = last.n_shared_experts
    if not first.is_moe:
        found["first_num_dense_layers"] = architecture.layer_groups[0].count
    if last.score_bias:
        found["routed_bias"] = True
        found["routed_score_func"] = "sigmoid"
    return found
