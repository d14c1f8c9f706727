"""The moments of a training step at which a device's temporaries peak, each a sum of buffers alive together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost import memory_terms as terms
from shardplan.cost.activations import kept, local, named_bytes, offloaded
from shardplan.cost.memory_layers import Part, Setting, expert_matrices, expert_rows, held, held_in_stage, layer_moments, part
from shardplan.cost.parameters import parameter_tensors
from shardplan.cost.sharding import sharded_elements
from shardplan.spec import DTYPE_BYTES

if TYPE_CHECKING:
    from shardplan.candidates import Candidates
    from shardplan.spec import Case, Layer, LayerGroup
    from shardplan.units import Bools, Floats, Ints

FRAGMENTATION = {True: 0.006, False: 0.018}
"""Holes in the compiler's heap as a share of the live bytes, median over the corpus: small where matmuls absorb the
elementwise work (one device a chip), larger where SparseCores gather into buffers of their own."""

EXPERT_FRAGMENTATION = 0.045
"""The same where experts' buffers peak; their sizes differ more."""

DISPATCH_FRAGMENTATION = 0.085
"""The same under expert parallelism, with a second set of buffers for the all-to-all."""


@dataclass(frozen=True)
class Moment:
    """A moment of the step with everything alive at it."""

    name: str
    terms: tuple[Part, ...]

    @cached_property
    def bytes(self) -> Floats:
        """Temporaries of each candidate, `(n,)`."""
        total: Floats = sum(term.value for _, term in self.terms)  # type: ignore[assignment]
        return total


@dataclass(frozen=True)
class Moments:
    """All moments of a case, and what goes to the host."""

    moments: tuple[Moment, ...]
    offloaded_bytes: Floats
    error_band: Floats


def moments(case: Case, candidates: Candidates) -> Moments:
    """Every moment of a training step, for each candidate."""
    setting = _setting(case, candidates)
    scanned = [g for g in case.architecture.layer_groups if g.count > 1]
    unrolled = [g for g in case.architecture.layer_groups if g.count == 1]
    saved = [*_saved(setting), *_weight_copies(setting)]
    for group in unrolled:
        for layer in group.layers:
            saved += [p for p in held(layer, setting) for _ in range(layer.count)]
    found = [Moment("loss_and_logits", _with_holes([*saved, *_loss(setting)], setting))]
    if (candidates.dcn.pipeline > 1).any():
        found.append(Moment("pipeline_outputs", _with_holes([*saved, *_pipeline_outputs(setting)], setting)))
    through = [*saved, *_gradients(setting), *_after_loss(setting)]
    for group in scanned or unrolled:
        for layer, others in _in_turn(group):
            rest = [p for other in others for p in (*held(other, setting), *_held_matrices(other, setting))]
            rest += _stage(group, setting)
            for name, parts in layer_moments(layer, setting).items():
                found.append(Moment(name, _with_holes([*through, *rest, *parts], setting, experts=name == "experts_backward")))
    return Moments(tuple(found), _offloaded(setting), np.full(len(candidates), 0.06))


def _in_turn(group: LayerGroup) -> list[tuple[Layer, list[Layer]]]:
    """Each kind of layer of a block with the other layers of the block."""
    flat = [layer for layer in group.layers for _ in range(layer.count)]
    return [(layer, [*flat[: flat.index(layer)], *flat[flat.index(layer) + 1 :]]) for layer in group.layers]


def _held_matrices(layer: Layer, setting: Setting) -> list[Part]:
    """Gathered expert matrices that a layer of a block keeps from its recomputation to its backward pass."""
    return [expert_matrices(layer.feed_forward, setting, 3.0)] if layer.feed_forward.is_moe else []


def _stage(group: LayerGroup, setting: Setting) -> list[Part]:
    """What the other layers of a pipeline stage hold: an iteration recomputes all of them before it goes back."""
    if not (_stages(setting) > 1).any():
        return []
    others = np.where(_stages(setting) > 1, layers_per_stage(group, setting) - 1, 0.0)
    bytes_ = sum(term.value for layer in group.layers for _ in range(layer.count) for _, term in held_in_stage(layer, setting))
    return [part("pipeline", "other_layers_of_stage", terms.kept_bytes, L=others, a=bytes_)]


def _pipeline_outputs(setting: Setting) -> list[Part]:
    """Stages in different slices: the gradient of the pipeline's output is summed over them before it is split again."""
    here, candidates = setting.here, setting.candidates
    stages = _stages(setting)
    crosses = candidates.dcn.pipeline > 1
    tokens = candidates.per_device_batch * candidates.devices * setting.case.workload.sequence_length / stages
    V = setting.case.architecture.vocab_size
    q = candidates.num_vocab_tiling
    return [
        part("logits", "logits_and_gradient", terms.logits_bytes, c=2.0 * crosses, n=here.head_tokens, V=V, t=here.tensor, q=q),
        part("pipeline", "outputs", terms.gathered_stream_bytes, c=3.0 * crosses, n=tokens, D=setting.width),
    ]


