"""On what: a chip with the source of every number, and slices of it."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from shardplan.errors import DisagreementError
from shardplan.spec.scalars import Count, Flag, Input, Number, OptionalCount, Text

Evidence: TypeAlias = Literal["published", "derived", "measured"]
Counted: TypeAlias = Literal["chips", "devices", "tensorcores"]
"""What the number in an accelerator's name counts."""
Name = Annotated[str, Field(strict=True, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)]
"""Lower-case words and digits joined by hyphens: safe in file names, shells and labels."""
Label = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")]
"""Value of a Kubernetes label."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Figure(Input):
    """A number with where it comes from."""

    value: Number
    source: Text
    kind: Evidence
    note: Text | None = None
    alternatives: dict[str, Number] = {}
    """What other sources say, by source."""


class Nodes(Input):
    """How Google Kubernetes Engine offers a chip: what a job must ask for to land on its nodes."""

    accelerator: Label
    """Value of the node label `cloud.google.com/gke-tpu-accelerator`."""
    chips_per_node: Count
    """Chips of one node of a slice; a smaller slice is one node."""
    tpu_type_prefix: Name
    """What xpk's `--tpu-type` begins with; its number counts as `accelerator_prefixes` says."""
    source: Text
    kind: Evidence


class Calibration(Input):
    """Measurements of a chip among those that the estimates were made from and are held against."""

    compiled_points: OptionalCount
    """Compiled train steps in tests/data."""
    published_runs: OptionalCount
    """Published step times in tests/data."""


class Compiler(Input):
    """What XLA does with a train step on this chip: what decides which buffers are alive together."""

    fuses_matmuls: Flag
    """Whether elementwise work fuses into the matmuls beside it; not where SparseCores gather weights into buffers of their own."""
    fuses_gradients: Flag
    """Whether a gradient fuses into what produces its input where no ring runs: one buffer less at the loss and in a block."""
    late_ring_tokens_per_width: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    """Tokens on a device, as a multiple of the model width, above which the ring of the head's gradient starts only after the
    layers' backward pass; 0 where it always does."""
    heap_holes: Share
    """Holes in the compiler's heap as a share of the live bytes but kept activations: small where matmuls absorb the elementwise
    work, larger where SparseCores gather into buffers of their own."""
    relief: Share
    """Of what exceeds the limit, the share that it saves by rematerialising and compressing before it refuses; never makes a plan fit."""
    relief_most: Share
    """The most it saves so, as a share of the limit."""
    rescue_band: Share
    """Share of the total by which it may differ beyond the limit, where it rescues some plans."""
    source: Text
    kind: Evidence
    note: Text | None = None


class CompileHost(Input):
    """What libtpu must be told of the machine it compiles on, which has no TPU."""

    accelerator_type: Name
    """Value of TPU_ACCELERATOR_TYPE."""
    source: Text
    kind: Evidence


