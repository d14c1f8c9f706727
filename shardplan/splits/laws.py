"""What makes a split legal: one function a law, true where it holds, said once for the search, the rules and `check`.

A law takes a case and candidates and returns a column `(n,)`, or one truth for the whole case. Its name is that of the fact by
which a rule of the catalogue forbids what breaks it; its first line is what the fact means. The enumeration cuts by the laws,
and by those of `prunes` before a mesh is whole: what they refuse stays refused whatever the degrees of other axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from shardplan.maxtext.axes import BATCH_AXES, FEED_FORWARD_AXES, WIDTH_AXES
from shardplan.maxtext.tables import axes_of
from shardplan.maxtext.tiles import LANES
from shardplan.spec import AXES
from shardplan.splits.pipeline import layers_per_stage, pipeline_repeats
from shardplan.splits.sizes import Sizes, attention_tile, pipelined_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Bools

Holds: TypeAlias = Any
"""A column of truths `(n,)`, or one truth."""

BOUNDS: Final = {
    "max_data_parallelism": ("data",),
    "max_fsdp_parallelism": ("fsdp", "fsdp_transpose"),
    "max_tensor_parallelism": ("tensor",),
    "max_context_parallelism": ("context",),
    "max_expert_parallelism": ("expert",),
    "max_pipeline_parallelism": ("pipeline",),
}
"""The axes whose product a bound of the case limits; transposed FSDP is FSDP along another dimension."""
DCN_AXES: Final = ("data", "pipeline", "fsdp")
"""Axes that may cross slices: the others communicate inside every layer, where the data centre network is ~10x slower."""
INNER_AXES: Final = tuple(axis for axis in AXES if axis not in DCN_AXES)
LARGEST_CHUNKED_TOKAMAX: Final = 2
"""Context shards over which tokamax can split the masks of windows. Source: traced; MaxText check C11."""


@dataclass(frozen=True, slots=True)
class Law:
    """One law, with the rule that forbids what breaks it."""

    code: str
    holds: Callable[[Case, Candidates], Holds]
    prunes: tuple[str, ...] = ()
    """Axes of which higher degrees can only break it; none if it must see the whole mesh."""

    @property
    def name(self) -> str:
        """What rules call it."""
        return self.holds.__name__

    @property
    def about(self) -> str:
        """What it says."""
        return (self.holds.__doc__ or "").partition("\n")[0]

    def mask(self, case: Case, candidates: Candidates) -> Bools:
        """Where it holds, `(n,)`."""
        held = np.asarray(self.holds(case, candidates), dtype=np.bool_)
        return np.broadcast_to(held, (len(candidates),))


# --- the mesh: bounds and layout -----------------------------------------------------------------------------------


def is_within_bounds(case: Case, c: Candidates) -> Holds:
    """Whether every degree keeps the bounds of the case, that of FSDP together with transposed FSDP."""
    within: Holds = True
    for name, axes in BOUNDS.items():
        if (most := getattr(case.constraints, name)) is not None:
            within = within & (c.degree(*axes) <= most)
    return within


def release_has_axes(case: Case, c: Candidates) -> Holds:
    """Whether MaxText has every axis in use, in the release that is asked for."""
    known = axes_of(case.runtime.maxtext)
    return np.all([c.degree(axis) == 1 for axis in AXES if axis not in known], axis=0)


def can_be_laid_out(case: Case, c: Candidates) -> Holds:
    """Whether each axis is whole physical axes of the torus, or may split them."""
    return ~c.needs_split | (case.plan or case.constraints).allow_split_physical_axes


def keeps_inner_axes_inside(_: Case, c: Candidates) -> Holds:
    """Whether only data, fsdp and pipeline parallelism cross slices."""
    return np.all([c.dcn.column(axis) == 1 for axis in INNER_AXES], axis=0)


# --- the mesh: what degrees divide ---------------------------------------------------------------------------------


def tensor_divides(case: Case, c: Candidates) -> Holds:
    """Whether tensor parallelism divides heads, vocabulary and model width."""
    sizes, architecture = Sizes.of(case.architecture), case.architecture
    common = np.gcd.reduce((sizes.query_heads, sizes.kv_heads, architecture.vocab_size, architecture.model_width))
    return common % c.degree("tensor") == 0


def feed_forward_divides(case: Case, c: Candidates) -> Holds:
    """Whether fsdp_transpose x tensor divides every feed-forward width."""
    return Sizes.of(case.architecture).feed_forward_width % c.degree(*FEED_FORWARD_AXES) == 0


def width_divides(case: Case, c: Candidates) -> Holds:
    """Whether fsdp x fsdp_transpose x context x expert divides model width and latent ranks."""
    common = np.gcd(case.architecture.model_width, Sizes.of(case.architecture).latent_rank)
    return common % c.degree(*WIDTH_AXES) == 0


def experts_divide(case: Case, c: Candidates) -> Holds:
    """Whether expert parallelism divides the experts, if there are any."""
    return Sizes.of(case.architecture).experts % c.degree("expert") == 0


def has_experts_to_split(case: Case, c: Candidates) -> Holds:
    """Whether an expert axis has experts; in a dense model it is only more fsdp."""
    return case.architecture.is_moe or c.degree("expert") == 1


# --- attention -----------------------------------------------------------------------------------------------------


def sequence_has_tiles(case: Case, _: Candidates) -> Holds:
    """Whether the sequence can be cut into attention tiles, or the kernel has none."""
    return case.runtime.attention != "flash" or attention_tile(case) is not None


def context_has_tiles(case: Case, c: Candidates) -> Holds:
    """Whether context shards are equal, and whole attention tiles where the kernel has any."""
    runtime, context = case.runtime, c.degree("context")
    tile = 1
    if runtime.attention == "flash" and runtime.context_strategy != "ulysses":
        tile = LANES if runtime.context_strategy == "ring" else attention_tile(case) or 1
    return (context == 1) | (case.workload.sequence_length % (context * tile) == 0)


def context_is_balanced(case: Case, c: Candidates) -> Holds:
    """Whether load-balanced context parallelism has an even degree and two equal pieces a device."""
    if not case.runtime.context_load_balance:
        return True
    context = c.degree("context")
    return (context == 1) | ((context % 2 == 0) & (case.workload.sequence_length % (2 * context) == 0))


def can_ring(case: Case, c: Candidates) -> Holds:
    """Whether ring attention is possible, where the case asks for it."""
    runtime, context = case.runtime, c.degree("context")
    if runtime.context_strategy != "ring":
        return True
    kinds = [layer.attention for layer, _ in case.architecture.layers]
    refused = any(a.sinks or (a.kind == "mla" and runtime.packing) for a in kinds)
    if refused or runtime.attention != "flash" or not runtime.tokamax_splash:
        return False
    return (context > 1) & (case.workload.sequence_length % context**2 == 0)


def can_exchange_heads(case: Case, c: Candidates) -> Holds:
    """Whether Ulysses attention is possible, where the case asks for it."""
    runtime, context = case.runtime, c.degree("context")
    if runtime.context_strategy != "ulysses":
        return True
    sizes, kinds = Sizes.of(case.architecture), [layer.attention for layer, _ in case.architecture.layers]
    if runtime.attention != "flash" or not runtime.tokamax_splash or runtime.context_load_balance:
        return False
    if any(a.sinks or a.kind == "mla" for a in kinds):
        return False
    common = np.gcd(sizes.kv_heads, sizes.query_heads)
    return (context > 1) & (c.dcn.context == 1) & (common % c.degree("context", "tensor") == 0)


def sees_all_tokens(case: Case, _: Candidates) -> Holds:
    """Whether layers with windows keep to the all-gather strategy."""
    return case.runtime.context_strategy == "all_gather" or not _windows(case)


def tokamax_splits_windows(case: Case, c: Candidates) -> Holds:
    """Whether the tokamax kernel can split the masks of windowed layers over the context axis."""
    runtime, windows = case.runtime, _windows(case)
    if runtime.attention != "flash" or not runtime.tokamax_splash or not windows:
        return True
    return c.degree("context") <= (1 if "chunked" in windows else LARGEST_CHUNKED_TOKAMAX)


def prediction_sees_order(case: Case, c: Candidates) -> Holds:
    """Whether multi-token prediction finds the tokens of a context shard in order."""
    modules, runtime = case.architecture.n_mtp_layers, case.runtime
    disordered = modules > 0 and runtime.context_load_balance
    return (c.degree("context") == 1) | (not (disordered or (modules > 1 and runtime.packing)))


# --- experts, pipeline, optimizer ----------------------------------------------------------------------------------


def ragged_buffer_has_experts(case: Case, c: Candidates) -> Holds:
    """Whether a ragged buffer has an expert axis to belong to."""
    return case.runtime.ragged_buffer_factor <= 0 or c.degree("expert") > 1


def layers_divide_into_stages(case: Case, c: Candidates) -> Holds:
    """Whether the blocks that can be pipelined divide into whole rounds of the stages."""
    stages = c.degree("pipeline")
    per_round = stages * layers_per_stage(case, stages)
    return (stages == 1) | (pipelined_blocks(case.architecture) % per_round == 0)


def stages_take_experts_once(case: Case, c: Candidates) -> Holds:
    """Whether dropless experts go through the pipeline in one round, or gather their weights every round."""
    runtime = case.runtime
    if not (case.architecture.is_moe and runtime.sparse_matmul) or runtime.pipeline_gather_weights == "per_repeat":
        return True
    return pipeline_repeats(case, c.degree("pipeline")) == 1


def can_gather_per_repeat(case: Case, c: Candidates) -> Holds:
    """Whether weights can be gathered every round, where the case asks for it."""
    runtime, stages = case.runtime, c.degree("pipeline")
    if runtime.pipeline_gather_weights != "per_repeat":
        return True
    if runtime.pipeline_delay_activations or case.recipe != "none":
        return stages == 1
    goes_round = (pipeline_repeats(case, stages) > 1) & (layers_per_stage(case, stages) == 1)
    return (stages == 1) | goes_round


def stage_is_scanned(case: Case, c: Candidates) -> Holds:
    """Whether a stage of a single layer is scanned."""
    stages = c.degree("pipeline")
    return case.runtime.scan_layers or ((stages == 1) | (layers_per_stage(case, stages) > 1))


def router_can_be_staged(case: Case, c: Candidates) -> Holds:
    """Whether no router of a pipeline adds balancing biases."""
    biased = any(layer.feed_forward.score_bias for layer, _ in case.architecture.layers)
    return not biased or c.degree("pipeline") == 1


def optimizer_is_split_once(case: Case, c: Candidates) -> Holds:
    """Whether moments are split over data or by FSDP, not by both."""
    return not case.workload.optimizer.shard_over_data or c.degree("fsdp", "fsdp_transpose") == 1


def optimizer_has_moments(case: Case, _: Candidates) -> Holds:
    """Whether there are moments to split, where the case asks for it."""
    optimizer = case.workload.optimizer
    return not optimizer.shard_over_data or optimizer.name != "sgd"


# --- the batch -----------------------------------------------------------------------------------------------------


def rows_are_whole(_: Case, c: Candidates) -> Holds:
    """Whether the sequences of a micro-step are a whole number of at least one, as MaxText cuts them off."""
    wanted = c.per_device_batch * c.devices
    return (c.rows >= 1) & (np.floor(wanted) == c.rows) & (np.abs(wanted - c.rows) <= _ROUNDING * c.rows)


def tokens_fill_tiles(case: Case, c: Candidates) -> Holds:
    """Whether the tokens of a device divide into the pieces of the vocabulary's tiling; whole ones with one piece."""
    return c.per_device_batch * case.workload.sequence_length % c.num_vocab_tiling == 0


