"""Write rules/maxtext/keys.json: every configuration key of the installed MaxText, with type, default and effect.

Run with a Python that has MaxText: `python benchmarks/maxtext_keys.py rules/maxtext/keys.json`. Types come from
MaxText's pydantic configuration, defaults from its base.yml; the effect of a key is decided here, by hand.
"""

from __future__ import annotations

import enum
import importlib.metadata
import json
import os
import sys
import types
import typing
from pathlib import Path
from typing import Any

os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1")

AXES = ("data", "pipeline", "fsdp", "fsdp_transpose", "context", "tensor", "expert")
REMAT = """decoder_layer_input context mlpwi mlpwi_0 mlpwi_1 mlpwo moe_mlpwi_0 moe_mlpwi_1 moe_mlpwo moe_x_sorted
    moe_routing_maps query_proj key_proj value_proj kv_proj qkv_proj query_wa_proj kv_wa_proj mla_q mla_kv
    attention_out out_proj"""

MODELLED = f"""model_name override_model_config per_device_batch_size max_target_length gradient_accumulation_steps
    remat_policy {REMAT} indexer_cutoff_threshold engram
    dtype weight_dtype grad_dtype mu_dtype opt_type optimizer_memory_host_offload shard_optimizer_over_data
    quantization use_qwix_quantization attention use_tokamax_splash use_iota_embed sparse_matmul megablox
    capacity_factor ragged_buffer_factor cast_logits_to_fp32 float32_weight_sum scan_layers context_parallel_strategy
    context_parallel_load_balance num_vocab_tiling num_layers_per_pipeline_stage num_pipeline_repeats
    pipeline_parallel_layers num_pipeline_microbatches pipeline_delay_activation_forwarding pipeline_fsdp_ag_once
    pipeline_fsdp_ag_per_repeat allow_split_physical_axes compile_topology compile_topology_num_slices num_slices
    sa_block_q sa_block_kv sa_block_kv_compute sa_block_q_dkv sa_block_kv_dkv sa_block_kv_dkv_compute sa_block_q_dq
    sa_block_kv_dq sa_use_fused_bwd_kernel
    {" ".join(f"{net}_{axis}_parallelism" for net in ("ici", "dcn") for axis in AXES)}"""
ARCHITECTURE = """decoder_block global_parameter_scale base_emb_dim base_num_query_heads base_num_kv_heads base_mlp_dim
    base_num_decoder_layers head_dim mlp_activations logits_via_embedding vocab_size num_experts num_experts_per_tok
    shared_experts base_moe_mlp_dim first_num_dense_layers interleave_moe_layer_step attention_type
    sliding_window_size chunk_attn_window_size nope_layer_interval q_lora_rank kv_lora_rank qk_nope_head_dim
    qk_rope_head_dim v_head_dim use_qk_norm qk_norm_with_scale attention_bias attention_sink mlp_bias
    use_post_attn_norm use_post_ffw_norm trainable_position_size inhomogeneous_layer_cycle_interval mtp_num_layers
    routed_bias fused_qkv fused_mlp"""
# Accepted, priced as if absent: small or unknown effect, reported as a note.
APPROXIMATE = """use_tokamax_gmm use_gmm_v2 use_gmm_v2_heuristic_tiling matmul_precision activations_in_float32
    float32_gate_logits logits_dot_in_fp32 float32_qk_product float32_logits prefuse_moe_weights fuse_expert_scales
    shard_exp_on_fsdp use_2d_fsdp_sharding vocab_tiling_ag_once use_ragged_sort merge_gating_gmm param_scan_axis
    scan_pipeline_iterations scan_pipeline_repeats scan_layers_per_stage set_remat_policy_on_pipeline_iterations
    set_remat_policy_on_layers_per_stage shardy muon_type muon_include_routers muon_use_all_to_all
    quantize_router_proj quantize_logits_proj quantize_mtp dense_fsdp_use_two_stage_all_gather
    moe_fsdp_use_two_stage_all_gather moe_pin_sparse_core_all_gathers moe_pin_sparse_core_ep_all_gathers
    moe_pin_sparse_core_fsdp_all_gathers moe_pin_sparse_core_fsdp_all_gathers_fwd_only
    sa_bwd_dkv_megacore dq_reduction_steps use_max_logit_estimate use_splash_scheduler dropout_rate
    use_random_routing use_custom_sort_vjp router_topk_matmul_vjp enable_rampup_batch_size
    moe_use_direct_token_gather use_gather_mosaic_kernel optimize_mesh_for_tpu_v6e shard_mode ring_scan_unroll
    context_parallel_reorder_strategy skip_step_on_spikes trainable_parameters_mask use_sft use_tunix_gradient_accumulation elastic_enabled
    optimize_mesh_for_tpu_v6e compile_xla_flags check_vma remove_size_one_mesh_axis_from_type"""
