"""How the work is split, and within which bounds a split is looked for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from shardplan.spec.scalars import AXES, Count, Flag, Fraction, Input, Text

RematLocation = Literal["device", "offload", "remat"]


class RematPolicy(Input):
    """Which named activations survive the forward pass: on the device, on the host, or recomputed (all others)."""

    name: Text
    """MaxText's policy name; `custom` for a free choice."""
    device: frozenset[str] = frozenset()
    offload: frozenset[str] = frozenset()

    @property
    def tensors(self) -> dict[str, RematLocation]:
        """Named tensors with where they are kept, in name order."""
        return {n: "device" if n in self.device else "offload" for n in sorted(self.device | self.offload)}


class Split(Input):
    """One way to split the work: the `plan:` section of a case, and what a MaxText command line says."""

    ici: dict[str, Count] = {}
    """Degrees by mesh axis inside a slice; those left out are 1; they multiply to its JAX devices."""
    dcn: dict[str, Count] = {}
    """Degrees by mesh axis across slices; they multiply to the slices."""
    per_device_batch: Annotated[float, Field(gt=0, le=10**6, allow_inf_nan=False)]
    """Sequences a JAX device and micro-step; a fraction where devices share a sequence."""
    gradient_accumulation: Count = 1
    """Micro-steps an optimizer step."""
    pipeline_microbatches: Count | None = None
    """Microbatches of one micro-step; by default the number of stages, twice as many if activations are delayed."""
    num_vocab_tiling: Count = 1
    """Parts the logits are computed in, one after the other."""
    remat_policy: Text = "full"
    """A MaxText policy name, or `custom`."""
    remat_tensors: dict[str, RematLocation] = {}
    """With `custom`: where each named activation goes."""
    allow_split_physical_axes: Flag = False
    """Whether a mesh axis may take a part of a physical axis of the torus."""

    @field_validator("ici", "dcn")
    @classmethod
    def _known_axes(cls, value: dict[str, int]) -> dict[str, int]:
        if unknown := [axis for axis in value if axis not in AXES]:
            msg = f"unknown mesh axis {unknown[0]!r}; the axes are {', '.join(AXES)}"
            raise ValueError(msg)
        return value


def default_microbatches(stages: int, *, delayed: bool) -> int:
    """Microbatches of one micro-step where nobody says: one a stage, two where activations are delayed. Source: MaxText P2."""
    return stages * (2 if delayed and stages > 1 else 1)


class Constraints(Input):
    """Bounds on the search; all optional."""

    hbm_headroom: Fraction = 0.0
    """Share of the usable HBM to leave free."""
    remat: Text | dict[str, RematLocation] = "auto"
    """`auto`, a MaxText policy name, or named tensors with where they go (policy `custom`)."""
    gradient_accumulation: Count | Literal["auto"] = "auto"
    """Micro-steps an optimizer step."""
    num_vocab_tiling: Count | Literal["auto"] = "auto"
    """Parts the logits are computed in, one after the other."""
    max_fsdp_parallelism: Count | None = None
    """Largest degree of fsdp x fsdp_transpose, ICI and DCN together: both are FSDP, along two dimensions of a weight."""
    max_data_parallelism: Count | None = None
    """Largest degree of data."""
    max_tensor_parallelism: Count | None = None
    """Largest degree of tensor."""
    max_context_parallelism: Count | None = None
    """Largest degree of context."""
    max_expert_parallelism: Count | None = None
    """Largest degree of expert."""
    max_pipeline_parallelism: Count | None = None
    """Largest number of pipeline stages."""
    allow_split_physical_axes: Flag = True
    """Whether a mesh axis may take a part of a physical axis of the torus."""

    @field_validator("hbm_headroom", mode="before")
    @classmethod
    def _percent(cls, value: Any) -> Any:
        """Accept `5%` beside 0.05."""
        if isinstance(value, str) and value.endswith("%"):
            try:
                return float(value[:-1]) / 100
            except ValueError:
                return value
        return value
