"""MaxText command lines and flags, read as MaxText 0.2.5 would."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from benchmarks.compared import load_flags
from shardplan.errors import InputError, InvalidShardingError
from shardplan.loaders.load import load_command, load_record
from shardplan.loaders.maxtext_flags import Launch, parse_command
from shardplan.maxtext.keys import Key, accept, parse
from shardplan.maxtext.tables import table
from shardplan.spec import AXES

LAUNCHES = [json.loads(line) for line in (DATA / "launches.jsonl").read_text().splitlines()]
TRAIN = "python3 -m maxtext.trainers.pre_train.train"


def launch(flags: str, accelerator: str = "tpu7x-16", slices: int = 1) -> Launch:
    return load_command([f"{TRAIN} model_name=llama3.1-8b {flags}"], accelerator=accelerator, slices=slices)


def refusal(flags: str, accelerator: str = "tpu7x-16", slices: int = 1) -> str:
    with pytest.raises(InvalidShardingError) as caught:
        launch(flags, accelerator, slices)
    return str(caught.value)


@pytest.mark.parametrize("record", LAUNCHES, ids=lambda record: record["id"])
def test_the_mesh_is_the_one_maxtext_built(record: dict[str, Any]) -> None:
    """Source: the mesh of each ahead-of-time compile with MaxText 0.2.5."""
    split = load_record(record).split
    mesh = {axis: split.ici.get(axis, 1) * split.dcn.get(axis, 1) for axis in AXES}
    mesh["stage"] = mesh.pop("pipeline")
    assert {axis: degree for axis, degree in mesh.items() if degree > 1} == record["mesh"]


def test_a_record_is_one_candidate() -> None:
    case, candidates = load_flags(LAUNCHES[0])
    assert len(candidates) == 1
    assert candidates.global_batch.item() == case.workload.global_batch


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        [*TRAIN.split(), "model_name=llama3.1-8b", "per_device_batch_size=2"],
        [f"{TRAIN} model_name=llama3.1-8b per_device_batch_size=2"],
        [f"{TRAIN} \\\n  src/maxtext/configs/base.yml \\\n  model_name=llama3.1-8b per_device_batch_size=2"],
        ["python3 MaxText/train.py MaxText/configs/base.yml model_name=llama3.1-8b per_device_batch_size=2"],
        ["python -u -m MaxText.train model_name='llama3.1-8b' \"per_device_batch_size=2\""],
        [f"LIBTPU_INIT_ARGS='--xla_a=true --xla_b=1' {TRAIN} model_name=llama3.1-8b per_device_batch_size=2"],
        [f"export LIBTPU_INIT_ARGS=--xla_a=true; {TRAIN} model_name=llama3.1-8b per_device_batch_size=2"],
        [f"set -e && {TRAIN} model_name=llama3.1-8b per_device_batch_size=2 && echo done"],
        ["model_name=llama3.1-8b", "per_device_batch_size=2"],
        ["model_name=llama3.1-8b-Instruct", "per_device_batch_size=2"],
        [f"M_PER_DEVICE_BATCH_SIZE=2 {TRAIN} model_name=llama3.1-8b"],
        ["env", "TPU_X=1", *TRAIN.split(), "model_name=llama3.1-8b", "per_device_batch_size=2.0"],
    ],
)
def test_a_launch_may_be_written_in_many_ways(words: list[str]) -> None:
    found = load_command(words, accelerator="tpu7x-16")
    assert found.split.per_device_batch == 2
    assert found.case.architecture.model_width == 4096
    assert found.split.ici == {"fsdp": 16}


def test_xpk_says_accelerator_and_slices() -> None:
    line = (
        "xpk workload create --cluster c --tpu-type=tpu7x-16 --num-slices 2 --command "
        f'"export LIBTPU_INIT_ARGS=--xla_a=1; {TRAIN} model_name=llama3.1-8b per_device_batch_size=1"'
    )
    found = load_command([line])
    assert (found.case.cluster.devices_per_slice, found.case.cluster.slices) == (16, 2)
    assert found.split.dcn == {"data": 2}


def test_the_flags_may_say_the_accelerator() -> None:
    flags = "model_name=llama3.1-8b compile_topology=v5e-16 compile_topology_num_slices=2"
    found = load_command([f"{TRAIN}_compile {flags}"])
    assert (found.case.cluster.chip.name, found.case.cluster.slices) == ("v5e", 2)


def test_libtpu_flags_are_kept_apart() -> None:
    command = parse_command([f"LIBTPU_INIT_ARGS='--xla_a=true --xla_b=1' {TRAIN} steps=3"])
    assert command.libtpu_init_args == ("--xla_a=true", "--xla_b=1")
    assert command.flags["steps"][0] == "3"


def test_odd_corners_of_command_lines() -> None:
    assert launch("run_name= steps=10").split.per_device_batch == 12
    for line, code in (("x=" + "y" * 1_000_001, "SP003"), ('xpk w --num-slices many --command "a=1"', "SP012")):
        with pytest.raises(InputError) as caught:
            load_command([line], accelerator="tpu7x-8")
        assert caught.value.diagnostics[0].code == code


def test_a_flag_given_twice_is_the_last_and_noted() -> None:
    found = launch("per_device_batch_size=1 per_device_batch_size=2")
    assert found.split.per_device_batch == 2
    assert any("given twice" in note for note in found.notes)


def test_a_flag_in_the_environment_too_is_refused_as_by_maxtext() -> None:
    with pytest.raises(InvalidShardingError, match="MaxText takes one"):
        load_command([f"M_STEPS=1 {TRAIN} model_name=llama3.1-8b steps=2"], accelerator="tpu7x-8")


# --- defaults and open axes -----------------------------------------------------------------------------------------


def test_what_is_not_given_is_maxtexts_default_and_echoed() -> None:
    found = load_command(["model_name=llama3.1-8b"], accelerator="tpu7x-16")
    assert found.split.per_device_batch == 12
    assert found.case.workload.sequence_length == 2048
    assert found.split.remat_policy == "full"
    assert found.echo[0] == "tpu7x-16: 16 JAX devices = 8 chips, 2x2x2"
    assert "ici_fsdp_parallelism=-1 -> 16" in found.echo
    assert "attention=autoselected -> flash" in found.echo
    assert "per_device_batch_size not given -> 12" in found.echo


@given(tensor=st.sampled_from([1, 2, 4, 8]), data=st.sampled_from([1, 2]), slices=st.sampled_from([1, 2, 4]))
def test_open_axes_fill_what_is_left(tensor: int, data: int, slices: int) -> None:
    found = launch(f"ici_tensor_parallelism={tensor} ici_data_parallelism={data}", slices=slices)
    assert math.prod(found.split.ici.values()) == 16
    assert math.prod(found.split.dcn.values()) == slices


def test_the_message_of_a_wrong_product_has_both_sides_and_a_way_out() -> None:
    text = refusal("ici_fsdp_parallelism=8")
    assert "multiply to 8" in text
    assert "16 JAX devices of a slice" in text
    assert "2-fold one axis, or set ici_fsdp_parallelism=-1" in text


def test_a_shell_variable_is_no_illegal_value_but_cannot_be_read() -> None:
    with pytest.raises(InputError) as caught:
        load_command(
            [*TRAIN.split(), "model_name=llama3.1-8b", "per_device_batch_size=${BATCH}"], accelerator="tpu7x-8"
        )
    assert "shell variables are not filled in here" in str(caught.value)


def test_two_open_axes_name_the_one_that_is_open_by_default() -> None:
    assert "ici_fsdp_parallelism is -1 by default" in refusal("ici_data_parallelism=-1")
    assert "dcn_data_parallelism is -1 by default" in refusal("dcn_fsdp_parallelism=-1", slices=2)


# --- remat, optimizer, kernels --------------------------------------------------------------------------------------


def test_custom_keeps_what_is_named_and_not_the_default_carry() -> None:
    found = launch("remat_policy=custom decoder_layer_input=device context=device mlpwo=offload query_proj=remat")
    assert found.split.remat_tensors == {"context": "device", "mlpwo": "offload"}
    assert launch("remat_policy=custom decoder_layer_input=offload").split.remat_tensors == {
        "decoder_layer_input": "offload"
    }


def test_named_tensors_without_custom_are_noted_as_idle() -> None:
    found = launch("remat_policy=full context=device")
    assert found.split.remat_tensors == {}
    assert any("only with custom" in note for note in found.notes)


@pytest.mark.parametrize(
    ("written", "policy"),
    [("none", "full"), ("minimal_flash", "minimal_with_context"), ("minimal_with_quantization", "minimal"),
     ("minimal_with_context_and_quantization", "minimal_with_context")],
)  # fmt: skip
def test_policies_with_another_name_are_the_one_they_amount_to(written: str, policy: str) -> None:
    assert launch(f"remat_policy={written}").split.remat_policy == policy


def test_optimizer_and_kernels_come_from_the_flags() -> None:
    found = launch(
        "opt_type=muon weight_dtype=bfloat16 grad_dtype=bfloat16 mu_dtype=bfloat16 optimizer_memory_host_offload=true "
        "attention=dot_product use_iota_embed=true cast_logits_to_fp32=false num_vocab_tiling=4 "
        "quantization=fp8_full use_qwix_quantization=true gradient_accumulation_steps=2"
    ).case
    assert found.workload.optimizer.name == "muon"
    assert found.workload.optimizer.first_moment_dtype is None
    assert found.workload.precision == "fp8"
    assert found.workload.global_batch == 12 * 16 * 2
    assert (found.runtime.attention, found.runtime.quantization) == ("dot_product", "fp8_full")
    assert found.runtime.iota_embed
    assert not found.runtime.logits_in_float32


def test_a_batch_below_one_sequence_stays_per_device() -> None:
    assert launch("per_device_batch_size=0.3").case.workload.per_device_batch == 0.3


def test_pipelines_default_to_a_microbatch_a_stage() -> None:
    found = launch("ici_pipeline_parallelism=4")
    assert found.split.pipeline_microbatches == 4
    delayed = launch("ici_pipeline_parallelism=4 pipeline_delay_activation_forwarding=true")
    assert delayed.split.pipeline_microbatches == 8
    assert "num_pipeline_repeats=2" in refusal("ici_pipeline_parallelism=4 num_pipeline_repeats=2")
    assert "num_pipeline_microbatches is 0" in refusal("ici_pipeline_parallelism=4 num_pipeline_microbatches=0")


def test_tiles_must_divide_the_shard_of_the_sequence() -> None:
    assert launch("sa_block_q=1024 max_target_length=8192 ici_context_parallelism=4")
    text = refusal("sa_block_q=2048 max_target_length=4096 ici_context_parallelism=4")
    assert "sa_block_q=2048 must divide the 1,024 tokens it lies on" in text
    assert "must be a multiple of 128" in refusal("sa_block_kv_compute=64")


@pytest.mark.parametrize(
    "flags",
    [
        "use_gmm_v2=true", "use_gmm_v2_heuristic_tiling=true", "use_random_routing=true", "use_ragged_sort=true",
        "quantize_mtp=true", "quantize_logits_proj=true", "indexer_cutoff_threshold=device",
        "moe_use_direct_token_gather=true use_gather_mosaic_kernel=true", "eval_ragged_buffer_factor=2",
        "shard_exp_on_fsdp=true use_2d_fsdp_sharding=true",
        "quantization=fp8_full use_qwix_quantization=true float32_gate_logits=true",
        "opt_type=adafactor", "mu_dtype=", "run_name=2026", "global_parameter_scale=3 model_name=default",
    ],
)  # fmt: skip
def test_switches_that_maxtext_refuses_together_are_refused(flags: str) -> None:
    assert refusal(flags)


@pytest.mark.parametrize(
    "flags",
    [
        "context_parallel_strategy=spiral", "num_layers_per_pipeline_stage=0", "sa_block_q=0", "sa_block_kv=768", "sa_block_kv=256", "sa_block_kv_dkv=256", "sa_block_q_dkv=64", "sa_block_kv_dq=64",
        "max_target_length=192", "max_target_length=320", "max_target_length=448", "max_target_length=64 attention=flash",
        "max_target_length=640", "opt_type=muon model_name=mistral-7b",
    ],
)  # fmt: skip
def test_values_that_maxtext_refuses_are_refused(flags: str) -> None:
    assert refusal(flags)


@pytest.mark.parametrize(
    "flags",
    [
        "context_parallel_strategy=usp", "attention=cudnn_flash_te", "capacity_factor=5000", "ragged_buffer_factor=-2",
        "remat_policy=none scan_layers=false", "weight_dtype=float16", "quantization=nanoo_fp8",
        "per_device_batch_size=9000000", "gradient_accumulation_steps=9000000", "use_ring_of_experts=true",
        "ici_pipeline_parallelism=4 pipeline_parallel_layers=28", "logical_axis_rules=[]x",
    ],
)  # fmt: skip
def test_values_that_cannot_be_modelled_are_named(flags: str) -> None:
    with pytest.raises(InputError) as caught:
        launch(flags)
    assert caught.value.diagnostics[0].code == "SP015"
    assert flags.rsplit(maxsplit=1)[-1].partition("=")[0] in str(caught.value) or "remat_policy" in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "note"),
    [
        ("quantization=int8", "priced as with it"), ("engram=device", "engram has no effect"),
        ("use_tokamax_gmm=true", "memory and time are those of false"), ("ici_sequence_parallelism=4", "no effect"),
        ("ici_pipeline_parallelism=2 pipeline_fsdp_ag_once=true pipeline_fsdp_ag_per_repeat=true", "has no effect beside"),
    ],
)  # fmt: skip
def test_what_is_not_priced_is_noted(flags: str, note: str) -> None:
    assert any(note in found for found in launch(flags).notes)


# --- models -----------------------------------------------------------------------------------------------------------


def test_a_size_the_model_sets_needs_leave_to_be_overridden() -> None:
    assert "add override_model_config=true" in refusal("base_num_decoder_layers=4")
    found = launch("base_num_decoder_layers=4 override_model_config=true").case.architecture
    assert found.n_layers == 4
    assert found.maxtext_model_name is None


def test_the_size_the_model_has_anyway_is_no_override() -> None:
    assert launch("base_num_decoder_layers=32").case.architecture.maxtext_model_name == "llama3.1-8b"


def test_a_model_may_be_spelt_out() -> None:
    flags = "base_emb_dim=1024 base_num_decoder_layers=8 base_mlp_dim=4096 base_num_query_heads=8 base_num_kv_heads=4"
    found = load_command([flags + " head_dim=64 vocab_size=32000"], accelerator="tpu7x-8").case.architecture
    assert (found.model_width, found.n_layers, found.maxtext_model_name) == (1024, 8, None)


def test_what_the_model_file_sets_counts_as_default() -> None:
    """gpt3 comes with adam_pax and iota embeddings."""
    found = load_command(["model_name=gpt3-175b"], accelerator="tpu7x-512").case
    assert found.workload.optimizer.name == "adam_pax"
    assert found.runtime.iota_embed


def test_models_with_rules_of_their_own_say_so() -> None:
    record = {"topology": "tpu7x-512", "flags": {"model_name": "deepseek3-671b-2dfsdp"}}
    assert any("brings its own" in note for note in load_record(record).notes)


@pytest.mark.parametrize("name", ["deepseek3.2-671b", "qwen3-next-80b-a3b", "gemma4-26b", "qwen3-vl-2b"])
def test_models_that_cannot_be_planned_are_refused_by_what_they_have(name: str) -> None:
    with pytest.raises(InputError, match="cannot be"):
        load_record({"topology": "tpu7x-512", "flags": {"model_name": name}})


def test_every_problem_is_found_at_once() -> None:
    text = refusal("remat_policy=fulll ici_tensor_parallelism=3 hello_world=1 opt_type=adafactor dtype=float32")
    for word in ("fulll", "ici axes", "hello_world", "adafactor", "dtype=float32"):
        assert word in text


# --- the table of keys ------------------------------------------------------------------------------------------------


def test_the_table_knows_every_key_shardplan_reads() -> None:
    keys = table().keys
    assert len(keys) > 800
    effects = {key.effect for key in keys.values()}
    assert effects == {"modelled", "architecture", "approximate", "refused", "ignored", "inert"}
    for network in ("ici", "dcn"):
        assert all(keys[f"{network}_{axis}_parallelism"].effect == "modelled" for axis in AXES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8), ("-1", -1), ("1_000", 1000), ("0.5", 0.5), ("1e-5", 1e-5), ("true", True), ("False", False),
        ("null", None), ("", None), ("abc", "abc"), ("'8'", "8"), ("[silu,linear]", ["silu", "linear"]), ("[]", []),
        ("{}", {}), ("v1.2", "v1.2"),
    ],
)  # fmt: skip
def test_flag_texts_are_read_as_yaml_scalars(text: str, value: Any) -> None:
    assert parse(text) == value
    assert type(parse(text)) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "accepted"),
    [
        ("int", 8.0, 8),
        ("float", 8, 8.0),
        ("bool", 1, True),
        ("int?", None, None),
        ("list", None, None),
        ("int", True, 1),
        ("any", 3, 3),
    ],
)
def test_values_become_the_keys_type(kind: str, value: Any, accepted: Any) -> None:
    found = accept(Key("inert", kind, None), value)
    assert found == accepted
    assert type(found) is type(accepted)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 8.5), ("int", "x"), ("bool", 2), ("bool", "maybe"), ("float", 1e400), ("float", math.nan), ("text", None),
     ("text", 3), ("list", 3), ("map", 3), (("a", "b"), "c"), (("a", 1), True), ("int", None)],
)  # fmt: skip
def test_values_of_another_type_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        accept(Key("inert", kind, None), value)
