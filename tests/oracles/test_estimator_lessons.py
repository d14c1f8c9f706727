"""What other estimators got wrong, by the public reports of `user_cases.jsonl` (scope `lesson`): ours does otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from shardplan.cost.tensors.parameters import active_parameters, total_parameters
from shardplan.engine.decide import check_split
from shardplan.loaders.load import load_record, parse_case
from shardplan.source import parse_json
from shardplan.splits.enumeration import split_rows
from shardplan.units import GIB

if TYPE_CHECKING:
    from shardplan.plan import ChoiceOut


def judged(topology: str, **flags: Any) -> ChoiceOut:
    launch = load_record({"id": "lesson", "topology": topology, "flags": flags})
    choice = check_split(launch.case, split_rows(launch.case, launch.split), "lesson").choice
    assert choice is not None
    return choice


LLAMA = {"model_name": "llama2-7b", "per_device_batch_size": 1, "max_target_length": 4096}


def test_state_is_not_sold_as_the_need() -> None:
    """E01: with the optimizer on the host, what is left of the state is a fraction of the need."""
    memory = judged("v5p-8", **LLAMA, optimizer_memory_host_offload=True).memory
    assert memory.total_bytes == memory.arguments_bytes + memory.temp_bytes
    assert memory.arguments_bytes < memory.total_bytes / 2
    assert memory.host_bytes > 0


def test_weights_gradients_and_moments_are_terms_of_their_own() -> None:
    """E03: a type changes its own term: 4, 8 and 4 bytes a parameter in float32."""
    plain, lean = judged("v5p-8", **LLAMA), judged("v5p-8", **LLAMA, mu_dtype="bfloat16")
    parts, leaner = plain.memory.breakdown, lean.memory.breakdown
    assert parts["optimizer_bytes"] == pytest.approx(2 * parts["weights_bytes"])
    assert leaner["optimizer_bytes"] == pytest.approx(1.5 * parts["weights_bytes"])
    assert leaner["weights_bytes"] == parts["weights_bytes"]
    assert leaner["gradients_bytes"] == parts["gradients_bytes"]


def test_memory_of_experts_grows_with_the_experts_a_token_visits() -> None:
    """E05: twice the experts a token, twice the rows that are dispatched; the state is the same."""
    moe = {"model_name": "mixtral-8x7b", "override_model_config": True, "per_device_batch_size": 4}
    two, four = (
        judged("v5p-64", **moe, max_target_length=4096, num_experts_per_tok=k, num_vocab_tiling=16).memory
        for k in (2, 4)
    )
    assert four.arguments_bytes == two.arguments_bytes
    assert four.total_bytes > two.total_bytes + GIB


def test_memory_is_for_all_experts_and_compute_for_the_active_ones() -> None:
    """E13: 12 bytes for each of 235B parameters, not of the 22B that a token sees."""
    flags = {"model_name": "qwen3-235b-a22b", "per_device_batch_size": 1, "max_target_length": 4096}
    launch = load_record({"id": "E13", "topology": "v5p-512", "flags": flags})
    architecture = launch.case.architecture
    assert active_parameters(architecture) < total_parameters(architecture) / 10
    state = judged("v5p-512", **flags).memory.arguments_bytes
    assert state == pytest.approx(12 * total_parameters(architecture) / 256, rel=0.02)


def test_activations_are_not_a_constant() -> None:
    """E16: they follow the batch, the sequence and the remat policy."""
    base = judged("v5p-64", **LLAMA).memory.total_bytes
    for change in ({"per_device_batch_size": 2}, {"max_target_length": 8192}, {"remat_policy": "minimal"}):
        assert judged("v5p-64", **LLAMA | change).memory.total_bytes > base + GIB


def _parameters(*, heads: int, width: int, model_width: int = 6144) -> int:
    """Parameters of one layer of multi-head attention and its feed-forward block."""
    attention = {"n_query_heads": heads, "n_key_value_heads": heads, "head_width": width}
    layer = {"count": 1, "attention": attention, "feed_forward": {"width": model_width}}
    model = {"model_width": model_width, "vocab_size": 32000, "layer_groups": [layer]}
    work = {"sequence_length": 4096, "global_batch": 8}
    case = {"model": model, "workload": work, "cluster": {"accelerator": "v5p-16"}}
    return total_parameters(parse_case(parse_json(json.dumps(case), "inline")).architecture)


def test_heads_may_be_wider_together_than_the_model() -> None:
    """O03: 64 heads of 128 make projections of 6144 x 8192, four of them."""
    assert _parameters(heads=64, width=128) - _parameters(heads=64, width=96) == 4 * 6144 * (8192 - 6144)


def test_the_head_width_given_is_the_one_used() -> None:
    """O01: Gemma 2 9B has 16 heads of 256 on a width of 3584."""
    case = load_record(
        {"id": "O01", "topology": "v5p-16", "flags": {"model_name": "gemma2-9b", "per_device_batch_size": 1}}
    ).case
    assert {layer.attention.head_width for layer, _ in case.architecture.layers} == {256}
    assert case.architecture.model_width == 3584


def test_latent_attention_is_counted_tensor_by_tensor() -> None:
    """E07: DeepSeek V2 Lite, 27 layers: query 16 x 192, compression 512 + 64, 16 heads of 128 + 128 out of it, output."""
    case = load_record(
        {"id": "E07", "topology": "v5p-16", "flags": {"model_name": "deepseek2-16b", "per_device_batch_size": 1}}
    ).case
    heads, width = 16, 2048
    latent = width * heads * 192 + width * (512 + 64) + 512 + 512 * heads * (128 + 128) + heads * 128 * width
    dense = 3 * width * 10944
    experts = width * 64 + 3 * width * 1408 * (64 + 2)
    norms = 2 * width
    layers = 27 * (latent + norms) + dense + 26 * experts
    assert total_parameters(case.architecture) == layers + 2 * 102400 * width + width


def test_windows_lower_the_time_of_attention() -> None:
    """O12: the same layers at 32k tokens, with and without a window of 1024."""
    attention = {"n_query_heads": 32, "n_key_value_heads": 8, "head_width": 128}
    model = {"model_width": 4096, "vocab_size": 32000}
    layer = {"count": 32, "feed_forward": {"width": 14336}}
    work = {"sequence_length": 32768, "global_batch": 32}
    plan = {"ici": {"fsdp": 32}, "per_device_batch": 1}
    seconds = []
    for window in ({}, {"window": 1024}):
        groups = [layer | {"attention": attention | window}]
        text = json.dumps(
            {
                "model": model | {"layer_groups": groups},
                "workload": work,
                "cluster": {"accelerator": "v5p-64"},
                "plan": plan,
            }
        )
        case = parse_case(parse_json(text, "inline"))
        assert case.plan is not None
        choice = check_split(case, split_rows(case, case.plan), "inline").choice
        assert choice is not None
        seconds.append(choice.time.estimate_s)
    assert seconds[1] < 0.8 * seconds[0]
