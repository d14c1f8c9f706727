"""What measurements say the formulas lack: efficiencies and overlaps, read from `rules/calibration/*.yaml`.

A constant belongs to one physical mechanism, and may have a value per chip; it is never per model. A curve is read
between its points on a logarithmic scale. `make calibrate` refits the constants marked `fitted`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from shardplan.data import names, rules_folder
from shardplan.source import build, read_document
from shardplan.spec import Flag, Input, Number, Text

if TYPE_CHECKING:
    from shardplan.spec import Chip
    from shardplan.units import Floats

Evidence = Literal["published", "derived", "measured"]


class Constant(Input):
    """One efficiency or share, with where it comes from."""

    what: Text
    value: Number
    by_chip: dict[str, Number] = {}
    """Values of chips that differ."""
    unit: Text
    source: Text
    kind: Evidence
    software: Text
    """Versions the measurement holds for."""
    fitted: Flag = False
    """Whether `make calibrate` sets it from published runs."""
    note: Text | None = None


class Curve(Input):
    """A quantity measured at several sizes."""

    what: Text
    at: tuple[Number, ...]
    values: tuple[Number, ...]
    unit: Text
    source: Text
    kind: Evidence
    software: Text
    note: Text | None = None


class CalibrationFile(Input):
    """One file of `rules/calibration`."""

    constants: dict[str, Constant] = {}
    curves: dict[str, Curve] = {}


TIME_FILES = ("matmul", "kernels", "overlap")
"""Files of the time model; the network has its own."""


@cache
def calibration_file(name: str) -> CalibrationFile:
    """One file, read once."""
    return build(CalibrationFile, read_document(rules_folder() / "calibration" / f"{name}.yaml"))


def calibration_names() -> list[str]:
    """Calibration files there are."""
    return names(rules_folder() / "calibration")


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the time model for one chip; a float, or a column when many runs are fitted at once."""

    matmul_sustained: Floats | float
    """Fraction of the bf16 peak that large matmuls sustain in training."""
    low_precision_gain: Floats | float
    """Share realised of what fp8's higher peak promises."""
    attention_kernel: Floats | float
    """Fraction of the peak that head widths allow which the attention kernels reach."""
    hbm: Floats | float
    """Fraction of the HBM bandwidth that elementwise work reaches."""
    row_gather: Floats | float
    """Fraction of the HBM bandwidth at which rows are sorted to their experts and back."""
    weights_hidden: Floats | float
    """Share of weight gathers and gradient scatters that runs behind compute."""
    host_link: Floats | float
    """Fraction of the host link's bandwidth that offloading reaches."""
    slice_wait: Floats | float
    """Share of a step lost to waiting for the slowest slice, for every doubling of slices."""

    @classmethod
    def of(cls, chip: str) -> Constants:
        """The shipped constants of a chip."""
        found = {k: c for name in TIME_FILES for k, c in calibration_file(name).constants.items()}
        return cls(**{k: found[k].by_chip.get(chip, found[k].value) for k in cls.__slots__})


def step_time_band(chip: Chip) -> float:
    """Relative error that nine in ten published runs stay within when their own model is left out of the fit.

    For a chip of which there is no run, that of the worst chip left out, which errs in the usual ways as well.
    """
    return constant("overlap", "error_band" if chip.calibration.published_runs else "uncalibrated_band")


@cache
def constant(file: str, name: str) -> float:
    """One constant that is the same for all chips."""
    return calibration_file(file).constants[name].value


@cache
def _stall_curve() -> tuple[Floats, Floats]:
    curve = calibration_file("matmul").curves["hbm_stall"]
    return np.log(np.array(curve.at)), np.array(curve.values)


def hbm_stall(ratio: Floats) -> Floats:
    """Share of a matmul's HBM time that is not hidden, by its arithmetic intensity over the chip's."""
    at, values = _stall_curve()
    share: Floats = np.interp(np.log(ratio), at, values)
    return share