def rows_spread(_: Case, c: Candidates) -> Holds:
    """Whether the sequences of a micro-step, or of one of its microbatches, spread evenly over the batch axes."""
    return c.rows % (c.degree(*BATCH_AXES) * c.pipeline_microbatches) == 0


def loaded_rows_spread(_: Case, c: Candidates) -> Holds:
    """Whether the sequences of an optimizer step spread evenly over batch axes and stages."""
    return c.loaded_rows % (c.degree(*BATCH_AXES, "pipeline")) == 0


def microbatches_fill_stages(case: Case, c: Candidates) -> Holds:
    """Whether microbatches are dealt out to the stages in whole rounds, two at least if activations are delayed."""
    stages, least = c.degree("pipeline"), 2 if case.runtime.pipeline_delay_activations else 1
    whole = (c.pipeline_microbatches % stages == 0) & (c.pipeline_microbatches >= least * stages)
    return (stages == 1) | whole


def statistics_survive_steps(case: Case, c: Candidates) -> Holds:
    """Whether quantization=fp8 keeps its statistics, which several micro-steps would mix."""
    return case.recipe != "fp8" or c.gradient_accumulation == 1


def _windows(case: Case) -> set[str]:
    """Kinds of the windows that layers have."""
    kinds = (layer.attention for layer, _ in case.architecture.layers)
    return {attention.window_kind for attention in kinds if attention.window}


