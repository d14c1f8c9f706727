"""Small models and cases that many tests plan."""

from __future__ import annotations

from shardplan.machine.chips import resolve_cluster
from shardplan.spec import Architecture, Case, Workload

GQA = {"n_query_heads": 16, "n_key_value_heads": 8, "head_width": 128}
DENSE = {"width": 6144}
MOE = {"kind": "moe", "width": 1536, "n_experts": 24, "n_active_experts": 4}


def architecture(*groups: dict, **more: object) -> Architecture:
    """A small model of the given layer groups."""
    return Architecture.model_validate({"model_width": 2048, "vocab_size": 32768, "layer_groups": list(groups), **more})


def case_of(
    model: Architecture,
    topology: str = "2x2x4",
    *,
    slices: int = 1,
    batch: int = 96,
    tokens: int = 4096,
    **more: object,
) -> Case:
    """A case on tpu7x."""
    return Case(
        architecture=model,
        workload=Workload(sequence_length=tokens, global_batch=batch),
        cluster=resolve_cluster("tpu7x", topology=topology, slices=slices),
        **more,
    )


DENSE_MODEL = architecture({"count": 12, "attention": GQA, "feed_forward": DENSE})
MOE_MODEL = architecture({"count": 12, "attention": GQA, "feed_forward": MOE})
