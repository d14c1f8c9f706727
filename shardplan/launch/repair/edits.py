"""Single edits of a launch's flags that may make it legal or make it fit: nearest values, other splits, less memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from shardplan.errors import nearest
from shardplan.loaders.load import load_record
from shardplan.loaders.maxtext_flags.names import in_newest_words
from shardplan.loaders.maxtext_flags.settings import Base, Settings, effect_of, read_settings
from shardplan.machine.chips import resolve_cluster
from shardplan.maxtext.keys import accept, parse
from shardplan.maxtext.releases import release_of
from shardplan.maxtext.remat import ALIASES, POLICIES
from shardplan.maxtext.tables import Table, table
from shardplan.maxtext.tiles import LANES, LOCAL, TILES, nearest_tile, span_of
from shardplan.spec import AXES
from shardplan.splits.laws import DCN_AXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shardplan.loaders.maxtext_flags import Launch

    Flags = Mapping[str, Any]

TILINGS: Final = (1, 2, 4, 8, 16, 32)
MOST_HALVINGS: Final = 6
MOST_LAYERS: Final = 1000
LARGER_TILES: Final = (512, 1024, 4096)
TRAINED: Final = frozenset({
    "max_target_length", "model_name", "opt_type", "weight_dtype", "grad_dtype", "mu_dtype", "dtype", "quantization",
    "capacity_factor", "per_device_batch_size", "gradient_accumulation_steps",
})  # fmt: skip
"""Keys that decide what is trained, beside those that describe the model: never dropped."""

_DEGREE: Final = "_parallelism"


@dataclass(frozen=True, slots=True)
class Edit:
    """Flags to set and to drop."""

    values: dict[str, Any] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    alters: bool = False
    """Whether the training becomes another one: its batch, its types."""
    distance: float = 0.0
    """How far a number is from the one given, in doublings; 0 for what is no number."""

    @property
    def size(self) -> int:
        """Flags that change; another name for the same flag is one."""
        return max(len(self.values), len(self.removed))


@dataclass(frozen=True, slots=True)
class Machine:
    """What the flags are launched on."""

    accelerator: str
    slices: int
    maxtext: str | None = None
    """Release it is launched with; by default the newest."""

    def launch(self, flags: Flags) -> Launch:
        """The launch of some flags; raises as `load_record` does."""
        record = {"id": "launch", "topology": self.accelerator, "slices": self.slices, "flags": dict(flags)}
        return load_record(record, self.maxtext)


def edits_of(flags: Flags, machine: Machine, *, memory_only: bool = False) -> Iterator[Edit]:
    """Edits worth trying; with `memory_only`, those that leave a legal launch legal most of the time.

    What cannot be read comes first, and alone.
    """
    unread = list(_unread(flags, machine.maxtext))
    yield from unread
    if unread:
        return
    base = Base(release_of(machine.maxtext).release.name)
    settings = read_settings(flags, "flags", base=base)
    cluster = resolve_cluster(None, accelerator=machine.accelerator, slices=machine.slices)
    counts = {"ici": cluster.devices_per_slice, "dcn": cluster.slices}
    yield from _memory(settings)
    yield from _batches(settings, cluster.devices)
    for network, total in counts.items():
        yield from _degrees(settings, network, total)
    if not memory_only:
        yield from _dropped(settings)
        yield from _switches(settings)
        yield from _tiles(settings)
        yield from _pipeline(settings, counts)


def _memory(settings: Settings) -> Iterator[Edit]:
    """Remat, tiling and the optimizer's place and types."""
    for policy in POLICIES:
        if policy != settings["remat_policy"]:
            yield Edit({"remat_policy": policy})
    yield Edit({"remat_policy": "custom", "decoder_layer_input": "offload"})
    for tiling in TILINGS:
        if tiling != settings["num_vocab_tiling"]:
            yield Edit({"num_vocab_tiling": tiling})
    if not settings["optimizer_memory_host_offload"]:
        yield Edit({"optimizer_memory_host_offload": True})
    for key in ("mu_dtype", "grad_dtype"):
        if settings[key] != "bfloat16":
            yield Edit({key: "bfloat16"}, alters=True)


