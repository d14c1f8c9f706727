"""Every formula of the cost model, worked out by hand for small numbers, each letter a different one."""

from __future__ import annotations

import pytest
from mechanisms import defined, is_formula

PACKAGES = ("memory", "network", "time", "tensors")
FOUND = {name: value for package in PACKAGES for name, value in defined(f"shardplan.cost.{package}").items()}


Row = tuple[str, dict[str, float], float]
ROWS: tuple[Row, ...] = (
    # memory: two bytes an activation
    ("terms.weight_copies_bytes", {"P": 7}, 14),
    ("terms.layer_gradients_bytes", {"P": 7, "g": 3}, 21),
    ("terms.accumulated_gradients_bytes", {"P": 7, "w": 3}, 21),
    ("terms.layer_inputs_bytes", {"L": 3, "n": 5, "D": 7, "t": 4}, 52.5),
    ("terms.kept_bytes", {"L": 3, "a": 5}, 15),
    ("terms.logits_bytes", {"c": 3, "n": 5, "V": 7, "t": 4, "q": 8}, 6.5625),
    ("terms.output_head_bytes", {"c": 3, "D": 5, "V": 7, "t": 4}, 52.5),
    ("terms.stream_bytes", {"c": 3, "n": 5, "D": 7, "t": 4}, 52.5),
    ("terms.gathered_stream_bytes", {"c": 3, "n": 5, "D": 7}, 210),
    ("terms.attention_bytes", {"n": 3, "N": 5, "K": 2, "H": 7, "J": 11, "x": 4, "t": 8}, 175.5),
    ("terms.statistics_bytes", {"n": 3, "N": 5, "S": 7, "t": 8}, 52.5),
    ("terms.scores_bytes", {"c": 3, "n": 5, "N": 7, "T": 11, "t": 4}, 577.5),
    ("terms.feed_forward_bytes", {"c": 3, "n": 5, "F": 7, "t": 4}, 52.5),
    ("terms.expert_rows_bytes", {"c": 3, "R": 5, "D": 7}, 210),
    ("terms.expert_hidden_bytes", {"c": 3, "R": 5, "F": 7, "t": 4}, 52.5),
    ("terms.slots_bytes", {"c": 3, "n": 5, "E": 7, "C": 11}, 2310),
    ("terms.expert_weights_bytes", {"c": 3, "W": 7, "e": 2, "t": 4}, 5.25),
    ("terms.matrices_bytes", {"c": 3, "W": 7, "t": 4}, 10.5),
    ("terms.products_bytes", {"L": 3, "D": 5, "t": 8}, 150),
    ("terms.given_back_bytes", {"s": 0.25, "b": 12}, -3),
    ("terms.relief_bytes", {"o": 7}, -7),
    ("terms.fragmentation_bytes", {"f": 0.25, "b": 12}, 3),
    ("state.weights_bytes", {"P": 7, "w": 3}, 21),
    ("state.first_moment_bytes", {"M": 7, "m": 3}, 21),
    ("state.second_moment_bytes", {"U": 7, "u": 3}, 21),
    ("state.batch_bytes", {"n": 3}, 60),
    ("state.scalars_bytes", {"s": 3}, 1536),
    # bytes of collectives: a device of four already has a quarter
    ("collectives.received_bytes", {"V": 24, "N": 4}, 18),
    ("collectives.reduced_bytes", {"V": 24, "N": 4}, 36),
    ("collectives.passed_bytes", {"B": 7}, 7),
    ("collectives.left_bytes", {"B": 24, "K": 4}, 18),
    ("collectives.dcn_passed_bytes", {"B": 7, "K": 2}, 7),
    ("collectives.dcn_passed_bytes", {"B": 7, "K": 1}, 0),
    ("collectives.dcn_gathered_bytes", {"V": 24, "N": 3, "K": 4}, 6),
    ("collectives.dcn_reduced_bytes", {"V": 24, "N": 3, "K": 4}, 12),
    # seconds of collectives: what arrives over the rate, or the hops of a small message, and its launches
    ("collectives.gather_s", {"V": 24, "N": 4, "W": 3}, 6),
    ("collectives.reduce_s", {"V": 24, "N": 4, "W": 3}, 12),
    ("collectives.exchange_s", {"B": 24, "q": 5, "w": 3}, 10),
    ("collectives.latency_s", {"c": 3, "h": 5, "t": 7}, 105),
    ("collectives.timed_gather_s", {"V": 24, "N": 4, "W": 3, "e": 0.5, "c": 2, "a": 5, "h": 1, "t": 1}, 22),
    ("collectives.timed_gather_s", {"V": 24, "N": 4, "W": 3, "e": 0.5, "c": 2, "a": 5, "h": 7, "t": 3}, 52),
    ("collectives.timed_reduce_s", {"V": 24, "N": 4, "W": 3, "e": 0.5, "c": 2, "a": 5, "h": 1, "t": 1}, 34),
    ("collectives.timed_reduce_s", {"V": 24, "N": 4, "W": 3, "e": 0.5, "c": 2, "a": 5, "h": 7, "t": 3}, 94),
    ("collectives.timed_exchange_s", {"B": 24, "q": 5, "w": 3, "e": 0.5, "c": 2, "a": 5, "h": 1, "t": 1}, 30),
    ("collectives.timed_exchange_s", {"B": 24, "q": 5, "w": 3, "e": 0.5, "c": 2, "a": 5, "h": 7, "t": 3}, 52),
    ("collectives.timed_permute_s", {"B": 24, "w": 3, "e": 0.5, "c": 2, "a": 5, "t": 1}, 26),
    ("collectives.timed_permute_s", {"B": 24, "w": 3, "e": 0.5, "c": 2, "a": 5, "t": 30}, 70),
    ("collectives.dcn_gather_s", {"V": 24, "N": 3, "K": 4, "W": 3, "e": 0.5}, 4),
    ("collectives.dcn_reduce_s", {"V": 24, "N": 3, "K": 4, "W": 3, "e": 0.5}, 8),
    ("collectives.dcn_permute_s", {"B": 24, "K": 2, "W": 3, "e": 0.5}, 16),
    ("collectives.dcn_permute_s", {"B": 24, "K": 1, "W": 3, "e": 0.5}, 0),
    ("collectives.dcn_exchange_s", {"B": 24, "K": 4, "W": 3, "e": 0.5}, 12),
    # thresholds
    ("intensity.ridge", {"C": 12, "W": 8}, 1.5),
    ("intensity.sparsity", {"E": 24, "k": 2, "Z": 3}, 4),
    ("intensity.sparsity", {"E": 24, "k": 2, "Z": 24}, 1),
    ("intensity.gather_tokens", {"a": 12, "M": 8, "s": 3}, 4.5),
    ("intensity.tensor_width", {"a": 12, "Y": 5, "M": 8, "m": 3}, 5),
    ("intensity.mixed_tokens", {"a": 12, "F": 8, "M_x": 3, "M_y": 2}, 3),
    ("intensity.best_fsdp", {"B": 12, "F": 3, "N": 16, "M": 4}, 16),
    ("intensity.slice_tokens", {"a": 12, "s": 3}, 36),
    ("intensity.expert_width", {"a": 12, "A": 5, "b": 4, "m": 3}, 10),
    ("intensity.context_tokens", {"a": 12, "M": 3, "K": 8, "N": 64}, 1),
    # FLOPs: a multiply and an add
    ("traffic.thin_shard_factor", {"r": 4, "b": 16}, 8),
    ("traffic.thin_shard_factor", {"r": 32, "b": 16}, 1),
    ("compute.matmul_flops", {"n": 3, "A": 5, "B": 7}, 210),
    ("compute.attention_two_pass_flops", {"n": 3, "T": 5, "Q": 7, "U": 11, "c": 0.5}, 915),
    ("compute.grouped_rows_factor", {"r": 8, "b": 4}, 1.5),
    ("compute.peak_s", {"F": 12, "C": 8}, 1.5),
    ("compute.matmul_bytes_per_flop", {"n": 2, "A": 4, "B": 5}, 0.95),
    ("compute.attention_forward_flops", {"n": 3, "T": 5, "Q": 7, "U": 11, "c": 0.5}, 270),
    ("compute.attention_backward_flops", {"n": 3, "T": 5, "Q": 7, "U": 11, "c": 0.5}, 645),
    ("compute.training_flops", {"n": 3, "P": 5}, 90),
    ("compute.causal_share", {"T": 8}, 0.5),
    ("compute.sliding_share", {"T": 8, "w": 2}, 0.21875),
    ("compute.chunked_share", {"T": 8, "w": 2}, 0.125),
    ("compute.causal_tile_share", {"T": 8, "b": 2}, 0.625),
    ("compute.sliding_tile_share", {"T": 32, "w": 5, "b": 2}, 0.1875),
    ("compute.sliding_tile_share", {"T": 8, "w": 8, "b": 2}, 0.625),
    # seconds
    ("seconds.matmul_s", {"Q": 12, "U": 5, "g": 4, "s": 0.5}, 16),
    ("seconds.attention_s", {"A": 12, "e": 0.5}, 24),
    ("seconds.traffic_s", {"B": 12, "W": 3, "e": 0.5}, 8),
    ("seconds.model_flops", {"f": 3, "n": 5}, 15),
    ("seconds.low_precision_speedup", {"C": 6, "c": 2, "g": 0.25}, 1.5),
    ("seconds.hidden_s", {"K": 12, "c": 8, "h": 0.25}, 2),
    ("seconds.hidden_s", {"K": 4, "c": 8, "h": 0.25}, 1),
    ("seconds.exposed_s", {"K": 12, "h": 5}, 7),
    ("seconds.bubble_s", {"t": 24, "P": 5, "m": 4, "r": 3}, 8),
    ("seconds.unhidden_offload_s", {"o": 12, "f": 7, "b": 9}, 8),
    ("seconds.unhidden_offload_s", {"o": 8, "f": 7, "b": 9}, 1),
    ("seconds.slice_wait_s", {"t": 24, "u": 0.25, "z": 8}, 18),
    ("seconds.mfu", {"F": 12, "C": 8, "t": 3}, 0.5),
)


@pytest.mark.parametrize(
    ("name", "letters", "expected"), ROWS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_formula_gives_what_a_hand_gets(name: str, letters: dict[str, float], expected: float) -> None:
    assert FOUND[name](**letters) == pytest.approx(expected)


def test_every_formula_is_worked_out() -> None:
    assert {name for name, value in FOUND.items() if is_formula(value)} == {name for name, _, _ in ROWS}
