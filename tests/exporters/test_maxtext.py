"""Splits out as MaxText configuration: complete, closed, known to the release, and read back as the same split."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from shardplan import data
from shardplan.errors import InputError
from shardplan.exporters import maxtext
from shardplan.exporters.maxtext.text import slug, written
from shardplan.loaders.load import load_command, load_record, parse_case
from shardplan.loaders.presets import architecture_names, load_architecture
from shardplan.maxtext.remat import POLICIES, TENSORS
from shardplan.maxtext.tables import table
from shardplan.maxtext.tiles import nearest_tile
from shardplan.source import parse_yaml
from shardplan.spec import AXES, Case, Optimizer, Runtime, Split

LAUNCHES = [json.loads(line) for line in (DATA / "launches.jsonl").read_text().splitlines()]


def case(model: str = "llama3.1-8b", accelerator: str = "tpu7x-64", slices: int = 1, **runtime: Any) -> Case:
    text = (
        f"model: {model}\nworkload: {{sequence_length: 2048, global_batch: 64}}\n"
        f"cluster: {{accelerator: {accelerator}, slices: {slices}}}\n"
    )
    return parse_case(parse_yaml(text, "case.yaml")).model_copy(update={"runtime": Runtime(**runtime)})


def split(**more: Any) -> Split:
    return Split(**({"ici": {"fsdp": 64}, "per_device_batch": 1.0} | more))


def read_back(case_: Case, flags: dict[str, Any]) -> Any:
    shape = "x".join(map(str, case_.cluster.topology))
    topology = f"{case_.cluster.chip.name}-{shape}"
    return load_record({"id": case_.name, "topology": topology, "slices": case_.cluster.slices, "flags": flags})


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", LAUNCHES, ids=lambda record: record["id"])
def test_a_launch_exported_is_the_launch(record: dict[str, Any]) -> None:
    launch = load_record(record)
    flags = maxtext.flags(launch.case, launch.split)
    assert read_back(launch.case, flags).split == launch.split
    line = maxtext.as_command(flags, run_name=record["id"], libtpu_init_args=["--xla_a=1", "--xla_b='x y'"])
    command = load_command([line], accelerator=record["topology"], slices=record["slices"])
    assert command.split == launch.split
    assert command.case.workload == launch.case.workload
    assert command.case.architecture == launch.case.architecture


SPLITS = st.builds(
    lambda tensor, context, pipeline, slices, network, batch, policy, device, offload, tiling, steps, allow: (
        slices,
        Split(
            ici={"fsdp": 64 // (tensor * context * pipeline), "tensor": tensor, "context": context, "pipeline": pipeline},
            dcn={network: slices} if slices > 1 else {},
            per_device_batch=batch,
            gradient_accumulation=steps,
            pipeline_microbatches=4 * pipeline if pipeline > 1 else None,
            num_vocab_tiling=tiling,
            remat_policy=policy,
            remat_tensors={**dict.fromkeys(device, "device"), **dict.fromkeys(offload, "offload")}
            if policy == "custom"
            else {},
            allow_split_physical_axes=allow,
        ),
    ),
    st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]),
    st.sampled_from(["data", "fsdp"]), st.sampled_from([0.125, 0.25, 0.5, 1.0, 1.5, 4.0]),
    st.sampled_from([*POLICIES, "custom"]), st.sets(st.sampled_from(sorted(TENSORS - {"decoder_layer_input", "indexer_cutoff_threshold"})), max_size=3),
    st.sets(st.sampled_from(["decoder_layer_input", "out_proj"]), max_size=2), st.sampled_from([1, 4]),
    st.integers(1, 8), st.booleans(),
)  # fmt: skip


@given(drawn=SPLITS)
def test_any_split_exported_is_read_back_as_itself(drawn: tuple[int, Split]) -> None:
    slices, wanted = drawn
    of = case(slices=slices)
    flags = maxtext.flags(of, wanted)
    found = read_back(of, flags).split
    trimmed = wanted.model_copy(update={"ici": {axis: d for axis, d in wanted.ici.items() if d > 1}})
    assert found == trimmed
    assert math.prod(int(flags[f"ici_{axis}_parallelism"]) for axis in AXES) == of.cluster.devices_per_slice
    assert math.prod(int(flags[f"dcn_{axis}_parallelism"]) for axis in AXES) == slices


@pytest.mark.parametrize("name", architecture_names())
def test_every_preset_exports_keys_that_the_release_knows(name: str) -> None:
    of = case(name) if name else None
    assert of is not None
    if why := maxtext.lacking(of.architecture):
        pytest.skip(f"MaxText lacks {why}")
    flags = maxtext.flags(of, split())
    assert flags.keys() <= table().keys.keys()
    assert -1 not in [value for key, value in flags.items() if key.endswith("_parallelism")]
    if of.architecture.maxtext_model_name:
        assert flags["model_name"] in table().models


@pytest.mark.parametrize("name", architecture_names())
def test_an_architecture_spelt_out_is_read_back_or_refused_with_reasons(name: str) -> None:
    known = load_architecture(name)
    inline = known.model_copy(update={"maxtext_model_name": None, "name": "inline"})
    of = case().model_copy(update={"architecture": inline})
    try:
        flags = maxtext.flags(of, split())
    except InputError as error:
        assert "MaxText has no decoder block" in str(error)
        return
    assert flags["model_name"] == "default"
    found = read_back(of, flags).case.architecture
    assert found.model_copy(update={"name": "inline", "notes": inline.notes}) == inline


def test_common_shapes_can_be_spelt_out() -> None:
    spelt = {}
    for name in ("llama3.1-70b", "mixtral-8x7b", "qwen3-32b", "qwen3-235b-a22b", "deepseek3-671b", "qwen2.5-7b"):
        inline = load_architecture(name).model_copy(update={"maxtext_model_name": None})
        spelt[name] = maxtext.flags(case().model_copy(update={"architecture": inline}), split())["decoder_block"]
    assert spelt == {
        "llama3.1-70b": "llama2", "mixtral-8x7b": "mixtral", "qwen3-32b": "qwen3", "qwen3-235b-a22b": "qwen3_moe",
        "deepseek3-671b": "deepseek", "qwen2.5-7b": "qwen2",
    }  # fmt: skip


# --- what is emitted --------------------------------------------------------------------------------------------------


def test_settings_the_model_file_contradicts_come_with_leave_to_override() -> None:
    """gpt3's own file asks for adam_pax; the case asks for adamw."""
    assert maxtext.flags(case("gpt3-175b"), split())["override_model_config"] is True
    assert "override_model_config" not in maxtext.flags(case(), split())


