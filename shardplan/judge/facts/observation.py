"""What facts are read from, and what a fact is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shardplan.catalogue.dimension import Kind
from shardplan.machine import torus
from shardplan.machine.chips import wraps
from shardplan.splits.sizes import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.cost.estimate import Estimates
    from shardplan.judge.profile import Profile
    from shardplan.spec import Case, Layer
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats, Ints

Level = Literal["case", "mesh", "split", "estimates"]
"""What must be chosen before a fact is known: nothing, the mesh, also batch and remat, or a price."""


@dataclass(frozen=True)
class Observation:
    """A case and some candidates for it, with their price if it is known already. Columns are `(n,)`."""

    case: Case
    candidates: Candidates
    given_profile: Profile | None
    given_estimates: Estimates | None

    @property
    def profile(self) -> Profile:
        """The case's profile."""
        assert self.given_profile is not None, "a rule asked for the profile before there was one"
        return self.given_profile

    @property
    def estimates(self) -> Estimates:
        """The candidates' prices."""
        assert self.given_estimates is not None, "a rule asked for a price before there was one"
        return self.given_estimates

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The distinct layer kinds."""
        return tuple(layer for layer, _ in self.case.architecture.layers)

    @cached_property
    def sizes(self) -> Sizes:
        """What degrees must divide."""
        return Sizes.of(self.case.architecture)

    @cached_property
    def rings(self) -> tuple[bool, ...]:
        """Whether each side of the slice wraps around."""
        return wraps(self.case.cluster)

    def degree(self, *axes: str) -> Ints:
        """Product of the ICI and DCN degrees of some axes."""
        return self.candidates.degree(*axes)

    def ici(self, *axes: str) -> Ints:
        """Product of the ICI degrees of some axes."""
        return reduce(np.multiply, (self.candidates.ici.column(axis) for axis in axes))

    def dcn(self, *axes: str) -> Ints:
        """Product of the DCN degrees of some axes."""
        return reduce(np.multiply, (self.candidates.dcn.column(axis) for axis in axes))

    @cached_property
    def _layouts(self) -> tuple[list[torus.Layout | None], Ints]:
        return torus.layouts_of(self.case.cluster, self.candidates.ici)

    def by_layout(self, measure: Callable[[dict[str, tuple[torus.Piece, ...]]], float]) -> Floats:
        """A measure of how the mesh lies in the torus, computed once a layout; nan where it cannot be laid out."""
        layouts, rows = self._layouts
        values = [np.nan if layout is None else measure(dict(layout.pieces)) for layout in layouts]
        column: Floats = np.array(values, dtype=float)[rows]
        return column

    def links(self, *axes: str) -> Floats:
        """Torus axes that a collective over some mesh axes keeps busy: 1 a ring, 1/2 a line, less if rings share links.

        Inside a chip the die-to-die link counts as many torus axes as it is faster; 1 for a group of one device.
        """
        chip = self.case.cluster.chip
        ici = chip.ici_link_bytes_per_s.value
        pair = chip.d2d_bytes_per_s.value / ici if chip.d2d_bytes_per_s else 1.0

        def measure(pieces: dict[str, tuple[torus.Piece, ...]]) -> float:
            mine = [piece for axis in axes for piece in pieces.get(axis, ())]
            shares: dict[int, float] = {}
            for piece in mine:
                if piece.link == "ici":
                    share = (1.0 if piece.is_ring else 0.5) / piece.stride
                    shares[piece.axis] = max(share, shares.get(piece.axis, 0.0))
            return sum(shares.values()) or (pair if mine else 1.0)

        return self.by_layout(measure)

    def has_pair(self, *axes: str) -> Floats:
        """1.0 where one of the axes lies on the die-to-die link, else 0.0."""
        return self.by_layout(
            lambda pieces: float(any(piece.link == "d2d" for axis in axes for piece in pieces.get(axis, ())))
        )

    def longest(self, axis: str) -> Floats:
        """Chips along the longest torus axis of a mesh axis, twice that on a line; the die-to-die link by its speed."""
        chip = self.case.cluster.chip
        ici = chip.ici_link_bytes_per_s.value
        pair = ici / chip.d2d_bytes_per_s.value if chip.d2d_bytes_per_s else 1.0

        def reach(piece: torus.Piece) -> float:
            return piece.length * (pair if piece.link == "d2d" else piece.stride * (1.0 if piece.is_ring else 2.0))

        return self.by_layout(lambda pieces: max((reach(piece) for piece in pieces.get(axis, ())), default=0.0))


@dataclass(frozen=True, slots=True)
class Fact:
    """A named quantity that rules may compare."""

    name: str
    unit: str
    about: str
    """One sentence."""
    of: Callable[[Observation], Any] = field(repr=False)
    """Its value: a scalar for the whole case, or a column `(n,)`."""
    choices: tuple[str, ...] = ()
    level: Level = "case"

    @property
    def kind(self) -> Kind:
        """Its unit, and its words if it has any."""
        return Kind(self.unit, self.choices)
