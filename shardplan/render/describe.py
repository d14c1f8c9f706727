"""Summaries of a model, a chip and a rule, as `shardplan models`, `chips` and `rules` print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from shardplan.cost.tensors.parameters import active_parameters, total_parameters
from shardplan.plan import Output
from shardplan.spec import Figure

if TYPE_CHECKING:
    from shardplan.catalogue.rules import Rule
    from shardplan.spec import Architecture, Attention, Chip, FeedForward


class ModelOut(Output):
    """A model's structure and exact parameters (text part, tied embeddings counted once)."""

    name: str
    total_params: int
    active_params: int
    layers: int
    family: Literal["dense", "moe"]
    model_width: int
    vocab_size: int
    tied_embeddings: bool
    structure: tuple[str, ...]
    """Each kind of layer in order, with how often it occurs."""
    maxtext_model_name: str | None
    notes: tuple[str, ...]


class FigureOut(Output):
    """A number of a chip with its source; what other sources say beside it."""

    name: str
    value: float
    source: str
    kind: Literal["published", "derived", "measured"]
    note: str | None
    alternatives: dict[str, float]


class ChipOut(Output):
    """A chip: per-chip figures in SI units (the unit ends the name), slices and accelerator names."""

    name: str
    title: str
    jax_devices_per_chip: int
    tensorcores_per_chip: int
    sparsecores_per_chip: int
    torus_dims: int
    max_chips: int
    chips_per_host: int
    accelerator_names: dict[str, str]
    """Prefix of the cloud's name, with what the number after it counts."""
    figures: tuple[FigureOut, ...]


class RulePageOut(Output):
    """A rule of the catalogue: when it fires, what follows, why, and its examples."""

    code: str
    name: str
    family: str
    status: Literal["preview", "stable", "deprecated", "removed"]
    severity: Literal["error", "warning", "note"]
    effect: Literal["forbid", "demote", "prefer", "advise"]
    when: str
    message: str
    hint: str | None
    why: str
    flags: tuple[str, ...]
    """Groups of launch flags the advice brings."""
    sources: tuple[str, ...]
    examples: tuple[dict[str, bool | int | float | str], ...]


def describe_model(architecture: Architecture) -> ModelOut:
    """The summary of an architecture."""
    return ModelOut(
        name=architecture.name,
        total_params=total_parameters(architecture),
        active_params=active_parameters(architecture),
        layers=architecture.n_layers,
        family="moe" if architecture.is_moe else "dense",
        model_width=architecture.model_width,
        vocab_size=architecture.vocab_size,
        tied_embeddings=architecture.tied_embeddings,
        structure=tuple(
            f"{count} x {_attention(layer.attention)}; {_feed_forward(layer.feed_forward)}"
            for layer, count in architecture.layers
        ),
        maxtext_model_name=architecture.maxtext_model_name,
        notes=architecture.notes,
    )


def describe_chip(chip: Chip) -> ChipOut:
    """The summary of a chip."""
    named = [(name, getattr(chip, name)) for name in type(chip).model_fields]
    figures = [(name, figure) for name, figure in named if isinstance(figure, Figure)]
    return ChipOut(
        name=chip.name,
        title=chip.title,
        jax_devices_per_chip=chip.jax_devices_per_chip,
        tensorcores_per_chip=chip.tensorcores_per_chip,
        sparsecores_per_chip=chip.sparsecores_per_chip,
        torus_dims=chip.torus_dims,
        max_chips=chip.max_chips,
        chips_per_host=chip.chips_per_host,
        accelerator_names=dict(chip.accelerator_prefixes),
        figures=tuple(FigureOut(name=name, **figure.model_dump()) for name, figure in figures),
    )


def describe_rule(rule: Rule) -> RulePageOut:
    """The page of a rule."""
    entry = rule.entry
    return RulePageOut(
        code=entry.code,
        name=entry.name,
        family=rule.family,
        status=entry.status,
        severity=entry.severity,
        effect=entry.effect.kind,
        when=entry.when,
        message=entry.message,
        hint=entry.hint,
        why=entry.why,
        flags=entry.effect.flags,
        sources=entry.sources,
        examples=entry.examples,
    )


def _attention(a: Attention) -> str:
    heads = f"{a.n_query_heads} heads of {a.qk_width}"
    if a.kind == "mla":
        kind = f"latent attention, {heads}, ranks {a.query_rank or 'full'} and {a.key_value_rank}"
    elif a.n_key_value_heads == a.n_query_heads:
        kind = f"multi-head attention, {heads}"
    else:
        kind = f"grouped attention, {heads}, {a.n_key_value_heads} key-value"
    return f"{kind}, {a.window_kind} window {a.window}" if a.window else kind


def _feed_forward(f: FeedForward) -> str:
    if not f.is_moe:
        return f"{'gated' if f.gated else 'plain'} feed-forward of {f.width}"
    shared = f" and {f.n_shared_experts} shared" if f.n_shared_experts else ""
    return f"{f.n_active_experts} of {f.n_experts} experts of {f.width}{shared}"