def _batches(settings: Settings, devices: int) -> Iterator[Edit]:
    """More micro-steps of fewer rows; and batches of a nearby whole number of rows for ever fewer groups of devices."""
    batch, steps = settings["per_device_batch_size"], settings["gradient_accumulation_steps"]
    if steps <= 0:
        yield Edit({"gradient_accumulation_steps": 1})
    if batch <= 0:
        yield Edit({"per_device_batch_size": 1}, alters=True)
    if batch <= 0 or steps <= 0:
        return
    for halvings in range(1, MOST_HALVINGS + 1):
        smaller = {
            "per_device_batch_size": _number(batch / 2**halvings),
            "gradient_accumulation_steps": steps * 2**halvings,
        }
        yield Edit(smaller)
    rows, found = batch * devices, set()
    unit = devices * 2**MOST_HALVINGS
    while unit >= 1 and rows < 2**40:
        found |= {math.floor(rows / unit) * unit, math.ceil(rows / unit) * unit} if unit == int(unit) else set()
        unit //= 2
    found |= {rows / 2**halvings for halvings in range(1, MOST_HALVINGS + 1)}
    for near in sorted(found - {0, rows}):
        value = _number(near / devices)
        yield Edit({"per_device_batch_size": value}, alters=True, distance=_doublings(value, batch))


def _degrees(settings: Settings, network: str, total: int) -> Iterator[Edit]:
    """Another degree for one axis; or a factor moved from one axis to another, the product kept."""
    keys = {axis: f"{network}_{axis}_parallelism" for axis in AXES}
    degrees = {axis: settings[key] for axis, key in keys.items()}
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    for axis, degree in degrees.items():
        # Guard: axes that communicate inside every layer do not cross slices; and axes not named are second choice.
        crosses, unnamed = network == "ici" or axis in DCN_AXES, keys[axis] not in settings.given
        for divisor in (*divisors, -1) if crosses else (1,):
            if divisor != degree:
                yield Edit({keys[axis]: divisor}, distance=_doublings(divisor, degree) + unnamed)
        if 1 < degree <= total:
            yield from _moved(axis, degrees, keys)
    if network == "ici" and not settings["allow_split_physical_axes"]:
        yield Edit({"allow_split_physical_axes": True})


