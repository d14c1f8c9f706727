"""Facts about the batch, the software settings and the profile."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from shardplan.catalogue.dimension import CHOICE, TRUTH
from shardplan.judge.facts.observation import Fact, Observation
from shardplan.maxtext.axes import BATCH_AXES
from shardplan.splits.pipeline import layers_per_stage
from shardplan.splits.sizes import attention_tile, pipelined_blocks


def _split(name: str, unit: str, about: str, of: object) -> Fact:
    return Fact(name, unit, about, of, level="split")  # type: ignore[arg-type]


def _tokens_per_device(o: Observation) -> Any:
    return o.candidates.per_device_batch * o.case.workload.sequence_length


def _policies(o: Observation, of: Any) -> Any:
    """A measure of each remat policy, by candidate."""
    return np.array([of(policy) for policy in o.candidates.remat_policies])[o.candidates.remat]


FACTS: Final = (
    Fact("sequence_length", "tokens", "Tokens of one sequence.", lambda o: o.case.workload.sequence_length),
    _split("per_device_batch", "", "Sequences a JAX device and micro-step; may be a fraction.",
           lambda o: o.candidates.per_device_batch),
    _split("rows", "", "Sequences of one micro-step on all devices.", lambda o: o.candidates.rows),
    _split("rows_before_rounding", "", "Sequences of one micro-step before MaxText rounds them to whole ones.",
           lambda o: o.candidates.per_device_batch * o.candidates.devices),
    _split("loaded_rows", "", "Sequences the loader delivers an optimizer step: at least one a device.",
           lambda o: o.candidates.loaded_rows),
    _split("global_batch", "", "Sequences an optimizer step.", lambda o: o.candidates.global_batch),
    _split("gradient_accumulation", "", "Micro-steps an optimizer step.", lambda o: o.candidates.gradient_accumulation),
    _split("microbatches", "", "Microbatches of the pipeline in one micro-step; 1 without pipeline.",
           lambda o: o.candidates.pipeline_microbatches),
    _split("repeats", "", "Times a microbatch passes each pipeline stage; 1 without pipeline.",
           lambda o: o.candidates.pipeline_repeats),
    _split("microbatch_rows", "", "Sequences of one pipeline microbatch on all devices of a stage.",
           lambda o: o.candidates.rows / o.candidates.pipeline_microbatches),
    _split("batch_per_shard", "", "Sequences of one micro-step in one shard of the batch axes.",
           lambda o: o.candidates.rows / o.degree(*BATCH_AXES)),
    _split("tokens_per_device", "tokens", "Tokens a JAX device and micro-step.", _tokens_per_device),
    _split("tokens_per_chip", "tokens", "Tokens a chip and micro-step.",
           lambda o: _tokens_per_device(o) * o.case.cluster.chip.jax_devices_per_chip),
    _split("tokens_per_slice", "tokens", "Tokens a slice and micro-step.",
           lambda o: _tokens_per_device(o) * o.case.cluster.devices_per_slice),
    _split("tokens_per_step", "tokens", "Tokens an optimizer step.",
           lambda o: o.candidates.global_batch * o.case.workload.sequence_length),
    _split("num_vocab_tiling", "", "Pieces the logits are computed in.", lambda o: o.candidates.num_vocab_tiling),
    _split("is_full_remat", TRUTH, "Whether nothing but layer inputs is kept for the backward pass.",
           lambda o: _policies(o, lambda p: not p.device and not p.offload)),
    _split("keeps_context", TRUTH, "Whether the attention kernel's residuals are kept, so that it is not run again.",
           lambda o: _policies(o, lambda p: "context" in p.device | p.offload)),
    _split("is_custom_remat", TRUTH, "Whether the remat policy names its own tensors.",
           lambda o: _policies(o, lambda p: p.name == "custom")),
    _split("offloaded_tensors", "", "Named activations kept in host memory.",
           lambda o: _policies(o, lambda p: len(p.offload))),
    Fact("attention_block_tokens", "tokens", "Side of a flash-attention tile; the one wanted where none fills the sequence.",
         lambda o: attention_tile(o.case) or o.case.runtime.attention_tile_tokens),
    Fact("pipeline_blocks", "", "Blocks of layers that can be spread over pipeline stages; 1 if none.",
         lambda o: pipelined_blocks(o.case.architecture)),
    _split("layers_per_stage", "", "Blocks a pipeline stage runs a visit.",
           lambda o: layers_per_stage(o.case, o.candidates.degree("pipeline"))),
    Fact("is_long", TRUTH, "Whether the profile says long context.", lambda o: o.profile.context == "long"),
    Fact("is_very_large", TRUTH, "Whether state and gradients outgrow one slice.", lambda o: o.profile.is_very_large),
    Fact("state_bytes", "bytes", "Weights, optimizer state and gradients of the whole model.",
         lambda o: o.profile.state_bytes),
    Fact("slice_bytes", "bytes", "Usable HBM of one slice.", lambda o: o.profile.slice_bytes),
    Fact("precision", CHOICE, "Precision of the matmuls.", lambda o: o.case.workload.precision, ("bf16", "fp8")),
    Fact("quantization", CHOICE, "MaxText's quantization recipe.", lambda o: o.case.recipe, ("none", "int8", "fp8", "fp8_full")),
    Fact("attention_kernel", CHOICE, "Attention kernel: tiled in VMEM, or with the whole score matrix in HBM.",
         lambda o: o.case.runtime.attention, ("flash", "dot_product")),
    Fact("is_tokamax", TRUTH, "Whether the tokamax splash kernel is used.", lambda o: o.case.runtime.tokamax_splash),
    Fact("is_dropless", TRUTH, "Whether experts run as grouped matmuls that drop no token (sparse_matmul).",
         lambda o: o.case.runtime.sparse_matmul),
    Fact("is_megablox", TRUTH, "Whether grouped matmuls use the megablox kernel.", lambda o: o.case.runtime.megablox),
    Fact("capacity_factor", "", "Capacity of an expert over its fair share; negative for none.",
         lambda o: o.case.runtime.capacity_factor),
    Fact("ragged_buffer_factor", "", "Size of the routed-token buffer over the balanced one; negative for the worst case.",
         lambda o: o.case.runtime.ragged_buffer_factor),
    Fact("context_strategy", CHOICE, "How attention sees the other context shards.",
         lambda o: o.case.runtime.context_strategy, ("all_gather", "ring", "ulysses")),
    Fact("is_load_balanced", TRUTH, "Whether context shards are interleaved so that causal work is even.",
         lambda o: o.case.runtime.context_load_balance),
    Fact("optimizer", CHOICE, "Optimizer.", lambda o: o.case.workload.optimizer.name,
         ("adamw", "adam_pax", "sgd", "muon")),
    Fact("sets_first_moment", TRUTH, "Whether the case sets a type for the first moment.",
         lambda o: o.case.workload.optimizer.first_moment_dtype is not None),
    Fact("offloads_optimizer", TRUTH, "Whether moments live in host memory.",
         lambda o: o.case.workload.optimizer.host_offload),
    Fact("has_float32_moments", TRUTH, "Whether both moments are float32.",
         lambda o: {o.case.workload.optimizer.weight_dtype, o.case.workload.optimizer.mu_dtype} == {"float32"}),
    Fact("has_tuned_flags", TRUTH, "Whether the run uses the published LIBTPU flags of its chip.",
         lambda o: o.case.runtime.tuned_flags),
)  # fmt: skip