@pytest.mark.parametrize(("tokens", "tile"), [(8192, 512), (512, 512), (256, 256), (640, 640), (1536, 512), (768, 384)])
def test_tiles_divide_the_shard(tokens: int, tile: int) -> None:
    assert nearest_tile(512, tokens) == tile
    assert tokens % tile == 0


def test_fp8_is_qwix_with_every_matmul() -> None:
    of = case().model_copy(update={"workload": case().workload.model_copy(update={"precision": "fp8"})})
    flags = maxtext.flags(of, split())
    assert (flags["quantization"], flags["use_qwix_quantization"]) == ("fp8_full", True)
    assert "quantization" not in maxtext.flags(case(), split())


def test_expert_models_pass_each_stage_once_and_dense_ones_go_round() -> None:
    piped = split(ici={"fsdp": 32, "pipeline": 2}, pipeline_microbatches=4)
    assert maxtext.flags(case("deepseek3-671b"), piped)["num_layers_per_pipeline_stage"] == 29
    assert maxtext.flags(case(), piped)["num_layers_per_pipeline_stage"] == 1
    delayed = case(pipeline_delay_activations=True, pipeline_gather_weights="once")
    flags = maxtext.flags(delayed, piped)
    assert flags["pipeline_delay_activation_forwarding"] is True
    assert flags["pipeline_fsdp_ag_once"] is True


def test_a_ragged_buffer_needs_an_expert_axis() -> None:
    of = case("mixtral-8x7b", ragged_buffer_factor=2.0)
    assert "ragged_buffer_factor" not in maxtext.flags(of, split())
    assert maxtext.flags(of, split(ici={"fsdp": 8, "expert": 8}))["ragged_buffer_factor"] == 2.0
    dropping = case("mixtral-8x7b", sparse_matmul=False, capacity_factor=1.25)
    assert maxtext.flags(dropping, split())["capacity_factor"] == 1.25


def test_the_shipped_inline_case_can_be_launched() -> None:
    from shardplan.loaders.load import load_case

    of = load_case(data.model_configs_folder() / "cases" / "inline-moe-v5p.yaml")
    flags = maxtext.flags(of, split(ici={"fsdp": 128}, per_device_batch=4.0))
    assert flags["decoder_block"] == "deepseek"
    assert read_back(of, flags).case.architecture.layer_groups == of.architecture.layer_groups


# --- renderings -------------------------------------------------------------------------------------------------------


