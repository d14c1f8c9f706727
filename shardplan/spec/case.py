"""Everything one run of shardplan needs to know."""

from __future__ import annotations

from functools import cached_property

from shardplan.spec.architecture import Architecture
from shardplan.spec.machine import Cluster
from shardplan.spec.scalars import Input, Text
from shardplan.spec.split import Constraints, Split
from shardplan.spec.workload import Runtime, Workload


class Case(Input):
    """Everything one run of shardplan needs to know, resolved: no names left to look up."""

    name: Text = "case"
    architecture: Architecture
    workload: Workload
    cluster: Cluster
    constraints: Constraints = Constraints()
    runtime: Runtime = Runtime()
    plan: Split | None = None

    @property
    def recipe(self) -> str:
        """MaxText's quantisation recipe: as asked, or the one for the precision."""
        return self.runtime.quantization or ("fp8_full" if self.workload.precision == "fp8" else "none")

    @cached_property
    def sequences_per_device(self) -> float | None:
        """Sequences an optimizer step and JAX device, where the global batch is fixed."""
        total = self.workload.global_sequences
        return None if total is None else total / self.cluster.devices
