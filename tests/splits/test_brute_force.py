"""The enumeration against every factorisation tried one by one, with MaxText's conditions written out for one model."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_cases import DENSE_MODEL, GQA, MOE_MODEL, architecture, case_of

from shardplan.machine import torus
from shardplan.spec import AXES, Case, Constraints, Runtime, Split
from shardplan.splits.candidates import Mesh
from shardplan.splits.enumeration import enumerate_candidates, split_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

Degrees = tuple[int, ...]


def factorisations(total: int, n: int = len(AXES)) -> Iterator[Degrees]:
    """Every ordered way to write a number as a product of n."""
    if n == 1:
        yield (total,)
        return
    for first in (d for d in range(1, total + 1) if total % d == 0):
        yield from ((first, *rest) for rest in factorisations(total // first, n - 1))


def is_legal(case: Case, ici: Degrees, dcn: Degrees) -> bool:
    """Whether the small models of 12 layers can be split so: heads 16 and 8, width 2048, block 6144, or 1536 of 24 experts."""
    at = dict(zip(AXES, ici, strict=True))
    over = dict(zip(AXES, dcn, strict=True))
    both = {axis: at[axis] * over[axis] for axis in AXES}
    block = 1536 if case.architecture.is_moe else 6144
    length = case.workload.sequence_length
    context, balanced = both["context"], case.runtime.context_load_balance
    return (
        all(over[axis] == 1 for axis in AXES if axis not in {"data", "pipeline", "fsdp"})
        and all(size % both["tensor"] == 0 for size in (16, 8, 2048, 32768, block))
        and block % (both["fsdp_transpose"] * both["tensor"]) == 0
        and math.gcd(2048, both["fsdp"] * both["fsdp_transpose"] * both["context"] * both["expert"])
        == both["fsdp"] * both["fsdp_transpose"] * both["context"] * both["expert"]
        and (24 if case.architecture.is_moe else 1) % both["expert"] == 0
        and length // 512 % context == 0
        and (context == 1 or not balanced or (context % 2 == 0 and length % (2 * context) == 0))
        and 12 % both["pipeline"] == 0
        and bool(torus.fits_without_split(case.cluster, Mesh.of([at]))[0])
    )


def legal_meshes(case: Case) -> set[tuple[Degrees, Degrees]]:
    pairs = itertools.product(factorisations(case.cluster.devices_per_slice), factorisations(case.cluster.slices))
    return {pair for pair in pairs if is_legal(case, *pair)}


def found_meshes(case: Case) -> set[tuple[Degrees, Degrees]]:
    found = enumerate_candidates(case).candidates
    columns = [mesh.column(axis) for mesh in (found.ici, found.dcn) for axis in AXES]
    rows = np.stack(columns, axis=1).tolist()
    return {(tuple(row[: len(AXES)]), tuple(row[len(AXES) :])) for row in rows}


WHOLE = Constraints(allow_split_physical_axes=False)
CASES = {
    "dense": case_of(DENSE_MODEL, "2x2x4", batch=3072, constraints=WHOLE),
    "experts": case_of(MOE_MODEL, "2x2x2", batch=3072, constraints=WHOLE),
    "two slices": case_of(DENSE_MODEL, "2x2x1", slices=2, batch=3072, constraints=WHOLE),
    "three slices": case_of(DENSE_MODEL, "2x2x1", slices=3, batch=3072, constraints=WHOLE),
    "short": case_of(DENSE_MODEL, "2x2x2", tokens=1024, batch=3072, constraints=WHOLE),
    "unbalanced": case_of(
        DENSE_MODEL, "2x2x2", tokens=1024, batch=3072, constraints=WHOLE, runtime=Runtime(context_load_balance=False)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_meshes_are_those_that_pass_every_condition(name: str) -> None:
    assert found_meshes(CASES[name]) == legal_meshes(CASES[name])


@pytest.mark.parametrize("bound", [1, 2, 4])
@pytest.mark.parametrize("axis", ["data", "fsdp", "tensor", "context", "pipeline"])
def test_a_bound_leaves_out_the_degrees_above_it_and_no_others(axis: str, bound: int) -> None:
    case = CASES["dense"]
    limits = case.constraints.model_copy(update={f"max_{axis}_parallelism": bound})
    # Transposed FSDP is FSDP along another dimension.
    axes = ("fsdp", "fsdp_transpose") if axis == "fsdp" else (axis,)
    within = {pair for pair in legal_meshes(case) if math.prod(pair[0][AXES.index(one)] for one in axes) <= bound}
    assert found_meshes(case.model_copy(update={"constraints": limits})) == within


def test_micro_steps_and_microbatches_are_those_that_spread_evenly() -> None:
    """24 sequences on the two devices of a chip: one axis of 2, in 1 to 8 micro-steps, 1 to 8 microbatches a stage."""
    case = (
        case_of(DENSE_MODEL, "2x1x1", batch=24, constraints=WHOLE) if False else case_of(DENSE_MODEL, "1x1x1", batch=24)
    )
    found = enumerate_candidates(case).candidates
    splits = {_key(found.split_at(row)) for row in range(len(found))}
    expected = set()
    for steps in (1, 2, 4, 8):
        rows = 24 // steps
        expected |= {(axis, steps, 1) for axis in ("data", "fsdp", "fsdp_transpose") if rows % 2 == 0}
        expected |= {(axis, steps, 1) for axis in ("context", "tensor")}
        expected |= {("pipeline", steps, m) for m in (2, 4, 8, 16) if rows % m == 0 and rows * steps % 2 == 0}
    assert splits == expected


def _key(split: Split) -> tuple[str, int, int]:
    (axis,) = split.ici
    return axis, split.gradient_accumulation, split.pipeline_microbatches or 1


@pytest.mark.parametrize(
    ("kind", "asked", "stages", "repeats"),
    [
        ("dense", None, 2, 6),
        ("dense", None, 4, 3),
        ("dense", 2, 2, 3),
        ("moe", None, 4, 1),
        ("moe", 1, 4, 3),
        ("moe", 12, 4, 1),
    ],
)
def test_rounds_are_the_blocks_over_those_of_one_visit_to_every_stage(
    kind: str, asked: int | None, stages: int, repeats: int
) -> None:
    feed_forward = (
        {"width": 6144} if kind == "dense" else {"kind": "moe", "width": 1536, "n_experts": 24, "n_active_experts": 4}
    )
    model = architecture({"count": 12, "attention": GQA, "feed_forward": feed_forward})
    case = case_of(model, "2x2x2", runtime=Runtime(pipeline_layers_per_stage=asked))
    split = Split(ici={"pipeline": stages, "data": case.cluster.devices // stages}, per_device_batch=1.0)
    assert split_rows(case, split).pipeline_repeats.tolist() == [repeats]
