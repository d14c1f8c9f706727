"""What differs between two plans, and what each difference does on its own to memory, communication and time.

A plan is taken apart into what one may change alone: model, machine, mesh, batch, remat, every setting. What differs is
applied to the old plan piece by piece. What cannot be changed apart is one piece: a mesh of another size comes with its
machine, and devices, batch and micro-steps belong together where the global batch stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shardplan.engine.decide import judge_split
from shardplan.engine.priced import strategy_of
from shardplan.exporters import maxtext
from shardplan.plan import ChangeOut, DiffOut, EffectOut, FlagOut, SideOut
from shardplan.spec import Case, Cluster, Optimizer, Runtime, Split, Workload
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from shardplan.spec import Chip

MODEL, MACHINE, MESH, REMAT, PRECISION = "model", "machine", "mesh", "remat", "precision"
BATCH, STEPS, MICROBATCHES = "per-device batch", "gradient accumulation", "microbatches"
_OPTIMIZER, _RUNTIME = "optimizer.", "runtime."
_QUANTIZATION: Final = "quantization"
_FIRST_MOMENT: Final = "first_moment_dtype"


@dataclass(frozen=True, slots=True)
class Planned:
    """A case with one way to split it."""

    name: str
    case: Case
    split: Split


@dataclass(frozen=True, slots=True)
class _Judged:
    """A plan with what comes of it."""

    side: SideOut
    flags: dict[str, maxtext.Value] = field(default_factory=dict)


def diff(old: Planned, new: Planned) -> DiffOut:
    """Both plans, every change from the old to the new one on its own, and what they do together."""
    parts, after = _parts(old), _parts(new)
    before, total = _judged(old.name, parts), _judged(new.name, after)
    changes = []
    for names in _pieces(old, new, [name for name in parts if parts[name] != after[name]]):
        alone = _judged(old.name, parts | {name: after[name] for name in names})
        flags, effect = _flags(before.flags, alone.flags), _effect(before.side, alone.side)
        if flags or effect != EffectOut() or alone.side.limit_bytes != before.side.limit_bytes:
            texts = [", ".join(_text(name, of[name]) for name in names) for of in (parts, after)]
            change = " + ".join(names)
            changes.append(
                ChangeOut(change=change, old=texts[0], new=texts[1], flags=flags, alone=alone.side, effect=effect)
            )
    return DiffOut(
        old=before.side,
        new=total.side,
        flags=_flags(before.flags, total.flags),
        changes=tuple(changes),
        total=_effect(before.side, total.side),
    )


# --- taking plans apart --------------------------------------------------------------------------------------------


def _parts(planned: Planned) -> dict[str, Any]:
    """Everything that decides memory, time and flags, by name; settings that mean the same are the same value."""
    case, split, cluster = planned.case, planned.split, planned.case.cluster
    optimizer, runtime = case.workload.optimizer, case.runtime
    return {
        MODEL: case.architecture,
        MACHINE: (cluster.chip, cluster.topology, cluster.slices),
        MESH: ({a: d for a, d in split.ici.items() if d > 1}, {a: d for a, d in split.dcn.items() if d > 1}),
        "allow split axes": split.allow_split_physical_axes,
        BATCH: split.per_device_batch,
        STEPS: split.gradient_accumulation,
        MICROBATCHES: split.pipeline_microbatches,
        "sequence length": case.workload.sequence_length,
        REMAT: (split.remat_policy, split.remat_tensors),
        "vocabulary tiling": split.num_vocab_tiling,
        PRECISION: (case.workload.precision, case.recipe),
        "headroom": case.constraints.hbm_headroom,
        **{_OPTIMIZER + name: value for name, value in dict(optimizer).items() if name != _FIRST_MOMENT},
        _OPTIMIZER + _FIRST_MOMENT: optimizer.mu_dtype,
        **{_RUNTIME + name: value for name, value in dict(runtime).items() if name != _QUANTIZATION},
    }


def _put_together(name: str, parts: Mapping[str, Any]) -> tuple[Case, Split]:
    """The case and split of such parts."""
    chip, topology, slices = parts[MACHINE]
    precision, recipe = parts[PRECISION]
    optimizer = {key.removeprefix(_OPTIMIZER): value for key, value in parts.items() if key.startswith(_OPTIMIZER)}
    runtime = {key.removeprefix(_RUNTIME): value for key, value in parts.items() if key.startswith(_RUNTIME)}
    ici, dcn = parts[MESH]
    policy, tensors = parts[REMAT]
    case = Case(
        name=name,
        architecture=parts[MODEL],
        workload=Workload(
            sequence_length=parts["sequence length"],
            per_device_batch=parts[BATCH],
            precision=precision,
            optimizer=Optimizer(**optimizer),
        ),
        cluster=Cluster(chip=chip, topology=topology, slices=slices),
        runtime=Runtime(**runtime, quantization=recipe),
    )
    bounds = case.constraints.model_copy(update={"hbm_headroom": parts["headroom"]})
    split = Split(
        ici=ici,
        dcn=dcn,
        per_device_batch=parts[BATCH],
        gradient_accumulation=parts[STEPS],
        pipeline_microbatches=parts[MICROBATCHES],
        num_vocab_tiling=parts["vocabulary tiling"],
        remat_policy=policy,
        remat_tensors=tensors,
        allow_split_physical_axes=parts["allow split axes"],
    )
    return case.model_copy(update={"constraints": bounds, "plan": split}), split


def _pieces(old: Planned, new: Planned, changed: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The parts that changed, those that cannot be changed apart together."""
    together: set[str] = set()
    sizes = [(p.case.cluster.devices_per_slice, p.case.cluster.slices) for p in (old, new)]
    if sizes[0] != sizes[1]:
        together |= {MACHINE, MESH}
    if _global_batch(old) == _global_batch(new):
        together |= {BATCH, STEPS} | ({MACHINE, MESH} if sizes[0] != sizes[1] else set())
    if _stages(old) != _stages(new):
        together |= {MESH, MICROBATCHES}
    joint = tuple(name for name in changed if name in together)
    for name in changed:
        if name not in joint:
            yield (name,)
        elif name == joint[0]:
            yield joint