def _moved(axis: str, degrees: Mapping[str, int], keys: Mapping[str, str]) -> Iterator[Edit]:
    """Factors of one axis moved to each other axis with a degree of its own."""
    degree = degrees[axis]
    for other, theirs in degrees.items():
        if other == axis or theirs < 1 or (keys[other].startswith("dcn") and other not in DCN_AXES):
            continue
        for factor in (f for f in range(2, degree + 1) if degree % f == 0):
            moved = {keys[axis]: degree // factor, keys[other]: theirs * factor}
            yield Edit(moved, distance=2 * math.log2(factor))


def _unread(flags: Mapping[str, Any], maxtext: str | None) -> Iterator[Edit]:
    """Keys MaxText does not know, by the name this release has, the one that was meant, or left out; values it cannot read, the same way."""
    release = table(release_of(maxtext).release.name)
    keys, policies = release.keys, [*POLICIES, *ALIASES, "custom"]
    for name, raw in flags.items():
        if name not in keys:
            if renamed := _renamed(release, name, raw):
                yield Edit(renamed, frozenset({name}), distance=-1)
            elif (meant := _meant(name)) and meant not in flags:
                yield Edit({meant: raw}, frozenset({name}))
            yield Edit(removed=frozenset({name}), distance=1)
            continue
        kind, value = keys[name].kind, parse(raw) if isinstance(raw, str) else raw
        try:
            accept(keys[name], raw.strip() if kind in {"text", "text?"} and isinstance(raw, str) else value)
        except ValueError:
            if isinstance(kind, tuple) and (near := nearest(value, [choice for choice in kind if choice])):
                yield Edit({name: near})
            yield Edit(removed=frozenset({name}), alters=name in TRAINED, distance=1)
    if (policy := str(flags.get("remat_policy", "full"))) not in policies and (near := nearest(policy, policies)):
        yield Edit({"remat_policy": near})


def _renamed(release: Table, name: str, raw: Any) -> dict[str, Any]:
    """A key of another release by the names that this one has for the same; nothing where it has none."""
    new = in_newest_words(release, name, raw)
    if name not in new and new.keys() <= release.keys.keys():
        return new
    return {old: raw for old, means in release.means.items() if set(means) == {name} and means[name] is None}


def _dropped(settings: Settings) -> Iterator[Edit]:
    """Settings left to their defaults; sizes that contradict the model's left to the model."""
    for name, value in settings.given.items():
        effect = effect_of(name)
        if effect == "architecture":
            if name in settings.model and settings.model[name] != value:
                yield Edit(removed=frozenset({name}), alters=True, distance=1)
        elif effect in {"modelled", "approximate", "refused"} and name not in TRAINED and not name.endswith(_DEGREE):
            yield Edit(removed=frozenset({name}), distance=1)


@cache
def _meant(name: str) -> str | None:
    """The key that a misspelt one stands for, if any is near."""
    return nearest(name, table().keys)


def _switches(settings: Settings) -> Iterator[Edit]:
    """Leave to override the model's own settings, other kernels, balanced context or not."""
    yield Edit({"override_model_config": True}, distance=1)
    for kernel, same in (("flash", "autoselected"), ("dot_product", "dot_product")):
        if settings["attention"] not in {kernel, same}:
            yield Edit({"attention": kernel}, distance=0.5)
    for key in ("context_parallel_load_balance", "use_tokamax_splash", "sparse_matmul", "megablox", "scan_layers"):
        yield Edit({key: not settings[key]}, distance=1)
    for strategy in ("all_gather", "ring", "ulysses"):
        if strategy != settings["context_parallel_strategy"]:
            yield Edit({"context_parallel_strategy": strategy}, distance=1)


def _tiles(settings: Settings) -> Iterator[Edit]:
    """Attention tiles that fill the tokens, one by one and all at once, and sequences of whole tiles."""
    sequence, context = settings["max_target_length"], max(1, settings["ici_context_parallelism"])
    if sequence <= 0:
        return
    for tile in (LANES, *LARGER_TILES):
        for whole in sorted({max(tile, sequence // tile * tile), -(-sequence // tile) * tile} - {sequence}):
            yield Edit({"max_target_length": whole}, alters=True, distance=_doublings(whole, sequence))
    tokens = span_of(sequence, context, str(settings["context_parallel_strategy"])).queries
    for key in (*TILES, *(LOCAL + key for key in TILES)):
        given = settings.given.get(key)
        if given is None or (whole := nearest_tile(max(given, 1), tokens)) in {None, given}:
            continue
        yield Edit({key: whole}, distance=_doublings(whole, given))
    if (whole := nearest_tile(LARGER_TILES[0], tokens)) is not None:
        yield Edit(dict.fromkeys(TILES, whole), distance=_doublings(whole, LARGER_TILES[0]))


def _pipeline(settings: Settings, counts: Mapping[str, int]) -> Iterator[Edit]:
    """Microbatches and layers a stage."""
    stages = max(1, settings["ici_pipeline_parallelism"]) * max(1, settings["dcn_pipeline_parallelism"])
    if stages == 1 or stages > math.prod(counts.values()):
        return
    for times in (1, 2, 4, 8):
        number = stages * times
        if number != settings["num_pipeline_microbatches"]:
            far = _doublings(number, settings["num_pipeline_microbatches"])
            yield Edit({"num_pipeline_microbatches": number}, distance=far)
    layers = min(settings["base_num_decoder_layers"], MOST_LAYERS)
    for per_stage in range(1, layers // stages + 1):
        if layers % (stages * per_stage) == 0 and per_stage != settings["num_layers_per_pipeline_stage"]:
            far = _doublings(per_stage, settings["num_layers_per_pipeline_stage"])
            yield Edit({"num_layers_per_pipeline_stage": per_stage}, distance=far)


def _doublings(value: float, given: float) -> float:
    """How many doublings or halvings lie between two numbers; one that is no size is one doubling from all."""
    if value <= 0 or given <= 0:
        return 1.0
    return abs(math.log2(value / given))


def _number(value: float) -> int | float:
    """A whole number as such."""
    return int(value) if float(value).is_integer() else value
