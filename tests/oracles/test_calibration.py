"""The shipped constants are those `make calibrate` fits, and they predict models that the fit has not seen."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PATH = ROOT / "benchmarks" / "calibrate.py"


@pytest.fixture(scope="module")
def calibrate() -> Any:
    spec = importlib.util.spec_from_file_location("calibrate", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibrate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stack(calibrate: Any) -> Any:
    return calibrate.Stack.of(calibrate.read_runs(calibrate.RUNS))


def test_the_shipped_constants_are_the_fitted_ones(calibrate: Any, stack: Any) -> None:
    free = calibrate.free_constants()
    fitted = calibrate.fit(stack, free, np.ones(len(stack.runs), dtype=bool))
    constants = calibrate.all_constants()
    shipped = [constants[one.name].by_chip[one.chip] if one.chip else constants[one.name].value for one in free]
    assert shipped == pytest.approx(list(fitted), abs=0.006)


def test_models_left_out_of_the_fit_are_predicted(calibrate: Any, stack: Any) -> None:
    errors = np.abs(calibrate.left_out_errors(stack, calibrate.free_constants()))
    assert np.median(errors) < 0.06
    assert np.quantile(errors, 0.9) < 0.18


def test_calibration_is_what_makes_the_difference(calibrate: Any, stack: Any) -> None:
    free = calibrate.free_constants()
    before = np.abs(stack.predicted_s(free, calibrate.starting_values(free)) / stack.measured_s - 1)
    after = np.abs(stack.predicted_s([], np.zeros(0)) / stack.measured_s - 1)
    assert np.median(after) < np.median(before) / 3


def test_constants_are_few_and_none_is_a_models(calibrate: Any, stack: Any) -> None:
    free = calibrate.free_constants()
    models, chips = {run.model for run in stack.runs}, {run.case.cluster.chip.name for run in stack.runs}
    assert len(free) < len(models)
    assert {one.chip for one in free} <= chips | {None}


def test_writing_changes_the_values_and_nothing_else(
    calibrate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "calibration"
    folder.mkdir()
    originals = {}
    for file in calibrate.TIME_FILES:
        originals[file] = (calibrate.rules_folder() / "calibration" / f"{file}.yaml").read_text()
        (folder / f"{file}.yaml").write_text(originals[file])
    monkeypatch.setattr(calibrate, "rules_folder", lambda: tmp_path)
    free = calibrate.free_constants()
    calibrate.write(free, np.full(len(free), 0.5), 0.25)
    for file, original in originals.items():
        pairs = zip(original.splitlines(), (folder / f"{file}.yaml").read_text().splitlines(), strict=True)
        changed = [new.strip() for old, new in pairs if old != new]
        assert all("0.500" in line or line == "value: 0.250" for line in changed)
    assert "value: 0.250" in (folder / "overlap.yaml").read_text()