def _global_batch(planned: Planned) -> float:
    """Sequences an optimizer step."""
    return planned.split.per_device_batch * planned.split.gradient_accumulation * planned.case.cluster.devices


def _stages(planned: Planned) -> int:
    return planned.split.ici.get("pipeline", 1) * planned.split.dcn.get("pipeline", 1)


# --- comparing -----------------------------------------------------------------------------------------------------


def _judged(name: str, parts: Mapping[str, Any]) -> _Judged:
    """What comes of a plan."""
    case, split = _put_together(name, parts)
    result = judge_split(case, split_rows(case, split), name)
    choice = result.choice
    assert choice is not None, "a split that is a split has been priced"
    side = SideOut(
        name=name,
        verdict=result.verdict,
        problems=result.problems,
        strategy=choice.strategy,
        remat_policy=choice.remat_policy,
        global_batch=choice.global_batch,
        memory_bytes=choice.memory.total_bytes,
        limit_bytes=choice.memory.limit_bytes,
        communication_bytes=sum(collective.bytes for collective in choice.communication),
        exposed_comm_s=choice.time.breakdown["exposed_comm_s"],
        step_s=choice.time.estimate_s,
        error_band=choice.time.error_band,
        calibrated=choice.time.calibrated,
        tokens_per_s_per_device=choice.tokens_per_s_per_device,
    )
    return _Judged(side, choice.maxtext_flags)


def _effect(before: SideOut, after: SideOut) -> EffectOut:
    """After less before."""
    return EffectOut(
        memory_bytes=after.memory_bytes - before.memory_bytes,
        communication_bytes=after.communication_bytes - before.communication_bytes,
        exposed_comm_s=after.exposed_comm_s - before.exposed_comm_s,
        step_s=after.step_s - before.step_s,
        tokens_per_s_per_device=after.tokens_per_s_per_device - before.tokens_per_s_per_device,
    )


def _flags(before: Mapping[str, maxtext.Value], after: Mapping[str, maxtext.Value]) -> tuple[FlagOut, ...]:
    """Flags whose values differ, in the order people read them."""
    return tuple(
        FlagOut(key=key, old=before.get(key), new=after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    )


def _text(name: str, value: Any) -> str:
    """One part in words."""
    if name in _WORDS:
        return _WORDS[name](value)
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else maxtext.written(value)


def _machine_text(machine: tuple[Chip, tuple[int, ...], int]) -> str:
    chip, topology, slices = machine
    shape = "x".join(map(str, topology))
    return f"{chip.name} {shape} x {slices} slices" if slices > 1 else f"{chip.name} {shape}"


def _remat_text(remat: tuple[str, Mapping[str, str]]) -> str:
    policy, tensors = remat
    kept = ", ".join(f"{tensor}={where}" for tensor, where in sorted(tensors.items()))
    return f"{policy}({kept})" if kept else policy


_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    MODEL: lambda architecture: str(architecture.name),
    MACHINE: _machine_text,
    MESH: lambda degrees: strategy_of(*degrees),
    REMAT: _remat_text,
    PRECISION: lambda pair: str(pair[0]) if pair[1] in {"none", "fp8_full"} else ", ".join(pair),
}
