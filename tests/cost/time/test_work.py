"""Laws of the work of a step: linear, equal for one candidate and for many, and only as much recomputed as needed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan.cost.distinct import distinct
from shardplan.cost.tensors.saved import saved_tensors
from shardplan.cost.time.compute import (
    attention_backward_flops,
    attention_forward_flops,
    attention_two_pass_flops,
    causal_share,
    chunked_share,
    grouped_rows_factor,
    layer_matmuls,
    model_flops_per_token,
    pair_share,
    sliding_share,
    tile_share,
)
from shardplan.cost.time.work import Work, work
from shardplan.machine.chips import resolve_cluster
from shardplan.spec import (
    Architecture,
    Attention,
    Case,
    FeedForward,
    Layer,
    LayerGroup,
    Optimizer,
    Runtime,
    Split,
    Workload,
)
from shardplan.splits.candidates import Candidates

ATTENTION = Attention(n_query_heads=32, n_key_value_heads=8, head_width=128)
DENSE = FeedForward(width=8192)
MOE = FeedForward(kind="moe", width=1024, n_experts=32, n_active_experts=4, n_shared_experts=1)


def _case(layers: int = 4, block: tuple[Layer, ...] | None = None, **runtime: Any) -> Case:
    block = block or (Layer(attention=ATTENTION, feed_forward=DENSE),)
    return Case(
        architecture=Architecture(
            model_width=4096, vocab_size=32000, layer_groups=(LayerGroup(count=layers, layers=block),)
        ),
        workload=Workload(sequence_length=4096, global_batch=64),
        cluster=resolve_cluster("v5p", topology="2x4x4"),
        runtime=Runtime(**runtime),
    )


def _candidates(*splits: dict[str, Any]) -> Candidates:
    rows = [Split(**({"ici": {"fsdp": 32}, "per_device_batch": 2.0} | split)) for split in splits]
    return Candidates.of_splits(rows, [1] * len(rows), [False] * len(rows))


def _one(case: Case, **split: Any) -> dict[str, float]:
    done = work(case, _candidates(split))
    return {f.name: float(getattr(done, f.name)[0]) for f in fields(Work)}


SPLITS = st.fixed_dictionaries(
    {
        "ici": st.sampled_from(
            [{"fsdp": 32}, {"fsdp": 8, "tensor": 4}, {"fsdp": 16, "context": 2}, {"data": 4, "expert": 8}]
        ),
        "per_device_batch": st.sampled_from([0.5, 1.0, 2.0, 8.0]),
        "gradient_accumulation": st.integers(1, 4),
        "num_vocab_tiling": st.sampled_from([1, 4]),
        "remat_policy": st.sampled_from(["full", "minimal", "save_qkv_proj", "qkv_proj_offloaded"]),
    }
)


@given(st.lists(SPLITS, min_size=1, max_size=6))
def test_many_candidates_at_once_are_each_alone(splits: list[dict[str, Any]]) -> None:
    case = _case(block=(Layer(attention=ATTENTION, feed_forward=MOE),))
    together = work(case, _candidates(*splits))
    for row, split in enumerate(splits):
        alone = _one(case, **split)
        assert {f.name: getattr(together, f.name)[row] for f in fields(Work)} == pytest.approx(alone)


@given(SPLITS)
def test_work_of_layers_adds_up(split: dict[str, Any]) -> None:
    two, four, six = (_one(_case(n), **split) for n in (2, 4, 6))
    for name in ("low_s", "stall_bytes", "attention_forward_s", "touched_bytes", "flops", "low_again_s"):
        assert six[name] - four[name] == pytest.approx(four[name] - two[name])


def test_micro_steps_multiply_the_work() -> None:
    one, four = _one(_case()), _one(_case(), gradient_accumulation=4)
    assert four["flops"] == pytest.approx(4 * one["flops"])
    assert four["optimizer_bytes"] > one["optimizer_bytes"]


def test_executed_flops_exceed_model_flops_by_recomputation_and_masked_tiles() -> None:
    case, done = _case(), _one(_case(), remat_policy="full")
    assert done["flops"] > model_flops_per_token(case.architecture, 4096) * done["tokens"]


@pytest.mark.parametrize(
    ("policy", "tensors", "again"),
    [
        ("full", {}, {"query", "key", "value", "out", "gate", "up"}),
        ("save_qkv_proj", {}, {"out", "gate", "up"}),
        ("save_out_proj", {}, {"query", "key", "value", "gate", "up"}),
        ("save_dot_except_mlpwi", {}, {"gate", "up"}),
        ("minimal", {}, set()),
        ("custom", {"mlpwi_0": "device", "query_proj": "offload"}, {"key", "value", "out", "up"}),
    ],
)
def test_only_what_the_backward_pass_lacks_is_recomputed(policy: str, tensors: dict[str, str], again: set[str]) -> None:
    case, tokens = _case(1), 2 * 4096
    matmuls = layer_matmuls(case.architecture.layers[0][0], 4096)
    expected = sum(m.inner * m.outer for m in matmuls if m.name in again) * 2 * tokens / 459e12
    assert _one(case, remat_policy=policy, remat_tensors=tensors)["low_again_s"] == pytest.approx(expected)


@pytest.mark.parametrize(("policy", "is_again"), [("minimal", True), ("minimal_with_context", False)])
def test_the_attention_kernel_runs_again_unless_its_output_is_kept(policy: str, *, is_again: bool) -> None:
    assert (_one(_case(), remat_policy=policy)["attention_again_s"] > 0) == is_again


def test_a_norm_after_the_block_needs_its_output_again() -> None:
    plain, post = (
        _one(_case(block=(Layer(attention=ATTENTION, feed_forward=DENSE, n_norms=n),)), remat_policy="full")
        for n in (2, 4)
    )
    assert post["low_again_s"] > plain["low_again_s"]


def test_layers_inside_a_recomputed_block_need_their_outputs_again() -> None:
    layer = Layer(attention=ATTENTION, feed_forward=DENSE)
    single, paired = _one(_case(4, (layer,))), _one(_case(2, (layer, layer)))
    assert paired["low_again_s"] > single["low_again_s"]
    assert paired["low_s"] == pytest.approx(single["low_s"])


def test_router_weights_need_the_experts_outputs_again() -> None:
    case = _case(block=(Layer(attention=ATTENTION, feed_forward=MOE),))
    kept, lost = (_one(case, remat_policy="custom", remat_tensors=t)["low_again_s"] for t in ({"mlpwo": "device"}, {}))
    assert kept < lost


def test_tensor_parallelism_shares_matmuls_but_not_the_sorting_of_rows() -> None:
    case = _case(block=(Layer(attention=ATTENTION, feed_forward=MOE),))
    whole, shared = _one(case), _one(case, ici={"fsdp": 8, "tensor": 4})
    split = {"ici": {"fsdp": 8, "tensor": 4}}
    assert _one(_case(), **split)["low_s"] == pytest.approx(_one(_case())["low_s"])
    assert shared["routed_bytes"] == pytest.approx(4 * whole["routed_bytes"])


def test_expert_parallelism_moves_rows_twice_in_larger_buffers() -> None:
    case = _case(block=(Layer(attention=ATTENTION, feed_forward=MOE),))
    assert _one(case, ici={"expert": 8, "data": 4})["routed_bytes"] > 2 * _one(case)["routed_bytes"]
    bounded = _case(block=(Layer(attention=ATTENTION, feed_forward=MOE),), ragged_buffer_factor=1.5)
    assert (
        _one(bounded, ici={"expert": 8, "data": 4})["routed_bytes"]
        < _one(case, ici={"expert": 8, "data": 4})["routed_bytes"]
    )


def test_the_dense_expert_path_multiplies_by_masks_instead_of_sorting() -> None:
    block = (Layer(attention=ATTENTION, feed_forward=MOE),)
    sparse, dropping, every = (
        _one(_case(block=block, **runtime))
        for runtime in ({}, {"sparse_matmul": False, "capacity_factor": 1.25}, {"sparse_matmul": False})
    )
    assert dropping["routed_bytes"] == every["routed_bytes"] == 0 < sparse["routed_bytes"]
    assert dropping["plain_s"] > sparse["plain_s"]
    assert every["low_s"] > dropping["low_s"]


def test_unbalanced_context_shards_wait_for_the_last() -> None:
    split = {"ici": {"fsdp": 16, "context": 2}}
    even, uneven = (_one(_case(context_load_balance=b), **split)["attention_forward_s"] for b in (True, False))
    assert uneven == pytest.approx(1.5 * even)


def test_exchanging_heads_leaves_every_device_as_much_attention() -> None:
    split: dict[str, Any] = {"ici": {"fsdp": 16, "context": 2}, "per_device_batch": 0.5}
    cases = (_case(context_load_balance=b, context_strategy="ulysses") for b in (True, False))
    balanced, not_balanced = (_one(case, **split)["attention_forward_s"] for case in cases)
    assert not_balanced == balanced


def test_two_kernels_do_seven_matmuls_where_one_does_five() -> None:
    two, one = (_one(_case(fused_attention_backward=f))["attention_backward_s"] for f in (False, True))
    assert two == pytest.approx(7 / 5 * one)
    assert attention_two_pass_flops(1, 1, 1, 1, 1) == 7 / 5 * attention_backward_flops(1, 1, 1, 1, 1)


def test_dot_product_attention_computes_every_pair() -> None:
    flash, all_pairs = (_one(_case(attention=a))["attention_forward_s"] for a in ("flash", "dot_product"))
    assert all_pairs > flash


def test_low_precision_casts_what_it_multiplies() -> None:
    def touched(chip: str, precision: Any) -> float:
        case = _case()
        low = case.model_copy(
            update={
                "cluster": resolve_cluster(chip, topology="2x4x4"),
                "workload": Workload(sequence_length=4096, global_batch=64, precision=precision),
            }
        )
        return _one(low)["touched_bytes"]

    assert touched("tpu7x", "fp8") > touched("tpu7x", "bf16")
    assert touched("v5p", "fp8") == touched("v5p", "bf16"), "no faster there, nothing is cast"


def test_vocabulary_tiles_recompute_the_head() -> None:
    assert _one(_case(), num_vocab_tiling=1)["plain_again_s"] == 0 < _one(_case(), num_vocab_tiling=4)["plain_again_s"]


def test_multi_token_prediction_adds_a_layer_and_a_head() -> None:
    plain = _case(4)
    extra = plain.model_copy(update={"architecture": plain.architecture.model_copy(update={"n_mtp_layers": 1})})
    assert _one(extra)["plain_s"] > 1.9 * _one(plain)["plain_s"]
    assert _one(extra)["attention_forward_s"] == pytest.approx(5 / 4 * _one(plain)["attention_forward_s"])


def test_offloaded_moments_travel_instead_of_staying() -> None:
    case = _case()
    away = case.model_copy(
        update={"workload": Workload(sequence_length=4096, global_batch=64, optimizer=Optimizer(host_offload=True))}
    )
    assert _one(case)["host_state_bytes"] == 0 < _one(away)["host_state_bytes"]


def test_latent_and_fused_attention_name_their_own_tensors() -> None:
    mla = Attention(
        kind="mla", n_query_heads=8, n_key_value_heads=8, query_rank=64, key_value_rank=32, nope_width=16, rope_width=8,
        value_width=16,
    )  # fmt: skip
    assert row_bytes(Layer(attention=mla, feed_forward=DENSE))["kv_wa_proj"] == 2 * 40
    no_rank = mla.model_copy(update={"query_rank": 0})
    names = {m.name for m in layer_matmuls(Layer(attention=no_rank, feed_forward=DENSE), 256)}
    assert "query_down" not in names
    fused = ATTENTION.model_copy(update={"fused_qkv": True})
    ungated = FeedForward(width=512, gated=False)
    found = row_bytes(Layer(attention=fused, feed_forward=ungated))
    assert found["qkv_proj"] == 2 * (32 + 8 + 8) * 128
    assert found["mlpwi"] == 2 * 512


def row_bytes(layer: Layer) -> dict[str, float]:
    return {tensor.name: tensor.row_bytes for tensor in saved_tensors(layer, 256, is_last=True)}


@given(
    st.integers(1, 64), st.integers(1, 64), st.sampled_from([128, 512, 2048]), st.sampled_from(["sliding", "chunked"])
)
def test_masks_let_less_through_than_kernels_compute(T: int, w: int, b: int, kind: Any) -> None:
    length, window = 128 * T, 128 * w
    windowed = ATTENTION.model_copy(update={"window": window, "window_kind": kind})
    assert pair_share(windowed, length) <= pair_share(ATTENTION, length) == causal_share(length) == 0.5
    assert pair_share(windowed, length) <= tile_share(windowed, length, b) <= tile_share(ATTENTION, length, b) <= 1


def test_shares_are_those_of_the_masks() -> None:
    assert sliding_share(8192, 8192) == chunked_share(8192, 8192) == causal_share(8192)
    rows = np.arange(64)
    seen = (rows[:, None] >= rows) & (rows[:, None] - rows < 16)
    assert sliding_share(64, 16) == pytest.approx(seen.mean(), abs=0.01)
    assert attention_forward_flops(64, 64, 8, 8, 1) == 2 * 2 * 64 * 64 * 8


def test_a_tile_shared_by_two_experts_is_computed_for_both() -> None:
    assert grouped_rows_factor(512, 512) == 2
    assert grouped_rows_factor(1e9, 512) == pytest.approx(1)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 2)), min_size=1, max_size=30))
def test_equal_rows_share_a_combination_and_others_do_not(rows: list[tuple[int, float]]) -> None:
    columns = [np.array([r[i] for r in rows], dtype=np.float64) for i in (0, 1)]
    found = distinct(columns)
    assert len(found.first) == len({tuple(map(float, r)) for r in rows})
    for column in columns:
        assert (column[found.first][found.inverse] == column).all()
        assert (found.spread(column[found.first]) == column).all()
    assert (found.spread(np.float64(7)) == np.full(len(rows), 7.0)).all()