def _with_holes(parts: list[Part], setting: Setting, *, experts: bool = False) -> tuple[Part, ...]:
    alive = sum(term.value for _, term in parts)
    dispatch = np.where(setting.here.expert > 1, DISPATCH_FRAGMENTATION, EXPERT_FRAGMENTATION)
    share = dispatch if experts else np.full(len(setting.candidates), FRAGMENTATION[setting.fuses_matmuls])
    return (*parts, part("fragmentation", "fragmentation", terms.fragmentation_bytes, f=share, b=alive))


def _setting(case: Case, candidates: Candidates) -> Setting:
    shards = candidates.degree("fsdp", "fsdp_transpose", "context", "expert").astype(np.float64)
    here = local(case, candidates)
    slices = np.full(len(candidates), case.cluster.slices > 1)
    return Setting(
        case=case,
        candidates=candidates,
        here=here,
        shards=shards,
        ring=(shards > 4) & (shards < 64) & (here.tensor == 1) & ~slices,
        fuses_matmuls=case.cluster.chip.jax_devices_per_chip == 1,
    )


# --- what persists -----------------------------------------------------------------------------------------------------


def _saved(setting: Setting) -> list[Part]:
    """Activations kept from the forward to the backward pass: block inputs, and what the remat policy names."""
    case, candidates, here = setting.case, setting.candidates, setting.here
    blocks = sum(_passes(group, 1, setting) for group in case.architecture.layer_groups)
    on_device = ~offloaded(candidates, "decoder_layer_input")
    copies = 1.0 + _offloads(candidates)
    found = [
        part(
            "saved_activations", "block_inputs", terms.layer_inputs_bytes,
            L=blocks * on_device * copies, n=here.tokens, D=setting.width, t=here.tensor,
        )  # fmt: skip
    ]
    for name, (count, size, names) in _named(setting).items():
        if (stays := kept(candidates, *names)).any():
            found.append(part("saved_activations", f"saved_{name}", terms.kept_bytes, L=stays * count * copies, a=size))
    return found


def _offloads(candidates: Candidates) -> Bools:
    """Whether a policy sends some layer's activations to the host, `(n,)`.

    The compiler then peels iterations off both loops and relays what it keeps on the device: two copies of every stack.
    """
    return np.array([bool(p.offload - {"decoder_layer_input"}) for p in candidates.remat_policies])[candidates.remat]


def _passes(group: LayerGroup, layers: int, setting: Setting) -> Floats:
    """Times a device's layers of a kind run forward in a micro-step, each time keeping its activations, `(n,)`.

    Without a pipeline once a layer. With p stages, m microbatches and r rounds a stage runs m r + p - 1 times, the p - 1
    on garbage while the pipeline fills and drains. Source: MaxText layers/pipeline.py; maxtext reference 4.9.
    """
    candidates, stages = setting.candidates, _stages(setting)
    iterations = candidates.pipeline_microbatches * candidates.pipeline_repeats + stages - 1
    passes: Floats = np.where(stages > 1, iterations * layers_per_stage(group, setting), float(group.count)) * layers
    return passes


def layers_per_stage(group: LayerGroup, setting: Setting) -> Floats:
    """Blocks of a group that a stage runs in one iteration of the pipeline, `(n,)`."""
    per_stage: Floats = group.count / (_stages(setting) * setting.candidates.pipeline_repeats)
    return per_stage


def _named(setting: Setting) -> dict[str, tuple[Floats, Floats, tuple[str, ...]]]:
    """Each named activation: layers that have it, bytes in one of them, and the policy names that keep it."""
    found: dict[str, tuple[Floats, Floats, tuple[str, ...]]] = {}
    for g, group in enumerate(setting.case.architecture.layer_groups):
        for i, layer in enumerate(group.layers):
            ff = layer.feed_forward
            rows = expert_rows(ff, setting) if ff.is_moe else setting.here.tokens
            for name, size in named_bytes(layer, setting.width, setting.here, rows).items():
                names = (name, "mlpwi_0") if name == "moe_mlpwi_0" else (name,)
                found[f"{name}_{g}_{i}"] = (_passes(group, layer.count, setting), size, names)
    return found


def _offloaded(setting: Setting) -> Floats:
    """Activations kept in host memory, `(n,)`."""
    here, candidates = setting.here, setting.candidates
    blocks = sum(_passes(group, 1, setting) for group in setting.case.architecture.layer_groups)
    stream = 2.0 * here.tokens * setting.width / here.tensor
    total: Floats = stream * blocks * offloaded(candidates, "decoder_layer_input")
    for count, size, names in _named(setting).values():
        total = total + count * size * offloaded(candidates, *names)
    return total