_ROUNDING: Final = 1e-9

MESH_LAWS: Final = (
    Law("SP420", is_within_bounds, AXES),
    Law("SP517", release_has_axes, AXES),
    Law("SP407", keeps_inner_axes_inside, INNER_AXES),
    Law("SP520", tensor_divides, ("tensor",)),
    Law("SP523", feed_forward_divides, FEED_FORWARD_AXES),
    Law("SP524", width_divides, WIDTH_AXES),
    Law("SP529", experts_divide, ("expert",)),
    Law("SP581", has_experts_to_split, ("expert",)),
    Law("SP530", sequence_has_tiles),
    Law("SP540", context_has_tiles, ("context",)),
    Law("SP541", context_is_balanced),
    Law("SP542", can_ring),
    Law("SP543", can_exchange_heads),
    Law("SP544", sees_all_tokens),
    Law("SP545", tokamax_splits_windows, ("context",)),
    Law("SP546", prediction_sees_order, ("context",)),
    Law("SP550", ragged_buffer_has_experts),
    Law("SP560", layers_divide_into_stages, ("pipeline",)),
    Law("SP562", stages_take_experts_once),
    Law("SP563", can_gather_per_repeat),
    Law("SP564", stage_is_scanned),
    Law("SP565", router_can_be_staged, ("pipeline",)),
    Law("SP573", optimizer_is_split_once, ("fsdp", "fsdp_transpose")),
    Law("SP574", optimizer_has_moments),
)
"""Laws of a mesh, in the order in which one that breaks several is counted."""

LAYOUT_LAW: Final = Law("SP403", can_be_laid_out)
"""The law of a mesh on its torus, for which its layout must have been looked for."""

SPLIT_LAWS: Final = (
    Law("SP513", rows_are_whole),
    Law("SP512", tokens_fill_tiles),
    Law("SP510", rows_spread),
    Law("SP511", loaded_rows_spread),
    Law("SP561", microbatches_fill_stages),
    Law("SP571", statistics_survive_steps),
)
"""Laws of a mesh with its batch."""

LAWS: Final = (*MESH_LAWS, LAYOUT_LAW, *SPLIT_LAWS)
