"""Legality is said once: the search cuts what rules forbid, and a scalar restatement of MaxText's refusals agrees."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_cases import DENSE_MODEL, GQA, MOE, MOE_MODEL, architecture, case_of

from shardplan.catalogue.rules import load_catalogue
from shardplan.data import model_configs_folder, names, rules_folder
from shardplan.judge.facts import KINDS, VOCABULARY, observe
from shardplan.judge.judge import judge
from shardplan.loaders.load import load_case
from shardplan.machine.chips import default_shape, load_chip
from shardplan.machine.torus import fits_without_split
from shardplan.maxtext.remat import POLICIES
from shardplan.spec import AXES, Case, Cluster, Constraints, Optimizer, Runtime, Workload
from shardplan.splits import enumeration
from shardplan.splits.candidates import Candidates, Mesh, concatenated
from shardplan.splits.enumeration import enumerate_candidates, legal_meshes
from shardplan.splits.laws import DCN_AXES, LAWS, MESH_LAWS
from shardplan.splits.pipeline import pipeline_repeats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.judge.judge import Verdicts

CATALOGUE = load_catalogue(rules_folder(), KINDS)
LEFT_OUT = ("SP407", "SP581")
"""Rules that only demote, and what the search leaves out because of them."""
JUDGED = [*CATALOGUE.forbidding(["topology", "maxtext"]), *map(CATALOGUE.rule, LEFT_OUT)]
CASES = model_configs_folder() / "cases"


# --- every row there is ----------------------------------------------------------------------------------------------


def factorizations(total: int, n_axes: int) -> Iterator[tuple[int, ...]]:
    if n_axes == 1:
        yield (total,)
        return
    for first in (d for d in range(1, total + 1) if total % d == 0):
        for rest in factorizations(total // first, n_axes - 1):
            yield (first, *rest)


def all_meshes(case: Case) -> Candidates:
    """Every mesh that multiplies to devices and slices, legal or not."""
    ici = np.array(list(factorizations(case.cluster.devices_per_slice, len(AXES))), dtype=np.int64)
    dcn = np.array(list(factorizations(case.cluster.slices, len(AXES))), dtype=np.int64)
    inside, across = np.indices((len(ici), len(dcn))).reshape(2, -1)
    one = np.ones(len(inside), dtype=np.int64)
    rows = Candidates(
        ici=Mesh(*ici[inside].T), dcn=Mesh(*dcn[across].T), per_device_batch=one * 1.0, gradient_accumulation=one,
        pipeline_microbatches=one, pipeline_repeats=one, num_vocab_tiling=one, remat=0 * one,
        remat_policies=(POLICIES["full"],), needs_split=one == 0,
    )  # fmt: skip
    return laid_out(case, rows)


def laid_out(case: Case, rows: Candidates) -> Candidates:
    return replace(
        rows,
        pipeline_repeats=pipeline_repeats(case, rows.degree("pipeline")),
        needs_split=~fits_without_split(case.cluster, rows.ici),
    )


def all_batches(case: Case, meshes: Candidates) -> Candidates:
    """Every batch that the search lays over meshes, legal or not."""
    parts, stages = [], meshes.degree("pipeline")
    for batch, accumulation in enumeration._micro_steps(case, meshes):
        for times in enumeration.MICROBATCHES_PER_STAGE:
            here = np.flatnonzero((stages > 1) | (times == 1))
            more = {
                "per_device_batch": batch[here],
                "gradient_accumulation": np.full(len(here), accumulation),
                "pipeline_microbatches": np.where(stages > 1, stages * times, 1)[here],
            }
            parts.append(replace(meshes.take(here), **more))
    return concatenated(parts)


def keys(rows: Candidates) -> list[tuple[Any, ...]]:
    columns = [mesh.column(axis) for mesh in (rows.ici, rows.dcn) for axis in AXES]
    columns += [rows.per_device_batch, rows.gradient_accumulation, rows.pipeline_microbatches, rows.needs_split]
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def broken(verdicts: Verdicts, n: int) -> Any:
    """Where any of the rules fires."""
    return np.any([*verdicts.masks.values(), np.zeros(n, dtype=bool)], axis=0)


def check_mask(case: Case) -> int:
    """Assert that the search keeps what no rule forbids and counts the rest under rules that do; rows looked at."""
    tally: dict[str, int] = {}
    meshes, kept = all_meshes(case), legal_meshes(case, tally)
    split_codes = {law.code for law in LAWS} - {law.code for law in MESH_LAWS} - {"SP403"}
    on_mesh = judge(observe(case, None, meshes), [rule for rule in JUDGED if rule.code not in split_codes])
    bad = broken(on_mesh, len(meshes))
    assert keys(kept) == keys(meshes.take(~bad))
    check_tally(case, tally, on_mesh, int(bad.sum()))
    found = enumerate_candidates(case)
    batches = all_batches(case, kept)
    verdicts = judge(observe(case, None, batches), JUDGED)
    worse = broken(verdicts, len(batches))
    assert keys(found.candidates) == keys(batches.take(~worse))
    of_batches = {code: n - tally.get(code, 0) for code, n in found.rejected.items() if n > tally.get(code, 0)}
    assert set(of_batches) <= split_codes
    check_tally(case, of_batches, verdicts, int(worse.sum()), whole=True)
    return len(meshes) + len(batches)


def check_tally(case: Case, tally: dict[str, int], verdicts: Verdicts, n_bad: int, *, whole: bool = False) -> None:
    """Each code is that of a rule that fires, on as many rows at least; with one network, all of the rejected are counted."""
    for code, count in tally.items():
        assert code in verdicts.masks, code
        assert 0 < count <= verdicts.masks[code].sum(), code
    if case.cluster.slices == 1 or whole:
        assert sum(tally.values()) == n_bad


@pytest.mark.parametrize("name", names(CASES))
def test_the_search_keeps_what_no_rule_forbids_in_shipped_cases(name: str) -> None:
    case = load_case(CASES / f"{name}.yaml")
    if case.cluster.devices_per_slice > MOST_DEVICES:  # every ordered factorization of 18,432 devices takes minutes
        shape = default_shape(case.cluster.chip, MOST_DEVICES // case.cluster.chip.jax_devices_per_chip)
        case = case.model_copy(update={"cluster": case.cluster.model_copy(update={"topology": shape})})
    assert check_mask(case) > len(AXES)


MOST_DEVICES = 512


# --- random cases ----------------------------------------------------------------------------------------------------

SIZES = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 20, 24, 28, 40, 48, 60, 64, 96, 128])
LENGTHS = st.sampled_from(
    [64, 128, 130, 192, 200, 256, 320, 384, 448, 500, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 2048, 2304, 2560, 4096,
     6144, 8192]
)  # fmt: skip
TOPOLOGIES = {
    "tpu7x": ("1x1x1", "2x2x1", "2x2x3", "2x2x4", "4x4x4"),
    "v5p": ("2x2x1", "2x2x3", "2x2x4", "4x4x5", "2x2x7"),
    "v6e": ("1x1", "2x3", "3x4", "4x4", "4x8"),
}
"""Some that no cloud offers, for their factors 3, 5 and 7."""


@st.composite
def architectures(draw: st.DrawFn) -> Any:
    kv = draw(SIZES)
    attention: dict[str, Any] = {
        "n_key_value_heads": kv,
        "n_query_heads": kv * draw(st.integers(1, 4)),
        "head_width": 128,
    }
    if draw(st.integers(0, 4)) == 0:
        attention |= {"window": 1024, "window_kind": draw(st.sampled_from(["sliding", "chunked"]))}
    if draw(st.integers(0, 6)) == 0:
        attention["sinks"] = True
    if draw(st.integers(0, 5)) == 0:
        attention = {
            "kind": "mla", "n_query_heads": kv, "n_key_value_heads": kv, "query_rank": 16 * draw(SIZES), "key_value_rank":
            16 * draw(SIZES), "nope_width": 128, "rope_width": 64, "value_width": 128,
        }  # fmt: skip
    dense = {"width": 8 * draw(SIZES) * draw(st.integers(1, 12))}
    experts = draw(st.sampled_from([4, 6, 8, 24, 60]))
    moe = {"kind": "moe", "width": 8 * draw(SIZES), "n_experts": experts, "n_active_experts": 2}
    if draw(st.booleans()):
        moe |= {"score_bias": draw(st.booleans())}
    layers = [{"count": draw(st.sampled_from([1, 2, 3, 4, 6, 12, 16, 29])), "attention": attention, "feed_forward": block}
              for block in draw(st.sampled_from([(dense,), (moe,), (dense, moe)]))]  # fmt: skip
    return architecture(
        *layers, model_width=16 * draw(SIZES) * draw(st.integers(1, 8)), vocab_size=32 * draw(SIZES) * draw(st.integers(1, 9)),
        n_mtp_layers=draw(st.sampled_from([0, 0, 0, 1, 2])),
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    chip = load_chip(draw(st.sampled_from(sorted(TOPOLOGIES))))
    topology = tuple(map(int, draw(st.sampled_from(TOPOLOGIES[chip.name])).split("x")))
    batch = draw(st.sampled_from([{"global_batch": draw(st.integers(1, 300))}, {"global_batch": 2 ** draw(st.integers(0, 10))},
                                  {"per_device_batch": draw(st.sampled_from(["auto", 0.25, 0.3, 1, 1.5, 3]))}]))  # fmt: skip
    limit = st.sampled_from([None, None, None, 1, 2, 3])
    bounds = {f"max_{axis}_parallelism": draw(limit) for axis in AXES if axis != "fsdp_transpose"}
    runtime = Runtime(
        attention=draw(st.sampled_from(["flash", "flash", "dot_product"])),
        attention_tile_tokens=draw(st.sampled_from([64, 128, 384, 512, 2048])),
        tokamax_splash=draw(st.booleans()),
        context_strategy=draw(st.sampled_from(["all_gather", "all_gather", "ring", "ulysses"])),
        context_load_balance=draw(st.booleans()),
        packing=draw(st.booleans()),
        sparse_matmul=draw(st.booleans()),
        scan_layers=draw(st.integers(0, 5)) > 0,
        ragged_buffer_factor=draw(st.sampled_from([-1.0, -1.0, -1.0, 2.0])),
        pipeline_layers_per_stage=draw(st.sampled_from([None, None, 1, 2, 3])),
        pipeline_delay_activations=draw(st.booleans()),
        pipeline_gather_weights=draw(st.sampled_from(["per_iteration", "per_iteration", "once", "per_repeat"])),
        quantization=draw(st.sampled_from([None, None, "int8", "fp8"])),
    )
    optimizer = Optimizer(name=draw(st.sampled_from(["adamw", "sgd"])), shard_over_data=draw(st.integers(0, 4)) == 0)
    return Case(
        architecture=draw(architectures()),
        workload=Workload(sequence_length=draw(LENGTHS), optimizer=optimizer, **batch),
        cluster=Cluster(chip=chip, topology=topology, slices=draw(st.sampled_from([1, 1, 2, 3]))),
        constraints=Constraints(
            allow_split_physical_axes=draw(st.booleans()),
            gradient_accumulation=draw(st.sampled_from(["auto", "auto", 1, 3])),
            **bounds,
        ),
        runtime=runtime,
    )


RANDOM = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


@RANDOM
@given(cases())
def test_the_search_keeps_what_no_rule_forbids_in_random_cases(case: Case) -> None:
    check_mask(case)


# --- what MaxText refuses, said again one row at a time -----------------------------------------------------------------


def refused(  # noqa: C901, PLR0912 - a list of refusals, one after the other
    case: Case, row: dict[str, int], dcn: dict[str, int], split: dict[str, float]
) -> Iterator[str]:
    """Codes of the laws that one mesh breaks. Source: the checks in docs/maxtext_coverage.md, written out with plain numbers."""
    a, r = case.architecture, case.runtime
    kinds = [layer.attention for layer, _ in a.layers]
    blocks = [layer.feed_forward for layer, _ in a.layers]
    of = {axis: row[axis] * dcn[axis] for axis in AXES}
    t, cp, pp, ep = of["tensor"], of["context"], of["pipeline"], of["expert"]
    for axis in AXES:
        most = getattr(case.constraints, f"max_{axis}_parallelism", None)
        if most is not None and of[axis] * (of["fsdp_transpose"] if axis == "fsdp" else 1) > most:
            yield "SP420"
    if any(dcn[axis] > 1 for axis in AXES if axis not in DCN_AXES):
        yield "SP407"
    if any(size % t for k in kinds for size in (k.n_query_heads, k.n_key_value_heads, a.vocab_size, a.model_width)):
        yield "SP520"
    if any(width % (t * of["fsdp_transpose"]) for b in blocks for width in (b.width, b.total_shared_width)):
        yield "SP523"
    gathered = of["fsdp"] * of["fsdp_transpose"] * cp * ep
    if any(size % gathered for k in kinds for size in (a.model_width, k.query_rank, k.key_value_rank)):
        yield "SP524"
    if any(b.n_experts % ep for b in blocks if b.is_moe):
        yield "SP529"
    if ep > 1 and not any(b.is_moe for b in blocks):
        yield "SP581"
    if r.ragged_buffer_factor > 0 and ep == 1:
        yield "SP550"
    if pp > 1:
        yield from refused_stages(case, pp)
    if case.workload.optimizer.shard_over_data:
        if of["fsdp"] * of["fsdp_transpose"] > 1:
            yield "SP573"
        if case.workload.optimizer.name == "sgd":
            yield "SP574"
    yield from refused_attention(case, of, dcn["context"])
    yield from refused_batch(case, of, split)


def refused_attention(case: Case, of: dict[str, int], dcn_context: int) -> Iterator[str]:
    a, r, T = case.architecture, case.runtime, case.workload.sequence_length
    t, cp = of["tensor"], of["context"]
    is_flash = r.attention == "flash"
    tiles = [128 * n for n in range(1, T + 1) if 128 * n <= T and T % (128 * n) == 0]
    if is_flash and not tiles:
        yield "SP530"
    if cp > 1:
        side = 1
        if is_flash and tiles and r.context_strategy == "all_gather":
            side = min(tiles, key=lambda s: abs(math.log(s / r.attention_tile_tokens)))
        if is_flash and r.context_strategy == "ring":
            side = 128
        if T % cp or (T // cp) % side:
            yield "SP540"
        if r.context_load_balance and (cp % 2 or T % (2 * cp)):
            yield "SP541"
        if (a.n_mtp_layers and r.context_load_balance) or (a.n_mtp_layers > 1 and r.packing):
            yield "SP546"
        windows = {layer.attention.window_kind for layer, _ in a.layers if layer.attention.window}
        if is_flash and r.tokamax_splash and windows and (cp > 2 or "chunked" in windows):
            yield "SP545"
    yield from refused_strategies(case, t, cp, dcn_context)


def refused_strategies(case: Case, t: int, cp: int, dcn_context: int) -> Iterator[str]:
    r, T = case.runtime, case.workload.sequence_length
    kinds = [layer.attention for layer, _ in case.architecture.layers]
    has_sinks, has_mla = any(k.sinks for k in kinds), any(k.kind == "mla" for k in kinds)
    plain = r.attention == "flash" and r.tokamax_splash and not has_sinks and cp > 1
    if r.context_strategy == "ring" and not (plain and not (has_mla and r.packing) and T % cp**2 == 0):
        yield "SP542"
    heads = [n for k in kinds for n in (k.n_key_value_heads, k.n_query_heads)]
    spread = all(n % (cp * t) == 0 for n in heads) and math.gcd(*(k.n_key_value_heads for k in kinds)) > 1
    local = dcn_context == 1 and not r.context_load_balance
    if r.context_strategy == "ulysses" and not (plain and not has_mla and spread and local):
        yield "SP543"
    if r.context_strategy != "all_gather" and any(k.window for k in kinds):
        yield "SP544"


def refused_stages(case: Case, pp: int) -> Iterator[str]:
    a, r = case.architecture, case.runtime
    groups = a.layer_groups
    blocks = groups[-1].count
    odd = len(groups) > 1 and not (len(groups) == 2 and not groups[0].layers[0].feed_forward.is_moe and a.is_moe)
    if a.n_mtp_layers or odd or groups[-1].layers[0].feed_forward.score_bias:
        blocks = 1
    each = r.pipeline_layers_per_stage or (max(1, groups[-1].count // pp) if a.is_moe else 1)
    rounds = max(1, blocks // (pp * each))
    if blocks % (pp * each):
        yield "SP560"
    if a.is_moe and r.sparse_matmul and rounds > 1 and r.pipeline_gather_weights != "per_repeat":
        yield "SP562"
    is_plain = rounds > 1 and each == 1 and not r.pipeline_delay_activations and case.recipe == "none"
    if r.pipeline_gather_weights == "per_repeat" and not is_plain:
        yield "SP563"
    if not r.scan_layers and each == 1:
        yield "SP564"
    if any(layer.feed_forward.score_bias for layer, _ in a.layers):
        yield "SP565"


def refused_batch(case: Case, of: dict[str, int], split: dict[str, float]) -> Iterator[str]:
    devices, batch = math.prod(of.values()), split["batch"]
    micro, steps = int(split["microbatches"]), int(split["accumulation"])
    rows = int(batch * devices)
    wanted = round(batch * devices)
    shards = of["data"] * of["fsdp"] * of["fsdp_transpose"] * of["expert"]
    if rows < 1 or rows != wanted or abs(batch * devices - wanted) > 1e-9 * wanted:
        yield "SP513"
    if batch * case.workload.sequence_length % 1:
        yield "SP512"
    if wanted % (shards * micro):
        yield "SP510"
    if max(wanted, devices) * steps % (shards * of["pipeline"]):
        yield "SP511"
    delayed = case.runtime.pipeline_delay_activations and micro < 2 * of["pipeline"]
    if of["pipeline"] > 1 and (micro % of["pipeline"] or delayed):
        yield "SP561"
    if case.recipe == "fp8" and steps > 1:
        yield "SP571"


@RANDOM
@given(
    cases(), st.integers(0, 2**32), st.sampled_from([0.125, 0.3, 1.0, 1.5, 2.0, 29 / 7]), st.sampled_from([1, 2, 3, 8])
)
def test_laws_are_what_maxtext_refuses(case: Case, seed: int, batch: float, number: int) -> None:
    meshes = all_meshes(case)
    rows = meshes.take(np.random.default_rng(seed).integers(0, len(meshes), 40))
    one = np.ones(40, dtype=np.int64)
    rows = replace(
        rows, per_device_batch=one * batch, gradient_accumulation=one * number, pipeline_microbatches=one * number
    )
    masks = {law.code: law.mask(case, rows) for law in LAWS if law.code != "SP403"}
    split = {"batch": batch, "accumulation": number, "microbatches": number}
    for i in range(40):
        ici, dcn = ({axis: int(mesh.column(axis)[i]) for axis in AXES} for mesh in (rows.ici, rows.dcn))
        found = {code for code, mask in masks.items() if not mask[i]}
        assert found == set(refused(case, ici, dcn, split)), (ici, dcn)


DENSE = {"width": 6144}
LATENT = {
    "kind": "mla", "n_query_heads": 16, "n_key_value_heads": 16, "query_rank": 1536, "key_value_rank": 512, "nope_width": 128,
    "rope_width": 64, "value_width": 128,
}  # fmt: skip
TWO_GROUPS = {"count": 3, "attention": GQA, "feed_forward": DENSE}, {"count": 58, "attention": GQA, "feed_forward": MOE}
RING = {"tokamax_splash": True, "context_strategy": "ring"}
ULYSSES = {"tokamax_splash": True, "context_strategy": "ulysses", "context_load_balance": False}


def one(model: Any = DENSE_MODEL, tokens: int = 4096, **runtime: Any) -> Case:
    return case_of(model, tokens=tokens, runtime=Runtime(**runtime))


LINES: list[tuple[str, Case, dict[str, int], dict[str, int]]] = [
    ("SP520", one(), {"tensor": 8}, {"tensor": 16}),
    ("SP523", one(), {"fsdp_transpose": 512, "tensor": 4}, {"fsdp_transpose": 512, "tensor": 8}),
    ("SP524", one(architecture({"count": 2, "attention": LATENT, "feed_forward": MOE})), {"fsdp": 512}, {"fsdp": 1024}),
    ("SP529", one(MOE_MODEL), {"expert": 8}, {"expert": 16}),
    ("SP581", one(), {"expert": 1}, {"expert": 2}),
    ("SP540", one(), {"context": 8}, {"context": 16}),
    ("SP540", one(attention="dot_product"), {"context": 4096}, {"context": 8192}),
    ("SP540", one(tokens=1280), {"context": 2}, {"context": 4}),
    ("SP540", one(tokens=6144, **RING), {"context": 16}, {"context": 32}),
    ("SP540", one(tokens=2048, **ULYSSES), {"context": 8}, {"context": 3}),
    ("SP541", one(tokens=6144), {"context": 2}, {"context": 3}),
    ("SP541", one(tokens=6144), {"context": 6}, {"context": 4096}),
    ("SP542", one(tokens=8192, **RING), {"context": 4}, {"context": 1}),
    ("SP542", one(tokens=6144, **RING), {"context": 16}, {"context": 6 * 16}),
    ("SP543", one(**ULYSSES), {"context": 8}, {"context": 16}),
    ("SP543", one(**ULYSSES), {"context": 4, "tensor": 2}, {"context": 4, "tensor": 4}),
    ("SP545", one(architecture({"count": 2, "attention": {**GQA, "window": 512}, "feed_forward": DENSE}), tokamax_splash=True),
     {"context": 2}, {"context": 4}),
    ("SP546", one(architecture({"count": 2, "attention": GQA, "feed_forward": DENSE}, n_mtp_layers=1)), {"context": 1}, {"context": 2}),
    ("SP550", one(MOE_MODEL, ragged_buffer_factor=2.0), {"expert": 2}, {"expert": 1}),
    ("SP560", one(), {"pipeline": 6}, {"pipeline": 8}),
    ("SP560", one(architecture(*TWO_GROUPS)), {"pipeline": 2}, {"pipeline": 4}),
    ("SP562", one(MOE_MODEL, pipeline_layers_per_stage=1), {"pipeline": 12}, {"pipeline": 6}),
    ("SP563", one(pipeline_gather_weights="per_repeat"), {"pipeline": 6}, {"pipeline": 12}),
    ("SP564", one(scan_layers=False, pipeline_layers_per_stage=2), {"pipeline": 2}, {}),
    ("SP564", one(scan_layers=False), {"pipeline": 1}, {"pipeline": 2}),
]  # fmt: skip
"""Law, case, degrees that keep it, and degrees over the line (none where no degree is)."""


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line[0]} {line[2]} {line[3]}")
def test_laws_draw_their_line(line: tuple[str, Case, dict[str, int], dict[str, int]]) -> None:
    code, case, kept, over = line
    law = next(law for law in LAWS if law.code == code)
    rows = blank(kept, over)
    assert law.mask(case, rows).tolist() == [True, not over]


# --- one name everywhere ---------------------------------------------------------------------------------------------


def test_each_law_is_a_fact_and_the_whole_condition_of_its_rule() -> None:
    assert len({law.code for law in LAWS}) == len({law.name for law in LAWS}) == len(LAWS)
    for law in LAWS:
        rule = CATALOGUE.rule(law.code)
        assert rule.entry.when == f"not {law.name}"
        assert rule.effect == ("demote" if law.code in LEFT_OUT else "forbid")
        assert VOCABULARY[law.name].about == law.about
        assert set(law.prunes) <= set(AXES)


def blank(*degrees: dict[str, int]) -> Candidates:
    """Meshes inside one slice with one sequence a device."""
    one = np.ones(len(degrees), dtype=np.int64)
    return Candidates(
        ici=Mesh.of(degrees), dcn=Mesh.of([{}] * len(degrees)), per_device_batch=one * 1.0, gradient_accumulation=one,
        pipeline_microbatches=one, pipeline_repeats=one, num_vocab_tiling=one, remat=0 * one,
        remat_policies=(POLICIES["full"],), needs_split=one == 0,
    )  # fmt: skip


@RANDOM
@given(cases(), st.data())
def test_higher_degrees_only_break_what_prunes(case: Case, data: st.DataObject) -> None:
    """A law that prunes an axis and is broken stays broken when any degree of any axis is multiplied."""
    degrees = {axis: data.draw(st.sampled_from([1, 1, 2, 3, 4, 8])) for axis in AXES}
    more = {axis: n * data.draw(st.sampled_from([1, 2, 3])) for axis, n in degrees.items()}
    rows = blank(degrees, more)
    for law in MESH_LAWS:
        if law.prunes:
            lower, higher = law.mask(case, rows)
            assert lower or not higher, law.code


def test_rows_come_back_from_what_a_device_gets() -> None:
    """MaxText multiplies and cuts off: 29 rows on 7 devices must not become 28."""
    for devices, rows in itertools.product(range(1, 400), (1, 2, 29, 58, 61, 115, 1000)):
        batch = enumeration.per_device_batch(rows, np.array([devices]))[0]
        assert int(batch * devices) == rows
