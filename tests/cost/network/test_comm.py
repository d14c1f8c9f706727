"""Communication of a whole step: laws, and what moves for each mesh axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardplan.cost.network.comm import Collective, collectives
from shardplan.loaders.presets import load_architecture
from shardplan.machine.chips import resolve_cluster
from shardplan.maxtext.remat import POLICIES
from shardplan.spec import AXES, Case, Runtime, Split, Workload
from shardplan.splits.candidates import Candidates

if TYPE_CHECKING:
    from shardplan.spec import Architecture

DENSE, MOE = load_architecture("llama3.1-8b"), load_architecture("mixtral-8x7b")


def case_of(architecture: Architecture = DENSE, *, topology: str = "4x4x4", chip: str = "tpu7x", **more: Any) -> Case:
    slices = more.pop("slices", 1)
    precision, runtime = more.pop("precision", "bf16"), Runtime(**more)
    return Case(
        architecture=architecture,
        workload=Workload(sequence_length=8192, per_device_batch=1.0, precision=precision),
        cluster=resolve_cluster(chip, topology=topology, slices=slices),
        runtime=runtime,
    )


def split(ici: dict[str, int], **more: Any) -> Split:
    return Split(**({"ici": ici, "per_device_batch": 1.0} | more))


def moved(case: Case, *splits: Split, repeats: int = 1) -> list[Collective]:
    candidates = Candidates.of_splits(splits, [repeats] * len(splits), [False] * len(splits))
    return list(collectives(case, candidates))


def total_s(case: Case, one: Split) -> float:
    return float(sum(c.seconds[0] for c in moved(case, one)))


def by_purpose(case: Case, one: Split, **more: Any) -> dict[tuple[str, str, str], Collective]:
    return {(c.axis, c.kind, c.purpose): c for c in moved(case, one, **more) if c.network == "ici"}


@st.composite
def splits(draw: st.DrawFn) -> tuple[Case, list[Split]]:
    architecture = draw(st.sampled_from([DENSE, MOE]))
    chip, topology = draw(st.sampled_from([("tpu7x", "4x4x4"), ("v5p", "4x4x8"), ("v6e", "8x16"), ("tpu7x", "2x2x4")]))
    slices = draw(st.sampled_from([1, 2]))
    case = case_of(architecture, chip=chip, topology=topology, slices=slices)
    found = []
    for _ in range(draw(st.integers(1, 6))):
        rest, ici = case.cluster.devices_per_slice, {}
        for axis in draw(st.permutations(AXES)):
            ici[axis] = draw(st.sampled_from([d for d in (1, 2, 4, 8) if rest % d == 0]))
            rest //= ici[axis]
        ici["fsdp"] *= rest
        stages = ici["pipeline"]
        found.append(
            split(
                ici,
                dcn={draw(st.sampled_from(["data", "fsdp", "expert", "pipeline"])): slices},
                per_device_batch=draw(st.sampled_from([0.5, 1.0, 4.0])),
                gradient_accumulation=draw(st.sampled_from([1, 2])),
                pipeline_microbatches=stages,
                num_vocab_tiling=draw(st.sampled_from([1, 4])),
                remat_policy=draw(st.sampled_from(sorted(POLICIES))),
            )
        )
    return case, found


@settings(max_examples=30)
@given(splits())
def test_many_candidates_equal_one_at_a_time(example: tuple[Case, list[Split]]) -> None:
    case, several = example
    together = moved(case, *several)
    for row, one in enumerate(several):
        alone = {(c.axis, c.network, c.kind, c.purpose, c.route.axes): c for c in moved(case, one)}
        for c in together:
            twin = alone.get((c.axis, c.network, c.kind, c.purpose, c.route.axes))
            expected = (twin.bytes[0], twin.count[0], twin.seconds[0]) if twin else (0.0, 0.0, 0.0)
            assert (c.bytes[row], c.count[row], c.seconds[row]) == pytest.approx(expected)


@settings(max_examples=30)
@given(splits())
def test_numbers_are_finite_and_an_axis_of_degree_one_is_free(example: tuple[Case, list[Split]]) -> None:
    case, several = example
    for c in moved(case, *several):
        assert np.isfinite(c.seconds).all()
        assert (c.seconds >= 0).all()
        for row in range(len(several)):
            used = c.axis_at(row)
            assert bool(used) == (c.bytes[row] > 0)
            assert (c.seconds[row] > 0) == (c.bytes[row] > 0)
            if used:
                assert c.network_at(row) in ("ici", "dcn", "d2d")


@settings(max_examples=30)
@given(splits())
def test_lines_of_the_explanation_are_the_numbers_used(example: tuple[Case, list[Split]]) -> None:
    case, several = example
    for c in moved(case, *several):
        moved_bytes, seconds = c.terms
        for row in range(len(several)):
            assert moved_bytes.value_at(row) == pytest.approx(c.bytes[row])
            assert seconds.value_at(row) == pytest.approx(c.seconds[row])
            assert seconds.function(**seconds.at(row)) == pytest.approx(c.seconds[row])


@pytest.mark.parametrize("axis", ["tensor", "expert", "context", "data"])
def test_activations_cost_more_with_more_tokens(axis: str) -> None:
    case, mesh = case_of(MOE), {"fsdp": 32, axis: 4}
    assert total_s(case, split(mesh, per_device_batch=2.0)) >= total_s(case, split(mesh))


def test_one_device_moves_nothing() -> None:
    case = case_of(chip="v5e", topology="1x1")
    assert moved(case, split({})) == []


def test_weights_are_gathered_twice_and_gradients_scattered_once_a_micro_step() -> None:
    case = case_of()
    found = by_purpose(case, split({"fsdp": 128}))
    layers = 2 * 32 * (3 * 4096 * 14336 + 2 * 4096 * 128 * (32 + 8)) * 127 / 128
    assert found["fsdp", "all-gather", "weights"].bytes[0] == pytest.approx(2 * layers)
    assert found["fsdp", "reduce-scatter", "gradients of weights"].bytes[0] == pytest.approx(layers)
    assert found["fsdp", "all-gather", "weights"].hides_behind == "compute"
    accumulated = by_purpose(case, split({"fsdp": 128}, gradient_accumulation=2))
    assert accumulated["fsdp", "all-gather", "weights"].bytes[0] == pytest.approx(4 * layers)


def test_fp8_halves_gathered_weights_but_not_gradients() -> None:
    mesh = split({"fsdp": 16, "data": 8})
    high, low = by_purpose(case_of(), mesh), by_purpose(case_of(precision="fp8"), mesh)
    weights, gradients = ("fsdp", "all-gather", "weights"), ("fsdp", "reduce-scatter", "gradients of weights")
    assert low[weights].bytes[0] == pytest.approx(high[weights].bytes[0] / 2)
    assert low[gradients].bytes[0] == pytest.approx(high[gradients].bytes[0])


def test_vocabulary_tiles_gather_the_head_for_each_tile_forward_and_backward() -> None:
    head = ("fsdp", "all-gather", "output head")
    once, tiled = (by_purpose(case_of(), split({"fsdp": 128}, num_vocab_tiling=n))[head] for n in (1, 4))
    assert tiled.bytes[0] == pytest.approx(8 * once.bytes[0])


def test_experts_are_not_gathered_over_the_expert_axis() -> None:
    case = case_of(MOE)
    whole, parted = (by_purpose(case, split({"fsdp": 128 // e, "expert": e})) for e in (1, 8))
    weights = ("fsdp", "all-gather", "expert weights")
    assert parted[weights].route.devices[0] == 16
    ratio = parted[weights].bytes[0] / whole[weights].bytes[0]
    assert ratio == pytest.approx((1 / 8) * (15 / 16) / (127 / 128), rel=1e-2)
    assert parted["fsdp", "all-gather", "weights"].axis_at(0) == "fsdp+expert"
    assert parted["expert", "all-to-all", "tokens to experts and back"].count[0] == 32 * 6


def test_keeping_sorted_tokens_spares_an_exchange() -> None:
    case, purpose = case_of(MOE), ("expert", "all-to-all", "tokens to experts and back")
    mesh = split({"fsdp": 16, "expert": 8})
    kept = mesh.model_copy(update={"remat_policy": "custom", "remat_tensors": {"moe_x_sorted": "device"}})
    assert by_purpose(case, kept)[purpose].bytes[0] == pytest.approx(5 / 6 * by_purpose(case, mesh)[purpose].bytes[0])


def test_keeping_the_attention_output_spares_a_scatter() -> None:
    case, purpose = case_of(), ("tensor", "reduce-scatter", "activations")
    mesh = split({"fsdp": 64, "tensor": 2})
    kept = mesh.model_copy(update={"remat_policy": "save_out_proj"})
    assert by_purpose(case, kept)[purpose].bytes[0] < by_purpose(case, mesh)[purpose].bytes[0]


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [("all_gather", {"all-gather", "reduce-scatter"}), ("ring", {"permute"}), ("ulysses", {"all-to-all"})],
)
def test_a_context_strategy_has_its_own_collectives(strategy: str, kinds: set[str]) -> None:
    found = moved(case_of(context_strategy=strategy), split({"fsdp": 32, "context": 4}))
    assert {c.kind for c in found if c.axis == "context"} == kinds


def test_pipeline_stages_gather_their_layers_in_every_iteration() -> None:
    mesh = split({"fsdp": 32, "pipeline": 4}, pipeline_microbatches=8)
    each, once = (
        by_purpose(case_of(pipeline_gather_weights=mode), mesh)["fsdp", "all-gather", "weights"].bytes[0]
        for mode in ("per_iteration", "once")
    )
    assert each == pytest.approx((8 + 3) * once)
    handed = by_purpose(case_of(), mesh)["pipeline", "permute", "microbatches"]
    assert handed.count[0] == 2 * 2 * (8 + 3)


def test_a_circular_pipeline_rotates_a_third_buffer() -> None:
    mesh = split({"fsdp": 32, "pipeline": 4}, pipeline_microbatches=8)
    handed = by_purpose(case_of(), mesh, repeats=8)["pipeline", "permute", "microbatches"]
    assert handed.count[0] == 2 * 3 * (8 * 8 + 3)


def test_the_pair_of_a_chip_needs_no_torus() -> None:
    found = by_purpose(case_of(), split({"fsdp": 64, "tensor": 2}))
    assert found["tensor", "all-gather", "activations"].network_at(0) == "d2d"
    assert found["fsdp", "all-gather", "weights"].network_at(0) == "ici"


def test_groups_of_one_plane_share_the_links_of_a_chip() -> None:
    case = case_of()
    with_pair, without = (
        by_purpose(case, split(mesh))["fsdp", "all-gather", "weights"].route.gather_bytes_per_s[0]
        for mesh in ({"fsdp": 128}, {"fsdp": 64, "data": 2})
    )
    assert with_pair == 6 * 100e9
    assert without in (3 * 100e9, 4 * 100e9)


def test_slices_sum_gradients_over_the_network_cards() -> None:
    case = case_of(slices=2)
    (over_slices,) = [
        c
        for c in moved(case, split({"fsdp": 128}, dcn={"data": 2}))
        if c.network == "dcn" and c.purpose == "gradients of weights"
    ]
    layers = 2 * 32 * (3 * 4096 * 14336 + 2 * 4096 * 128 * (32 + 8))
    assert over_slices.bytes[0] == pytest.approx(2 * layers / 128 / 2)
    assert (over_slices.axis_at(0), over_slices.network_at(0)) == ("data", "dcn")


def test_weights_split_over_slices_are_fetched_from_them_first() -> None:
    case = case_of(slices=2)
    found = {c.network: c for c in moved(case, split({"fsdp": 128}, dcn={"fsdp": 2})) if c.purpose == "weights"}
    assert set(found) == {"ici", "dcn"}
    assert found["dcn"].bytes[0] == pytest.approx(found["ici"].bytes[0] / 127 / 2)
    assert found["dcn"].seconds[0] < found["ici"].seconds[0] * 100


def test_a_row_of_zeros_costs_nothing_beside_others() -> None:
    case = case_of()
    both = moved(case, split({"fsdp": 128}), split({"data": 128}))
    weights = next(c for c in both if c.purpose == "weights")
    assert weights.bytes[1] == weights.seconds[1] == weights.count[1] == 0
    assert replace(weights).axis_at(1) == ""


def test_a_tied_embedding_is_gathered_as_embedding_and_as_head() -> None:
    found = by_purpose(case_of(load_architecture("gemma-2b")), split({"fsdp": 128}))
    embedding, head = (found["fsdp", "all-gather", purpose].bytes[0] for purpose in ("embedding", "output head"))
    assert embedding == head > 0


def test_a_pipeline_over_slices_waits_for_the_network_card() -> None:
    case = case_of(slices=2)
    mesh = split({"fsdp": 128}, dcn={"pipeline": 2}, pipeline_microbatches=4)
    (handed,) = [c for c in moved(case, mesh) if c.kind == "permute"]
    assert (handed.network, handed.axis_at(0)) == ("dcn", "pipeline")
    assert handed.seconds[0] == pytest.approx(handed.bytes[0] / (12.5e9 / 2 * 0.74))


@pytest.mark.parametrize(("delays", "hides"), [(True, "compute"), (False, "none")])
def test_delayed_stages_hide_the_handing_over(delays: bool, hides: str) -> None:  # noqa: FBT001
    mesh = split({"fsdp": 32, "pipeline": 4}, pipeline_microbatches=8)
    handed = by_purpose(case_of(pipeline_delay_activations=delays), mesh)["pipeline", "permute", "microbatches"]
    assert handed.hides_behind == hides
    assert handed.count[0] == 2 * 2 * (8 + 3 * (2 if delays else 1))