# Cannot be modelled: any value but the default is refused by name.
REFUSED = """logical_axis_rules logical_axis_rules_for_eval override_logical_axis_rules mesh_axes data_sharding
    context_sharding ulysses_context_sharding custom_mesh custom_mesh_and_rule custom_mesh_and_rule_for_eval
    internal_compile subslice_shape input_data_sharding_logical_axes enable_diloco enable_streaming_diloco
    use_indexer use_batch_split_schedule use_manual_quantization use_lineage use_m3_model use_dpo use_grpo
    dpo lora lora.enable_lora lora_input_adapters_path hf_lora_adapter_path use_multimodal use_audio parameter_memory_host_offload
    use_ring_of_experts num_moe_token_chunks num_moe_emb_chunks moe_topk_before_ep_all_gather te_moe_block
    te_gmm_quantization moe_quantize_token_all_gather moe_quantize_combine_bwd_method shard_embed_moe_on_fsdp
    moe_dispatch_no_expert_sharding moe_dropless_fallback moe_expert_input_dim padded_base_moe_mlp_dim
    attention_output_dim share_kv_projections global_num_kv_heads global_head_dim hidden_size_per_layer_input
    vocab_size_per_layer_input num_kv_shared_layers use_double_wide_mlp moba o_lora_rank o_groups compress_ratios
    first_num_hash_layers mhc_expansion_rate engram_layers partial_rotary_factor use_sliced_mla_proj
    use_mla_absorbed_mqa use_jax_splash use_ragged_attention experimental_sa_quant_q_fp8 experimental_sa_quant_k_fp8
    force_q_layout use_qk_clip mla_qk_head_chunk_size csa_qk_head_chunk_size use_untrainable_positional_embedding
    training_objective hardware weight_sparsity_n weight_sparsity_m
    quant_cfg_path base_config
    ici_diloco_parallelism dcn_diloco_parallelism
    ici_context_usp_ulysses_parallelism dcn_context_usp_ulysses_parallelism
    ici_context_autoregressive_parallelism dcn_context_autoregressive_parallelism
    ici_tensor_sequence_parallelism dcn_tensor_sequence_parallelism
    ici_autoregressive_parallelism dcn_autoregressive_parallelism"""
IGNORED = "ici_sequence_parallelism dcn_sequence_parallelism"
"""Accepted by MaxText without effect."""


def kind(annotation: Any) -> str | list[Any]:  # noqa: PLR0911 - one return a form
    """Short name of a type: bool, int, float, text, list, map, any, or the list of choices; `?` where null is allowed."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return kind(typing.get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [member.value for member in annotation]
    if origin is typing.Literal:
        return list(typing.get_args(annotation))
    if origin in {typing.Union, types.UnionType}:
        parts = [kind(part) for part in typing.get_args(annotation) if part is not type(None)]
        optional = type(None) in typing.get_args(annotation)
        if len(parts) == 1:
            return [*parts[0], None] if isinstance(parts[0], list) else parts[0] + ("?" if optional else "")
        if set(map(str, parts)) == {"int", "float"}:
            return "float"
        return "any"
    if origin in {list, tuple}:
        return "list"
    if origin is dict:
        return "map"
    return {bool: "bool", int: "int", float: "float", str: "text", list: "list", dict: "map"}.get(annotation, "any")


def fields_of(configuration: Any) -> dict[str, Any]:
    """Fields of the configuration by key, those of nested ones as `outer.inner`, which is how a command line gives them."""
    found = dict(configuration.model_fields)
    for name, field in configuration.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {})
        found |= {f"{name}.{key}": nested for key, nested in inner.items()}
    return found


def model_values(path: Path) -> dict[str, Any]:
    """What a model file sets."""
    import yaml

    return dict(sorted(yaml.safe_load(path.read_text()).items()))


def main(out: Path) -> None:
    """Write the file."""
    import yaml
    from maxtext.configs import types as configuration

    folder = Path(configuration.__file__).parent
    base = yaml.safe_load((folder / "base.yml").read_text())
    effects: dict[str, str] = {}
    fields = fields_of(configuration.MaxTextConfig)
    for effect, names in {
        "modelled": MODELLED, "architecture": ARCHITECTURE, "approximate": APPROXIMATE, "refused": REFUSED,
        "ignored": IGNORED,
    }.items():  # fmt: skip
        for name in names.split():
            assert effects.get(name, effect) == effect, name
            assert name in fields, name
            effects[name] = effect
    rows = []
    for name, field in sorted(fields.items()):
        default = base.get(name, field.default if isinstance(field.default, (bool, int, float, str)) else None)
        effect = effects.get(name, "inert")
        default = None if default == "None" else default
        nested = isinstance(default, dict) or (isinstance(default, list) and any(isinstance(v, list) for v in default))
        if effect == "inert" or nested:
            default = None  # not read
        rows.append(f"  {json.dumps(name)}: {json.dumps([effect, kind(field.annotation), default])}")
    models = sorted(
        name for name in typing.get_args(configuration.RunInfo.model_fields["model_name"].annotation)
        if (folder / "models" / f"{name.replace('-Instruct', '')}.yml").is_file()
    )  # fmt: skip
    set_by_models = {name: model_values(folder / "models" / f"{name.replace('-Instruct', '')}.yml") for name in models}
    head = {
        "maxtext": importlib.metadata.version("maxtext"),
        "source": "maxtext/configs/types.py (types), configs/base.yml (defaults), configs/models (what a model sets)",
        "columns": ["effect", "type or choices", "default"],
    }
    text = json.dumps(head)[:-1] + ',\n"keys": {\n' + ",\n".join(rows) + "\n},\n"
    text += '"models": {\n' + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in set_by_models.items())
    out.write_text(text + "\n}}\n")
    print(len(rows), "keys,", len(models), "models")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
