"""Every legal split, and a complete account of the others."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_cases import DENSE, DENSE_MODEL, GQA, MOE, MOE_MODEL, architecture, case_of

from shardplan.engine.variants import expand, variants_of
from shardplan.machine.chips import resolve_cluster
from shardplan.spec import AXES, Case, Constraints, Runtime, Workload
from shardplan.splits.enumeration import (
    _ordered_factorizations,
    batch_is_legal,
    enumerate_candidates,
    legal_meshes,
)
from shardplan.splits.laws import DCN_AXES
from shardplan.splits.sizes import Sizes, pipelined_blocks

CASES = [
    pytest.param(case_of(DENSE_MODEL), id="dense"),
    pytest.param(case_of(MOE_MODEL), id="moe"),
    pytest.param(case_of(DENSE_MODEL, slices=2), id="two-slices"),
    pytest.param(case_of(MOE_MODEL, "4x4x12", batch=768), id="moe-384-devices"),
]


@pytest.mark.parametrize("case", CASES)
def test_degrees_multiply_to_devices_and_slices(case: Case) -> None:
    found = enumerate_candidates(case).candidates
    assert len(found)
    for mesh, total in ((found.ici, case.cluster.devices_per_slice), (found.dcn, case.cluster.slices)):
        product = math.prod(mesh.column(axis) for axis in AXES)
        assert np.all(product == total)


@pytest.mark.parametrize("case", CASES)
def test_every_mesh_is_legal_or_tallied(case: Case) -> None:
    tally: dict[str, int] = {}
    legal = legal_meshes(case, tally)
    if case.cluster.slices == 1:
        assert len(legal) + sum(tally.values()) == _ordered_factorizations(case.cluster.devices, len(AXES))
    assert all(count > 0 for count in tally.values())


@given(st.integers(1, 400), st.integers(1, 4))
def test_ordered_factorizations_are_counted(total: int, n_axes: int) -> None:
    divisors_of = [d for d in range(1, total + 1) if total % d == 0]
    brute = sum(math.prod(pick) == total for pick in itertools.product(divisors_of, repeat=n_axes))
    assert _ordered_factorizations(total, n_axes) == brute


@pytest.mark.parametrize("case", CASES)
def test_degrees_divide_what_they_split(case: Case) -> None:
    found, by = enumerate_candidates(case).candidates, Sizes.of(case.architecture)
    layer = case.architecture.layers[0][0]
    tensor = found.degree("tensor")
    for size in (16, 8, layer.feed_forward.width, 32768, 2048):
        assert np.all(size % tensor == 0)
    assert np.all(2048 % found.degree("fsdp", "fsdp_transpose", "context", "expert") == 0)
    assert np.all(by.experts % found.degree("expert") == 0)
    assert np.all(12 % found.degree("pipeline") == 0)
    assert np.all(case.workload.sequence_length % (512 * found.degree("context")) == 0)


@pytest.mark.parametrize("case", CASES)
def test_global_batch_is_kept_and_rows_are_whole(case: Case) -> None:
    found = enumerate_candidates(case).candidates
    assert np.allclose(found.global_batch, case.workload.global_sequences)
    rows = found.per_device_batch * found.devices
    spread = found.degree("data", "fsdp", "fsdp_transpose", "expert")
    assert np.all(rows % (spread * found.pipeline_microbatches) == 0)
    assert np.all(batch_is_legal(case, found))


def test_only_some_axes_cross_slices() -> None:
    found = enumerate_candidates(case_of(DENSE_MODEL, slices=4)).candidates
    for axis in AXES:
        assert (found.dcn.column(axis).max() > 1) == (axis in DCN_AXES)


def test_a_dense_model_has_no_expert_axis() -> None:
    assert enumerate_candidates(case_of(DENSE_MODEL)).candidates.degree("expert").max() == 1


def test_bounds_of_the_user_are_kept() -> None:
    limits = Constraints(max_tensor_parallelism=2, max_pipeline_parallelism=1, max_fsdp_parallelism=8)
    found = enumerate_candidates(case_of(DENSE_MODEL, constraints=limits)).candidates
    assert found.degree("tensor").max() == 2
    assert found.degree("pipeline").max() == 1
    assert found.degree("fsdp").max() == 8
    assert enumerate_candidates(case_of(DENSE_MODEL, constraints=limits)).rejected["SP420"] > 0
    tally: dict[str, int] = {}
    case = case_of(DENSE_MODEL, constraints=Constraints(max_data_parallelism=2))
    legal = legal_meshes(case, tally)
    assert len(legal) + sum(tally.values()) == _ordered_factorizations(case.cluster.devices, len(AXES))


def test_context_shards_are_whole_tiles() -> None:
    assert enumerate_candidates(case_of(DENSE_MODEL, tokens=2048)).candidates.degree("context").max() == 4
    smaller = Runtime(attention_tile_tokens=256)
    assert (
        enumerate_candidates(case_of(DENSE_MODEL, tokens=2048, runtime=smaller)).candidates.degree("context").max() == 8
    )


def test_leading_dense_layers_stay_outside_the_pipeline() -> None:
    dense = {"count": 3, "attention": GQA, "feed_forward": DENSE}
    moe = {"count": 58, "attention": GQA, "feed_forward": MOE}
    assert pipelined_blocks(architecture(dense, moe)) == 58
    assert pipelined_blocks(architecture(dense)) == 3
    assert pipelined_blocks(architecture(moe, dense)) == 1
    assert pipelined_blocks(architecture(dense, moe, n_mtp_layers=1)) == 1
    biased = {**moe, "feed_forward": {**MOE, "score_bias": True}}
    assert pipelined_blocks(architecture(dense, biased)) == 1


def test_expert_models_visit_each_stage_once() -> None:
    staged = enumerate_candidates(case_of(MOE_MODEL)).candidates
    assert staged.pipeline_repeats.max() == 1
    dense = enumerate_candidates(case_of(DENSE_MODEL)).candidates
    two = dense.degree("pipeline") == 2
    assert set(dense.pipeline_repeats[two].tolist()) == {6}
    assert set(dense.pipeline_repeats[dense.degree("pipeline") == 1].tolist()) == {1}


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6).map(lambda e: 2**e), st.sampled_from(["auto", 0.5, 1, 2, 3]))
def test_per_device_batches_are_kept(multiple: int, wanted: object) -> None:
    case = Case(
        architecture=DENSE_MODEL,
        workload=Workload(sequence_length=512 * multiple, per_device_batch=wanted),
        cluster=resolve_cluster("v6e", topology="4x4"),
    )
    found = enumerate_candidates(case).candidates
    if wanted != "auto":
        assert set(found.per_device_batch.tolist()) <= {float(wanted)}  # type: ignore[arg-type]
    assert np.all(found.gradient_accumulation == 1)


def test_splits_survive_the_way_there_and_back() -> None:
    case = case_of(MOE_MODEL, slices=2)
    splits = enumerate_candidates(case).candidates.take(np.arange(40))
    variants = expand(case, splits, variants_of(case, splits))
    for row in range(0, len(variants), 17):
        split = variants.split_at(row)
        back = type(variants).of_splits(
            [split], [int(variants.pipeline_repeats[row])], [bool(variants.needs_split[row])]
        )
        assert back.split_at(0) == split
        assert back.policy_at(0) == variants.policy_at(row)
