from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maxtext_points import architecture_of, candidate_of, case_of, read_points

from shardplan.cost.tensors.layout import padded_bytes
from shardplan.cost.tensors.parameters import parameter_tensors, total_parameters, variable_tensors
from shardplan.cost.tensors.sharding import (
    copy_elements,
    indivisible,
    insufficiently_sharded_fraction,
    local_sizes,
    mesh_axes,
    shard_count,
    sharded_elements,
    tensor_axes,
    uneven_splits,
)
from shardplan.cost.tensors.state import argument_bytes, loaded_rows, loaded_tokens
from shardplan.loaders.presets import load_architecture
from shardplan.spec import AXES, Case, Optimizer, Split, Workload
from shardplan.splits.candidates import Candidates

SHARDS = read_points("shards.jsonl")
COMPILED = read_points("compiled.jsonl")
LLAMA = load_architecture("llama3.1-8b")


def candidates(*meshes: dict[str, int], batch: float = 1.0, accumulation: int = 1, **dcn: int) -> Candidates:
    splits = [Split(ici=mesh, dcn=dcn, per_device_batch=batch, gradient_accumulation=accumulation) for mesh in meshes]
    return Candidates.of_splits(splits, [1] * len(splits), [False] * len(splits))


def case(model: str = "llama3.1-8b", sequence: int = 8192, **optimizer: Any) -> Case:
    workload = Workload(sequence_length=sequence, per_device_batch=1, optimizer=Optimizer(**optimizer))
    return Case.model_construct(name="x", architecture=load_architecture(model), workload=workload)


# --- MaxText and its compiler as oracles -----------------------------------------------------------------------------


@pytest.mark.parametrize("point", SHARDS, ids=lambda p: p["id"])
def test_every_device_holds_what_maxtext_shards_to_it(point: dict[str, Any]) -> None:
    """Elements of weights on a device, all axes at once. Source: MaxText 0.2.5 abstract state with shardings."""
    model, row = architecture_of(point), candidate_of(point)
    held = sum(int(sharded_elements(t, row)[0]) for t in (*parameter_tensors(model), *variable_tensors(model)))
    assert held == point["weights"]


@pytest.mark.parametrize("point", SHARDS, ids=lambda p: p["id"])
def test_moments_hold_what_maxtext_shards_to_them(point: dict[str, Any]) -> None:
    """Elements of both moments on a device; padding adds up to 8% where few rows are left. Source: as above."""
    state = argument_bytes(case_of(point), candidate_of(point))
    for term, letter, want in ((state.first_moment, "M", "first_moment"), (state.second_moment, "U", "second_moment")):
        assert point[want] <= term.letters[letter][0] <= 1.08 * point[want]


@pytest.mark.parametrize("point", COMPILED, ids=lambda p: p["id"])
def test_state_equals_the_compiled_argument_size_to_the_byte(point: dict[str, Any]) -> None:
    """Source: XLA TPU compiler through MaxText 0.2.5; argument_size_in_bytes and host_argument_size_in_bytes."""
    state = argument_bytes(case_of(point), candidate_of(point))
    assert state.device_bytes[0] == point["argument_bytes"]
    assert state.host_bytes[0] == point["host_bytes"]


def test_offloaded_moments_move_to_the_host_with_their_scalars() -> None:
    """Source: maxtext reference 4.2, llama3.1-8b on 8 devices with optimizer_memory_host_offload."""
    state = argument_bytes(case(host_offload=True), candidates({"fsdp": 8}))
    assert state.device_bytes[0] == 4_016_237_056
    assert state.host_bytes[0] == 8_032_126_464


def test_accumulation_multiplies_the_batch() -> None:
    """Source: maxtext reference 4.2, GA=2."""
    assert argument_bytes(case(), candidates({"fsdp": 8}, accumulation=2)).device_bytes[0] == 12_048_527_360


@pytest.mark.parametrize(
    ("optimizer", "gib"), [({}, 1.344), ({"first_moment_dtype": "bfloat16"}, 1.120), ({"name": "sgd"}, 0.448)]
)
def test_optimizers_keep_what_the_reference_measured(optimizer: dict[str, Any], gib: float) -> None:
    """Per-device state of llama3-8b with 4 layers on 16 devices, GiB. Source: maxtext reference 4.2."""
    *_, last = LLAMA.layer_groups
    model = LLAMA.model_copy(update={"layer_groups": (last.model_copy(update={"count": 4}),)})
    four = case(**optimizer).model_copy(update={"architecture": model})
    state = argument_bytes(four, candidates({"fsdp": 16}))
    kept = sum(t.value[0] for t in (state.weights, state.first_moment, state.second_moment))
    assert kept / 2**30 == pytest.approx(gib, abs=1e-3)


