"""The pages of `models`, `chips` and `rules`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.render.page import Column, Fields, Grid, Lines, Page, Text, texts
from shardplan.render.words import SEVERITIES, count_text
from shardplan.units import format_bytes, format_bytes_per_s, format_count, format_flops_per_s, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.render.describe import ChipOut, FigureOut, ModelOut, RulePageOut


def models_page(models: Sequence[ModelOut]) -> Page:
    """All presets, one a row."""
    columns = (
        Column("model"),
        Column("family"),
        Column("parameters", right=True),
        Column("active", right=True),
        Column("layers", right=True),
        Column("MaxText name"),
    )
    rows = tuple(
        texts(
            Text(model.name, "strong"),
            model.family,
            f"{model.total_params:,}",
            format_count(model.active_params),
            str(model.layers),
            model.maxtext_model_name or "",
        )
        for model in models
    )
    return Page(f"{len(models)} model presets", (Grid("", columns, rows),))


def model_page(model: ModelOut) -> Page:
    """One model."""
    embeddings = "tied embeddings" if model.tied_embeddings else "separate output embedding"
    items = (
        ("parameters", texts(f"{model.total_params:,} ({format_count(model.total_params)})")),
        ("active", texts(f"{model.active_params:,} a token ({format_count(model.active_params)})")),
        ("family", texts(model.family)),
        ("width", texts(f"model {model.model_width:,}, vocabulary {model.vocab_size:,}, {embeddings}")),
        ("layers", texts(str(model.layers), *model.structure)),
        ("MaxText name", texts(model.maxtext_model_name or "none")),
    )
    return Page(model.name, (Fields("", items), Lines("notes", texts(*model.notes))))


def chips_page(chips: Sequence[ChipOut]) -> Page:
    """All chips, one a row."""
    columns = (
        Column("chip"),
        Column("title"),
        Column("bf16", right=True),
        Column("HBM", right=True),
        Column("HBM rate", right=True),
        Column("ICI link", right=True),
        Column("JAX devices", right=True),
        Column("torus"),
        Column("largest slice", right=True),
    )
    return Page(f"{len(chips)} chips; figures are per chip", (Grid("", columns, tuple(_row(c) for c in chips)),))


def _row(chip: ChipOut) -> tuple[Text, ...]:
    figures = {figure.name: figure_text(figure) for figure in chip.figures}
    return texts(
        Text(chip.name, "strong"),
        chip.title,
        figures["bf16_flops_per_s"],
        figures["hbm_bytes"],
        figures["hbm_bytes_per_s"],
        figures["ici_link_bytes_per_s"],
        str(chip.jax_devices_per_chip),
        f"{chip.torus_dims}D",
        f"{chip.max_chips:,}",
    )


def chip_page(chip: ChipOut) -> Page:
    """One chip with every figure and its source."""
    names = ", ".join(f"{prefix}-N counts {what}" for prefix, what in chip.accelerator_names.items())
    fields = Fields(
        "",
        (
            (
                "chip",
                texts(
                    f"{count_text(chip.jax_devices_per_chip, 'JAX device')}, "
                    f"{count_text(chip.tensorcores_per_chip, 'TensorCore')}, "
                    f"{count_text(chip.sparsecores_per_chip, 'SparseCore')}"
                ),
            ),
            (
                "slice",
                texts(f"{chip.torus_dims}D torus, at most {chip.max_chips:,} chips, {chip.chips_per_host} a host"),
            ),
            ("names", texts(names)),
        ),
    )
    columns = (
        Column("figure, per chip unless named otherwise"),
        Column("value", right=True),
        Column("kind"),
        Column("source"),
        Column("note", under="source"),
        Column("others say", under="source"),
    )
    rows = tuple(
        texts(
            Text(figure_name(figure.name), "strong"),
            figure_text(figure),
            figure.kind,
            figure.source,
            figure.note or "",
            "; ".join(f"{value:g} ({source})" for source, value in figure.alternatives.items()),
        )
        for figure in chip.figures
    )
    return Page(f"{chip.name}: {chip.title}", (fields, Grid("figures", columns, rows)))


def figure_name(key: str) -> str:
    """The name of a figure in words, its unit at the end."""
    return key.replace("_flops_per_s", "_FLOP/s").replace("_per_s", "/s").replace("_", " ")


def figure_text(figure: FigureOut) -> str:
    """The number in the unit its name ends with."""
    if figure.name.endswith("flops_per_s"):
        return format_flops_per_s(figure.value)
    if figure.name.endswith("bytes_per_s"):
        return format_bytes_per_s(figure.value)
    if "bytes" in figure.name:
        return format_bytes(figure.value)
    if figure.name.endswith("_s"):
        return format_seconds(figure.value)
    return f"{figure.value:g}"


def rules_page(rules: Sequence[RulePageOut]) -> Page:
    """The catalogue, one rule a row."""
    columns = (
        Column("code"),
        Column("severity"),
        Column("effect"),
        Column("name"),
        Column("when", under="name"),
    )
    rows = tuple(
        texts(Text(r.code, "strong"), Text(r.severity, SEVERITIES[r.severity]), r.effect, r.name, r.when) for r in rules
    )
    hint = Lines("next", texts("shardplan rules SP201"), verbatim=True)
    return Page(f"{len(rules)} rules", (Grid("", columns, rows), hint))


def rule_page(rule: RulePageOut) -> Page:
    """One rule."""
    effect = f"{rule.effect}, with the flags {', '.join(rule.flags)}" if rule.flags else rule.effect
    status = "" if rule.status == "stable" else f" ({rule.status})"
    fields = Fields(
        "",
        (
            ("family", texts(rule.family + status)),
            ("severity", (Text(rule.severity, SEVERITIES[rule.severity]),)),
            ("effect", texts(effect)),
            ("when", texts(Text(rule.when, "strong"))),
            ("says", texts(rule.message)),
            *((("hint", texts(rule.hint)),) if rule.hint else ()),
            ("why", texts(rule.why)),
            ("sources", texts(*rule.sources)),
        ),
    )
    return Page(f"{rule.code} {rule.name}", (fields, Lines("examples", tuple(_example(e) for e in rule.examples))))


def _example(example: dict[str, bool | int | float | str]) -> Text:
    facts = ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in example.items()
        if name != "fires"
    )
    return Text(f"{'fires' if example['fires'] else 'stays silent'}: {facts}")
