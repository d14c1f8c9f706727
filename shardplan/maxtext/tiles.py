"""Attention tiles: what MaxText's splash kernels accept, and the tile to choose.

A tile is first cut down to the tokens there are. Then it divides them: a tile of queries those of the device's context shard,
a tile of keys all that the device attends to; and what a kernel computes at once divides the tile that it loads.
Source: jax's and tokamax's splash attention, traced with MaxText 0.2.5; rows A1 and A2 of docs/maxtext_coverage.md.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LANES: Final = 128
"""Keys, or in the backward pass queries, that a vector unit handles side by side."""
SUBLANES: Final = 8
"""Rows of a vector register."""
LOCAL: Final = "local_"
"""Begins the keys of layers with sliding windows."""
LONGEST_TOKENS: Final = 2**24
"""No tile is larger than the longest sequence that is planned."""
SMALLEST_FLASH_TOKENS: Final = 128
"""`attention=autoselected` takes the dot-product kernel for shorter sequences."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of attention: the keys that set its tiles, and what each must be a multiple of."""

    queries: tuple[str, int]
    keys: tuple[str, int]
    computes: tuple[str, int] | None = None
    """Keys taken at once, of those that were loaded."""

    def of(self, prefix: str) -> Kernel:
        """The kernel with keys of its own: those of layers with sliding windows."""
        queries, keys, computes = (part and (prefix + part[0], part[1]) for part in astuple(self))
        return Kernel(queries, keys, computes)


FORWARD: Final = Kernel(("sa_block_q", SUBLANES), ("sa_block_kv", LANES), ("sa_block_kv_compute", LANES))
BACKWARD: Final = Kernel(("sa_block_q_dkv", LANES), ("sa_block_kv_dkv", SUBLANES), ("sa_block_kv_dkv_compute", 1))
BACKWARD_QUERIES: Final = Kernel(("sa_block_q_dq", LANES), ("sa_block_kv_dq", LANES))
"""The second kernel of a backward pass that is not fused."""
KERNELS: Final = (FORWARD, BACKWARD, BACKWARD_QUERIES)
TILES: Final = tuple(
    part[0] for kernel in KERNELS for part in (kernel.queries, kernel.keys, kernel.computes) if part is not None
)


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of one attention kernel on one device."""

    queries: int
    """That tiles of queries must fill."""
    keys: int
    """That tiles of keys must fill."""
    longest: int
    """To which every tile is cut down."""


def span_of(sequence: int, context: int, strategy: str) -> Span:
    """The span of a sequence: ring attention sees one shard of queries and of keys, Ulysses the whole sequence of both."""
    shard = sequence // context
    if strategy == "ring":
        return Span(shard, shard, shard)
    return Span(sequence if strategy == "ulysses" else shard, sequence, sequence)


def nearest_tile(wanted: int, tokens: int) -> int | None:
    """The tile of whole lanes that fills some tokens and is nearest to a wanted one by ratio; None if there is none."""
    # Guard: beyond wanted^2 / LANES one lane's tile is nearer by ratio, so a sequence of 10**30 tokens is not walked along.
    most = min(tokens, max(wanted, LANES) ** 2 // LANES, LONGEST_TOKENS) // LANES
    tiles = [LANES * n for n in range(1, most + 1) if tokens % (LANES * n) == 0]
    return min(tiles, key=lambda tile: (max(tile / wanted, wanted / tile), tile), default=None)


def wrong_tiles(
    of: Callable[[str], int], span: Span, kernels: tuple[Kernel, ...]
) -> Iterator[tuple[str, str, int | None]]:
    """Each key whose tile a kernel refuses, with what is wrong with it and the nearest tile that is not."""
    for kernel in kernels:
        loaded = min(of(kernel.keys[0]), span.longest)
        for part, tokens, what in (
            (kernel.queries, span.queries, f"the {span.queries:,} tokens it lies on"),
            (kernel.keys, span.keys, f"the {span.keys:,} tokens it lies on"),
            (kernel.computes, loaded, f"{kernel.keys[0]}={loaded}"),
        ):
            if part is None:
                continue
            (key, unit), tile = part, min(of(part[0]), span.longest)
            shown = f"{key}={of(key)}" if tile == of(key) else f"{key}={of(key)}, cut down to {tile},"
            best = nearest_tile(max(1, tile), tokens)
            if tile < 1 or tokens % tile:
                yield key, f"{shown} must divide {what}", best
            elif tile % unit:
                yield key, f"{shown} must be a multiple of {unit}", best


# --- grouped matmuls -----------------------------------------------------------------------------------------------

EXPERT_TILE: Final = 1024
"""Default side of the tiles of grouped matmuls."""
WIDTH_TILES: Final = ("wi_tile_fwd_mlp_dim", "wi_tile_drhs_mlp_dim")
"""Lie on the width of an expert, less what tensor parallelism splits off."""
MODEL_TILES: Final = ("wo_tile_fwd_embed_dim", "wo_tile_drhs_embed_dim")
"""Lie on the model width."""


def scaled_tiles(expert_width: int, model_width: int) -> dict[str, int]:
    """The columns each tile lies on where every column has a scale, as in fp8: the tile must divide them.

    Source: qwix update_block_specs_for_qarray, traced with MaxText 0.2.5; row Q5 of docs/maxtext_coverage.md.
    """
    return dict.fromkeys(WIDTH_TILES, expert_width) | dict.fromkeys(MODEL_TILES, model_width)
