"""Combinations of keys that MaxText's configuration refuses whatever the mesh, and that no rule on a Case can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shardplan.maxtext.keys import MUON_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.loaders.maxtext_flags.settings import Settings


@dataclass(frozen=True, slots=True)
class Switch:
    """A combination of keys that MaxText's configuration refuses."""

    key: str
    """The key to blame."""
    is_wrong: Callable[[Settings], bool]
    message: str
    since: str | None = None
    """The first release that refuses it, if older ones with these keys do not."""


def _whole_model_is_experts(settings: Settings) -> bool:
    """Whether every layer is a mixture of experts whose width MaxText wants in base_mlp_dim too."""
    plain = (
        settings["interleave_moe_layer_step"] == 1
        and settings["first_num_dense_layers"] == 0
        and settings["inhomogeneous_layer_cycle_interval"] == 1
    )
    return settings["num_experts"] > 1 and plain and settings["decoder_block"] not in {"qwen3_moe", "gemma4"}


def _has_whole_groups(experts: int, groups: int) -> bool:
    """Whether every routing group has the same number of experts, and the two best that its score is made of."""
    return experts % groups == 0 and experts // groups > 1


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
        since="0.1.0",
    ),
    Switch(
        "base_num_kv_heads",
        lambda s: s["base_num_kv_heads"] > 0 and s["base_num_query_heads"] % s["base_num_kv_heads"] != 0,
        "base_num_kv_heads must divide base_num_query_heads",
    ),
    Switch(
        "n_routing_groups",
        lambda s: (
            s["decoder_block"] == "deepseek"
            and (s["n_routing_groups"] or -1) > 0
            and not _has_whole_groups(s["num_experts"], s["n_routing_groups"])
        ),
        "n_routing_groups must divide num_experts into groups of at least 2",
    ),
    Switch(
        "num_experts_per_tok",
        lambda s: s["num_experts_per_tok"] > s["num_experts"] > 1,
        "num_experts_per_tok is more than num_experts",
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
        since="0.2.5",
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
        since="0.2.5",
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
    Switch(
        "capacity_factor",
        lambda s: s["decoder_block"] == "llama4" and s["capacity_factor"] >= 0,
        "decoder block llama4 needs capacity_factor=-1",
    ),
    Switch(
        "num_experts_per_tok",
        lambda s: s["decoder_block"] == "llama4" and s["num_experts_per_tok"] > 1,
        "decoder block llama4 needs num_experts_per_tok=1",
    ),
    Switch(
        "interleave_moe_layer_step",
        lambda s: (
            s["decoder_block"] in {"llama4", "envy"}
            and s["base_num_decoder_layers"] % max(1, s["interleave_moe_layer_step"]) != 0
        ),
        "base_num_decoder_layers must be a multiple of interleave_moe_layer_step",
    ),
    Switch(
        "opt_type",
        lambda s: s["opt_type"] == "muon" and s["decoder_block"] not in MUON_BLOCKS,
        f"opt_type=muon is for the decoder blocks {', '.join(sorted(MUON_BLOCKS))} only",
    ),
    Switch(
        "context_parallel_strategy",
        lambda s: s["context_parallel_strategy"] in {"ring", "ulysses"} and s["attention"] == "autoselected",
        "context_parallel_strategy=ring and ulysses need attention=flash to be said",
        since="0.2.4",
    ),
    Switch(
        "global_parameter_scale",
        lambda s: s["global_parameter_scale"] < 1 or s["global_parameter_scale"].bit_count() != 1,
        "global_parameter_scale must be a power of two",
    ),
)
"""Source: MaxText 0.2.5 configs/types.py, set_derived_and_validate_values; rows D3, E2, E5, E11-E13, E22, A7, B7, O2, Q3, O11."""


def check_switches(settings: Settings) -> None:
    """Note every combination of keys that the settings' release refuses, whatever the mesh."""
    release = settings.table.release
    for switch in SWITCHES:
        if (switch.since is None or release.has(switch.since)) and switch.is_wrong(settings):
            settings.refuse("SP015", switch.key, switch.message)
