"""Refit the time model's constants on the published runs, and say how well they predict models they have not seen.

`make calibrate` prints the fit and the leave-one-model-out errors; `make calibrate WRITE=1` also writes the constants to
`rules/calibration/`. Only constants marked `fitted` there change. The fit minimises the logarithm of predicted over
published step time with a robust loss, so that the few runs that disagree with their own repetitions do not steer it.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.published import Run, read_runs
from shardplan.cost.calibration import TIME_FILES, Constants, calibration_file
from shardplan.cost.network.comm import collectives
from shardplan.cost.time.seconds import CommunicationSeconds, Pipeline, Rates, step_lines, total_s
from shardplan.cost.time.step_time import traffic_of
from shardplan.cost.time.work import Work, work
from shardplan.data import rules_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.units import Floats

RUNS = Path(__file__).parent.parent / "tests" / "data" / "recipes_tpu.jsonl"
ROBUST_SCALE = 0.05
"""Relative error from which a run's weight falls."""
PRIOR_SCALE = 0.3
"""Relative distance from its uncalibrated value that costs a constant as much as `ROBUST_SCALE` costs a run."""
STEPS = 60
NUDGE = 1e-4
UNCALIBRATED = {
    "matmul_sustained": 0.829, "low_precision_gain": 1.0, "attention_kernel": 0.829, "row_gather": 0.87,
    "weights_hidden": 1.0, "host_link": 1.0,
}  # fmt: skip
"""What published microbenchmarks and nominal rates alone would say; also where every fit starts."""
UPPER = {"weights_hidden": 1.0, "low_precision_gain": 1.0, "attention_kernel": 1.0, "host_link": 1.0, "row_gather": 1.0}


@dataclass(frozen=True, slots=True)
class Free:
    """One number to fit: a constant, of one chip or of all."""

    name: str
    chip: str | None

    def __str__(self) -> str:
        """As printed."""
        return self.name if self.chip is None else f"{self.name}[{self.chip}]"


@dataclass(frozen=True, slots=True)
class Stack:
    """All runs as rows of one set of columns."""

    runs: tuple[Run, ...]
    chips: np.ndarray[Any, Any]
    work: Work
    traffic: CommunicationSeconds
    pipeline: Pipeline
    rates: Rates
    base: Constants
    measured_s: Floats

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Stack:
        """Price every run up to the constants."""
        done, moved, rates = [], [], []
        for run in runs:
            done.append(work(run.case, run.candidates))
            moved.append(traffic_of(run.case, run.candidates, collectives(run.case, run.candidates)))
            rates.append(Rates.of(run.case))
        return cls(
            runs=tuple(runs),
            chips=np.array([run.case.cluster.chip.name for run in runs]),
            work=_stacked(Work, done),
            traffic=_stacked(CommunicationSeconds, moved),
            pipeline=Pipeline(np.ones(len(runs)), np.ones(len(runs)), np.ones(len(runs))),
            rates=_stacked(Rates, rates),
            base=_stacked(Constants, [Constants.of(run.case.cluster.chip.name) for run in runs]),
            measured_s=np.array([run.step_time_s for run in runs]),
        )

    def predicted_s(self, free: Sequence[Free], values: Floats) -> Floats:
        """Step time of every run with those values of the free constants."""
        constants = {f.name: np.array(getattr(self.base, f.name), dtype=float) for f in fields(Constants)}
        for one, value in zip(free, values, strict=True):
            here = (self.chips == one.chip) if one.chip else ~np.isin(self.chips, _own_chips(one.name))
            constants[one.name] = np.where(here, value, constants[one.name])
        return total_s(step_lines(self.work, self.traffic, self.pipeline, self.rates, Constants(**constants)))


def _stacked(kind: Any, rows: Sequence[Any]) -> Any:
    columns = {f.name: np.array([np.ravel(getattr(row, f.name))[0] for row in rows]) for f in fields(kind)}
    return kind(**columns)


def all_constants() -> dict[str, Any]:
    """Every constant of the time model by name."""
    return {name: c for file in TIME_FILES for name, c in calibration_file(file).constants.items()}


def _own_chips(name: str) -> list[str]:
    return list(all_constants()[name].by_chip)


def free_constants() -> list[Free]:
    """The numbers marked `fitted`: each chip's own value where it has runs, and the common one unless it is a fallback."""
    found, with_runs = [], {run.case.cluster.chip.name for run in read_runs(RUNS)}
    for name, constant in all_constants().items():
        if constant.fitted:
            found += [Free(name, chip) for chip in constant.by_chip if chip in with_runs] or [Free(name, None)]
    return found