def test_renderings_are_the_same_every_time_and_say_the_same() -> None:
    of, wanted = case("deepseek3-671b"), split(remat_policy="custom", remat_tensors={"context": "device"})
    flags = maxtext.flags(of, wanted)
    assert maxtext.as_flags(flags) == maxtext.as_flags(maxtext.flags(of, wanted))
    lines = dict(shlex.split(line)[0].split("=", 1) for line in maxtext.as_flags(flags).splitlines())
    assert lines == {key: written(value) for key, value in flags.items()}
    yml = parse_yaml(maxtext.as_yml(flags), "x.yml").value
    assert yml.pop("base_config") == "base.yml"
    assert yml == flags


def test_a_command_is_safe_for_a_shell() -> None:
    inline = load_architecture("llama3.1-8b").model_copy(update={"maxtext_model_name": None})
    flags = maxtext.flags(case().model_copy(update={"architecture": inline}), split())
    line = maxtext.as_command(flags, run_name="$(rm -rf /); `x` 'y'", libtpu_init_args=["--a=$HOME"])
    assert "'mlp_activations=[silu,linear]'" in line
    assert "run_name=rm-rf-x-y" in line
    assert line.startswith("LIBTPU_INIT_ARGS='--a=$HOME' python3 -m maxtext.trainers.pre_train.train")
    assert '"${BASE_OUTPUT_DIRECTORY:?}"' in line


@pytest.mark.parametrize(("name", "safe"), [("A b/c", "a-b-c"), ("", "run"), ("--", "run"), ("x" * 99, "x" * 63)])
def test_run_names_are_safe(name: str, safe: str) -> None:
    assert slug(name) == safe


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (0.125, "0.125"), (1e-05, "1e-05"), (7, "7"), ("none", "none")]
)
def test_values_are_written_as_maxtext_reads_them(value: Any, text: str) -> None:
    assert written(value) == text


def test_every_setting_away_from_the_default_is_emitted_and_read_back() -> None:
    of = case(
        "mixtral-8x7b", attention="dot_product", logits_in_float32=False, weight_sum_in_float32=False, scan_layers=False,
        quantization="int8", iota_embed=True, context_strategy="all_gather", context_load_balance=False,
    )  # fmt: skip
    optimizer = Optimizer(name="muon", weight_dtype="bfloat16", first_moment_dtype="float32", gradient_dtype="bfloat16",
                          host_offload=True, shard_over_data=True)  # fmt: skip
    of = of.model_copy(update={"workload": of.workload.model_copy(update={"optimizer": optimizer})})
    flags = maxtext.flags(of, split(ici={"data": 16, "context": 4}, per_device_batch=0.5))
    expected = {
        "attention": "dot_product", "cast_logits_to_fp32": False, "float32_weight_sum": False, "scan_layers": False,
        "quantization": "int8", "use_iota_embed": True, "context_parallel_load_balance": False, "opt_type": "muon",
        "weight_dtype": "bfloat16", "mu_dtype": "float32", "grad_dtype": "bfloat16", "optimizer_memory_host_offload": True,
        "shard_optimizer_over_data": True, "per_device_batch_size": 0.5,
    }  # fmt: skip
    assert expected.items() <= flags.items()
    assert "sa_block_q" not in flags
    back = read_back(of, {**flags, "opt_type": "adamw"}).case
    assert back.runtime.context_load_balance is False
    assert back.workload.optimizer == optimizer.model_copy(update={"name": "adamw"})


def test_a_plan_without_a_decoder_block_has_no_flags_but_reasons() -> None:
    windowed = load_architecture("gpt-oss-20b").model_copy(update={"maxtext_model_name": None})
    of = case().model_copy(update={"architecture": windowed})
    assert maxtext.flags_if_any(of, split()) == ({}, {})
    with pytest.raises(InputError, match="windowed attention"):
        maxtext.flags(of, split())
    latent = load_architecture("deepseek3-671b").model_copy(update={"maxtext_model_name": None, "n_mtp_layers": 1})
    assert maxtext.model_flags(latent)["mtp_num_layers"] == 1
    layer = load_architecture("llama3.1-8b").layer_groups[0].layers[0]
    fused = layer.model_copy(update={"attention": layer.attention.model_copy(update={"fused_qkv": True})})
    group = load_architecture("llama3.1-8b").layer_groups[0].model_copy(update={"layers": (fused,)})
    inline = load_architecture("llama3.1-8b").model_copy(update={"maxtext_model_name": None, "layer_groups": (group,)})
    assert maxtext.model_flags(inline)["fused_qkv"] is True
    assert maxtext.flags(case(fused_attention_backward=True), split())["sa_use_fused_bwd_kernel"] is True
    normed = load_architecture("qwen3-8b").model_copy(update={"maxtext_model_name": None})
    assert maxtext.model_flags(normed)["use_qk_norm"] is True
