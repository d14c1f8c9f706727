"""Bytes the compiler put into collectives of MaxText's train step, against the bytes we say move.

Read from optimised programs of MaxText 0.2.5 and libtpu 0.0.52: every collective outside a matmul loop, by the devices it
groups, times the layers. The compiler turns some gathers into loops around a matmul; those purposes are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shardplan.cost.network.comm import collectives
from shardplan.loaders.presets import load_architecture
from shardplan.machine.chips import resolve_cluster
from shardplan.spec import Case, Split, Workload
from shardplan.splits.candidates import Candidates


@dataclass(frozen=True)
class Compiled:
    """Megabytes a device receives in one step, by axis and kind."""

    name: str
    chip: str
    topology: str
    layers: int
    sequence_length: int
    mesh: dict[str, int]
    megabytes: dict[tuple[str, str], float]
    per_device_batch: float = 1.0
    remat_policy: str = "full"
    model: str = "llama3.1-8b"
    microbatches: int = 1
    repeats: int = 1
    without: tuple[str, ...] = field(default=("embedding", "gradients of embedded tokens"))
    """Purposes for which the compiler chose another way on this chip, or a loop around a matmul."""


NOT_EXPERTS = ("embedding", "output head", "gradients of output head", "weights", "gradients of weights")
POINTS = [
    Compiled("fsdp 4", "v5p", "2x2x1", 32, 8192, {"fsdp": 4},
             {("fsdp", "all-gather"): 21726.0, ("fsdp", "reduce-scatter"): 10469.0 + 1576.0 / 2}),
    Compiled("fsdp 4 x data 2", "v5p", "2x2x2", 4, 4096, {"fsdp": 4, "data": 2},
             {("fsdp", "all-gather"): 3405.3, ("fsdp", "reduce-scatter"): 2096.6, ("data", "all-reduce"): 961.5}),
    Compiled("fsdp 8 x data 4", "v5p", "2x4x4", 32, 8192, {"fsdp": 8, "data": 4},
             {("fsdp", "all-gather"): 25347.4, ("fsdp", "reduce-scatter"): 12213.8 + 1838.7 / 2,
              ("data", "all-reduce"): 3011.2}, per_device_batch=2.0),
    Compiled("fsdp 4 x tensor 2", "v5p", "2x2x2", 4, 4096, {"fsdp": 4, "tensor": 2},
             {("fsdp", "all-gather"): 1702.6, ("tensor", "all-gather"): 872.4, ("tensor", "reduce-scatter"): 738.3}),
    Compiled("fsdp 4 x tensor 2, attention output kept", "v5p", "2x2x2", 4, 4096, {"fsdp": 4, "tensor": 2},
             {("tensor", "all-gather"): 872.4, ("tensor", "reduce-scatter"): 604.0}, remat_policy="minimal_with_context"),
    Compiled("fsdp 4 x context 2", "v5p", "2x2x2", 4, 4096, {"fsdp": 4, "context": 2},
             {("context", "all-gather"): 134.2, ("context", "reduce-scatter"): 67.1}),
    Compiled("fsdp 4 x context 4", "tpu7x", "2x2x2", 4, 4096, {"fsdp": 4, "context": 4},
             {("context", "all-gather"): 402.7, ("context", "reduce-scatter"): 201.3}),
    Compiled("fsdp 2 x context 4", "tpu7x", "2x2x1", 32, 8192, {"fsdp": 2, "context": 4},
             {("context", "all-gather"): 6442.5, ("context", "reduce-scatter"): 3221.2}),
    Compiled("fsdp 4 x pipeline 2", "tpu7x", "2x2x1", 32, 8192, {"fsdp": 4, "pipeline": 2},
             {("pipeline", "permute"): 13690.2}, per_device_batch=4.0, microbatches=4, repeats=4),
    Compiled("experts: fsdp 2 x expert 8", "tpu7x", "2x2x2", 8, 4096, {"fsdp": 2, "expert": 8},
             {("fsdp", "all-gather"): 2818.6, ("fsdp", "reduce-scatter"): 1409.3}, per_device_batch=4.0,
             model="mixtral-8x7b", without=NOT_EXPERTS),
    Compiled("experts: fsdp 4 x expert 4", "tpu7x", "2x2x2", 16, 4096, {"fsdp": 4, "expert": 4},
             {("fsdp", "all-gather"): 7247.8, ("fsdp", "reduce-scatter"): 3623.9}, per_device_batch=4.0,
             model="qwen3-30b-a3b", without=NOT_EXPERTS),
    Compiled("experts: fsdp 2 x expert 8, 128 of them", "tpu7x", "2x2x2", 8, 4096, {"fsdp": 2, "expert": 8},
             {("fsdp", "all-gather"): 4831.8, ("fsdp", "reduce-scatter"): 2415.9}, per_device_batch=4.0,
             model="qwen3-235b-a22b", without=NOT_EXPERTS),
]  # fmt: skip


def case_of(point: Compiled) -> Case:
    architecture = load_architecture(point.model)
    (group,) = architecture.layer_groups
    shallow = architecture.model_copy(update={"layer_groups": (group.model_copy(update={"count": point.layers}),)})
    return Case(
        architecture=shallow,
        workload=Workload(sequence_length=point.sequence_length, per_device_batch=point.per_device_batch),
        cluster=resolve_cluster(point.chip, topology=point.topology),
    )


def predicted_megabytes(point: Compiled) -> dict[tuple[str, str], float]:
    """What we say a device receives in one step, for every axis and kind the compiled program was read for."""
    plan = Split(
        ici=point.mesh,
        per_device_batch=point.per_device_batch,
        remat_policy=point.remat_policy,
        pipeline_microbatches=point.microbatches,
    )
    found = collectives(case_of(point), Candidates.of_splits([plan], [point.repeats], [False]))
    return {
        key: float(sum(c.bytes[0] for c in found if (c.axis, c.kind) == key and c.purpose not in point.without)) / 1e6
        for key in point.megabytes
    }
