"""The work and the seconds of a step, worked out by hand for small numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from shardplan.cost.calibration import Constants
from shardplan.cost.time.seconds import CommunicationSeconds, Pipeline, Rates, at_peak_s, step_lines, total_s
from shardplan.cost.time.work import Work, work
from shardplan.machine.chips import resolve_cluster
from shardplan.spec import Architecture, Attention, Case, FeedForward, Layer, LayerGroup, Runtime, Split, Workload
from shardplan.splits.candidates import Candidates

# --- work: a model of 2 layers of width 512, 4 query and 2 key-value heads of 128, block 1024, vocabulary 2048 -----------

D, F, V, T, LAYERS = 512, 1024, 2048, 2048, 2
PEAK = 459e12
"""FLOP/s of a v5p; its matrix units are 128 wide, which every width here fills."""
QUERY, KEY = D * 512, D * 256
ATTENTION_WEIGHTS = 2 * QUERY + 2 * KEY
BLOCK = 3 * D * F
DENSE = FeedForward(width=F)
MOE = FeedForward(kind="moe", width=F, n_experts=8, n_active_experts=2)


def done(ff: FeedForward = DENSE, *, precision: str = "bf16", chip: str = "v5p", heads: int = 128, **more: Any) -> Any:
    """Work of a split a token of the device, by name."""
    runtime = {key: more.pop(key) for key in list(more) if key in Runtime.model_fields}
    layer = Layer(attention=Attention(n_query_heads=4, n_key_value_heads=2, head_width=heads), feed_forward=ff)
    case = Case(
        architecture=Architecture(
            model_width=D, vocab_size=V, layer_groups=(LayerGroup(count=LAYERS, layers=(layer,)),)
        ),
        workload=Workload(sequence_length=T, per_device_batch=1.0, precision=precision),  # type: ignore[arg-type]
        cluster=resolve_cluster(chip, topology="2x2x4"),
        runtime=Runtime(**runtime),
    )
    split = Split(**({"ici": {"fsdp": case.cluster.devices}, "per_device_batch": 1.0} | more))
    found = work(case, Candidates.of_splits([split], [1], [False]))
    tokens = float(found.tokens[0])
    whole = {"tokens", "optimizer_bytes", "host_state_bytes"}
    return {f.name: float(getattr(found, f.name)[0]) / (1 if f.name in whole else tokens) for f in fields(Work)}


def test_matmuls_pass_three_times_and_once_more_where_nothing_is_kept() -> None:
    full, minimal = done(), done(remat_policy="minimal")
    assert full["low_s"] == pytest.approx(3 * 2 * LAYERS * (ATTENTION_WEIGHTS + BLOCK) / PEAK)
    assert full["plain_s"] == pytest.approx(3 * 2 * D * V / PEAK)
    # The block's last matmul feeds only the residual stream.
    assert full["low_again_s"] == pytest.approx(2 * LAYERS * (ATTENTION_WEIGHTS + BLOCK * 2 / 3) / PEAK)
    assert full["plain_again_s"] == minimal["low_again_s"] == 0


def test_a_tiled_vocabulary_computes_its_logits_again() -> None:
    tiled = done(num_vocab_tiling=4)
    assert tiled["plain_again_s"] == pytest.approx(2 * D * V / PEAK)
    assert tiled["flops"] - done()["flops"] == pytest.approx(2 * D * V)


@pytest.mark.parametrize(("fused", "matmuls"), [(False, 7), (True, 5)])
def test_attention_goes_back_in_five_matmuls_fused_and_seven_apart(fused: bool, matmuls: int) -> None:  # noqa: FBT001
    found = done(fused_attention_backward=fused)
    one = 2 * 512 * T * LAYERS
    assert found["attention_forward_s"] == found["attention_again_s"] == pytest.approx(2 * one / PEAK)
    assert found["attention_backward_s"] == pytest.approx(matmuls * one / PEAK)
    weights = 2 * LAYERS * (3 * (ATTENTION_WEIGHTS + BLOCK) + ATTENTION_WEIGHTS + BLOCK * 2 / 3) + 3 * 2 * D * V
    assert found["flops"] == pytest.approx(weights + one * (2 + 2 + matmuls))


def test_a_kept_kernel_output_is_not_computed_again() -> None:
    found = done(remat_policy="custom", remat_tensors={"context": "device"})
    assert found["attention_again_s"] == 0
    assert found["attention_forward_s"] > 0


def test_heads_that_fill_half_a_matrix_unit_take_its_whole_time() -> None:
    half, whole = done(heads=64), done(heads=128)
    assert half["attention_forward_s"] == pytest.approx(whole["attention_forward_s"])
    assert half["flops"] < whole["flops"]


def test_unbalanced_context_shards_wait_for_the_last() -> None:
    mesh = {"ici": {"fsdp": 4, "context": 4}}
    even, uneven = (done(context_load_balance=balanced, **mesh) for balanced in (True, False))
    assert uneven["attention_forward_s"] == pytest.approx(even["attention_forward_s"] * (2 - 1 / 4))
    ulysses = done(context_load_balance=False, context_strategy="ulysses", **mesh)
    assert ulysses["attention_forward_s"] == even["attention_forward_s"]


ELEMENTWISE = LAYERS * ((4 + 2 * 2) * D + 2 * (512 + 2 * 256) + 2 * F) * 2 * 4
LOGITS = V * 4 * 6


def test_elementwise_work_touches_the_stream_heads_gate_and_logits() -> None:
    assert done()["touched_bytes"] == pytest.approx(ELEMENTWISE + LOGITS)


@pytest.mark.parametrize(("where", "moved"), [("device", 0), ("offload", 1)])
def test_a_kept_tensor_is_written_and_read_and_an_offloaded_one_moved(where: str, moved: int) -> None:
    found = done(remat_policy="custom", remat_tensors={"query_proj": where, "out_proj": where})
    kept = LAYERS * 2 * (512 + D)
    assert found["touched_bytes"] == pytest.approx(ELEMENTWISE + LOGITS + 2 * kept)
    assert found["offload_bytes"] == moved * kept


def test_low_precision_casts_each_operand_once_a_use() -> None:
    """Inputs forward and backward, and again where recomputed; once for matmuls that share one; and gradients."""
    plain, low = (done(precision=p, chip="tpu7x", ici={"fsdp": 32}) for p in ("bf16", "fp8"))
    inputs = 3 * (D + 512 + D) + 2 * F
    gradients = 512 + 2 * 256 + D + 2 * F + D
    assert low["touched_bytes"] - plain["touched_bytes"] == pytest.approx(LAYERS * (inputs + gradients) * 3)


def test_experts_compute_their_rows_and_the_tiles_two_of_them_share() -> None:
    found = done(MOE, ici={"fsdp": 4, "expert": 4})
    rows = T * 2 * 4 / 8
    experts = 2 * BLOCK * (1 + 512 / rows)
    assert found["low_s"] == pytest.approx(3 * 2 * LAYERS * (ATTENTION_WEIGHTS + experts) / PEAK)
    router = 3 * 2 * LAYERS * D * 8
    # Eight experts fill an eighth of a sixteenth of the unit.
    assert found["plain_s"] == pytest.approx((3 * 2 * D * V + router * 128 / 8) / PEAK)


@pytest.mark.parametrize(
    ("mesh", "more", "rows", "row_bytes"),
    [
        ({"fsdp": 16}, {}, 2, 4 * 2 + 6),
        ({"fsdp": 4, "expert": 4}, {}, 2 * 4, 2 * 4 * 2 + 6),
        ({"fsdp": 4, "expert": 4}, {"ragged_buffer_factor": 1.5}, 2 * 1.5, 2 * 4 * 2 + 6),
        ({"fsdp": 2, "expert": 8}, {}, 2 * 4, 2 * 4 * 2 + 6),
    ],
    ids=["balanced", "worst case", "bounded", "no more than all rows"],
)
def test_rows_are_sorted_to_their_experts_and_back_three_times(
    mesh: dict[str, int], more: dict[str, Any], rows: float, row_bytes: int
) -> None:
    assert done(MOE, ici=mesh, **more)["routed_bytes"] == pytest.approx(LAYERS * rows * D * row_bytes * 3)


def test_dense_experts_compute_every_slot_and_its_dispatch() -> None:
    """Capacity 1.25: 640 slots an expert for 2,048 tokens; each token is weighed against every slot, there and back."""
    found = done(MOE, sparse_matmul=False, capacity_factor=1.25)
    assert found["routed_bytes"] == 0
    assert found["low_s"] == pytest.approx(3 * 2 * LAYERS * (ATTENTION_WEIGHTS + BLOCK * 8 * 640 / T) / PEAK)
    router, slots = D * 8 * 128 / 8, 2 * 640 * 8 * D
    assert found["plain_s"] == pytest.approx(3 * 2 * (D * V + LAYERS * (router + slots)) / PEAK)


def test_the_update_reads_and_writes_its_state_once() -> None:
    held = (LAYERS * (ATTENTION_WEIGHTS + BLOCK + 2 * D) + 2 * D * V + D) / 16
    assert done()["optimizer_bytes"] == pytest.approx(held * (2 * (4 + 8) + 4))
    assert done(gradient_accumulation=3)["optimizer_bytes"] == pytest.approx(held * (2 * (4 + 8) + 4 + 3 * 4 * 3))


def test_tokens_are_those_of_the_whole_step() -> None:
    assert done(gradient_accumulation=3, per_device_batch=2.0)["tokens"] == 3 * 2 * T


# --- seconds: every quantity another small number ---------------------------------------------------------------------

WORK = Work(
    low_s=8.0, plain_s=4.0, stall_bytes=10.0, low_again_s=2.0, plain_again_s=1.0, stall_again_bytes=20.0,
    attention_forward_s=3.0, attention_backward_s=6.0, attention_again_s=1.5, touched_bytes=30.0, routed_bytes=7.0,
    optimizer_bytes=15.0, offload_bytes=40.0, host_state_bytes=12.0, flops=0.0, tokens=0.0,
)  # fmt: skip
BY = Constants(
    matmul_sustained=0.5, low_precision_gain=0.5, attention_kernel=0.75, hbm=0.5, row_gather=0.2, weights_hidden=0.25,
    host_link=0.5, slice_wait=0.1,
)  # fmt: skip
RATES = Rates(
    bf16_flops_per_s=1.0, low_flops_per_s=3.0, hbm_bytes_per_s=10.0, host_bytes_per_s=2.0, slices=4.0
)  # fmt: skip
LINES = step_lines(WORK, CommunicationSeconds(20.0, 5.0), Pipeline(3, 4, 2), RATES, BY)
BUSY = 16 + 1 + 4 + 8 + 4 + 2 + 2 + 6 + 3.5
FORWARD = (16 + 1) / 3 + 4 + (6 + 3.5) / 4 + 20 / 3
EXPECTED = {
    "matmul_s": (8 / 2 + 4) / 0.5,
    "matmul_stall_s": 1.0,
    "attention_forward_s": 4.0,
    "attention_backward_s": 8.0,
    "matmul_again_s": (2 / 2 + 1) / 0.5,
    "matmul_stall_again_s": 2.0,
    "attention_again_s": 2.0,
    "elementwise_s": 6.0,
    "expert_rows_s": 3.5,
    "hidden_comm_s": 0.25 * 20,
    "exposed_comm_s": 25 - 5,
    "bubble_s": BUSY * 2 / (4 * 2),
    "optimizer_s": 3.0,
    "host_state_s": 24.0,
    "offload_one_way_s": 40.0,
    # Copying out outlasts the forward pass; copying back hides behind the longer backward pass.
    "unhidden_offload_s": 40 - FORWARD,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_line_of_the_step_is_what_a_hand_gets(name: str) -> None:
    assert float(LINES[name].value) == pytest.approx(EXPECTED[name])


def test_slices_wait_for_a_share_of_everything_else() -> None:
    explained = {"hidden_comm_s", "offload_one_way_s"}
    everything = sum(value for name, value in EXPECTED.items() if name not in explained)
    assert LINES.keys() == EXPECTED.keys() | {"slice_wait_s"}
    assert float(LINES["slice_wait_s"].value) == pytest.approx(everything * 0.1 * 2)
    assert float(total_s(LINES)) == pytest.approx(everything * 1.2)


def test_nothing_is_faster_than_arithmetic_or_traffic_at_their_peaks() -> None:
    assert at_peak_s(WORK, RATES) == pytest.approx((8 + 2) / 3 + 4 + 1 + 3 + 6 + 1.5)
    slow = Rates(1.0, 3.0, hbm_bytes_per_s=1.0, host_bytes_per_s=2.0, slices=4.0)
    assert at_peak_s(WORK, slow) == pytest.approx(30 + 7 + 15)
