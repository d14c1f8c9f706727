"""Candidates: ways to split the work, as numpy columns, one row a candidate; and their enumeration.

`Mesh` has one column of degrees per mesh axis. `Candidates` has an ICI mesh (degrees multiply to the devices of a
slice), a DCN mesh (to the slices), and the batch, remat and tiling choices.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from shardplan.spec import AXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shardplan.spec import RematPolicy
    from shardplan.units import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Mesh:
    """Degrees per mesh axis, int64 columns `(n,)`; the fields are `spec.AXES`."""

    data: Ints
    pipeline: Ints
    fsdp: Ints
    fsdp_transpose: Ints
    context: Ints
    tensor: Ints
    expert: Ints

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, int]]) -> Mesh:
        """A mesh from one mapping of axis to degree per candidate; missing axes are 1."""
        return cls(*(np.array([row.get(axis, 1) for row in rows], dtype=np.int64) for axis in AXES))

    def column(self, axis: str) -> Ints:
        """Degrees of one axis, `(n,)`."""
        column: Ints = getattr(self, axis)
        return column

    def take(self, rows: Ints | Bools) -> Mesh:
        """The mesh of some candidates."""
        return Mesh(*(self.column(axis)[rows] for axis in AXES))

    def at(self, row: int) -> dict[str, int]:
        """Degrees above 1 of one candidate, by axis."""
        return {axis: int(self.column(axis)[row]) for axis in AXES if self.column(axis)[row] > 1}


@dataclass(frozen=True, slots=True)
class Candidates:
    """One row a candidate. Columns `(n,)`; `remat` indexes into `remat_policies`."""

    ici: Mesh
    dcn: Mesh
    per_device_batch: Floats
    """Sequences a JAX device and micro-step; may be a fraction."""
    gradient_accumulation: Ints
    """Micro-steps an optimizer step."""
    pipeline_microbatches: Ints
    """Microbatches of the pipeline in one micro-step; 1 without pipeline."""
    pipeline_repeats: Ints
    """Times a microbatch goes round the stages in one pass (circular pipeline); 1 without pipeline."""
    num_vocab_tiling: Ints
    remat: Ints
    remat_policies: tuple[RematPolicy, ...]
    needs_split: Bools
    """Whether the mesh can only be laid out with `allow_split_physical_axes`."""

    def __len__(self) -> int:
        """Number of candidates."""
        return len(self.remat)

    def degree(self, *axes: str) -> Ints:
        """Product of the ICI and DCN degrees of the axes, `(n,)`."""
        total = np.ones(len(self), dtype=np.int64)
        for axis in axes:
            total = total * self.ici.column(axis) * self.dcn.column(axis)
        return total

    @property
    def devices(self) -> Ints:
        """JAX devices of each candidate's mesh, `(n,)`."""
        return self.degree(*AXES)

    @property
    def global_batch(self) -> Floats:
        """Sequences an optimizer step, `(n,)`."""
        return self.per_device_batch * self.devices * self.gradient_accumulation

    def take(self, rows: Ints | Bools) -> Candidates:
        """Some of the candidates, in the order of the indices."""
        shared = {"ici": self.ici.take(rows), "dcn": self.dcn.take(rows), "remat_policies": self.remat_policies}
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name not in shared}
        return replace(self, **shared, **columns)

    def policy_at(self, row: int) -> RematPolicy:
        """Remat policy of one candidate."""
        return self.remat_policies[int(self.remat[row])]
