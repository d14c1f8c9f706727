"""One split of a case as MaxText configuration keys: everything that decides memory, time and sharding, nothing left open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from shardplan.exporters.maxtext.model import lacking, model_flags
from shardplan.exporters.maxtext.release import in_words_of
from shardplan.maxtext.releases import newest, release_of
from shardplan.maxtext.tables import table
from shardplan.maxtext.tiles import EXPERT_TILE, TILES, nearest_tile, scaled_tiles, span_of
from shardplan.spec import AXES, default_microbatches
from shardplan.splits.pipeline import layers_per_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.spec import Case, Split

Value: TypeAlias = int | float | str | bool


def flags(case: Case, split: Split) -> dict[str, Value]:
    """MaxText keys of a split under the case's release, in the order people read them: model, batch, mesh, remat, kernels.

    What that release cannot express is left out; see `flags_and_lost`. Mesh degrees are all explicit, so that they multiply to the devices by themselves. Raises InputError where MaxText
    cannot express an inline architecture.
    """
    return flags_and_lost(case, split)[0]


def flags_and_lost(case: Case, split: Split) -> tuple[dict[str, Value], dict[str, Value]]:
    """The keys of a split under the case's release, and those of the newest one that it cannot express."""
    release = release_of(case.runtime.maxtext).release
    found: dict[str, Value] = dict(model_flags(case.architecture))
    for part in (_batch, _mesh, _remat, _optimizer, _attention, _experts, _pipeline, _rest):
        found.update(part(case, split))
    set_by_model = table(release.name).models.get(str(found["model_name"]), {})
    found, lost = (found, {}) if release == newest() else in_words_of(release, found)
    said_again = release.doubled == "refused" and not set_by_model.keys().isdisjoint(found)
    if said_again or any(set_by_model.get(key, value) != value for key, value in found.items()):
        found["override_model_config"] = True
    return found, lost


def flags_if_any(case: Case, split: Split) -> tuple[dict[str, Value], dict[str, Value]]:
    """As `flags_and_lost`, but empty where MaxText has no decoder block for an inline architecture: the plan itself stands."""
    return ({}, {}) if lacking(case.architecture) else flags_and_lost(case, split)


def _batch(case: Case, split: Split) -> Iterator[tuple[str, Value]]:
    batch = split.per_device_batch
    yield "per_device_batch_size", int(batch) if float(batch).is_integer() else batch
    yield "max_target_length", case.workload.sequence_length
    yield "gradient_accumulation_steps", split.gradient_accumulation


def _mesh(case: Case, split: Split) -> Iterator[tuple[str, Value]]:
    for network, degrees in (("ici", split.ici), ("dcn", split.dcn)):
        for axis in AXES:
            yield f"{network}_{axis}_parallelism", degrees.get(axis, 1)
    yield "allow_split_physical_axes", split.allow_split_physical_axes
    if degree(split, "context") > 1:
        yield "context_parallel_strategy", case.runtime.context_strategy
        yield "context_parallel_load_balance", case.runtime.context_load_balance


def _remat(_case: Case, split: Split) -> Iterator[tuple[str, Value]]:
    yield "remat_policy", split.remat_policy
    if split.remat_policy == "custom":
        yield from sorted({"decoder_layer_input": "device", **split.remat_tensors}.items())


def _optimizer(case: Case, _split: Split) -> Iterator[tuple[str, Value]]:
    optimizer = case.workload.optimizer
    yield "opt_type", optimizer.name
    yield "weight_dtype", optimizer.weight_dtype
    yield "grad_dtype", optimizer.gradient_dtype
    if optimizer.name != "adam_pax":
        yield "mu_dtype", optimizer.mu_dtype
    if optimizer.host_offload:
        yield "optimizer_memory_host_offload", True
    if optimizer.shard_over_data:
        yield "shard_optimizer_over_data", True


def _attention(case: Case, split: Split) -> Iterator[tuple[str, Value]]:
    runtime = case.runtime
    yield "attention", runtime.attention
    if runtime.attention != "flash":
        return
    yield "use_tokamax_splash", runtime.tokamax_splash
    if runtime.fused_attention_backward:
        yield "sa_use_fused_bwd_kernel", True
    wanted, tokens = runtime.attention_tile_tokens, case.workload.sequence_length
    span = span_of(tokens, degree(split, "context"), runtime.context_strategy)
    tile = nearest_tile(wanted, span.queries) or wanted
    for key in TILES:
        yield key, tile


def _experts(case: Case, split: Split) -> Iterator[tuple[str, Value]]:
    runtime = case.runtime
    if not case.architecture.is_moe:
        return
    yield "sparse_matmul", runtime.sparse_matmul
    if runtime.sparse_matmul:
        yield "megablox", runtime.megablox
        if runtime.megablox and case.recipe == "fp8_full":
            yield from _scaled_tiles(case, degree(split, "tensor"))
    else:
        yield "capacity_factor", runtime.capacity_factor
    # Guard: MaxText refuses a ragged buffer factor without expert parallelism (reference E1).
    if runtime.ragged_buffer_factor > 0 and degree(split, "expert") > 1:
        yield "ragged_buffer_factor", runtime.ragged_buffer_factor
    if not runtime.weight_sum_in_float32:
        yield "float32_weight_sum", False


def _scaled_tiles(case: Case, tensor: int) -> Iterator[tuple[str, Value]]:
    """Tiles of fp8 grouped matmuls where MaxText's own do not divide what they lie on, in the layers with experts."""
    blocks = (layer.feed_forward for layer, _ in case.architecture.layers)
    width = math.gcd(*(block.width for block in blocks if block.is_moe))
    for key, columns in scaled_tiles(max(1, width // tensor), case.architecture.model_width).items():
        if columns % EXPERT_TILE:
            yield key, nearest_tile(EXPERT_TILE, columns) or columns


def _pipeline(case: Case, split: Split) -> Iterator[tuple[str, Value]]:
    stages, runtime = degree(split, "pipeline"), case.runtime
    if stages == 1:
        return
    yield "num_layers_per_pipeline_stage", int(layers_per_stage(case, stages))
    asked, delayed = split.pipeline_microbatches, runtime.pipeline_delay_activations
    yield "num_pipeline_microbatches", asked or default_microbatches(stages, delayed=delayed)
    if runtime.pipeline_delay_activations:
        yield "pipeline_delay_activation_forwarding", True
    if runtime.pipeline_gather_weights != "per_iteration":
        yield f"pipeline_fsdp_ag_{runtime.pipeline_gather_weights}", True


def _rest(case: Case, split: Split) -> Iterator[tuple[str, Value]]:
    runtime = case.runtime
    yield "num_vocab_tiling", split.num_vocab_tiling
    yield "use_iota_embed", runtime.iota_embed
    if not runtime.packing:
        yield "packing", False
    if not runtime.logits_in_float32:
        yield "cast_logits_to_fp32", False
    if not runtime.scan_layers:
        yield "scan_layers", False
    if case.recipe != "none":
        yield "quantization", case.recipe
        yield "use_qwix_quantization", True


def degree(split: Split, axis: str) -> int:
    """ICI times DCN degree of a mesh axis."""
    return split.ici.get(axis, 1) * split.dcn.get(axis, 1)
