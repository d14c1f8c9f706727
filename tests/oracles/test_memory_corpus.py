"""Memory against the XLA TPU compiler: MaxText 0.2.5 train steps compiled ahead of time for real topologies.

`compiled_memory.jsonl` is the first corpus, `compiled_memory_wide.jsonl` varies model, policy, mesh, chip, sequence,
batch, dtype and optimizer, alone and together; a third of it (`held out`) was compared only after the structure stood.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shardplan.accuracy import DIMENSIONS, Compared, Errors, by_dimension, changes, compare, read_corpus

DATA = Path(__file__).parent.parent / "data"
FILES = ("compiled_memory.jsonl", "compiled_memory_wide.jsonl")
MEDIAN, P95 = 0.03, 0.08
REFUSED_BY_US = 0.03
"""Share of compiled points that may be called `does_not_fit`."""


@pytest.fixture(scope="module")
def points() -> dict[str, list[Compared]]:
    return {name: [compare(record) for record in read_corpus(DATA / name)] for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_totals_agree_with_the_compiler(points: dict[str, list[Compared]], name: str) -> None:
    errors = Errors.of(points[name])
    assert errors.median <= MEDIAN
    assert errors.p95 <= P95


@pytest.mark.parametrize("name", FILES)
def test_arguments_are_exact(points: dict[str, list[Compared]], name: str) -> None:
    known = [point for point in points[name] if point.compiled_arguments_bytes is not None]
    assert known
    for point in known:
        assert point.arguments_bytes == pytest.approx(point.compiled_arguments_bytes, rel=1e-4), point.id


def test_nothing_the_compiler_refuses_is_called_fitting(points: dict[str, list[Compared]]) -> None:
    wrong = [point.id for name in FILES for point in points[name] if point.refused and point.verdict == "fits"]
    assert not wrong


def test_almost_nothing_it_compiles_is_called_too_large(points: dict[str, list[Compared]]) -> None:
    compiled = [point for name in FILES for point in points[name] if not point.refused]
    wrong = [point.id for point in compiled if point.verdict == "does_not_fit"]
    assert len(wrong) <= REFUSED_BY_US * len(compiled), wrong


def test_changing_one_setting_changes_the_right_bytes(points: dict[str, list[Compared]]) -> None:
    found = list(changes([point for name in FILES for point in points[name]]))
    missed = [f"{c.factor}: {c.first.id} to {c.second.id}" for c in found if not c.met]
    assert len(found) > 100
    assert len(missed) <= 0.1 * len(found), missed


def test_the_corpus_covers_both_sides_of_the_limit(points: dict[str, list[Compared]]) -> None:
    refused = [point for name in FILES for point in points[name] if point.refused]
    near = [p for name in FILES for p in points[name] if 0.9 < p.compiled_bytes / p.limit_bytes <= 1.0]
    assert refused
    assert near


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_every_point_is_in_one_group_of_a_dimension(points: dict[str, list[Compared]], dimension: str) -> None:
    every = [point for name in FILES for point in points[name]]
    groups = by_dimension(every, dimension)
    assert sum(errors.count for errors in groups.values()) == len(every)
    assert max(errors.worst for errors in groups.values()) == Errors.of(every).worst


def test_meshes_are_named_by_the_axes_beside_fsdp(points: dict[str, list[Compared]]) -> None:
    kinds = by_dimension([point for name in FILES for point in points[name]], "mesh")
    assert {"fsdp", "tensor", "expert", "context", "dcn data"} <= set(kinds)