@pytest.mark.parametrize(("mesh", "gib"), [({"data": 16}, 8.060), ({"data": 8, "tensor": 2}, 4.478)])
def test_zero1_splits_only_the_moments(mesh: dict[str, int], gib: float) -> None:
    """Source: maxtext reference 4.2 (4 layers of llama3-8b)."""
    *_, last = LLAMA.layer_groups
    model = LLAMA.model_copy(update={"layer_groups": (last.model_copy(update={"count": 4}),)})
    four = case(shard_over_data=True).model_copy(update={"architecture": model})
    state = argument_bytes(four, candidates(mesh))
    kept = sum(t.value[0] for t in (state.weights, state.first_moment, state.second_moment))
    assert kept / 2**30 == pytest.approx(gib, abs=1e-3)


# --- which axes split what -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        pytest.param(("embed", "mlp"), (("fsdp", "context", "expert"), ("fsdp_transpose", "tensor")), id="mlp"),
        pytest.param(
            ("exp", "embed_moe", "mlp_moe"),
            (("expert",), ("fsdp", "context"), ("fsdp_transpose", "tensor")),
            id="expert",
        ),
        pytest.param(("embed_router", "none"), (("fsdp", "fsdp_transpose", "context"), ()), id="deepseek-router"),
        pytest.param(("embed", "none"), (("fsdp", "fsdp_transpose", "context", "expert"), ()), id="router"),
        pytest.param(("norm",), (("tensor",),), id="norm"),
        pytest.param(("norm_fsdp",), (("fsdp",),), id="norm-of-llama2-files"),
        pytest.param(("exp", "activation_mlp"), (("expert",), ("tensor",)), id="expert-bias"),
    ],
)
def test_an_axis_splits_one_dimension_of_a_tensor(dims: tuple[str, ...], axes: tuple[tuple[str, ...], ...]) -> None:
    assert mesh_axes(tuple((64, name) for name in dims)) == axes


def test_data_splits_no_weight_and_stages_only_stacked_layers() -> None:
    tensors = parameter_tensors(LLAMA)
    assert not any("data" in tensor_axes(t) for t in tensors)
    outside = {t.name for t in tensors if "pipeline" not in tensor_axes(t)}
    assert outside == {"embedding", "head", "final_norm_0"}


degrees = st.sampled_from([1, 2, 4, 8])
meshes = st.fixed_dictionaries(dict.fromkeys(AXES, degrees))


@given(meshes, st.sampled_from(["llama3.1-8b", "deepseek2-16b", "gpt-oss-20b", "gemma3-4b", "gpt3-6b"]))
def test_shards_sum_to_the_whole(mesh: dict[str, int], name: str) -> None:
    mesh["pipeline"] = 1
    row = candidates(mesh)
    for tensor in parameter_tensors(load_architecture(name)):
        parts = int(shard_count(tensor, row)[0]) * int(sharded_elements(tensor, row)[0])
        if indivisible(tensor, row)[0]:
            assert parts > tensor.elements
        else:
            assert parts == tensor.elements


@settings(max_examples=20)
@given(st.lists(meshes, min_size=1, max_size=5))
def test_a_column_of_candidates_equals_each_alone(rows: list[dict[str, int]]) -> None:
    together = argument_bytes(case("deepseek2-16b"), candidates(*rows)).device_bytes
    alone = [argument_bytes(case("deepseek2-16b"), candidates(row)).device_bytes[0] for row in rows]
    assert together.tolist() == alone


@given(meshes, st.sampled_from(AXES))
def test_more_devices_never_hold_more_of_a_weight(mesh: dict[str, int], axis: str) -> None:
    doubled = {**mesh, axis: 2 * mesh[axis]}
    rows = candidates(mesh, doubled)
    for tensor in parameter_tensors(load_architecture("mixtral-8x7b")):
        before, after = sharded_elements(tensor, rows)
        assert after <= before


@settings(max_examples=30)
@given(meshes)
def test_slices_split_weights_as_chips_do(mesh: dict[str, int]) -> None:
    inside = argument_bytes(case(), candidates({**mesh, "fsdp": 4 * mesh["fsdp"]})).weights.value
    across = argument_bytes(case(), candidates(mesh, fsdp=4)).weights.value
    assert inside.tolist() == across.tolist()


def test_local_sizes_are_per_dimension() -> None:
    query = next(t for t in parameter_tensors(LLAMA) if t.name.endswith(".query"))
    row = candidates({"fsdp": 4, "tensor": 8})
    assert [int(size[0]) for size in local_sizes(query, row)] == [1024, 4, 128]
    assert copy_elements(query, row)[0] == 1024 * 4 * 128


# --- what does not divide --------------------------------------------------------------------------------------------


def test_uneven_splits_name_the_dimension_and_the_axes() -> None:
    rows = candidates({"tensor": 16}, {"fsdp": 8})
    splits = uneven_splits(parameter_tensors(LLAMA), rows)
    assert [(s.logical_axis, s.size, s.mask.tolist()) for s in splits] == [("kv_heads", 8, [True, False])]
    assert splits[0].message(0, rows) == "group0.layer0.key: dimension kv_heads of 8 is not a multiple of tensor 16"


