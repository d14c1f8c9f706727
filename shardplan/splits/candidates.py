"""Candidates: ways to split the work, as numpy columns, one row a candidate; and their enumeration.

`Mesh` has one column of degrees per mesh axis. `Candidates` has an ICI mesh (degrees multiply to the devices of a
slice), a DCN mesh (to the slices), and the batch, remat and tiling choices.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.maxtext.remat import policy_of
from shardplan.spec import AXES, Split

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


_SHARED = ("ici", "dcn", "remat_policies", "_degrees")
"""Fields of `Candidates` that are not columns."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """One row a candidate. Columns `(n,)`, not to be written to; `remat` indexes into `remat_policies`."""

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
    _degrees: dict[tuple[str, ...], Ints] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Products of degrees asked for so far."""

    def __len__(self) -> int:
        """Number of candidates."""
        return len(self.remat)

    def degree(self, *axes: str) -> Ints:
        """Product of the ICI and DCN degrees of the axes, `(n,)`."""
        known = self._degrees.get(axes)
        if known is None:
            known = np.ones(len(self), dtype=np.int64)
            for axis in axes:
                known = known * self.ici.column(axis) * self.dcn.column(axis)
            self._degrees[axes] = known
        return known

    @property
    def devices(self) -> Ints:
        """JAX devices of each candidate's mesh, `(n,)`."""
        return self.degree(*AXES)

    @property
    def rows(self) -> Ints:
        """Sequences of one micro-step on all devices, `(n,)`."""
        return np.rint(self.per_device_batch * self.devices).astype(np.int64)

    @property
    def loaded_rows(self) -> Ints:
        """Sequences the loader delivers an optimizer step, at least one a device and micro-step, `(n,)`."""
        loaded: Ints = np.maximum(self.rows, self.devices) * self.gradient_accumulation
        return loaded

    @property
    def global_batch(self) -> Floats:
        """Sequences an optimizer step, `(n,)`."""
        return self.per_device_batch * self.devices * self.gradient_accumulation

    def take(self, rows: Ints | Bools) -> Candidates:
        """Some of the candidates, in the order of the indices."""
        taken: dict[str, Any] = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name not in _SHARED}
        return replace(self, ici=self.ici.take(rows), dcn=self.dcn.take(rows), **taken)

    @classmethod
    def of_splits(cls, splits: Sequence[Split], repeats: Sequence[int], needs_split: Sequence[bool]) -> Candidates:
        """One candidate per split, with its pipeline repeats and whether its mesh needs split physical axes."""
        policies = tuple(policy_of(split) for split in splits)
        return cls(
            ici=Mesh.of([split.ici for split in splits]),
            dcn=Mesh.of([split.dcn for split in splits]),
            per_device_batch=np.array([float(split.per_device_batch) for split in splits]),
            gradient_accumulation=np.array([split.gradient_accumulation for split in splits], dtype=np.int64),
            pipeline_microbatches=np.array([split.pipeline_microbatches or 1 for split in splits], dtype=np.int64),
            pipeline_repeats=np.array(repeats, dtype=np.int64),
            num_vocab_tiling=np.array([split.num_vocab_tiling for split in splits], dtype=np.int64),
            remat=np.arange(len(splits), dtype=np.int64),
            remat_policies=policies,
            needs_split=np.array(needs_split, dtype=bool),
        )

    def split_at(self, row: int) -> Split:
        """One candidate as the input it could have been."""
        policy, stages = self.policy_at(row), int(self.degree("pipeline")[row])
        return Split(
            ici=self.ici.at(row),
            dcn=self.dcn.at(row),
            per_device_batch=float(self.per_device_batch[row]),
            gradient_accumulation=int(self.gradient_accumulation[row]),
            pipeline_microbatches=int(self.pipeline_microbatches[row]) if stages > 1 else None,
            num_vocab_tiling=int(self.num_vocab_tiling[row]),
            remat_policy=policy.name,
            remat_tensors=policy.tensors if policy.name == "custom" else {},
            allow_split_physical_axes=bool(self.needs_split[row]),
        )

    def policy_at(self, row: int) -> RematPolicy:
        """Remat policy of one candidate."""
        return self.remat_policies[int(self.remat[row])]


def concatenated(parts: Sequence[Candidates]) -> Candidates:
    """Candidates one after the other; all share the first one's remat policies."""
    joined: dict[str, Any] = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts])
        for f in fields(Candidates)
        if f.name not in _SHARED
    }
    for name in ("ici", "dcn"):
        meshes = [getattr(part, name) for part in parts]
        joined[name] = Mesh(*(np.concatenate([mesh.column(axis) for mesh in meshes]) for axis in AXES))
    return replace(parts[0], **joined)
