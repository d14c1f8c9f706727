"""What MaxText refuses in flags that no Case remembers: attention tiles, routing switches, pipeline repeats.

What a Case can tell is judged by the rules of `rules/maxtext.yaml`. Numbers such as A1 are rows of the reference's checklist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.loaders.maxtext_flags.settings import Settings
    from shardplan.spec import Architecture

QUERY_TILES: Final = ("sa_block_q", "sa_block_q_dkv", "sa_block_q_dq")
KEY_TILES: Final = ("sa_block_kv", "sa_block_kv_dkv", "sa_block_kv_dq")
COMPUTE_TILES: Final = {"sa_block_kv_compute": "sa_block_kv", "sa_block_kv_dkv_compute": "sa_block_kv_dkv"}
_LANES: Final = 128
_ONLY_WITH_EXPERT_AXIS: Final = ("use_random_routing", "use_ragged_sort")


def check_tiles(settings: Settings, context: int) -> None:
    """A1, A2: tiles that the user chose must divide the sequence, or its shard on the context axis."""
    sequence = settings["max_target_length"]
    if settings["attention"] not in {"autoselected", "flash"} or sequence < _LANES or sequence % context:
        return
    for key in (*QUERY_TILES, *KEY_TILES):
        tile, tokens = settings[key], sequence // context if key in QUERY_TILES else sequence
        if key not in settings.given:
            continue
        if tile < 1:
            settings.refuse("SP013", key, f"{key} is {tile}; expected at least {_LANES}")
        elif tokens % min(tile, sequence):
            what = f"the {tokens:,} tokens of a context shard" if tokens < sequence else f"the {tokens:,} tokens"
            hint = f"the largest power of two that does is {tokens & -tokens}"
            settings.refuse("SP015", key, f"{key}={tile} does not divide {what}", hint)
    for key, outer in COMPUTE_TILES.items():
        compute, tile = settings[key], min(settings[outer], sequence)
        if key in settings.given and (compute < 1 or compute % _LANES or tile % min(compute, sequence)):
            message = f"{key}={compute} must be a multiple of {_LANES} that divides {outer}={settings[outer]}"
            settings.refuse("SP015", key, message)


@dataclass(frozen=True, slots=True)
class Switch:
    """A combination of keys that MaxText's configuration refuses."""

    key: str
    """The key to blame."""
    is_wrong: Callable[[Settings], bool]
    message: str


def _whole_model_is_experts(settings: Settings) -> bool:
    """Whether every layer is a mixture of experts whose width MaxText wants in base_mlp_dim too."""
    plain = (
        settings["interleave_moe_layer_step"] == 1
        and settings["first_num_dense_layers"] == 0
        and settings["inhomogeneous_layer_cycle_interval"] == 1
    )
    return settings["num_experts"] > 1 and plain and settings["decoder_block"] not in {"qwen3_moe", "gemma4"}


SWITCHES: Final = (
    Switch(
        "base_moe_mlp_dim",
        lambda s: s["num_experts"] > 1 and s["base_moe_mlp_dim"] <= 0,
        "num_experts above 1 needs base_moe_mlp_dim",
    ),
    Switch(
        "base_mlp_dim",
        lambda s: _whole_model_is_experts(s) and 0 < s["base_moe_mlp_dim"] != s["base_mlp_dim"],
        "base_mlp_dim and base_moe_mlp_dim must be equal where every layer has experts",
    ),
    Switch(
        "use_gmm_v2",
        lambda s: s["use_gmm_v2"] and not s["use_tokamax_gmm"],
        "use_gmm_v2=true needs use_tokamax_gmm=true",
    ),
    Switch(
        "use_gmm_v2_heuristic_tiling",
        lambda s: s["use_gmm_v2_heuristic_tiling"] and not s["use_gmm_v2"],
        "use_gmm_v2_heuristic_tiling=true needs use_gmm_v2=true",
    ),
    Switch(
        "moe_use_direct_token_gather",
        lambda s: s["moe_use_direct_token_gather"] and s["use_gather_mosaic_kernel"],
        "moe_use_direct_token_gather and use_gather_mosaic_kernel exclude each other",
    ),
    Switch(
        "shard_exp_on_fsdp",
        lambda s: s["shard_exp_on_fsdp"] and s["use_2d_fsdp_sharding"],
        "shard_exp_on_fsdp and use_2d_fsdp_sharding exclude each other",
    ),
    Switch(
        "quantize_mtp",
        lambda s: s["quantize_mtp"] and not (s["mtp_num_layers"] > 0 and s["quantization"] == "fp8_full"),
        "quantize_mtp=true needs mtp_num_layers above 0 and quantization=fp8_full",
    ),
    Switch(
        "quantize_logits_proj",
        lambda s: (
            s["quantize_logits_proj"]
            and (
                s["quantization"] != "fp8_full"
                or s["logits_via_embedding"]
                or s["num_vocab_tiling"] > 1
                or s["logits_dot_in_fp32"]
            )
        ),
        "quantize_logits_proj=true needs quantization=fp8_full, untied embeddings, num_vocab_tiling=1 and no logits_dot_in_fp32",
    ),
    Switch(
        "float32_gate_logits",
        lambda s: (
            bool(s["quantization"])
            and s["use_qwix_quantization"]
            and s["quantize_router_proj"]
            and s["float32_gate_logits"]
        ),
        "float32_gate_logits=true with qwix quantisation needs quantize_router_proj=false",
    ),
    Switch(
        "indexer_cutoff_threshold",
        lambda s: s["indexer_cutoff_threshold"] != "remat" and not s["use_indexer"],
        "indexer_cutoff_threshold needs use_indexer=true",
    ),
    Switch(
        "attention_type",
        lambda s: s["attention_type"] == "chunk" and s["chunk_attn_window_size"] <= 0,
        "attention_type=chunk needs chunk_attn_window_size",
    ),
    Switch(
        "attention_type",
        lambda s: s["attention_type"] == "local_sliding" and s["sliding_window_size"] <= 0,
        "attention_type=local_sliding needs sliding_window_size",
    ),
    Switch(
        "capacity_factor",
        lambda s: s["decoder_block"] == "gpt_oss" and not s["sparse_matmul"] and s["capacity_factor"] != -1,
        "decoder block gpt_oss with sparse_matmul=false needs capacity_factor=-1",
    ),
)
"""Source: MaxText 0.2.5 configs/types.py, set_derived_and_validate_values; rows E2, E5, E11-E13, A7, Q3, O11."""


def check_switches(settings: Settings, expert: int) -> None:
    """Combinations of keys that MaxText refuses, whatever the mesh; and E1, switches that need an expert axis."""
    for switch in SWITCHES:
        if switch.is_wrong(settings):
            settings.refuse("SP015", switch.key, switch.message)
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
    piped, asked = architecture.layer_groups[-1].count, settings["pipeline_parallel_layers"]
    if asked not in {-1, piped}:
        message = f"pipeline_parallel_layers={asked} cannot be modelled yet; the whole stack has {piped}"
        settings.cannot("pipeline_parallel_layers", message)
    if piped % (stages * per_stage):
        message = f"{piped} pipelined layers are not a multiple of {stages} stages x {per_stage} layers a stage"
        settings.refuse("SP015", "num_layers_per_pipeline_stage", message)
        return None
    repeats, expected = settings["num_pipeline_repeats"], piped // (stages * per_stage)
    if repeats not in {-1, expected}:
        message = f"num_pipeline_repeats={repeats}, but {piped} layers / ({stages} stages x {per_stage}) = {expected}"
        settings.refuse("SP015", "num_pipeline_repeats", message)
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
    return int(microbatches)
