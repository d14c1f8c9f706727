"""Laws of the memory model: what adds up, what is linear, what a setting must and must not change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.compared import load_flags
from shardplan.cost.memory.total import Memory, memory
from shardplan.maxtext.remat import POLICIES

if TYPE_CHECKING:
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates

DENSE, MOE = "llama3.1-8b", "qwen3-30b-a3b"


def _case(topology: str = "tpu7x-8", slices: int = 1, **flags: Any) -> tuple[Case, Candidates]:
    usual = {"model_name": DENSE, "per_device_batch_size": 2, "max_target_length": 8192, "attention": "flash"}
    return load_flags({"id": "test", "topology": topology, "slices": slices, "flags": usual | flags})


def _memory(topology: str = "tpu7x-8", slices: int = 1, **flags: Any) -> Memory:
    return memory(*_case(topology, slices, **flags))


def _temp(topology: str = "tpu7x-8", slices: int = 1, **flags: Any) -> float:
    return float(_memory(topology, slices, **flags).temp_bytes[0])


CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tpu7x-8", {}),
    ("v5p-16", {"remat_policy": "minimal"}),
    ("v5e-64", {"num_vocab_tiling": 4}),
    ("tpu7x-64", {"remat_policy": "minimal_offloaded"}),
    ("tpu7x-16", {"model_name": MOE, "ici_expert_parallelism": 4}),
    ("tpu7x-16", {"model_name": "gpt-oss-20b", "max_target_length": 4096}),
    ("tpu7x-16", {"model_name": "deepseek2-16b", "max_target_length": 4096}),
    ("tpu7x-16", {"model_name": MOE, "sparse_matmul": "false", "capacity_factor": 1.25}),
    ("tpu7x-8", {"ici_pipeline_parallelism": 2, "num_layers_per_pipeline_stage": 4, "num_pipeline_microbatches": 4}),
    ("tpu7x-8", {"attention": "dot_product", "max_target_length": 2048, "gradient_accumulation_steps": 2}),
    ("tpu7x-16", {"model_name": "gemma3-4b", "max_target_length": 4096, "ici_tensor_parallelism": 4}),
)


@pytest.mark.parametrize(("topology", "flags"), CASES)
def test_breakdown_and_lines_add_up_to_the_total(topology: str, flags: dict[str, Any]) -> None:
    got = _memory(topology, **flags)
    assert sum(got.breakdown_at(0).values()) == pytest.approx(got.total_bytes[0])
    assert sum(term.value_at(0) for term in got.terms_at(0)) == pytest.approx(got.total_bytes[0])


@pytest.mark.parametrize(("topology", "flags"), CASES)
def test_temporaries_are_those_of_the_worst_moment(topology: str, flags: dict[str, Any]) -> None:
    got = _memory(topology, **flags)
    assert got.temp_bytes[0] == max(got.moments_at(0).values()) == got.moment_at(0).bytes[0]


@pytest.mark.parametrize(("topology", "flags"), CASES)
def test_every_line_is_its_formula_with_its_letters_filled_in(topology: str, flags: dict[str, Any]) -> None:
    for term in _memory(topology, **flags).terms_at(0):
        assert eval(term.formula, {}, term.at(0)) == pytest.approx(term.value_at(0)), term.name  # noqa: S307 - ours


def test_many_candidates_are_priced_as_each_alone() -> None:
    case, one = _case(ici_fsdp_parallelism=4, ici_tensor_parallelism=2)
    rows = one.take(np.zeros(len(POLICIES), dtype=np.int64))
    rows = replace(rows, remat=np.arange(len(POLICIES)), remat_policies=tuple(POLICIES.values()))
    together = memory(case, rows)
    for row in range(len(rows)):
        alone = memory(case, rows.take(np.array([row])))
        assert together.total_bytes[row] == pytest.approx(alone.total_bytes[0])
        assert together.host_bytes[row] == pytest.approx(alone.host_bytes[0])


def test_keeping_queries_keys_and_values_costs_exactly_their_bytes() -> None:
    tokens, layers = 2 * 8192, 32
    kept = 2 * (32 + 2 * 8) * 128 * tokens * layers
    assert _temp(remat_policy="save_qkv_proj") - _temp() == pytest.approx(kept)
    assert kept == 6_442_450_944


def test_keeping_what_no_backward_pass_needs_costs_nothing() -> None:
    assert _temp(remat_policy="custom", mlpwo="device") == _temp(remat_policy="custom")


def test_tensors_of_other_policies_are_ignored() -> None:
    assert _temp(remat_policy="full", mlpwi_0="device") == _temp(remat_policy="full")


def test_offloaded_inputs_leave_the_device_for_the_host() -> None:
    offloaded = _memory(remat_policy="custom", decoder_layer_input="offload")
    inputs = 2 * 2 * 8192 * 4096 * 32
    assert offloaded.host_bytes[0] == inputs == 4_294_967_296
    assert _temp() - offloaded.temp_bytes[0] == pytest.approx(inputs)


@given(tiles=st.sampled_from((2, 4, 8, 16)))
def test_tiling_the_vocabulary_never_costs_memory(tiles: int) -> None:
    assert _temp(num_vocab_tiling=tiles) < _temp()


@given(batch=st.integers(1, 16))
def test_a_larger_batch_needs_more(batch: int) -> None:
    assert _temp(per_device_batch_size=batch + 1) > _temp(per_device_batch_size=batch)


@given(sequence=st.sampled_from((2048, 4096, 8192)))
def test_only_the_number_of_tokens_counts_with_a_fused_kernel(sequence: int) -> None:
    batch = 4 * 8192 // sequence
    assert _temp(max_target_length=sequence, per_device_batch_size=batch) == pytest.approx(
        _temp(max_target_length=8192, per_device_batch_size=4)
    )


def test_scores_grow_with_the_square_of_the_sequence() -> None:
    def extra(sequence: int) -> float:
        flags = {"max_target_length": sequence, "per_device_batch_size": 2}
        return _temp(**flags, attention="dot_product") - _temp(**flags)

    assert extra(8192) > 3.5 * extra(4096) > 0


def test_accumulation_holds_one_more_gradient_of_every_weight() -> None:
    more = _temp(gradient_accumulation_steps=2) - _temp()
    assert more == pytest.approx(8_030_261_248 * 4 / 8, rel=0.12)


def test_bfloat16_weights_need_no_copies_and_half_the_gradients() -> None:
    assert _temp(weight_dtype="bfloat16") < _temp(grad_dtype="bfloat16") < _temp()


def test_worst_case_dispatch_makes_expert_parallelism_dearer_until_a_factor_bounds_it() -> None:
    flags = {"model_name": MOE, "max_target_length": 4096}
    balanced, parallel = _temp("tpu7x-16", **flags), _temp("tpu7x-16", **flags, ici_expert_parallelism=8)
    bounded = _temp("tpu7x-16", **flags, ici_expert_parallelism=8, ragged_buffer_factor=1.5)
    assert balanced < bounded < parallel


def test_stages_split_the_layers_but_keep_every_iteration() -> None:
    stages = {"ici_pipeline_parallelism": 2, "num_layers_per_pipeline_stage": 16}
    few = _temp(**stages, num_pipeline_microbatches=2, per_device_batch_size=4)
    many = _temp(**stages, num_pipeline_microbatches=8, per_device_batch_size=4)
    assert many < few


def test_what_is_less_certain_has_a_wider_band() -> None:
    plain = _memory().error_band[0]
    assert _memory("tpu7x-8", 2, dcn_data_parallelism=2).error_band[0] > plain
    assert _memory(remat_policy="minimal_offloaded").error_band[0] > plain
    assert _memory("tpu7x-16", model_name=MOE, ici_expert_parallelism=8).error_band[0] > plain