def test_one_odd_size_is_reported_once() -> None:
    model = load_architecture("gpt-oss-20b")
    splits = uneven_splits(parameter_tensors(model), candidates({"fsdp": 128}))
    assert {(s.size, s.axes) for s in splits} == {
        (2880, ("fsdp", "fsdp_transpose", "context", "expert")),
        (2880, ("fsdp", "context")),
    }


def test_divisible_meshes_have_no_faults() -> None:
    assert uneven_splits(parameter_tensors(LLAMA), candidates({"fsdp": 8, "tensor": 8})) == []
    query = next(t for t in parameter_tensors(LLAMA) if t.name.endswith(".query"))
    assert not indivisible(query, candidates({"fsdp": 8})).any()


# --- the trainer's sharding tolerance --------------------------------------------------------------------------------


def test_fsdp_leaves_only_norms_unsplit() -> None:
    fraction = insufficiently_sharded_fraction(LLAMA, candidates({"fsdp": 8}, {"data": 8}, {"pipeline": 2, "fsdp": 4}))
    norms = 65 * 4096 / (4 * total_parameters(LLAMA))
    assert fraction.tolist() == pytest.approx([norms, 0.0, 0.0])


def test_transposed_fsdp_counts_as_missing_where_it_splits_nothing() -> None:
    qwen = load_architecture("qwen3-30b-a3b")
    bf16, fp32 = (insufficiently_sharded_fraction(qwen, candidates({"expert": 8}), size)[0] for size in (2, 4))
    assert bf16 == 2 * fp32 > 0


# --- the batch and the layout ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "batch", "accumulation", "rows"),
    [
        pytest.param({"fsdp": 8}, 1.0, 1, 1, id="one-row-a-device"),
        pytest.param({"fsdp": 2, "context": 4}, 0.25, 1, 4, id="below-one-loads-a-row-a-device"),
        pytest.param({"fsdp": 4, "tensor": 2}, 2.0, 3, 12, id="accumulation-multiplies"),
        pytest.param({"pipeline": 2, "fsdp": 4}, 2.0, 1, 2, id="stages-split-the-loaded-batch"),
    ],
)
def test_loaded_rows(mesh: dict[str, int], batch: float, accumulation: int, rows: int) -> None:
    assert loaded_rows(candidates(mesh, batch=batch, accumulation=accumulation))[0] == rows


def test_context_splits_the_loaded_sequence() -> None:
    assert loaded_tokens(8192, candidates({"context": 8}, batch=1.0))[0] == 8 * 1024


@pytest.mark.parametrize(
    ("sizes", "element_bytes", "expected"),
    [
        pytest.param((4096,), 4, 16384, id="vector"),
        pytest.param((100,), 4, 512, id="short-vector"),
        pytest.param((4096, 94), 4, 4096 * 96 * 4, id="94-layers-fill-96-rows"),
        pytest.param((14, 58, 1536), 4, 14 * 64 * 1536 * 4, id="the-lesser-padding"),
        pytest.param((4096, 94), 2, 4096 * 96 * 2, id="bf16"),
        pytest.param((32, 4), 4, 4 * 128 * 4, id="few-rows-in-a-small-tile"),
        pytest.param((6, 8192), 4, 8 * 8192 * 4, id="six-rows-take-eight"),
    ],
)
def test_padding_of_an_array(sizes: list[int], element_bytes: int, expected: int) -> None:
    columns = [np.array([size], dtype=np.int64) for size in sizes]
    assert padded_bytes(columns, element_bytes)[0] == expected


@given(st.lists(st.integers(1, 300), min_size=1, max_size=4), st.sampled_from([2, 4]))
def test_padding_never_shrinks_and_ignores_order(sizes: list[int], element_bytes: int) -> None:
    columns = [np.array([size], dtype=np.int64) for size in sizes]
    padded = padded_bytes(columns, element_bytes)[0]
    assert padded >= np.prod(sizes) * element_bytes
    assert padded == padded_bytes(columns[::-1], element_bytes)[0]


@given(st.lists(st.integers(1, 4).map(lambda tiles: 128 * tiles), min_size=2, max_size=4), st.sampled_from([2, 4]))
def test_whole_tiles_need_no_padding(sizes: list[int], element_bytes: int) -> None:
    columns = [np.array([size], dtype=np.int64) for size in sizes]
    assert padded_bytes(columns, element_bytes)[0] == np.prod(sizes) * element_bytes


def test_state_is_explained_by_its_formulas() -> None:
    state = argument_bytes(case(), candidates({"fsdp": 8}))
    assert [term.formula for term in state.terms] == ["P * w", "M * m", "U * u", "5 * 4 * n", "512 * s"]
    assert sum(term.value_at(0) for term in state.terms) == state.device_bytes[0]
    assert state.host_bytes[0] == 0
