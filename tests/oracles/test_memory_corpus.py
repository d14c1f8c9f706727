"""Memory against the XLA TPU compiler: MaxText 0.2.5 train steps compiled ahead of time for real topologies.

`compiled_memory.jsonl` is the first corpus, `compiled_memory_wide.jsonl` varies model, policy, mesh, chip, sequence,
batch, dtype and optimizer, alone and together; a third of it (`held out`) was compared only after the structure stood.
`compiled_published.jsonl` are plans others published, without their compiler flags: few, large, near the limit.
"""

from __future__ import annotations

import numpy as np
import pytest
from places import DATA

from benchmarks.compared import Compared, Errors, by_dimension, changes, compare, load_flags, read_corpus
from shardplan.cost.memory.total import memory

FILES = ("compiled_memory.jsonl", "compiled_memory_wide.jsonl")
PUBLISHED = "compiled_published.jsonl"
MEDIAN, P95 = 0.015, 0.07
PUBLISHED_MEDIAN, PUBLISHED_LOW, PUBLISHED_HIGH = 0.05, -0.05, 0.20
"""Published plans: llama4-17b-16e over 512 devices is 18% too high, as the logits' gradient does not wait there."""
REFUSED_BY_US = 0.03
"""Share of compiled points that may be called `does_not_fit`."""


@pytest.fixture(scope="session")
def points() -> dict[str, list[Compared]]:
    return {name: [compare(record) for record in read_corpus(DATA / name)] for name in (*FILES, PUBLISHED)}


@pytest.mark.parametrize("name", FILES)
def test_totals_agree_with_the_compiler(points: dict[str, list[Compared]], name: str) -> None:
    errors = Errors.of(points[name])
    assert errors.median <= MEDIAN
    assert errors.p95 <= P95


def test_published_plans_agree_with_the_compiler(points: dict[str, list[Compared]]) -> None:
    assert Errors.of(points[PUBLISHED]).median <= PUBLISHED_MEDIAN
    assert all(PUBLISHED_LOW <= point.error <= PUBLISHED_HIGH for point in points[PUBLISHED])


def test_every_layer_of_a_block_sends_its_own_input_to_the_host() -> None:
    records = [r for r in read_corpus(DATA / PUBLISHED) if r["flags"].get("decoder_layer_input") == "offload"]
    blocks = [r for r in records if "llama4" in r["flags"]["model_name"]]
    assert blocks
    for record in blocks:
        case, candidates = load_flags(record)
        assert memory(case, candidates).host_bytes[0] == record["memory"]["host_temp_size_in_bytes"]


@pytest.mark.parametrize("batch", range(20, 33, 2))
def test_a_plan_that_fits_only_without_its_logits_is_at_risk(batch: int) -> None:
    record = next(r for r in read_corpus(DATA / PUBLISHED) if r["flags"]["model_name"] == "deepseek2-16b")
    point = compare(record | {"flags": record["flags"] | {"per_device_batch_size": batch}})
    case, candidates = load_flags(point.record)
    got = memory(case, candidates)
    held = max(float(np.max(moment.bytes)) for moment in got.held) + point.arguments_bytes
    assert point.total_bytes <= held
    assert (point.verdict == "fits") <= (held <= point.limit_bytes)


@pytest.mark.parametrize("name", [*FILES, PUBLISHED])
def test_arguments_are_exact(points: dict[str, list[Compared]], name: str) -> None:
    known = [point for point in points[name] if point.compiled_arguments_bytes is not None]
    assert known
    for point in known:
        assert point.arguments_bytes == pytest.approx(point.compiled_arguments_bytes, rel=1e-4), point.id


def test_nothing_the_compiler_refuses_is_called_fitting(points: dict[str, list[Compared]]) -> None:
    wrong = [point.id for name in points for point in points[name] if point.refused and point.verdict == "fits"]
    assert not wrong


def test_almost_nothing_it_compiles_is_called_too_large(points: dict[str, list[Compared]]) -> None:
    compiled = [point for name in points for point in points[name] if not point.refused]
    wrong = [point.id for point in compiled if point.verdict == "does_not_fit"]
    assert len(wrong) <= REFUSED_BY_US * len(compiled), wrong


def test_changing_one_setting_changes_the_right_bytes(points: dict[str, list[Compared]]) -> None:
    found = list(changes([point for name in FILES for point in points[name]]))
    missed = [f"{c.factor}: {c.first.id} to {c.second.id}" for c in found if not c.met]
    assert len(found) > 100
    assert len(missed) <= 0.03 * len(found), missed


def test_the_corpus_covers_both_sides_of_the_limit(points: dict[str, list[Compared]]) -> None:
    refused = [point for name in FILES for point in points[name] if point.refused]
    near = [p for name in FILES for p in points[name] if 0.9 < p.compiled_bytes / p.limit_bytes <= 1.0]
    assert refused
    assert near


def test_meshes_are_named_by_the_axes_beside_fsdp(points: dict[str, list[Compared]]) -> None:
    kinds = by_dimension([point for name in FILES for point in points[name]], "mesh")
    assert {"fsdp", "tensor", "expert", "context", "dcn data"} <= set(kinds)
