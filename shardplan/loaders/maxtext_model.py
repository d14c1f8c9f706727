"""MaxText model files (`configs/models/*.yml`) to an Architecture, by decoder block; what cannot be planned is named.

Source: MaxText 0.2.5 models/*.py; maxtext reference 5.1 and 5.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardplan.errors import Diagnostic, InputError, suggest
from shardplan.loaders.maxtext_blocks import BLOCKS, DENSE_BLOCKS
from shardplan.loaders.maxtext_schema import MaxTextModel
from shardplan.source import Document, build
from shardplan.spec import Architecture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


EXAMPLE = """\
decoder_block: llama2
base_emb_dim: 64
base_num_decoder_layers: 2
base_num_query_heads: 4
base_num_kv_heads: 2
base_mlp_dim: 256
head_dim: 16
vocab_size: 128
"""


def read(document: Document, name: str) -> Architecture:
    """The architecture a MaxText model file describes, spelt out for a launch."""
    return read_maxtext_model(document, name)


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


def recognises(document: Document) -> bool:
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