def starting_values(free: Sequence[Free]) -> Floats:
    """The uncalibrated values: a constant no run informs keeps them."""
    return np.array([UNCALIBRATED[one.name] for one in free])


def fit(stack: Stack, free: Sequence[Free], rows: Floats) -> Floats:
    """The values that predict the chosen rows best, near the uncalibrated ones where the rows say nothing.

    Damped Gauss-Newton; the weight of a run falls with its error.
    """
    prior = starting_values(free)
    upper = np.array([UPPER.get(one.name, 2.0) for one in free])

    def residuals(at: Floats) -> Floats:
        runs = np.log(stack.predicted_s(free, at) / stack.measured_s)[rows] / ROBUST_SCALE
        return np.concatenate([runs, (at / prior - 1) / PRIOR_SCALE])

    def cost(at: Floats) -> float:
        return float(np.sum(np.sqrt(1 + residuals(at) ** 2) - 1))

    values, damping = prior, 1e-3
    for _ in range(STEPS):
        here = residuals(values)
        slope = np.stack([(residuals(values + NUDGE * unit) - here) / NUDGE for unit in np.eye(len(free))], axis=1)
        weight = 1 / np.sqrt(1 + here**2)
        normal = slope.T @ (slope * weight[:, None])
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -slope.T @ (weight * here))
        tried = np.clip(values + step, NUDGE, upper)
        if cost(tried) < cost(values):
            is_done = float(np.max(np.abs(tried - values))) < NUDGE**2
            values, damping = tried, damping / 4
            if is_done:
                break
        else:
            damping *= 4
    return values


def left_out_errors(stack: Stack, free: Sequence[Free]) -> Floats:
    """Relative error of every run with its own model left out of the fit."""
    models = np.array([run.model for run in stack.runs])
    errors = np.zeros(len(models))
    for model in sorted(set(models)):
        values = fit(stack, free, models != model)
        mine = models == model
        errors[mine] = (stack.predicted_s(free, values) / stack.measured_s - 1)[mine]
    return errors


def summary(errors: Floats) -> str:
    """Median and 90th percentile of absolute relative errors."""
    size = np.abs(errors)
    return f"median {np.median(size):.1%}, p90 {np.quantile(size, 0.9):.1%}, worst {size.max():.1%}"


def write(free: Sequence[Free], values: Floats, band: float) -> None:
    """Put the values in the calibration files, and the error band beside them."""
    for file in TIME_FILES:
        path = rules_folder() / "calibration" / f"{file}.yaml"
        text = path.read_text(encoding="utf-8")
        for one, value in [*zip(free, values, strict=True), (Free("error_band", None), band)]:
            key = "value" if one.chip is None else one.chip
            pattern = rf"(\n  {one.name}:\n(?:    .*\n)*?    (?:value: |by_chip: .*?\b){'' if one.chip is None else key + ': '})[0-9.]+"
            text = re.sub(pattern, lambda m, v=value: f"{m[1]}{v:.3f}", text)
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Fit, report, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the constants to rules/calibration")
    arguments = parser.parse_args()
    stack, free = Stack.of(read_runs(RUNS)), free_constants()
    shipped = stack.predicted_s([], np.zeros(0)) / stack.measured_s - 1
    before = stack.predicted_s(free, starting_values(free)) / stack.measured_s - 1
    values = fit(stack, free, np.ones(len(stack.runs), dtype=bool))
    errors, left_out = stack.predicted_s(free, values) / stack.measured_s - 1, left_out_errors(stack, free)
    print(f"{'run':62} {'published':>10} {'before':>7} {'fit':>7} {'left out':>8}")
    for run, b, e, o in zip(stack.runs, before, errors, left_out, strict=True):
        print(f"{run.name:62} {run.step_time_s:8.2f} s {b:+7.1%} {e:+7.1%} {o:+8.1%}")
    print(*(f"{one} = {value:.3f}" for one, value in zip(free, values, strict=True)), sep="\n")
    print("before calibration:", summary(before))
    print("shipped:           ", summary(shipped))
    print("fit:               ", summary(errors))
    print("own model left out:", summary(left_out))
    if arguments.write:
        write(free, values, float(np.quantile(np.abs(left_out), 0.9)))


if __name__ == "__main__":
    main()
