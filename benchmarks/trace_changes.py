"""Launches on both sides of lines that MaxText draws only while it builds and traces the train step.

Each entry: row of docs/maxtext_coverage.md, accelerator, slices, model, and changes to a launch of that model with 4
sequences of 8,192 tokens a device.
"""

from __future__ import annotations

TRACE_CHANGES: tuple[tuple[str, str, int, str, tuple[str, ...]], ...] = (
    ("D1", "tpu7x-16", 1, "llama3.1-8b", ("ici_tensor_parallelism=8", "ici_tensor_parallelism=16")),
    ("D1", "tpu7x-16", 1, "qwen3-30b-a3b", ("ici_tensor_parallelism=4", "ici_tensor_parallelism=8")),
    ("D1", "tpu7x-16", 1, "qwen2.5-7b", ("ici_tensor_parallelism=4", "ici_tensor_parallelism=8")),
    ("D1", "tpu7x-16", 1, "gemma3-4b", ("ici_tensor_parallelism=4", "ici_tensor_parallelism=8")),
    ("D1", "tpu7x-16", 1, "gpt-oss-20b", ("ici_tensor_parallelism=8", "ici_tensor_parallelism=16")),
    ("D1", "tpu7x-16", 1, "gemma-2b", ("ici_tensor_parallelism=1", "ici_tensor_parallelism=2")),
    ("D1", "tpu7x-16", 1, "deepseek2-16b", ("ici_tensor_parallelism=16", "ici_tensor_parallelism=8")),
    ("D1", "tpu7x-64", 1, "llama2-7b", ("ici_tensor_parallelism=32", "ici_tensor_parallelism=64")),
    ("D1", "tpu7x-16", 2, "llama3.1-8b", ("dcn_tensor_parallelism=2 dcn_data_parallelism=1 ici_tensor_parallelism=8",)),
    (
        "D2", "tpu7x-16", 1, "llama3.1-8b",
        (
            "override_model_config=true base_num_query_heads=24 base_num_kv_heads=8 ici_tensor_parallelism=8",
            "override_model_config=true base_num_query_heads=12 base_num_kv_heads=12 ici_tensor_parallelism=4",
            "override_model_config=true base_num_query_heads=12 base_num_kv_heads=12 ici_tensor_parallelism=8",
        ),
    ),
    ("D3", "tpu7x-16", 1, "llama3.1-8b", ("override_model_config=true base_num_kv_heads=3", "override_model_config=true base_num_kv_heads=4")),
    (
        "D4", "tpu7x-16", 1, "llama3.1-8b",
        (
            "override_model_config=true base_mlp_dim=14338 ici_tensor_parallelism=2",
            "override_model_config=true base_mlp_dim=14338 ici_tensor_parallelism=4",
            "override_model_config=true base_mlp_dim=14338 ici_fsdp_transpose_parallelism=2",
            "override_model_config=true base_mlp_dim=14338 ici_fsdp_transpose_parallelism=4",
            "override_model_config=true base_mlp_dim=14338 ici_fsdp_transpose_parallelism=2 ici_tensor_parallelism=2",
        ),
    ),
    (
        "D5", "tpu7x-1024", 1, "qwen3-30b-a3b",
        (
            "ici_fsdp_transpose_parallelism=256 ici_fsdp_parallelism=1 ici_data_parallelism=4",
            "ici_fsdp_transpose_parallelism=512 ici_fsdp_parallelism=1 ici_data_parallelism=2",
        ),
    ),
    (
        "D6", "tpu7x-128", 1, "gpt-oss-20b",
        (
            "ici_fsdp_parallelism=64 ici_data_parallelism=2",
            "ici_fsdp_parallelism=128",
            "ici_fsdp_parallelism=8 ici_expert_parallelism=8 ici_data_parallelism=2",
            "ici_fsdp_parallelism=8 ici_expert_parallelism=16",
            "ici_fsdp_parallelism=64 ici_context_parallelism=2",
            "ici_fsdp_parallelism=32 ici_context_parallelism=2 ici_data_parallelism=2",
            "ici_fsdp_parallelism=32 ici_fsdp_transpose_parallelism=4",
            "ici_fsdp_parallelism=32 ici_fsdp_transpose_parallelism=2 ici_data_parallelism=2",
        ),
    ),
    ("D6", "tpu7x-1024", 1, "qwen2.5-7b", ("ici_fsdp_parallelism=512 ici_data_parallelism=2", "ici_fsdp_parallelism=1024")),
    ("D6", "tpu7x-512", 1, "gemma3-27b", ("ici_fsdp_parallelism=256 ici_data_parallelism=2", "ici_fsdp_parallelism=512")),
    (
        "D8", "tpu7x-1024", 1, "deepseek3-671b",
        (
            "ici_fsdp_parallelism=512 ici_data_parallelism=2",
            "ici_fsdp_parallelism=1024",
            "ici_fsdp_parallelism=512 ici_expert_parallelism=2",
            "ici_fsdp_parallelism=256 ici_expert_parallelism=2 ici_data_parallelism=2",
            "ici_fsdp_parallelism=512 ici_tensor_parallelism=2",
        ),
    ),
    ("D9", "tpu7x-16", 1, "mixtral-8x7b", ("ici_expert_parallelism=8", "ici_expert_parallelism=16")),
    ("D9", "tpu7x-32", 1, "llama4-17b-16e", ("ici_expert_parallelism=16", "ici_expert_parallelism=32")),
    ("D9", "tpu7x-128", 1, "deepseek2-16b", ("ici_expert_parallelism=64", "ici_expert_parallelism=128")),
    (
        "D9", "tpu7x-16", 1, "qwen3-30b-a3b",
        (
            "override_model_config=true num_experts=12 num_experts_per_tok=2 ici_expert_parallelism=4",
            "override_model_config=true num_experts=12 num_experts_per_tok=2 ici_expert_parallelism=8",
            "override_model_config=true num_experts=12 num_experts_per_tok=2 ici_expert_parallelism=8 sparse_matmul=false",
        ),
    ),
    (
        "D10", "tpu7x-16", 1, "olmo3-7b",
        ("ici_tensor_parallelism=2", "ici_tensor_parallelism=4"),
    ),
    (
        "D10", "tpu7x-16", 1, "llama3.1-8b",
        (
            "override_model_config=true vocab_size=32001 ici_tensor_parallelism=2",
            "override_model_config=true vocab_size=32001",
            "override_model_config=true vocab_size=32002 ici_tensor_parallelism=2",
        ),
    ),
    (
        "B2", "tpu7x-16", 1, "llama3.1-8b",
        (
            "per_device_batch_size=0.5",
            "per_device_batch_size=0.5 ici_tensor_parallelism=2",
            "per_device_batch_size=0.5 ici_context_parallelism=2",
            "per_device_batch_size=0.5 ici_expert_parallelism=2",
            "per_device_batch_size=0.5 ici_data_parallelism=2",
            "per_device_batch_size=0.5 ici_fsdp_transpose_parallelism=2",
            "per_device_batch_size=1.5",
            "per_device_batch_size=1.5 ici_tensor_parallelism=2",
            "per_device_batch_size=0.25 ici_tensor_parallelism=2",
            "per_device_batch_size=0.25 ici_tensor_parallelism=4",
            "per_device_batch_size=0.5 attention=dot_product",
        ),
    ),
    (
        "B4", "tpu7x-16", 1, "llama3.1-8b",
        (
            "per_device_batch_size=0.5 gradient_accumulation_steps=2",
            "per_device_batch_size=0.5 gradient_accumulation_steps=2 ici_tensor_parallelism=2",
            "per_device_batch_size=0.5 ici_pipeline_parallelism=2 num_pipeline_microbatches=2",
            "per_device_batch_size=1 ici_pipeline_parallelism=2 num_pipeline_microbatches=2",
            "per_device_batch_size=1 ici_pipeline_parallelism=2 num_pipeline_microbatches=4",
            "per_device_batch_size=2 ici_pipeline_parallelism=2 num_pipeline_microbatches=4",
            "per_device_batch_size=0.5 gradient_accumulation_steps=2 ici_pipeline_parallelism=2 num_pipeline_microbatches=2",
            "per_device_batch_size=0.5 gradient_accumulation_steps=4 ici_pipeline_parallelism=4 num_pipeline_microbatches=4",
        ),
    ),
    ("B2", "tpu7x-16", 1, "mixtral-8x7b", ("per_device_batch_size=0.5 ici_expert_parallelism=8", "per_device_batch_size=0.5 ici_tensor_parallelism=2")),
    (
        "B5", "tpu7x-16", 1, "llama3.1-8b",
        (
            "attention=dot_product max_target_length=1024 ici_context_parallelism=4",
            "attention=dot_product max_target_length=1022 ici_context_parallelism=4",
            "attention=dot_product max_target_length=1028 ici_context_parallelism=4",
            "attention=dot_product max_target_length=1028 ici_context_parallelism=4 context_parallel_load_balance=false",
        ),
    ),
    (
        "A1", "tpu7x-16", 1, "llama3.1-8b",
        (
            "max_target_length=2048 ici_context_parallelism=4",
            "max_target_length=2048 ici_context_parallelism=8",
            "max_target_length=2048 ici_context_parallelism=8 use_tokamax_splash=true",
            "max_target_length=2048 ici_context_parallelism=8 sa_block_q=256 sa_block_q_dkv=256 sa_block_q_dq=256",
            "max_target_length=2048 ici_context_parallelism=8 sa_block_q=256 sa_block_q_dkv=256",
            "max_target_length=2048 ici_context_parallelism=8 sa_block_q=256 sa_block_q_dq=256",
            "max_target_length=2048 ici_context_parallelism=8 sa_block_q=256 sa_block_q_dkv=256 use_tokamax_splash=true",
            "max_target_length=2048 ici_context_parallelism=8 sa_block_q=256 sa_block_q_dkv=256 sa_block_q_dq=256 use_tokamax_splash=true",
            "max_target_length=2048 ici_context_parallelism=8 sa_block_q=256 sa_block_q_dkv=256 sa_use_fused_bwd_kernel=true",
            "max_target_length=2048 ici_context_parallelism=8 sa_block_q=256 use_tokamax_splash=true",
            "max_target_length=2048 ici_context_parallelism=16 attention=dot_product",
        ),
    ),
    (
        "A2", "tpu7x-16", 1, "llama3.1-8b",
        (
            "max_target_length=1536",
            "max_target_length=640",
            "max_target_length=1000",
            "max_target_length=1536 use_tokamax_splash=true",
            "max_target_length=640 use_tokamax_splash=true",
            "max_target_length=640 attention=dot_product",
            "max_target_length=256",
            "max_target_length=640 sa_block_q=128 sa_block_kv=128 sa_block_kv_compute=128 sa_block_q_dkv=128 sa_block_kv_dkv=128 sa_block_kv_dkv_compute=128 sa_block_q_dq=128 sa_block_kv_dq=128",
            "sa_block_q=1024 sa_block_q_dkv=2048",
            "sa_block_kv=2048 sa_block_kv_compute=1024",
            "sa_block_kv=1024 sa_block_kv_compute=384",
            "sa_block_kv=1024 sa_block_kv_compute=64",
            "sa_block_kv=1024 sa_block_kv_compute=64 use_tokamax_splash=true",
            "sa_block_q=300",
            "sa_block_q=16384",
            "sa_block_q=64", "sa_block_q=4", "sa_block_kv=256", "sa_block_kv=256 sa_block_kv_compute=256", "sa_block_kv_compute=1024",
            "sa_block_q_dkv=64", "sa_block_q_dkv=64 packing=false", "sa_block_kv_dkv=256", "sa_block_kv_dkv_compute=64",
            "sa_block_kv_dkv=64 sa_block_kv_dkv_compute=64", "sa_block_kv_dkv=4 sa_block_kv_dkv_compute=4", "sa_block_kv_dkv_compute=1024",
            "sa_block_q_dq=64", "sa_block_q_dq=64 sa_use_fused_bwd_kernel=true", "sa_block_kv_dq=64",
            "sa_block_kv_dq=64 use_tokamax_splash=true", "sa_block_kv=256 use_tokamax_splash=true",
            "max_target_length=64", "max_target_length=64 attention=flash", "max_target_length=130", "max_target_length=192",
            "max_target_length=320", "max_target_length=448", "max_target_length=384", "max_target_length=192 attention=dot_product",
        ),
    ),
    (
        "A2", "tpu7x-16", 1, "gemma3-4b",
        (
            "local_sa_block_q=300", "local_sa_block_kv=256", "local_sa_block_kv_dq=64", "sa_block_q=300 local_sa_block_q=512",
            "local_sa_block_kv_dq=64 local_sa_use_fused_bwd_kernel=true", "local_sa_block_kv=256 local_sa_block_kv_compute=256",
        ),
    ),
    ("A2", "tpu7x-16", 1, "llama3.1-8b", ("local_sa_block_q=300",)),
    (
        "A1", "tpu7x-16", 1, "llama3.1-8b",
        (
            "ici_context_parallelism=2 use_tokamax_splash=true context_parallel_strategy=ring",
            "ici_context_parallelism=2 use_tokamax_splash=true context_parallel_strategy=ulysses context_parallel_load_balance=false",
            *(
                f"ici_context_parallelism=2 use_tokamax_splash=true {strategy} {change}"
                for strategy in (
                    "attention=flash context_parallel_strategy=ring",
                    "attention=flash context_parallel_strategy=ulysses context_parallel_load_balance=false",
                )
                for change in (
                    "sa_block_kv=256", "sa_block_kv_dkv_compute=64", "sa_block_q_dkv=64", "sa_block_q_dq=64", "max_target_length=256",
                    "max_target_length=768", "max_target_length=1280", "max_target_length=2560",
                )
            ),
        ),
    ),
    (
        "Q5", "tpu7x-16", 1, "qwen3-30b-a3b",
        tuple(
            f"quantization=fp8_full use_qwix_quantization=true {change}".strip()
            for change in (
                "", "megablox=false", "use_tokamax_gmm=true", "sparse_matmul=false", "wi_tile_fwd_mlp_dim=768",
                "wi_tile_fwd_mlp_dim=768 wi_tile_drhs_mlp_dim=768",
                "wi_tile_fwd_mlp_dim=768 wi_tile_drhs_mlp_dim=768 ici_tensor_parallelism=2",
                "wi_tile_fwd_mlp_dim=384 wi_tile_drhs_mlp_dim=384 ici_tensor_parallelism=2",
                "wi_tile_fwd_mlp_dim=768 wi_tile_drhs_mlp_dim=768 ici_fsdp_transpose_parallelism=2",
            )
        ),
    ),
    (
        "Q5", "tpu7x-16", 1, "mixtral-8x7b",
        tuple(
            f"quantization=fp8_full use_qwix_quantization=true {change}"
            for change in (
                "ici_tensor_parallelism=2", "ici_tensor_parallelism=8", "wo_tile_fwd_embed_dim=768", "wo_tile_drhs_embed_dim=768",
                "wo_tile_fwd_mlp_dim=768", "wi_tile_fwd_embed_dim=768", "wi_tile_dlhs_mlp_dim=768", "ici_expert_parallelism=8",
            )
        ),
    ),
    (
        "C1", "v5p-384", 1, "gemma3-27b",
        (
            "override_model_config=true base_num_decoder_layers=6 max_target_length=6144 ici_data_parallelism=64 ici_fsdp_parallelism=1 ici_context_parallelism=3",
            "override_model_config=true base_num_decoder_layers=6 max_target_length=6144 ici_data_parallelism=64 ici_fsdp_parallelism=1 ici_context_parallelism=3 context_parallel_load_balance=false",
            "override_model_config=true base_num_decoder_layers=6 max_target_length=6144 ici_data_parallelism=32 ici_fsdp_parallelism=1 ici_context_parallelism=6",
        ),
    ),
    (
        "C3", "tpu7x-16", 1, "llama3.1-8b",
        (
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=8",
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=2 context_parallel_load_balance=false",
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=8 max_target_length=2048",
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=8 max_target_length=6144",
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=8 max_target_length=6144 sa_block_q=256 sa_block_q_dkv=256",
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=8 max_target_length=6144 sa_block_q=256 sa_block_q_dkv=256 sa_block_kv=256 sa_block_kv_compute=256 sa_block_kv_dkv=256 sa_block_kv_dkv_compute=256",
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=8 ici_tensor_parallelism=2",
        ),
    ),
    ("C3", "tpu7x-16", 1, "deepseek2-16b", ("context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=4", "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=4 packing=false")),
    (
        "C5", "tpu7x-16", 1, "llama3.1-8b",
        (
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=8 context_parallel_load_balance=false",
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=8 context_parallel_load_balance=false ici_tensor_parallelism=2",
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=4 context_parallel_load_balance=false ici_tensor_parallelism=2",
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=4 context_parallel_load_balance=false ici_tensor_parallelism=4",
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=8 context_parallel_load_balance=false max_target_length=2048",
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=8 context_parallel_load_balance=false max_target_length=6144",
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=8 context_parallel_load_balance=false max_target_length=1280",
        ),
    ),
    ("C9", "tpu7x-512", 1, "deepseek3-671b", (
        "mtp_num_layers=1 override_model_config=true",
        "mtp_num_layers=1 override_model_config=true ici_context_parallelism=2",
        "mtp_num_layers=1 override_model_config=true ici_context_parallelism=2 context_parallel_load_balance=false",
        "mtp_num_layers=2 override_model_config=true ici_context_parallelism=2 context_parallel_load_balance=false",
        "mtp_num_layers=2 override_model_config=true ici_context_parallelism=2 context_parallel_load_balance=false packing=false",
        "mtp_num_layers=2 override_model_config=true",
    )),
    *(
        ("C10", "tpu7x-16", 1, model, (
            "context_parallel_strategy=ring attention=flash use_tokamax_splash=true ici_context_parallelism=2",
            "context_parallel_strategy=ulysses attention=flash use_tokamax_splash=true ici_context_parallelism=2 context_parallel_load_balance=false",
            "attention=flash ici_context_parallelism=2",
        ))
        for model in ("gemma2-9b", "olmo3-7b")
    ),
    *(
        ("C11", "tpu7x-16", 1, model, (
            "attention=flash use_tokamax_splash=true ici_context_parallelism=2",
            "attention=flash use_tokamax_splash=true ici_context_parallelism=4",
            "attention=flash use_tokamax_splash=false ici_context_parallelism=4",
        ))
        for model in ("gemma2-9b", "gpt-oss-20b", "olmo3-7b", "llama4-17b-16e")
    ),
    (
        "O10", "tpu7x-16", 1, "llama3.1-8b",
        (
            "remat_policy=minimal_flashy", "remat_policy=save_everything", "remat_policy=none",
            "remat_policy=custom query_proj=offload mlpwi_0=device",
            "remat_policy=proj", "remat_policy=save_dot_with_context_except_mlp", "remat_policy=minimal_with_context_and_quantization",
            "remat_policy=Full",
        ),
    ),
    (
        "O4", "tpu7x-16", 1, "llama3.1-8b",
        (
            "opt_type=sgd", "opt_type=sgd shard_optimizer_over_data=true ici_fsdp_parallelism=1 ici_data_parallelism=-1",
            "opt_type=adam_pax shard_optimizer_over_data=true ici_fsdp_parallelism=1 ici_data_parallelism=-1",
            "opt_type=adamw shard_optimizer_over_data=true ici_fsdp_parallelism=1 ici_data_parallelism=-1",
            "opt_type=adamw shard_optimizer_over_data=true ici_fsdp_parallelism=1 ici_data_parallelism=-1 gradient_accumulation_steps=2",
            "optimizer_memory_host_offload=true", "optimizer_memory_host_offload=true gradient_accumulation_steps=2",
        ),
    ),
    (
        "O4", "tpu7x-16", 1, "qwen3-8b",
        (
            "opt_type=muon", "opt_type=muon shard_optimizer_over_data=true ici_fsdp_parallelism=1 ici_data_parallelism=-1",
            "opt_type=muon optimizer_memory_host_offload=true",
        ),
    ),
    (
        "P6", "tpu7x-16", 1, "llama3.1-8b",
        (
            "ici_pipeline_parallelism=2", "ici_pipeline_parallelism=2 scan_layers=false",
            "ici_pipeline_parallelism=2 num_layers_per_pipeline_stage=16 scan_layers=false",
            "override_model_config=true base_num_decoder_layers=4 ici_pipeline_parallelism=2 num_layers_per_pipeline_stage=2 scan_layers=false",
            "override_model_config=true base_num_decoder_layers=8 ici_pipeline_parallelism=2 num_layers_per_pipeline_stage=2 scan_layers=false",
            "override_model_config=true base_num_decoder_layers=4 ici_pipeline_parallelism=2 scan_layers=false pipeline_fsdp_ag_per_repeat=true",
            "ici_pipeline_parallelism=2 ici_context_parallelism=2", "ici_pipeline_parallelism=2 num_vocab_tiling=4",
            "ici_pipeline_parallelism=2 gradient_accumulation_steps=2", "ici_pipeline_parallelism=2 ici_tensor_parallelism=4",
            "ici_pipeline_parallelism=2 pipeline_fsdp_ag_once=true", "ici_pipeline_parallelism=2 pipeline_fsdp_ag_per_repeat=true",
            "ici_pipeline_parallelism=2 quantization=fp8_full use_qwix_quantization=true",
        ),
    ),
    *(
        ("P7", "tpu7x-16", 1, model, tuple(f"ici_pipeline_parallelism=2 override_model_config=true {rest}" for rest in (
            f"base_num_decoder_layers={layers}",
            f"base_num_decoder_layers={layers} pipeline_fsdp_ag_once=true",
            f"base_num_decoder_layers={layers} pipeline_fsdp_ag_per_repeat=true",
            f"base_num_decoder_layers={layers} sparse_matmul=false",
            f"base_num_decoder_layers={layers} num_layers_per_pipeline_stage=2",
        )))
        for model, layers in (("mixtral-8x7b", 4), ("qwen3-30b-a3b", 4), ("gpt-oss-20b", 4), ("deepseek2-16b", 5))
    ),
    ("P7", "tpu7x-16", 1, "mixtral-8x7b", (
        "ici_pipeline_parallelism=4 num_layers_per_pipeline_stage=4", "ici_pipeline_parallelism=2 num_layers_per_pipeline_stage=16",
        "ici_pipeline_parallelism=2 num_layers_per_pipeline_stage=8", "ici_pipeline_parallelism=2 num_layers_per_pipeline_stage=8 sparse_matmul=false",
    )),
    (
        "P12", "tpu7x-16", 1, "llama3.1-8b",
        (
            "ici_pipeline_parallelism=2 remat_policy=minimal_offloaded",
            "ici_pipeline_parallelism=2 remat_policy=qkv_proj_offloaded",
            "ici_pipeline_parallelism=2 remat_policy=minimal",
            "ici_pipeline_parallelism=2 remat_policy=custom query_proj=offload",
            "ici_pipeline_parallelism=2 remat_policy=custom query_proj=device decoder_layer_input=offload",
        ),
    ),
    ("P9", "tpu7x-16", 1, "qwen3-8b", ("override_model_config=true base_num_decoder_layers=4 mtp_num_layers=1 ici_pipeline_parallelism=2",)),
    *(
        ("P10", "tpu7x-16", 1, model, ("ici_pipeline_parallelism=2",))
        for model in ("gemma2-9b", "gemma3-27b", "olmo3-7b", "qwen3-8b")
    ),
    (
        "P8", "tpu7x-16", 1, "deepseek3-671b",
        tuple(f"ici_pipeline_parallelism=2 override_model_config=true base_num_decoder_layers=7 {rest}".strip() for rest in (
            "", "pipeline_fsdp_ag_per_repeat=true", "sparse_matmul=false",
            "routed_bias=false", "routed_bias=false sparse_matmul=false", "routed_bias=false pipeline_fsdp_ag_per_repeat=true",
            "routed_bias=false num_layers_per_pipeline_stage=2",
        )),
    ),
    (
        "P8", "tpu7x-16", 1, "deepseek3-671b",
        (
            "ici_pipeline_parallelism=2",
            "ici_pipeline_parallelism=2 pipeline_fsdp_ag_per_repeat=true",
            "ici_pipeline_parallelism=2 sparse_matmul=false",
            "ici_pipeline_parallelism=2 pipeline_fsdp_ag_per_repeat=true override_model_config=true routed_bias=false",
            "ici_pipeline_parallelism=2 override_model_config=true routed_bias=false",
        ),
    ),
    (
        "V", "tpu7x-16", 1, "llama3.1-8b",
        (
            "num_vocab_tiling=8", "num_vocab_tiling=8 ici_context_parallelism=4", "num_vocab_tiling=8 ici_tensor_parallelism=4",
            "num_vocab_tiling=64 per_device_batch_size=0.5 ici_context_parallelism=2", "scan_layers=false override_model_config=true base_num_decoder_layers=2",
            "fused_qkv=true ici_tensor_parallelism=8", "fused_mlp=true ici_tensor_parallelism=2",
        ),
    ),
    (
        "Q", "tpu7x-16", 1, "llama3.1-8b",
        (
            "quantization=fp8_full use_qwix_quantization=true", "quantization=int8 use_qwix_quantization=true", "quantization=fp8 use_qwix_quantization=true",
            "quantization=fp8_full use_qwix_quantization=true ici_tensor_parallelism=4",
        ),
    ),
    ("Q", "tpu7x-16", 1, "mixtral-8x7b", ("quantization=fp8_full use_qwix_quantization=true", "quantization=fp8 use_qwix_quantization=true")),
    (
        "E", "tpu7x-16", 1, "mixtral-8x7b",
        (
            "sparse_matmul=false capacity_factor=1.25 ici_expert_parallelism=4", "megablox=false ici_expert_parallelism=4 ici_tensor_parallelism=2",
            "ragged_buffer_factor=2 ici_expert_parallelism=4", "ici_expert_parallelism=4 ici_context_parallelism=2", "ici_tensor_parallelism=8 ici_expert_parallelism=2",
        ),
    ),
    ("E22", "tpu7x-16", 1, "deepseek3-671b", (
        "override_model_config=true num_experts=16 n_routing_groups=8 topk_routing_group=4",
        "override_model_config=true num_experts=8 n_routing_groups=8 topk_routing_group=8",
        "override_model_config=true num_experts=20 n_routing_groups=8 topk_routing_group=8",
    )),
    ("E2", "tpu7x-16", 1, "mixtral-8x7b", ("override_model_config=true num_experts_per_tok=16", "override_model_config=true num_experts_per_tok=8")),
)  # fmt: skip
