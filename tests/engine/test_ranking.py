"""Fits first, then fast, then simple, then roomy; one plan a mesh."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_cases import DENSE_MODEL, case_of

from shardplan.engine.ranking import (
    AT_RISK,
    DOES_NOT_FIT,
    FITS,
    Standing,
    fit_classes,
    mechanisms,
    mesh_identity,
    score,
    simplicity_keys,
)
from shardplan.spec import Split
from shardplan.splits.candidates import Candidates


def standing(
    scores: list[float],
    *,
    classes: list[int] | None = None,
    meshes: list[dict[str, int]] | None = None,
    simple: list[float] | None = None,
    headroom: list[float] | None = None,
) -> Standing:
    """Candidates of which only the given columns differ."""
    n = len(scores)
    splits = [Split(ici=mesh, per_device_batch=1) for mesh in meshes or [{"fsdp": 2**i} for i in range(n)]]
    return Standing(
        Candidates.of_splits(splits, [1] * n, [False] * n),
        np.array(scores, dtype=float),
        np.array(classes or [FITS] * n),
        np.array(headroom or [0.0] * n),
        (np.array(simple or [0.0] * n),),
    )


def test_what_fits_comes_before_what_is_at_risk_however_fast() -> None:
    assert standing([1.0, 5.0], classes=[AT_RISK, FITS]).best(2).tolist() == [1, 0]


def test_the_faster_plan_wins_beyond_the_tolerance() -> None:
    assert standing([1.03, 1.0], simple=[0, 9]).best(2).tolist() == [1, 0]


def test_the_simpler_plan_wins_within_the_tolerance() -> None:
    assert standing([1.015, 1.0], simple=[0, 9]).best(2).tolist() == [0, 1]


def test_among_equals_more_headroom_wins() -> None:
    assert standing([1.0, 1.0], headroom=[1.0, 2.0]).best(2).tolist() == [1, 0]


def test_a_mesh_is_listed_once_at_its_best() -> None:
    found = standing([3.0, 1.0, 2.0], meshes=[{"fsdp": 8}, {"fsdp": 8}, {"fsdp": 4, "tensor": 2}])
    assert found.best(5).tolist() == [1, 2]


def test_no_candidates_rank_as_no_plans() -> None:
    nothing = standing([1.0])
    empty = Standing(nothing.candidates.take(np.array([], dtype=int)), *(np.array([]),) * 3, (np.array([]),))
    assert empty.best(3).tolist() == []


def test_a_plan_at_risk_leaves_the_list_open() -> None:
    found = standing([1.0, 2.0], classes=[FITS, AT_RISK])
    assert found.reach(np.array([0])) > 1.0
    assert found.reach(np.array([0, 1])) == float("inf")


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=8))
def test_the_first_plan_is_within_the_tolerance_of_the_fastest(scores: list[float]) -> None:
    found = standing(scores, simple=list(range(len(scores), 0, -1)))
    best = found.best(3)
    assert found.scores[best[0]] <= min(scores) * 1.02 + 1e-9
    assert len(best) == min(3, len(scores))


def test_joining_keeps_every_column() -> None:
    one, two = standing([1.0], simple=[3.0]), standing([2.0, 3.0], headroom=[5.0, 6.0])
    both = one.joined(two)
    assert both.scores.tolist() == [1.0, 2.0, 3.0]
    assert both.headroom.tolist() == [0.0, 5.0, 6.0]
    assert both.simplicity[0].tolist() == [3.0, 0.0, 0.0]
    assert len(both.candidates) == 3


def test_mesh_identity_tells_meshes_apart_and_nothing_else() -> None:
    splits = [
        Split(ici={"fsdp": 8}, per_device_batch=1),
        Split(ici={"fsdp": 8}, per_device_batch=2, remat_policy="minimal"),
        Split(ici={"data": 8}, per_device_batch=1),
        Split(ici={"fsdp": 8}, dcn={"data": 2}, per_device_batch=1),
        Split(ici={"fsdp": 4, "fsdp_transpose": 2}, per_device_batch=1),
    ]
    identity = mesh_identity(Candidates.of_splits(splits, [1] * 5, [False] * 5)).tolist()
    assert identity[0] == identity[1] == identity[4]
    assert len(set(identity)) == 3


def test_simpler_means_fewer_axes_mechanisms_and_demotions() -> None:
    splits = [
        Split(ici={"fsdp": 8}, per_device_batch=1),
        Split(ici={"fsdp": 4, "tensor": 2}, per_device_batch=1),
        Split(ici={"fsdp": 8}, per_device_batch=1, remat_policy="custom", remat_tensors={"context": "offload"}),
    ]
    candidates = Candidates.of_splits(splits, [1] * 3, [False] * 3)
    none = np.zeros(3, dtype=bool)
    keys = np.array(simplicity_keys(candidates, none.astype(int), none))
    assert keys[:, 0].tolist() < keys[:, 1].tolist()
    assert keys[:, 0].tolist() < keys[:, 2].tolist()
    keys = np.array(simplicity_keys(candidates, np.array([2, 0, 1]), none))
    assert keys[:, 1].tolist() < keys[:, 2].tolist() < keys[:, 0].tolist()


def test_of_one_mesh_each_mechanism_must_pay() -> None:
    offload = {"remat_policy": "custom", "remat_tensors": {"context": "offload"}}
    splits = [
        Split(ici={"fsdp": 8}, per_device_batch=2),
        Split(ici={"fsdp": 8}, per_device_batch=1, gradient_accumulation=2),
        Split(ici={"fsdp": 8}, per_device_batch=1, gradient_accumulation=2, num_vocab_tiling=4, **offload),
        Split(ici={"fsdp": 8}, per_device_batch=2, remat_policy="minimal"),
    ]
    candidates = Candidates.of_splits(splits, [1] * 4, [False] * 4)
    assert mechanisms(candidates).tolist() == [0, 1, 3.05, 0]
    zeros = np.zeros(4)
    for scores, expected in (
        ([1.0, 0.99, 0.95, 2.0], 0),
        ([1.0, 0.97, 0.95, 2.0], 1),
        ([1.0, 0.97, 0.90, 2.0], 2),
        ([1.0, 0.97, 0.90, 0.5], 3),
    ):
        found = Standing(candidates, np.array(scores), np.full(4, FITS), zeros, (zeros,))
        assert found.best(3).tolist() == [expected]


def test_the_error_band_decides_between_fits_and_at_risk() -> None:
    case = case_of(DENSE_MODEL)
    limit = case.cluster.hbm_limit_bytes
    total, band = np.array([0.90, 0.97, 1.02, 1.10]) * limit, np.full(4, 0.05)
    assert fit_classes(case, total, band).tolist() == [FITS, AT_RISK, AT_RISK, DOES_NOT_FIT]
    edges, width = np.array([1.0, 1.0 / (1 - 0.05), 1.0 / (1 - 0.05) + 1e-9]) * limit, np.array([0.0, 0.05, 0.05])
    assert fit_classes(case, edges, width).tolist() == [FITS, AT_RISK, DOES_NOT_FIT]
    careful = case.model_copy(update={"constraints": case.constraints.model_copy(update={"hbm_headroom": 0.1})})
    assert fit_classes(careful, total, band)[0] == AT_RISK


def test_axes_without_published_evidence_carry_a_margin() -> None:
    splits = [Split(ici={"fsdp": 8}, per_device_batch=1), Split(ici={"fsdp": 4, "expert": 2}, per_device_batch=1)]
    candidates = Candidates.of_splits(splits, [1] * 2, [False] * 2)
    step, total = np.array([8.0, 8.0]), np.array([5.0, 4.0])
    assert score("step-time", candidates, step, total).tolist() == [1.0, 1.1]
    assert score("cost", candidates, step, total).tolist() == [1.0, 1.1]
    assert score("memory", candidates, step, total).tolist() == [5.0, 4.0]
