"""Predicted memory beside the compiler's, over a corpus of compiled configurations.

A corpus is a file of JSON lines: a configuration as `check --from` takes it, with what the XLA TPU compiler assigned
(`memory`) and, where it refused, `oom`. Lines without flags are remarks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.cost.memory.total import memory
from shardplan.engine.ranking import DOES_NOT_FIT, FITS, fit_classes
from shardplan.loaders.load import load_record
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""Suffixes of the compiler's messages."""


def load_flags(record: Mapping[str, Any]) -> tuple[Case, Candidates]:
    """The case of one configuration and its split as the only candidate; otherwise as `load_record`."""
    launch = load_record(record)
    return launch.case, split_rows(launch.case, launch.split)


@dataclass(frozen=True, slots=True)
class Compared:
    """One configuration, predicted and compiled. Bytes on a device."""

    id: str
    record: dict[str, Any]
    arguments_bytes: float
    temp_bytes: float
    moment: str
    verdict: str
    limit_bytes: float
    compiled_arguments_bytes: float | None
    """None where the compiler only named the total it would need."""
    compiled_bytes: float
    """Arguments and temporaries."""
    refused: bool
    family: str

    @property
    def total_bytes(self) -> float:
        """Predicted arguments and temporaries."""
        return self.arguments_bytes + self.temp_bytes

    @property
    def error(self) -> float:
        """Predicted over compiled, less one."""
        return self.total_bytes / self.compiled_bytes - 1

    def flag(self, key: str, default: Any = None) -> Any:
        """A MaxText setting of the configuration."""
        return self.record["flags"].get(key, default)


def read_corpus(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a corpus file with a compiler's answer."""
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "flags" in record and (record.get("memory") or record.get("oom")):
            yield record


def compare(record: dict[str, Any]) -> Compared:
    """A line of a corpus with our prediction."""
    case, candidates = load_flags(record)
    got = memory(case, candidates)
    arguments = (record.get("memory") or {}).get("argument_size_in_bytes")
    kind = int(fit_classes(case, got.total_bytes, got.error_band)[0])
    return Compared(
        id=record["id"],
        record=record,
        arguments_bytes=float(got.arguments_bytes[0]),
        temp_bytes=float(got.temp_bytes[0]),
        moment=got.moment_at(0).name,
        verdict={FITS: "fits", DOES_NOT_FIT: "does_not_fit"}.get(kind, "at_risk"),
        limit_bytes=case.cluster.hbm_limit_bytes,
        compiled_arguments_bytes=arguments,
        compiled_bytes=compiled_bytes(record),
        refused=bool(record.get("oom")),
        family="moe" if case.architecture.is_moe else "dense",
    )


def compiled_bytes(record: Mapping[str, Any]) -> float:
    """Arguments and temporaries by the compiler: what it assigned, or would have needed."""
    compiled = record.get("memory")
    if not compiled:
        return _needed(record["oom"])
    return float(compiled["argument_size_in_bytes"] + compiled["temp_size_in_bytes"])


def _needed(oom: dict[str, Any]) -> float:
    """What a refused configuration would have needed: arguments and temporaries, whatever the message calls it."""
    if "needed_bytes" in oom:
        return float(oom["needed_bytes"])
    return float(oom["needed"][:-1]) * UNITS[oom["needed"][-1]]


# --- how close -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Errors:
    """How far a group of predictions is off."""

    count: int
    median: float
    p95: float
    worst: float
    bias: float
    """Median of the signed error."""

    @classmethod
    def of(cls, points: Iterable[Compared]) -> Errors:
        """Errors of some points; at least one."""
        signed = np.array([point.error for point in points])
        size = np.abs(signed)
        return cls(
            len(size),
            float(np.median(size)),
            float(np.quantile(size, 0.95)),
            float(size.max()),
            float(np.median(signed)),
        )


def mesh_kind(point: Compared) -> str:
    """Axes in use beside ICI FSDP, such as `tensor+expert`, or `fsdp` alone."""
    found = []
    for network in ("ici", "dcn"):
        for axis in ("data", "fsdp", "fsdp_transpose", "context", "tensor", "expert", "pipeline"):
            degree = int(point.flag(f"{network}_{axis}_parallelism", 1))
            if degree > 1 and (network, axis) != ("ici", "fsdp"):
                found.append(axis if network == "ici" else f"dcn {axis}")
    if not found and int(point.record.get("slices") or 1) > 1:
        found.append("dcn data")
    return "+".join(found) or "fsdp"


def number_formats(point: Compared) -> str:
    """Types that are not the default, and the optimizer, such as `moments bfloat16+muon`; `float32` where all are the default."""
    settings = {"weight_dtype": "weights ", "mu_dtype": "moments ", "grad_dtype": "gradients ", "quantization": ""}
    found = [
        f"{word}{point.flag(key)}" for key, word in settings.items() if point.flag(key) not in {None, "", "float32"}
    ]
    optimizer = point.flag("opt_type", "adamw")
    return "+".join([*found, *([] if optimizer == "adamw" else [str(optimizer)])]) or "float32"


DIMENSIONS: dict[str, Callable[[Compared], str]] = {
    "family": lambda point: point.family,
    "model": lambda point: str(point.flag("model_name", "default")),
    "policy": lambda point: str(point.flag("remat_policy", "full")),
    "mesh": mesh_kind,
    "chip": lambda point: str(point.record["topology"]).rpartition("-")[0],
    "sequence": lambda point: str(point.flag("max_target_length")),
    "types": number_formats,
    "moment": lambda point: point.moment,
}
"""What the report groups by."""


def by_dimension(points: Sequence[Compared], name: str) -> dict[str, Errors]:
    """Errors of each group of a dimension, largest group first."""
    groups: dict[str, list[Compared]] = {}
    for point in points:
        groups.setdefault(DIMENSIONS[name](point), []).append(point)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {label: Errors.of(members) for label, members in ordered}


# --- one factor changed --------------------------------------------------------------------------------------------

CHANGE_SHARE, LIMIT_SHARE = 0.10, 0.01


@dataclass(frozen=True, slots=True)
class Difference:
    """Two configurations that differ in one setting."""

    factor: str
    first: Compared
    second: Compared

    @property
    def compiled_bytes(self) -> float:
        """By how much the compiler's total changes."""
        return self.second.compiled_bytes - self.first.compiled_bytes

    @property
    def miss_bytes(self) -> float:
        """By how much the predicted change is off."""
        return self.second.total_bytes - self.first.total_bytes - self.compiled_bytes

    @property
    def met(self) -> bool:
        """Whether the change is right within a tenth of it, or a hundredth of the limit where that is more."""
        allowed = max(CHANGE_SHARE * abs(self.compiled_bytes), LIMIT_SHARE * self.first.limit_bytes)
        return abs(self.miss_bytes) <= allowed


def changes(points: Sequence[Compared]) -> Iterator[Difference]:
    """Pairs of points that differ in one setting, both accepted by the compiler."""
    keyed = [(_settings(point), point) for point in points if not point.refused]
    for (left, first), (right, second) in combinations(keyed, 2):
        differing = [key for key in left.keys() | right.keys() if left.get(key) != right.get(key)]
        if len(differing) == 1:
            yield Difference(differing[0], first, second)


def _settings(point: Compared) -> dict[str, str]:
    record = point.record
    found = {key: str(value).lower() for key, value in record["flags"].items()}
    found.pop("allow_split_physical_axes", None)
    return found | {"topology": str(record["topology"]), "slices": str(record.get("slices") or 1)}
