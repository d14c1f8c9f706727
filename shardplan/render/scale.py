"""The page of `scale`: one number of chips a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.render.page import Column, Grid, Lines, Page, Text, texts
from shardplan.render.words import band_text
from shardplan.units import format_fraction, format_seconds

if TYPE_CHECKING:
    from shardplan.plan import ScaleOut, ScaleRowOut

COLUMNS = (
    Column("chips", right=True),
    Column("slice"),
    Column("mesh"),
    Column("remat", under="mesh"),
    Column("step time", right=True),
    Column("tokens/s", right=True),
    Column("efficiency", right=True),
    Column("MFU", right=True),
    Column("waits for network", right=True),
    Column("bound by"),
    Column("days", right=True),
    Column("USD", right=True),
)


def scale_page(result: ScaleOut) -> Page:
    """The table, and where communication takes over."""
    batch = f"{result.global_batch:,} sequences a step" if result.global_batch else "a batch per device"
    bound = result.communication_bound_from
    verdict = f"communication-bound from {bound:,} chips on" if bound else "not communication-bound in this range"
    grid = Grid("", COLUMNS, tuple(_row(row) for row in result.rows))
    return Page(f"{result.case}: {batch} on {result.chip}; {verdict}", (grid, Lines("notes", texts(*result.notes))))


def _row(row: ScaleRowOut) -> tuple[Text, ...]:
    shape = "x".join(map(str, row.topology)) + (f" x {row.slices} slices" if row.slices > 1 else "")
    if not row.fits:
        nothing = ("-",) * (len(COLUMNS) - 4)
        return texts(Text(f"{row.chips:,}", "strong"), shape, Text("nothing fits", "bad"), "-", *nothing)
    band = f" {band_text(row.error_band or 0, calibrated=row.calibrated)}"
    return texts(
        Text(f"{row.chips:,}", "strong"),
        shape,
        row.strategy or "",
        row.remat_policy or "",
        format_seconds(row.estimate_s or 0) + band,
        f"{row.tokens_per_s or 0:,.0f}",
        format_fraction(row.efficiency or 0),
        format_fraction(row.mfu or 0),
        Text(format_fraction(row.exposed_comm_share or 0), "bad" if row.communication_bound else ""),
        row.bound_by or "",
        f"{row.days:,.1f}" if row.days is not None else "-",
        f"{row.usd:,.0f}" if row.usd is not None else "-",
    )
