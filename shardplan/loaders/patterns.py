"""A list of layers as layer groups: the block that repeats, what stands before it, and what is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

LayerDict = dict[str, Any]

_MAX_BLOCK = 16
"""Longest block looked for."""
_MAX_PREFIX = 8
"""Most layers that may stand before the repeated blocks."""


def layer_groups(layers: Sequence[LayerDict]) -> list[LayerDict]:
    """Groups of a list of layers: the shortest repeating block is found, after as few layers outside it as possible.

    Dense layers before a mixture of experts become a group of their own. Without a repeating block, equal neighbours
    are the groups.
    """
    runs = _runs(layers)
    if len(runs) <= 2:  # noqa: PLR2004 - uniform, or dense layers first
        return runs
    for prefix in range(_MAX_PREFIX + 1):
        rest = layers[prefix:]
        for block in range(1, min(_MAX_BLOCK, len(rest) // 2) + 1):
            if all(rest[i] == rest[i - block] for i in range(block, len(rest))):
                return _runs(layers[:prefix]) + pattern_groups(rest, block)
    return runs


def pattern_groups(layers: Sequence[LayerDict], block: int) -> list[LayerDict]:
    """Groups of a list of layers that repeats every `block` layers: the whole blocks, then the remainder."""
    whole = len(layers) // block
    groups = [_group(run_lengths(layers[:block]), whole)] if whole else []
    rest = layers[whole * block :]
    return groups + ([_group(run_lengths(rest), 1)] if rest else [])


def run_lengths(layers: Sequence[LayerDict]) -> list[LayerDict]:
    """Layers with equal neighbours written once, with their count."""
    runs: list[LayerDict] = []
    last: LayerDict | None = None
    for layer in layers:
        if runs and layer == last:
            runs[-1]["count"] += 1
        else:
            runs.append({**layer, "count": 1})
        last = layer
    return runs


def _runs(layers: Sequence[LayerDict]) -> list[LayerDict]:
    """Equal neighbours, each as a group of its own."""
    return [_group([{**run, "count": 1}], run["count"]) for run in run_lengths(layers)]


def _group(layers: list[LayerDict], count: int) -> LayerDict:
    return {"count": count, "layers": layers}
