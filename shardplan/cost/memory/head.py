"""What the loss and the output head hold: logits, their gradient, the gathered head and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.memory import terms
from shardplan.cost.memory.setting import Part, Setting, part

if TYPE_CHECKING:
    from shardplan.units import Bools, Floats

TIED_SHARDS, TIED_TOKENS = 8, 2.0
"""Devices and tokens, as a multiple of the width, above which the ring of a tied head's gradient starts late on tpu7x.

Source: qwen3-1.7b over 32 devices, gemma2-27b and a small dense model over 16 wait; eight devices never do, nor does
gemma2-27b with 1.8 times its width.
"""

WAITING_SHARDS = 4
"""Devices sharing a weight beside a tensor axis for which the head's gradient waits; it does not at 2, 8 and 32.

Source: llama3.1-8b on tensor 2, 4 and 8, qwen3-30b and mixtral-8x7b on tensor 2 and 4.
"""

HOLE_UNDER_LOGITS = 0.3
"""Room the heap loses under a logits gradient that waits, as a share of it: its place is chosen for the layers' backward
pass. Source: buffer dumps of llama3.1-8b on tpu7x-64 and on v5p-64 with context 4."""

SCRATCH_SHARE = 0.2355
"""Scratch of the embedding's gather as a share of the whole embedding: 247,447,552 bytes of 1,050,673,152 for llama3.1-8b,
494,829,568 of 2,101,346,304 for 70b, on 64 devices."""


def loss(setting: Setting) -> list[Part]:
    """Logits and their gradient, the gathered head, and the stream around the last normalisation."""
    here, D, V, q = setting.here, setting.width, setting.vocabulary, setting.candidates.num_vocab_tiling
    tied = setting.case.architecture.tied_embeddings
    one_pass = setting.lean | (tied & setting.fuses_matmuls & ~setting.ring & (setting.case.cluster.slices == 1))
    n, t = here.head_tokens, here.tensor
    hole = HOLE_UNDER_LOGITS * (
        logits_gradient_waits(setting) & (here.rows > 1) & ~(setting.ring & (here.context == 1))
    )
    return [
        part("logits", "logits_and_gradient", terms.logits_bytes, c=2.0 - one_pass + hole, n=n, V=V, t=t, q=q),
        part(
            "gathered_weights",
            "gathered_head",
            terms.output_head_bytes,
            c=setting.gathers * (1.0 + setting.lean),
            D=D,
            V=V,
            t=t,
        ),
        part("layer_work", "last_stream", terms.stream_bytes, c=3.0, n=n, D=D, t=t),
        part("layer_work", "last_gathered", terms.gathered_stream_bytes, c=setting.split, n=n, D=D),
    ]


def embedding_scratch(setting: Setting) -> list[Part]:
    """What SparseCores keep aside to gather the embedding as a sum over many devices, at the top of the heap."""
    c, t = SCRATCH_SHARE * setting.scatters_wide, setting.here.tensor
    return [
        part(
            "gathered_weights",
            "embedding_scratch",
            terms.output_head_bytes,
            c=c,
            D=setting.width,
            V=setting.vocabulary,
            t=t,
        )
    ]


def before_loss(setting: Setting) -> list[Part]:
    """The logits alone, before their gradient: the gathered head, and the stream it reads."""
    here, D, V, q = setting.here, setting.width, setting.vocabulary, setting.candidates.num_vocab_tiling
    n, t = here.head_tokens, here.tensor
    return [
        part("logits", "logits", terms.logits_bytes, c=1.0, n=n, V=V, t=t, q=q),
        part("gathered_weights", "gathered_head", terms.output_head_bytes, c=setting.gathers, D=D, V=V, t=t),
        part("layer_work", "last_stream", terms.stream_bytes, c=2.0, n=n, D=D, t=t),
    ]


def after_loss(setting: Setting) -> list[Part]:
    """What the head leaves alive through the layers' backward pass: the logits' gradient, or the head's."""
    here, D, V = setting.here, setting.width, setting.vocabulary
    n, t = here.head_tokens, here.tensor
    waits = logits_gradient_waits(setting)
    return [
        part("logits", "logits_gradient", terms.logits_bytes, c=waits * (1.0 + _crosses(setting)), n=n, V=V, t=t, q=1),
        part("gradients", "head_gradient", terms.output_head_bytes, c=_head_gradients(setting, waits), D=D, V=V, t=t),
        part("layer_work", "last_stream", terms.stream_bytes, c=1.0 + 2.0 * waits, n=n, D=D, t=t),
        part("layer_work", "last_gathered", terms.gathered_stream_bytes, c=waits * setting.split, n=n, D=D),
    ]


