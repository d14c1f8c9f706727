"""Which mesh axes split which dimension: MaxText's logical axis rules, the one table of them.

Source: MaxText 0.2.5 configs/base.yml logical_axis_rules; maxtext reference 1.4.
"""

from __future__ import annotations

from typing import Final

WEIGHT_RULES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("vocab", ("tensor",)),
    ("embed_vocab", ("fsdp", "fsdp_transpose", "context", "expert")),
    ("heads", ("tensor",)),
    ("q_heads", ("tensor",)),
    ("kv_heads", ("tensor",)),
    ("q_lora", ("fsdp", "fsdp_transpose", "context", "expert")),
    ("kv_lora", ("fsdp", "fsdp_transpose", "context", "expert")),
    ("embed_attn", ("fsdp", "fsdp_transpose", "context", "expert")),
    ("exp", ("expert",)),
    ("mlp_moe", ("fsdp_transpose", "tensor")),
    ("embed_moe", ("fsdp", "fsdp_transpose", "context")),
    ("embed_moe", ("fsdp", "context")),
    ("embed_router", ("fsdp", "fsdp_transpose", "context")),
    ("activation_mlp", ("tensor",)),
    ("mlp", ("fsdp_transpose", "tensor")),
    ("embed", ("fsdp", "fsdp_transpose", "context", "expert")),
    ("embed", ("fsdp", "context", "expert")),
    ("norm", ("tensor",)),
    ("norm_fsdp", ("fsdp",)),
)
"""Logical axis of a weight's dimension to the mesh axes that split it; a second line of a name is its fallback.

Axes shardplan does not plan with (autoregressive, tensor_sequence, Ulysses) are left out. Logical axes without a
rule (`kv`, `none`, the low ranks) are never split. The stacked dimension of pipelined layers is split by `pipeline`.
"""

ACTIVATION_RULES: Final[dict[str, tuple[str, ...]]] = {
    "batch": ("data", "fsdp", "fsdp_transpose", "expert"),
    "loaded_batch": ("data", "pipeline", "fsdp", "fsdp_transpose", "expert"),
    "length": ("context",),
    "kv_length": (),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "embed": ("tensor",),
    "mlp": ("tensor",),
    "vocab": ("tensor",),
    "exp": ("expert",),
    "stage": ("pipeline",),
}
"""Dimension of an activation to the mesh axes that split it; `loaded_batch` is that of inputs, embeddings and logits."""

WEIGHT_AXES: Final = ("fsdp", "fsdp_transpose", "context", "tensor", "pipeline", "expert")
"""Mesh axes MaxText expects every parameter to be split by, when their degree is above 1."""

BATCH_AXES: Final = ACTIVATION_RULES["batch"]
"""Axes that split the batch."""

WIDTH_AXES: Final = dict(reversed(WEIGHT_RULES))["embed"]
"""Axes that split a dense weight along the model width, over which it is gathered before use."""

EXPERT_WIDTH_AXES: Final = dict(reversed(WEIGHT_RULES))["embed_moe"]
"""The same of an expert's weight."""

FEED_FORWARD_AXES: Final = dict(reversed(WEIGHT_RULES))["mlp"]
"""Axes that split a weight along the feed-forward width."""
