"""The words for a plan's parts: mesh, batch, memory, time. One wording in every page and format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardplan.render.page import Text
from shardplan.units import format_bytes, format_count, format_fraction, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardplan.plan import ChoiceOut, ClusterOut, MemoryOut, MeshOut, RuleOut, TimeOut
    from shardplan.render.page import Tone
    from shardplan.spec import Workload

VERDICTS: Final[dict[str, tuple[str, Tone]]] = {
    "fits": ("fits", "good"),
    "at_risk": ("at risk", "warn"),
    "does_not_fit": ("does not fit", "bad"),
    "invalid": ("invalid", "bad"),
}
SEVERITIES: Final[dict[str, Tone]] = {"error": "bad", "warning": "warn", "note": "dim"}


def workload_text(w: Workload) -> str:
    """Tokens, batch, precision and optimizer of a step."""
    words = [f"sequences of {w.sequence_length:,} tokens"]
    if (sequences := w.global_sequences) is not None:
        words.append(f"{sequences:,} a step ({format_count(sequences * w.sequence_length)} tokens)")
    elif w.per_device_batch == "auto":
        words.append("as many a device as pay off")
    else:
        words.append(f"{w.per_device_batch:g} a device and micro-step")
    words += [w.precision, f"{w.optimizer.name} on {w.optimizer.weight_dtype} weights"]
    words += [f"{format_count(w.training_tokens)} tokens in all"] if w.training_tokens else []
    return ", ".join(words)


def verdict_text(verdict: str) -> Text:
    """The verdict in words."""
    words, tone = VERDICTS[verdict]
    return Text(words, tone)


def mesh_text(mesh: MeshOut) -> str:
    """Degrees by axis, the network between slices after a bar: "fsdp=64 tensor=2 | dcn data=2"."""
    ici = " ".join(f"{axis}={degree}" for axis, degree in mesh.ici.items())
    dcn = " ".join(f"{axis}={degree}" for axis, degree in mesh.dcn.items())
    return " | ".join((ici or "one device", *([f"dcn {dcn}"] if dcn else [])))


def batch_text(choice: ChoiceOut, devices: int) -> str:
    """Sequences a device x devices x accumulation = global batch."""
    parts = [f"{choice.per_device_batch:g}", f"{devices:,}", f"{choice.gradient_accumulation:,}"]
    return f"{'x'.join(parts)}={choice.global_batch:,}"


def remat_text(choice: ChoiceOut) -> str:
    """The policy, and for `custom` what it keeps where: "custom(context, key_proj on device; out_proj on host)"."""
    if choice.remat_policy != "custom":
        return choice.remat_policy
    kept = {
        words: [name for name, place in choice.remat_tensors.items() if place == where]
        for where, words in (("device", "on device"), ("offload", "on host"))
    }
    parts = [f"{', '.join(names)} {words}" for words, names in kept.items() if names]
    return f"custom({'; '.join(parts)})"


def memory_text(memory: MemoryOut, verdict: str) -> Text:
    """Bytes used and their share of the limit, in the verdict's tone."""
    share = memory.total_bytes / memory.limit_bytes
    return Text(f"{format_bytes(memory.total_bytes)} {share:.0%}", VERDICTS[verdict][1], share)


def time_text(time: TimeOut) -> str:
    """Seconds a step with the error band: "12.2 s ±10%"."""
    return f"{format_seconds(time.estimate_s)} {band_text(time.error_band, calibrated=time.calibrated)}"


def band_text(band: float, *, calibrated: bool) -> str:
    """An error band, and whether it is that of a chip nobody has measured: "±30% uncalibrated"."""
    return f"±{band:.0%}" if calibrated else f"±{band:.0%} uncalibrated"


def launch_text(choice: ChoiceOut) -> str:
    """For a headline: that MaxText cannot launch the plan, why, and what can; empty where it can."""
    why = choice.why_not_launchable
    return "" if why is None else f"; not launchable: {why} (shardplan export jax can)"


def codes_text(codes: list[str]) -> str:
    """Codes in order, each once."""
    return " ".join(dict.fromkeys(codes))


def rules_text(rules: Iterable[RuleOut]) -> Text:
    """The codes of rules, the gravest first; on a terminal the notes are only counted."""
    ordered = by_severity(rules)
    grave = codes_text([rule.code for rule in ordered if rule.severity != "note"])
    notes = sum(rule.severity == "note" for rule in ordered)
    short = " + ".join((*([grave] if grave else []), *([count_text(notes, "note")] if notes else [])))
    return Text(codes_text([rule.code for rule in ordered]), short=short)


def by_severity(rules: Iterable[RuleOut]) -> list[RuleOut]:
    """Errors, then warnings, then notes."""
    order = list(SEVERITIES)
    return sorted(rules, key=lambda rule: order.index(rule.severity))


def name_text(key: str) -> str:
    """A key of the output types in words: "exposed_comm_s" is "exposed comm"."""
    for suffix in ("_bytes", "_s"):
        key = key.removesuffix(suffix)
    return key.replace("_", " ")


def shares(parts: Mapping[str, float], whole: float) -> list[tuple[str, float, str]]:
    """The parts above zero, largest first, each with its share of the whole."""
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return [(name_text(key), value, format_fraction(value / whole) if whole else "") for key, value in ordered if value]


def torus_text(cluster: ClusterOut) -> str:
    """The slice's shape in chips, and which of its dimensions are rings."""
    shape = "x".join(str(size) for size in cluster.topology)
    rings = [axis for axis, wraps in zip("xyz", cluster.wraps, strict=False) if wraps]
    return f"{shape} torus, wraps {', '.join(rings)}" if rings else f"{shape} mesh, no wraparound"


def count_text(n: int, noun: str) -> str:
    """A count with its noun in the right number."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
