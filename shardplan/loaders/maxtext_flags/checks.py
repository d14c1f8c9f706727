"""What MaxText refuses on a given mesh and that no Case remembers: attention tiles, routing switches, pipeline repeats.

What a Case can tell is judged by the rules of `rules/maxtext.yaml`. Numbers such as A1 are rows of the reference's checklist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shardplan.loaders.maxtext_flags.settings import Settings
    from shardplan.spec import Architecture

QUERY_TILES: Final = ("sa_block_q", "sa_block_q_dkv", "sa_block_q_dq")
KEY_TILES: Final = ("sa_block_kv", "sa_block_kv_dkv", "sa_block_kv_dq")
COMPUTE_TILES: Final = {"sa_block_kv_compute": "sa_block_kv", "sa_block_kv_dkv_compute": "sa_block_kv_dkv"}
_LANES: Final = 128
_MOST_MICROBATCHES: Final = 1_000_000
_ONLY_WITH_EXPERT_AXIS: Final = ("use_random_routing", "use_ragged_sort")


def tiles_in_use(settings: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys of the query tiles and of the key tiles that count: a fused backward pass has none of its own for queries."""
    end = 2 if settings["use_tokamax_splash"] or settings["sa_use_fused_bwd_kernel"] else 3
    return QUERY_TILES[:end], KEY_TILES[:end]


def check_tiles(settings: Settings, context: int) -> None:
    """A1, A2: attention tiles must divide the sequence, those of queries its shard on the context axis.

    Ring attention cuts keys into shards too and its tiles to a shard; Ulysses sees whole sequences.
    """
    sequence = settings["max_target_length"]
    if settings["attention"] not in {"autoselected", "flash"} or sequence < _LANES or sequence % context:
        return
    shard, strategy = sequence // context, settings["context_parallel_strategy"]
    spans = {"ring": (shard, shard), "ulysses": (sequence, sequence)}.get(strategy, (shard, sequence))
    longest = shard if strategy == "ring" else sequence
    for keys, tokens in zip(tiles_in_use(settings), spans, strict=True):
        wrong = [key for key in keys if settings[key] < 1 or tokens % min(settings[key], longest)]
        if not wrong:
            continue
        blamed = next((key for key in wrong if key in settings.given), wrong[0])
        shown = ", ".join(f"{key}={settings[key]}" for key in wrong)
        what = f"the {tokens:,} tokens of a context shard" if tokens < sequence else f"a sequence of {tokens:,} tokens"
        hint = f"the largest power of two that does is {tokens & -tokens}"
        settings.refuse("SP015", blamed, f"{shown} must divide {what}", hint)
    for key, outer in COMPUTE_TILES.items():
        compute, tile = settings[key], min(settings[outer], longest)
        if key in settings.given and (compute < 1 or compute % _LANES or tile % min(compute, longest)):
            message = f"{key}={compute} must be a multiple of {_LANES} that divides {outer}={settings[outer]}"
            settings.refuse("SP015", key, message)


def check_expert_switches(settings: Settings, expert: int) -> None:
    """E1: switches of the expert-parallel path without an expert axis."""
    if expert > 1 or settings["override_logical_axis_rules"]:
        return
    for key in _ONLY_WITH_EXPERT_AXIS:
        if settings[key] is True:
            hint = f"set {key}=false, or ici_expert_parallelism above 1"
            settings.refuse("SP015", key, f"{key}=true needs an expert axis of more than 1", hint)
    if settings.given.get("eval_ragged_buffer_factor", -1) != -1:
        message = "eval_ragged_buffer_factor needs an expert axis of more than 1"
        settings.refuse("SP015", "eval_ragged_buffer_factor", message)


def microbatches_of(settings: Settings, architecture: Architecture, stages: int) -> int | None:
    """Pipeline microbatches, None without a pipeline; P1, P2: stages, layers, repeats and microbatches must agree."""
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
    if piped % (stages * per_stage):
        message = f"{piped} pipelined layers are not a multiple of {stages} stages x {per_stage} layers a stage"
        legal = [str(n) for n in range(1, piped + 1) if piped % (n * per_stage) == 0]
        hint = f"with {per_stage} a stage they divide into {', '.join(legal)} stages" if legal else None
        settings.refuse("SP015", "num_layers_per_pipeline_stage", message, hint)
        return None
    repeats, expected = settings["num_pipeline_repeats"], piped // (stages * per_stage)
    if repeats not in {-1, expected}:
        message = f"num_pipeline_repeats={repeats}, but {piped} layers / ({stages} stages x {per_stage}) = {expected}"
        settings.refuse("SP015", "num_pipeline_repeats", message)
    is_dropless = architecture.is_moe and settings["sparse_matmul"]
    if last.layers_per_block > 1 and expected > 1 and is_dropless and not settings["pipeline_fsdp_ag_per_repeat"]:
        hint = "use pipeline_fsdp_ag_per_repeat=true or sparse_matmul=false"
        message = f"a dropless mixture of experts cannot go {expected} rounds through the pipeline"
        settings.refuse("SP562", "num_layers_per_pipeline_stage", message, hint)
    microbatches, delay = (
        settings["num_pipeline_microbatches"],
        settings["pipeline_delay_activation_forwarding"],
    )
    if microbatches == -1:
        microbatches = stages * (2 if delay else 1)
        settings.echo.append(f"num_pipeline_microbatches=-1 -> {microbatches}")
    if microbatches < stages * (2 if delay else 1) or microbatches % stages:
        least = f", at least {2 * stages} with delayed activations" if delay else ""
        message = f"num_pipeline_microbatches is {microbatches}; expected a multiple of the {stages} stages{least}"
        settings.refuse("SP015", "num_pipeline_microbatches", message)
        return None
    if microbatches > _MOST_MICROBATCHES:
        message = f"num_pipeline_microbatches is {microbatches}; expected at most {_MOST_MICROBATCHES:,}"
        settings.cannot("num_pipeline_microbatches", message)
        return None
    return int(microbatches)