class Chip(Input):
    """One accelerator generation. Figures are per chip unless the name says per device; SI units in the key."""

    name: Name
    title: Text
    jax_devices_per_chip: Literal[1, 2]
    torus_dims: Literal[2, 3]
    max_chips: Count
    chips_per_host: Count
    aliases: tuple[Text, ...] = ()
    """Other names of the chip; case, spaces, `-`, `_` and a leading `TPU` do not matter."""
    accelerator_prefixes: dict[Name, Counted]
    """Spellings the cloud uses before `-N`, with what N counts."""
    small_slices: tuple[tuple[Count, ...], ...]
    """Slice shapes in chips that follow no rule: all of a 2D chip, those below one cube of a 3D chip."""
    ring_slices: tuple[tuple[Count, ...], ...] = ()
    """Small slices JAX lays out along one walk over the chips, so that any mesh fits."""
    wrap_side: Count
    """2D: an axis of this length wraps around. 3D: the side of the cubes larger slices are built of; those wrap on every axis."""
    bf16_flops_per_s: Figure
    fp8_flops_per_s: Figure | None = None
    hbm_bytes: Figure
    hbm_bytes_per_s: Figure
    usable_hbm_bytes_per_device: Figure
    """What the XLA compiler lets one JAX device use."""
    ici_link_bytes_per_s: Figure
    """One link, one way."""
    d2d_bytes_per_s: Figure | None = None
    """Die-to-die link between the two devices of a chip, one way."""
    hop_latency_s: Figure
    dcn_bytes_per_s: Figure
    """Egress per chip."""
    pcie_bytes_per_s: Figure
    """Host link per chip, one way."""
    host_ram_bytes: Figure | None = None
    """Per host."""
    vmem_bytes_per_core: Figure
    tensorcores_per_chip: Count
    sparsecores_per_chip: OptionalCount
    mxu_dim: Count
    usd_per_chip_hour: Figure | None = None
    nodes: Nodes | None = None
    compile_host: CompileHost
    compiler: Compiler
    calibration: Calibration
    """How many measurements stand behind the estimates for this chip."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """What the parts of a chip's file say of each other; DisagreementError at the part to blame."""
        # Every name that is written to a launch can be read back.
        wanted = {self.name: ("name",)} | (
            {self.nodes.tpu_type_prefix: ("nodes", "tpu_type_prefix")} if self.nodes else {}
        )
        for prefix, at in wanted.items():
            if prefix not in self.accelerator_prefixes:
                message = f"accelerator_prefixes lacks {prefix}: say what N counts in {prefix}-N"
                raise DisagreementError(message, at=at)
        if self.jax_devices_per_chip > 1 and self.d2d_bytes_per_s is None:
            message = f"{self.jax_devices_per_chip} devices a chip need d2d_bytes_per_s, the rate between them"
            raise DisagreementError(message, at=("jax_devices_per_chip",))
        for key in ("small_slices", "ring_slices"):
            for i, shape in enumerate(getattr(self, key)):
                if len(shape) != self.torus_dims:
                    message = f"{len(shape)} sides on a torus of {self.torus_dims} dimensions"
                    raise DisagreementError(message, at=(key, i))
        return self

    def accelerator(self, prefix: str, chips: int) -> str:
        """The cloud's name for a slice of that many chips, by one of its prefixes: v5litepod-256."""
        return f"{prefix}-{chips * self.counted_per_chip(self.accelerator_prefixes[prefix])}"

    def counted_per_chip(self, what: Counted) -> int:
        """How many of what an accelerator's name counts one chip has."""
        return {"chips": 1, "devices": self.jax_devices_per_chip, "tensorcores": self.tensorcores_per_chip}[what]

    def flops_per_s(self, precision: str) -> float:
        """Peak dense FLOP/s of one JAX device for a matmul precision (`bf16` where the chip has no faster fp8)."""
        figure = self.fp8_flops_per_s if precision == "fp8" and self.fp8_flops_per_s else self.bf16_flops_per_s
        return figure.value / self.jax_devices_per_chip

    @property
    def hbm_bytes_per_s_per_device(self) -> float:
        """HBM bandwidth of one JAX device."""
        return self.hbm_bytes_per_s.value / self.jax_devices_per_chip


class Cluster(Input):
    """Slices of one shape. `topology` is in chips; a JAX device is a chip, or half of one on tpu7x."""

    chip: Chip
    topology: tuple[Count, ...]
    slices: Count = 1
    accelerator: Text | None = None
    """The cloud's name the user wrote, if any."""
    usd_per_chip_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @property
    def chips_per_slice(self) -> int:
        """Chips of one slice."""
        return math.prod(self.topology)

    @property
    def chips(self) -> int:
        """Chips of all slices."""
        return self.chips_per_slice * self.slices

    @property
    def devices_per_slice(self) -> int:
        """JAX devices of one slice: what the ICI mesh axes multiply to."""
        return self.chips_per_slice * self.chip.jax_devices_per_chip

    @property
    def devices(self) -> int:
        """JAX devices of all slices."""
        return self.devices_per_slice * self.slices

    @property
    def hbm_limit_bytes(self) -> float:
        """HBM one JAX device may use, by the compiler's own limit."""
        return self.chip.usable_hbm_bytes_per_device.value
