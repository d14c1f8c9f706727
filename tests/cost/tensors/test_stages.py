"""Iterations of a pipeline, one count for memory and traffic."""

from __future__ import annotations

import pytest
from small_cases import DENSE_MODEL, case_of

from shardplan.cost.tensors.stages import pipeline_iterations, stage_passes
from shardplan.spec import Runtime, Split
from shardplan.splits.enumeration import split_rows


@pytest.mark.parametrize(("delayed", "wanted"), [(False, 8 * 3 + 3), (True, 8 * 3 + 6)])
def test_bubbles_are_longer_where_activations_are_delayed(wanted: int, *, delayed: bool) -> None:
    case = case_of(DENSE_MODEL, runtime=Runtime(pipeline_delay_activations=delayed))
    split = Split(ici={"pipeline": 4, "fsdp": 8}, per_device_batch=3, pipeline_microbatches=8)
    rows = split_rows(case, split)
    assert pipeline_iterations(case, rows)[0] == wanted
    assert stage_passes(case, rows)[0] == pytest.approx(wanted / (4 * 3))


def test_without_a_pipeline_every_layer_runs_once() -> None:
    case = case_of(DENSE_MODEL)
    rows = split_rows(case, Split(ici={"fsdp": 32}, per_device_batch=3))
    assert pipeline_iterations(case, rows)[0] == stage_passes(case, rows)[0] == 1
