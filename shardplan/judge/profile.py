"""What kind of workload a case is, with the number and the threshold behind each verdict.

The profile selects the row of the Ironwood guide's decision table; the row is a hypothesis that the cost model tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from shardplan.catalogue.thresholds import threshold
from shardplan.cost.tensors.parameters import active_parameters, total_parameters
from shardplan.spec import DTYPE_BYTES
from shardplan.units import format_bytes, format_count

if TYPE_CHECKING:
    from shardplan.spec import Case, Optimizer

Row = Literal["dense-short", "dense-long", "moe-short", "moe-long", "moe-very-large"]

STRATEGIES: dict[Row, str] = {
    "dense-short": "FSDP",
    "dense-long": "FSDP + CP",
    "moe-short": "FSDP + EP",
    "moe-long": "FSDP + EP + CP (the table has no row for long MoE: its MoE and long rows combined)",
    "moe-very-large": "FSDP + EP + PP",
}
"""Primary and secondary sharding by row. Source: Ironwood guide, decision table."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The verdicts and the numbers they rest on."""

    family: Literal["dense", "moe"]
    context: Literal["short", "long"]
    is_very_large: bool
    total_parameters: int
    active_parameters: int
    state_bytes: float
    """Weights, optimizer state and gradients of the whole model."""
    slice_bytes: float
    """Usable HBM of one slice."""
    why: tuple[str, ...]

    @property
    def row(self) -> Row:
        """Row of the decision table."""
        if self.family == "moe" and self.is_very_large:
            return "moe-very-large"
        return f"{self.family}-{self.context}"  # type: ignore[return-value]

    @property
    def strategy(self) -> str:
        """What the decision table recommends for the row."""
        return STRATEGIES[self.row]


def profile(case: Case) -> Profile:
    """The profile of a case."""
    architecture, cluster, tokens = case.architecture, case.cluster, case.workload.sequence_length
    total, active = total_parameters(architecture), active_parameters(architecture)
    long_tokens = threshold("long_context_tokens")
    state = total * state_bytes_per_parameter(case.workload.optimizer)
    room = cluster.devices_per_slice * cluster.hbm_limit_bytes
    is_moe, is_long, is_large = architecture.is_moe, tokens >= long_tokens, state > room
    size = f"{format_count(total)} parameters"
    if is_moe:
        block = next(layer.feed_forward for layer, _ in architecture.layers if layer.feed_forward.is_moe)
        kind = f"moe: {block.n_experts} experts, {block.n_active_experts} active a token"
        size = f"{format_count(active)} of {size}"
    else:
        kind = "dense: no layer routes tokens"
    verb, sign = ("very large: outgrows", ">") if is_large else ("fits in", "<=")
    room_text = f"{format_bytes(room)} usable HBM of {cluster.chips_per_slice:,} chips"
    why = (
        f"{kind} ({size})",
        f"{'long' if is_long else 'short'} context: {tokens:,} tokens {'>=' if is_long else '<'} {long_tokens:,.0f}",
        f"{verb} one slice: {format_bytes(state)} of state and gradients {sign} {room_text}",
    )
    return Profile(
        family="moe" if is_moe else "dense",
        context="long" if is_long else "short",
        is_very_large=is_large,
        total_parameters=total,
        active_parameters=active,
        state_bytes=state,
        slice_bytes=room,
        why=why,
    )


def state_bytes_per_parameter(optimizer: Optimizer) -> float:
    """Bytes one parameter occupies with its moments and its gradient, wherever they are sharded."""
    weight, first = DTYPE_BYTES[optimizer.weight_dtype], DTYPE_BYTES[optimizer.mu_dtype]
    moments = {"sgd": 0, "muon": first}.get(optimizer.name, first + weight)
    gradient = min(weight, DTYPE_BYTES[optimizer.gradient_dtype])
    return weight + (0 if optimizer.host_offload else moments) + gradient
