"""A priced candidate as the record that is printed: numbers, verdicts and the flags to launch it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from shardplan.cost.estimate import Estimates, estimate
from shardplan.engine.ranking import fit_classes
from shardplan.exporters import maxtext
from shardplan.judge.facts import Facts, observe
from shardplan.judge.judge import Verdicts, judge
from shardplan.maxtext.releases import release_of
from shardplan.plan import (
    ChoiceOut,
    CollectiveOut,
    IntensityOut,
    MemoryOut,
    MeshOut,
    RuleOut,
    TimeOut,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shardplan.catalogue.rules import Catalogue
    from shardplan.judge.profile import Profile
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates

VERDICTS: tuple[Verdict, ...] = ("fits", "at_risk", "does_not_fit")
"""By class of `ranking.fit_classes`."""

SHORT_NAMES = {
    "data": "DP", "pipeline": "PP", "fsdp": "FSDP", "fsdp_transpose": "FSDP-T", "context": "CP", "tensor": "TP",
    "expert": "EP",
}  # fmt: skip

_INTENSITY: tuple[tuple[str, tuple[str, ...], str, str, Literal["tokens", "width"]], ...] = (
    ("fsdp", ("fsdp", "fsdp_transpose"), "tokens_per_gather", "gather_tokens_needed", "tokens"),
    ("data", ("ici_data",), "tokens_per_replica", "data_tokens_needed", "tokens"),
    ("dcn", ("mesh_slices",), "tokens_per_slice", "slice_tokens_needed", "tokens"),
    ("tensor", ("tensor",), "active_width", "tensor_width_needed", "width"),
    ("expert", ("expert",), "expert_width", "expert_width_needed", "width"),
    ("context", ("context",), "context_tokens", "context_tokens_needed", "tokens"),
)
"""Axis; facts of which one above 1 means it is in use; our side; the needed side; unit."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A few candidates with everything known of them."""

    case: Case
    profile: Profile
    catalogue: Catalogue
    candidates: Candidates
    estimates: Estimates
    facts: Facts
    verdicts: Verdicts

    @classmethod
    def of(cls, case: Case, profile: Profile, catalogue: Catalogue, candidates: Candidates) -> Priced:
        """Candidates priced and judged."""
        estimates = estimate(case, candidates)
        facts = observe(case, profile, candidates, estimates)
        return cls(case, profile, catalogue, candidates, estimates, facts, judge(facts, catalogue))

    def choice(self, row: int, rank: int) -> ChoiceOut:
        """One of them as a record."""
        case, memory, time = self.case, self.estimates.memory, self.estimates.time
        candidates, facts, split = self.candidates, self.facts.at(row), self.candidates.split_at(row)
        policy, lacks = candidates.policy_at(row), maxtext.lacking(case.architecture)
        seconds = float(time.estimate_s[row])
        global_batch = round(float(candidates.global_batch[row]))
        flags, lost = maxtext.flags_if_any(case, split)
        release = release_of(case.runtime.maxtext).release.name
        return ChoiceOut(
            rank=rank,
            verdict=self.verdict(row),
            launchable=not (lacks or lost),
            why_not_launchable=_why_not(release, lacks, lost),
            mesh=MeshOut(ici=split.ici, dcn=split.dcn),
            strategy=strategy_of(split.ici, split.dcn),
            remat_policy=policy.name,
            remat_tensors=dict[str, str](policy.tensors),
            per_device_batch=split.per_device_batch,
            global_batch=global_batch,
            gradient_accumulation=split.gradient_accumulation,
            pipeline_microbatches=split.pipeline_microbatches,
            num_vocab_tiling=split.num_vocab_tiling,
            allow_split_physical_axes=split.allow_split_physical_axes,
            memory=MemoryOut(
                arguments_bytes=float(memory.arguments_bytes[row]),
                temp_bytes=float(memory.temp_bytes[row]),
                total_bytes=float(memory.total_bytes[row]),
                limit_bytes=case.cluster.hbm_limit_bytes * (1 - case.constraints.hbm_headroom),
                error_band=float(memory.error_band[row]),
                calibrated=case.cluster.chip.calibration.compiled_points > 0,
                binding_moment=memory.moment_at(row).name,
                breakdown=memory.breakdown_at(row),
                moments=memory.moments_at(row),
                host_bytes=float(memory.host_bytes[row]),
            ),
            time=TimeOut(
                estimate_s=seconds,
                lower_s=float(time.lower_s[row]),
                upper_s=float(time.upper_s[row]),
                error_band=float(time.error_band[row]),
                calibrated=case.cluster.chip.calibration.published_runs > 0,
                breakdown=_at(time.breakdown, row),
                **self._whole_run(global_batch, seconds),
            ),
            tokens_per_s_per_device=global_batch * case.workload.sequence_length / seconds / case.cluster.devices,
            mfu=float(time.mfu[row]),
            bound_by=self._bound_by(row),
            communication=tuple(self._communication(row)),
            intensity=tuple(self._intensity(facts)),
            rules=tuple(
                RuleOut(code=rule.code, severity=rule.entry.severity, explanation=rule.explanation(facts))
                for rule in self.verdicts.firing(row)
            ),
            maxtext_flags=flags,
            maxtext_release=release,
            flags_lost=lost,
            libtpu_init_args=self._libtpu_init_args(row),
        )

    def verdict(self, row: int) -> Verdict:
        """Whether it fits."""
        memory = self.estimates.memory
        return VERDICTS[int(fit_classes(self.case, memory.total_bytes, memory.error_band)[row])]

    def _whole_run(self, global_batch: int, seconds: float) -> dict[str, float]:
        """Days and dollars of the whole training, where tokens and a price are known."""
        tokens, cluster = self.case.workload.training_tokens, self.case.cluster
        if tokens is None:
            return {}
        hours = tokens / (global_batch * self.case.workload.sequence_length) * seconds / 3600
        listed = cluster.chip.usd_per_chip_hour
        price = cluster.usd_per_chip_hour or (listed.value if listed else None)
        return {"days": hours / 24} | ({} if price is None else {"usd": hours * price * cluster.chips})

    def _bound_by(self, row: int) -> str:
        """The binding resource; of a network, with the axis that waits longest."""
        time = self.estimates.time
        bound = time.bounds[int(time.bound_by[row])]
        if bound not in ("ici", "dcn"):
            return bound
        waits = [
            (float(exposed[row]), collective.axis)
            for collective, exposed in zip(self.estimates.collectives, time.exposed_s, strict=True)
            if (collective.network == "dcn") == (bound == "dcn")
        ]
        return f"{bound}:{max(waits)[1]}"

    def _communication(self, row: int) -> Iterator[CollectiveOut]:
        """What moves, where anything does."""
        for collective, exposed in zip(self.estimates.collectives, self.estimates.time.exposed_s, strict=True):
            if collective.bytes[row] > 0:
                yield CollectiveOut(
                    axis=collective.axis_at(row),
                    network=collective.network_at(row),
                    kind=collective.kind,
                    purpose=collective.purpose,
                    bytes=float(collective.bytes[row]),
                    count=float(collective.count[row]),
                    seconds=float(collective.seconds[row]),
                    exposed_s=float(exposed[row]),
                )

    def _intensity(self, facts: Mapping[str, Any]) -> Iterator[IntensityOut]:
        """Both sides of the comparison for each axis in use, with the rule that makes it."""
        for axis, in_use, ours, needed, unit in _INTENSITY:
            if max(float(facts[name]) for name in in_use) > 1:
                mine, threshold = float(facts[ours]), float(facts[needed])
                rule = next((r.code for r in self.catalogue if needed in r.predicate.names), "")
                yield IntensityOut(axis=axis, ours=mine, needed=threshold, unit=unit, ok=mine >= threshold, rule=rule)

    def _libtpu_init_args(self, row: int) -> tuple[str, ...]:
        """Flags of the groups that the firing rules ask for."""
        groups = [group for rule in self.verdicts.firing(row) for group in rule.entry.effect.flags]
        return self.catalogue.flags(groups, self.case.cluster.chip.name)


def strategy_of(ici: Mapping[str, int], dcn: Mapping[str, int]) -> str:
    """A mesh in the field's words: `FSDP 128`, `FSDP 64 x CP 8`, with `DCN: DP 2` across slices."""
    inside = " x ".join(f"{SHORT_NAMES[axis]} {degree}" for axis, degree in ici.items()) or "one device"
    across = " x ".join(f"{SHORT_NAMES[axis]} {degree}" for axis, degree in dcn.items())
    return f"{inside}, DCN {across}" if across else inside


def _at(columns: Mapping[str, Any], row: int) -> dict[str, float]:
    return {name: float(column[row]) for name, column in columns.items()}


def _why_not(release: str, lacks: str | None, lost: Mapping[str, maxtext.Value]) -> str | None:
    """What keeps MaxText, or the release asked for, from launching a plan; None if nothing does."""
    if lacks:
        return f"MaxText lacks {lacks}"
    shown = ", ".join(f"{key}={maxtext.written(value)}" for key, value in lost.items())
    return f"MaxText {release} cannot express {shown}" if lost else None
