"""What MaxText refuses on a given mesh and that no Case remembers: attention tiles, routing switches, pipeline repeats.

What a Case can tell is judged by the rules of `rules/maxtext.yaml`. Numbers such as A1 are rows of the reference's checklist.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from shardplan.maxtext.tiles import (
    EXPERT_TILE,
    KERNELS,
    LANES,
    LOCAL,
    SMALLEST_FLASH_TOKENS,
    nearest_tile,
    scaled_tiles,
    span_of,
    wrong_tiles,
)
from shardplan.spec import default_microbatches

if TYPE_CHECKING:
    from shardplan.loaders.maxtext_flags.settings import Settings
    from shardplan.maxtext.tiles import Kernel
    from shardplan.spec import Architecture

_MOST_MICROBATCHES: Final = 1_000_000
_ONLY_WITH_EXPERT_AXIS: Final = ("use_random_routing", "use_ragged_sort")


def kernel_of(settings: Settings) -> str:
    """The attention kernel, with MaxText's own choice made."""
    if settings["attention"] != "autoselected":
        return str(settings["attention"])
    return "flash" if settings["max_target_length"] >= SMALLEST_FLASH_TOKENS else "dot_product"


def tile_of(settings: Settings, key: str) -> int:
    """Tokens of a tile; one for windowed layers is as for the others unless it is given."""
    own = settings[key]
    return int(settings[key.removeprefix(LOCAL)] if own is None else own)


def kernels_in_use(settings: Settings, prefix: str = "") -> tuple[Kernel, ...]:
    """The kernels whose tiles count: a fused backward pass has no second one."""
    fused = settings[f"{prefix}sa_use_fused_bwd_kernel"]
    if fused is None:
        fused = settings["sa_use_fused_bwd_kernel"]
    used = KERNELS[:2] if settings["use_tokamax_splash"] or fused else KERNELS
    return tuple(kernel.of(prefix) for kernel in used)


def check_tiles(settings: Settings, architecture: Architecture, context: int) -> None:
    """A1, A2: attention tiles must fill what they lie on, those of windowed layers too."""
    sequence, strategy = settings["max_target_length"], settings["context_parallel_strategy"]
    if kernel_of(settings) != "flash" or sequence < 1 or sequence % context:
        return
    span = span_of(sequence, context, strategy)
    windows = {layer.attention.window_kind if layer.attention.window else "" for layer, _ in architecture.layers}
    for prefix, kinds in (("", windows - {"sliding"}), (LOCAL, windows & {"sliding"})):
        if not kinds:
            continue
        for key, message, best in wrong_tiles(partial(tile_of, settings), span, kernels_in_use(settings, prefix)):
            base = key.removeprefix(LOCAL)
            blamed = key if key in settings.given or base not in settings.given else base
            if blamed not in settings.given:
                blamed = "max_target_length"
            hint = "no tile would do; attention=dot_product has none" if best is None else f"{key}={best} would do"
            settings.refuse("SP015", blamed, message, hint)


def check_expert_tiles(settings: Settings, architecture: Architecture, tensor: int) -> None:
    """Q5: tiles of fp8 grouped matmuls must divide the columns, of which each has a scale; megablox is the kernel with such tiles."""
    is_scaled = settings["quantization"] == "fp8_full" and settings["use_qwix_quantization"]
    is_grouped = settings["sparse_matmul"] and settings["megablox"] and not settings["use_tokamax_gmm"]
    widths = {layer.feed_forward.width for layer, _ in architecture.layers if layer.feed_forward.is_moe}
    if not (is_scaled and is_grouped):
        return
    for width in sorted(widths):
        for key, columns in scaled_tiles(max(1, width // tensor), architecture.model_width).items():
            tile = settings[key] or EXPERT_TILE
            if tile < 1 or columns % tile or (tile % LANES and tile != columns):
                how = f"must divide the {columns:,} columns it lies on into whole {LANES}s"
                message = f"{key}={tile} {how}: each column has a scale of its own in fp8"
                hint = f"{key}={nearest_tile(EXPERT_TILE, columns) or columns} would do"
                settings.refuse("SP015", key if key in settings.given else "quantization", message, hint)


def check_expert_switches(settings: Settings, expert: int) -> None:
    """E1: switches of the expert-parallel path without an expert axis, refused since 0.2.4."""
    if expert > 1 or not settings.table.release.has("0.2.4") or settings["override_logical_axis_rules"]:
        return
    for key in _ONLY_WITH_EXPERT_AXIS:
        if settings[key] is True:
            hint = f"set {key}=false, or ici_expert_parallelism above 1"
            settings.refuse("SP015", key, f"{key}=true needs an expert axis of more than 1", hint)
    if settings.given.get("eval_ragged_buffer_factor", -1) != -1:
        message = "eval_ragged_buffer_factor needs an expert axis of more than 1"
        settings.refuse("SP015", "eval_ragged_buffer_factor", message)


def microbatches_of(settings: Settings, architecture: Architecture, stages: int) -> int | None:
    """Pipeline microbatches, None without a pipeline; P1: repeats must agree with stages and layers."""
    if stages <= 1:
        return None
    per_stage = max(1, settings["num_layers_per_pipeline_stage"])
    last, asked = architecture.layer_groups[-1], settings["pipeline_parallel_layers"]
    piped = last.count
    if last.layers_per_block > 1:
        piped = settings["base_num_decoder_layers"]
        message = (
            "a pipeline over blocks of several layers cannot be modelled yet: MaxText builds a block for every layer"
        )
        settings.cannot("ici_pipeline_parallelism", message)
    if asked not in {-1, piped}:
        message = f"pipeline_parallel_layers={asked} cannot be modelled yet; the whole stack has {piped}"
        settings.cannot("pipeline_parallel_layers", message)
        piped = min(asked, piped)
    repeats, expected = settings["num_pipeline_repeats"], piped // (stages * per_stage)
    if repeats not in {-1, expected} and piped % (stages * per_stage) == 0:
        message = f"num_pipeline_repeats={repeats}, but {piped} layers / ({stages} stages x {per_stage}) = {expected}"
        settings.refuse("SP015", "num_pipeline_repeats", message)
    is_dropless = architecture.is_moe and settings["sparse_matmul"]
    if last.layers_per_block > 1 and expected > 1 and is_dropless and not settings["pipeline_fsdp_ag_per_repeat"]:
        hint = "use pipeline_fsdp_ag_per_repeat=true or sparse_matmul=false"
        message = f"a dropless mixture of experts cannot go {expected} rounds through the pipeline"
        settings.refuse("SP562", "num_layers_per_pipeline_stage", message, hint)
    microbatches = settings["num_pipeline_microbatches"]
    if microbatches == -1:
        microbatches = default_microbatches(stages, delayed=settings["pipeline_delay_activation_forwarding"])
        settings.echo.append(f"num_pipeline_microbatches=-1 -> {microbatches}")
    if microbatches < 1:
        message = f"num_pipeline_microbatches is {microbatches}; expected at least 1, or -1 for one a stage"
        settings.refuse("SP013", "num_pipeline_microbatches", message)
        return None
    if microbatches > _MOST_MICROBATCHES:
        message = f"num_pipeline_microbatches is {microbatches}; expected at most {_MOST_MICROBATCHES:,}"
        settings.cannot("num_pipeline_microbatches", message)
        return None
    return int(microbatches)
