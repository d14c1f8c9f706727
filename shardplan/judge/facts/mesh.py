"""Facts about how devices are split over the mesh, and where the mesh lies."""

from __future__ import annotations

from typing import Final

import numpy as np

from shardplan.catalogue.dimension import TRUTH
from shardplan.judge.facts.observation import Fact, Observation
from shardplan.maxtext.axes import BATCH_AXES, WIDTH_AXES
from shardplan.maxtext.tables import axes_of
from shardplan.spec import AXES


def _mesh(name: str, unit: str, about: str, of: object) -> Fact:
    return Fact(name, unit, about, of, level="mesh")  # type: ignore[arg-type]


DEGREES: Final = tuple(
    fact
    for axis in AXES
    for fact in (
        _mesh(axis, "", f"Degree of the {axis} axis, ICI x DCN.", lambda o, a=axis: o.degree(a)),
        _mesh(f"ici_{axis}", "", f"Degree of the {axis} axis inside a slice.", lambda o, a=axis: o.ici(a)),
        _mesh(f"dcn_{axis}", "", f"Degree of the {axis} axis across slices.", lambda o, a=axis: o.dcn(a)),
    )
)


def _axes_in_use(o: Observation) -> object:
    return sum((o.degree(axis) > 1).astype(np.int64) for axis in AXES)


def _axes_too_new(o: Observation) -> object:
    known = axes_of(o.case.runtime.maxtext)
    return sum((o.degree(axis) > 1).astype(np.int64) for axis in AXES if axis not in known)


FACTS: Final = (
    *DEGREES,
    _mesh("batch_shards", "", "Parts the batch is split into: data x fsdp x fsdp_transpose x expert.", lambda o: o.degree(*BATCH_AXES)),
    _mesh("weight_shards", "", "Parts the model width of a weight is split into: fsdp x fsdp_transpose x context x expert.",
          lambda o: o.degree(*WIDTH_AXES)),
    _mesh("feed_forward_shards", "", "Parts the feed-forward width is split into: fsdp_transpose x tensor.",
          lambda o: o.degree("fsdp_transpose", "tensor")),
    _mesh("ici_gathered", "", "Devices of a slice among which dense weights are gathered.", lambda o: o.ici(*WIDTH_AXES)),
    _mesh("mesh_devices", "", "Product of the ICI degrees: devices the mesh takes in a slice.", lambda o: o.ici(*AXES)),
    _mesh("mesh_slices", "", "Product of the DCN degrees: slices the mesh takes.", lambda o: o.dcn(*AXES)),
    _mesh("axes_in_use", "", "Mesh axes of a degree above 1.", _axes_in_use),
    _mesh("axes_too_new", "", "Mesh axes in use that the MaxText release does not have.", _axes_too_new),
    _mesh("needs_split", TRUTH, "Whether JAX must split a physical torus axis to lay the mesh out.",
          lambda o: o.candidates.needs_split),
    Fact("allows_split", TRUTH, "Whether splitting physical axes is allowed: allow_split_physical_axes.",
         lambda o: (o.case.plan or o.case.constraints).allow_split_physical_axes),
    _mesh("tensor_on_pair", TRUTH, "Whether tensor parallelism uses the die-to-die link of a two-device chip.",
          lambda o: o.has_pair("tensor") > 0),
    _mesh("expert_on_pair", TRUTH, "Whether expert parallelism uses the die-to-die link of a two-device chip.",
          lambda o: o.has_pair("expert") > 0),
    _mesh("data_links", "", "Torus axes that the gradient sum of data parallelism keeps busy; a line counts half.",
          lambda o: o.links("data")),
    _mesh("tensor_links", "", "Torus axes that tensor parallelism keeps busy; a line counts half, a die-to-die link more.",
          lambda o: o.links("tensor")),
    _mesh("context_links", "", "Torus axes that context parallelism keeps busy; a line counts half.",
          lambda o: o.links("context")),
    _mesh("expert_longest", "", "Chips along the longest torus axis of expert parallelism; twice that on a line.",
          lambda o: o.longest("expert")),
)  # fmt: skip