def logits_gradient_waits(setting: Setting) -> Bools:
    """Whether the head's gradient is computed only after the layers' backward pass, so that the logits' has to wait.

    Tiled losses never wait, nor do tied heads in a small ring, nor heads where SparseCores have no embedding to scatter into. The
    compiler's scheduler decides on the rest. Source: buffer dumps of llama, qwen3 and gemma on every chip; without the
    scatter llama2-13b and mistral-7b on tpu7x, and llama3.1-70b over 128 devices, which waits all the same.
    """
    here = setting.here
    least = setting.compiler.late_ring_tokens_per_width
    summed = (least > 0) & (setting.candidates.degree("data") > 1)
    rings_late = ((here.head_tokens > least * setting.width) & ~summed) | (here.context > 1)
    smaller = here.head_tokens <= setting.width
    staged = setting.fuses_matmuls & (setting.stages > 1)
    alone = (here.expert == 1) & (setting.case.cluster.slices == 1)
    across = (here.tensor > 1) & alone & (setting.shards != 1) & (setting.shards != WAITING_SHARDS)
    eager = (here.rows <= 1) | across | setting.lean | staged
    whole = np.where(setting.shards == 1, np.True_, smaller | ~eager)
    if setting.case.architecture.tied_embeddings:
        many = (setting.shards > TIED_SHARDS) & (here.head_tokens > TIED_TOKENS * setting.width)
        rings_late = many & (not setting.fuses_matmuls)
    scatters = setting.fuses_matmuls | setting.scatters_wide | (not setting.case.runtime.iota_embed)
    waits: Bools = np.where(setting.ring, rings_late, whole) & setting.untiled & scatters
    return waits


def _crosses(setting: Setting) -> Bools:
    """Whether weights or stages lie in several slices: the logits themselves wait too. Source: buffer dumps."""
    dcn = setting.candidates.dcn
    return (dcn.fsdp > 1) | (dcn.pipeline > 1)


def _head_gradients(setting: Setting, waits: Bools) -> Floats:
    """Gradients of the head as multiples of the whole head: pieces in a ring or a tiled loss, else whole."""
    early = ~waits & setting.untiled
    summed_over_slices = waits & (setting.candidates.dcn.data > 1)
    pieces = 2.0 / setting.shards
    count: Floats = (early | summed_over_slices) * np.where(setting.ring, pieces, 1.0) + ~setting.untiled * pieces
    return count


def pipeline_outputs(setting: Setting) -> list[Part]:
    """Stages in different slices: the gradient of the pipeline's output is summed over them before it is split again."""
    here, candidates, V = setting.here, setting.candidates, setting.vocabulary
    crosses = candidates.dcn.pipeline > 1
    q, whole = candidates.num_vocab_tiling, candidates.per_device_batch * candidates.devices
    tokens = whole * setting.case.workload.sequence_length / setting.stages
    n, t = here.head_tokens, here.tensor
    return [
        part("logits", "logits_and_gradient", terms.logits_bytes, c=2.0 * crosses, n=n, V=V, t=t, q=q),
        part("pipeline", "outputs", terms.gathered_stream_bytes, c=3.0 * crosses, n=tokens, D=setting.width),
    ]
