"""How the devices of some mesh axes reach each other: rates inside a slice and between slices, per device.

The links of a chip serve all its devices. If the two devices of a chip belong to one group, what arrives is shared over
the die-to-die link, which keeps up; if not, both groups use the chip's links at once and each gets half.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.calibration import calibration_file
from shardplan.machine.torus import links_of

if TYPE_CHECKING:
    from shardplan.machine.torus import AxisLinks
    from shardplan.spec import Chip, Cluster
    from shardplan.splits.candidates import Candidates, Mesh
    from shardplan.units import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Reach:
    """What collectives reach of nominal rates on one chip. Source: rules/calibration/ici.yaml."""

    ici: float
    """Fraction of the link rate of gathers, all-to-alls and permutes."""
    reduction: float
    """The same of reductions."""
    dcn: float
    """Fraction of the network card's rate."""
    launch_s: float
    hop_s: float

    @classmethod
    def of(cls, chip: Chip) -> Reach:
        """The calibrated constants of a chip."""
        found = calibration_file("ici").constants
        value = {name: constant.by_chip.get(chip.name, constant.value) for name, constant in found.items()}
        return cls(
            ici=value["ici_fraction"],
            reduction=value["ici_fraction"] * value["reduction_fraction"],
            dcn=value["dcn_fraction"],
            launch_s=value["launch"],
            hop_s=chip.hop_latency_s.value,
        )


@dataclass(frozen=True, slots=True)
class Route:
    """The way between the devices of some mesh axes. Columns `(d,)`."""

    axes: tuple[str, ...]
    ici: tuple[Ints, ...]
    """Degrees of the axes in a slice."""
    dcn: tuple[Ints, ...]
    """Degrees of the axes over slices."""
    devices: Ints
    """N, devices of the group in a slice."""
    slices: Ints
    """K, slices the group spans."""
    gather_bytes_per_s: Floats
    """W, bytes a second one device can receive from the others of its slice."""
    hops: Floats
    longest: Floats
    """q, length over directions of the piece an all-to-all waits for."""
    scarce_bytes_per_s: Floats
    """w, bytes a second of one link of that piece, for each device."""
    pair_only: Bools
    """Whether the group is just the two devices of a chip."""

    @property
    def neighbour_bytes_per_s(self) -> Floats:
        """Bytes a second from one device to the next along the group."""
        return np.minimum(self.gather_bytes_per_s, np.where(self.pair_only, np.inf, self.scarce_bytes_per_s))


@dataclass(frozen=True, slots=True)
class Network:
    """The network under some candidates, from which routes are read."""

    chip: Chip
    ici: Mesh
    dcn: Mesh
    links: dict[str, AxisLinks]
    reach: Reach

    @classmethod
    def of(cls, cluster: Cluster, candidates: Candidates) -> Network:
        """The network of a cluster, for each candidate."""
        chip = cluster.chip
        links = links_of(cluster, candidates.ici)
        return cls(chip, candidates.ici, candidates.dcn, links, Reach.of(chip))

    @property
    def dcn_bytes_per_s(self) -> float:
        """Egress of one device."""
        return self.chip.dcn_bytes_per_s.value / self.chip.jax_devices_per_chip

    def route(self, *axes: str) -> Route:
        """The way between devices that differ in these axes only."""
        ici, dcn = (tuple(mesh.column(axis) for axis in axes) for mesh in (self.ici, self.dcn))
        shares = self.chip.jax_devices_per_chip
        link, pair = self.chip.ici_link_bytes_per_s.value, self._pair_bytes_per_s
        parts = [self.links[axis] for axis in axes]
        links = sum((part.links for part in parts), start=np.zeros(1))
        has_pair = reduce(np.logical_or, [part.has_pair for part in parts])
        slowest = reduce(np.maximum, [part.slowest for part in parts])
        each = np.where(has_pair, link, link / shares)
        # All-to-alls cross the chip's links once for every device, whichever devices form a group.
        scarce, longest = link / shares, slowest
        waits_for_pair = has_pair & (slowest / scarce < 2 / pair)
        pair_only = has_pair & (links == 0)
        gather = np.where(pair_only, pair, np.where(links > 0, links * each, 1.0))
        return Route(
            axes=axes,
            ici=ici,
            dcn=dcn,
            devices=reduce(np.multiply, ici),
            slices=reduce(np.multiply, dcn),
            gather_bytes_per_s=gather,
            hops=sum((part.hops for part in parts), start=np.zeros(1)),
            longest=np.where(waits_for_pair, 2.0, longest),
            scarce_bytes_per_s=np.where(waits_for_pair, pair, scarce),
            pair_only=pair_only,
        )

    @property
    def _pair_bytes_per_s(self) -> float:
        figure = self.chip.d2d_bytes_per_s
        return figure.value if figure else np.inf