def _stacks(setting: Setting) -> Ints:
    """Elements of the scanned layers' matrices on a device, `(n,)`."""
    groups = setting.case.architecture.layer_groups
    total = np.zeros(len(setting.candidates), dtype=np.int64)
    for tensor in parameter_tensors(setting.case.architecture):
        if tensor.group is not None and groups[tensor.group].count > 1 and tensor.role not in ("norm", "bias"):
            total += sharded_elements(tensor, setting.candidates)
    return total


def _layer_elements(setting: Setting, *, outer: bool) -> Ints:
    """Weight elements on a device inside or outside the layers, `(n,)`."""
    total = np.zeros(len(setting.candidates), dtype=np.int64)
    for tensor in parameter_tensors(setting.case.architecture):
        if (tensor.group is None) == outer:
            total += sharded_elements(tensor, setting.candidates)
    return total


def _stages(setting: Setting) -> Floats:
    """Pipeline stages, `(n,)`."""
    return setting.candidates.degree("pipeline").astype(np.float64)


def _weight_copies(setting: Setting) -> list[Part]:
    """Bfloat16 copies of float32 weights; with gradient accumulation also the running sums, all through the step."""
    optimizer, candidates = setting.case.workload.optimizer, setting.candidates
    weight = DTYPE_BYTES[optimizer.weight_dtype]
    found = []
    accumulates = candidates.gradient_accumulation > 1
    outer = _layer_elements(setting, outer=True)
    if weight > 2:  # noqa: PLR2004 - bytes of bfloat16
        copied = _stacks(setting) + outer * accumulates
        found.append(part("weight_copies", "weight_copies", terms.weight_copies_bytes, P=copied))
    if accumulates.any():
        summed = (outer + _layer_elements(setting, outer=False)) * accumulates
        found.append(part("gradients", "gradient_sums", terms.accumulated_gradients_bytes, P=summed, w=weight))
    return found


def _gradients(setting: Setting) -> list[Part]:
    optimizer = setting.case.workload.optimizer
    size = min(DTYPE_BYTES[optimizer.weight_dtype], DTYPE_BYTES[optimizer.gradient_dtype])
    return [
        part("gradients", "layer_gradients", terms.layer_gradients_bytes, P=_layer_elements(setting, outer=False), g=size)
    ]


# --- loss and head -----------------------------------------------------------------------------------------------------


def _loss(setting: Setting) -> list[Part]:
    """Logits and their gradient, the gathered head, and the stream around the last normalisation."""
    case, here, q = setting.case, setting.here, setting.candidates.num_vocab_tiling
    V, D = case.architecture.vocab_size, setting.width
    copies = np.where(setting.ring | (case.cluster.chip.name != "v5e"), 2.0, 1.0)
    return [
        part("logits", "logits_and_gradient", terms.logits_bytes, c=copies, n=here.head_tokens, V=V, t=here.tensor, q=q),
        part("gathered_weights", "gathered_head", terms.head_bytes, c=setting.gathers * (3 - copies), D=D, V=V, t=here.tensor),
        part("layer_work", "last_stream", terms.stream_bytes, c=3.0, n=here.head_tokens, D=D, t=here.tensor),
    ]


def _keeps_logits_gradient(setting: Setting) -> Bools:
    """Whether the head's gradient is only computed after the layers' backward pass, `(n,)`, so that of the logits waits."""
    arch, here, chip = setting.case.architecture, setting.here, setting.case.cluster.chip
    smaller = here.head_tokens <= setting.width
    late_ring = chip.name in ("tpu7x", "v6e")
    early = (here.rows <= 1) | (here.tensor > 2) | setting.fuses_matmuls  # noqa: PLR2004
    apart = np.where(early, smaller, True)  # noqa: FBT003
    keeps = np.where(setting.ring, late_ring, np.where(setting.shards == 1, True, apart))  # noqa: FBT003
    return keeps & (setting.candidates.num_vocab_tiling == 1) & (not arch.tied_embeddings)


def _after_loss(setting: Setting) -> list[Part]:
    """What the head leaves alive through the layers' backward pass."""
    arch, here = setting.case.architecture, setting.here
    V, D = arch.vocab_size, setting.width
    keeps = _keeps_logits_gradient(setting)
    tiled = setting.candidates.num_vocab_tiling > 1
    early = ~keeps & ~tiled
    summed_over_slices = keeps & (setting.candidates.dcn.data > 1)
    share = np.where(setting.ring, 2.0 / setting.shards, 1.0)
    return [
        part("logits", "logits_gradient", terms.logits_bytes, c=keeps * 1.0, n=here.head_tokens, V=V, t=here.tensor, q=1),
        part("gradients", "head_gradient", terms.head_bytes, c=(early | summed_over_slices) * share + tiled * 2.0 / setting.shards, D=D, V=V, t=here.tensor),
        part("layer_work", "last_stream", terms.stream_bytes, c=1.0 + 2.0 * keeps, n=here.head_tokens, D=D, t=here.tensor),
        part("layer_work", "last_stream_gathered", terms.gathered_stream_bytes, c=keeps * setting.tensor_split, n=here.head_tokens, D=D),
    ]
