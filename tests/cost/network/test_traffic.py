"""What moves for each mesh axis of small models, worked out by hand: bytes a device receives and collectives, a step.

Both models have 12 layers of width 2048, 16 query and 8 key-value heads of 128 and a vocabulary of 32,768; sequences are 4,096 tokens.
"""

from __future__ import annotations

from typing import Any

import pytest
from small_cases import DENSE_MODEL, GQA, MOE, architecture, case_of

from shardplan.cost.network.comm import collectives
from shardplan.spec import Architecture, Case, Runtime, Split
from shardplan.splits.enumeration import split_rows

T, D, LAYERS = 4096, 2048, 12
KEYS_VALUES, QUERIES = 8 * 256, 16 * 256
"""Widths of keys and values, and of queries with the attention output, of all heads."""
STREAM = D * 2
"""Bytes of a token."""
SHARED = {**MOE, "n_shared_experts": 1}
SHARED_MODEL = architecture({"count": LAYERS, "attention": GQA, "feed_forward": SHARED})
MOE_MODEL = architecture({"count": LAYERS, "attention": GQA, "feed_forward": MOE})
MTP_MODEL = DENSE_MODEL.model_copy(update={"n_mtp_layers": 2})


def moved(model: Architecture, split: dict[str, Any], slices: int = 1, **runtime: Any) -> dict[tuple[str, ...], Any]:
    """Bytes and count of every collective, by axis, kind and purpose; on several slices the network too."""
    case: Case = case_of(model, slices=slices, runtime=Runtime(**runtime))
    found = collectives(case, split_rows(case, Split(**({"per_device_batch": 1.0} | split))))
    return {
        (c.axis, c.kind, c.purpose, *([c.network] if slices > 1 else [])): (float(c.bytes[0]), float(c.count[0]))
        for c in found
    }


ACTIVATIONS = (
    # model, micro-steps, remat: activations gathered and scattered a layer, forward, again and backward
    pytest.param(DENSE_MODEL, {}, 6, 5, LAYERS, id="dense"),
    pytest.param(DENSE_MODEL, {"remat_policy": "minimal"}, 6, 4, LAYERS, id="dense, output kept"),
    pytest.param(MOE_MODEL, {}, 3 + 2 + 4, 3 + 1 + 2 * 4, LAYERS, id="experts: four rows a token"),
    pytest.param(SHARED_MODEL, {}, 3 + 3 + 2 + 4, 3 + 2 + 1 + 2 * 4, LAYERS, id="experts, one shared"),
    pytest.param(MTP_MODEL, {}, 6, 5, LAYERS + 2, id="two modules predict more tokens"),
)


@pytest.mark.parametrize(("model", "more", "gathers", "scatters", "layers"), ACTIVATIONS)
def test_a_tensor_axis_gathers_and_scatters_activations(
    model: Architecture, more: dict[str, Any], gathers: int, scatters: int, layers: int
) -> None:
    found = moved(model, {"ici": {"fsdp": 8, "tensor": 4}, **more})
    whole = 4 * T * STREAM * 3 / 4
    kept = 1 if "remat_policy" in more else 0
    assert found["tensor", "all-gather", "activations"] == (whole * (layers * gathers + 2), 6 * layers)
    assert found["tensor", "reduce-scatter", "activations"] == (whole * (layers * scatters + 2), (5 - kept) * layers)


def test_micro_steps_and_stages_move_activations_in_proportion() -> None:
    once = moved(DENSE_MODEL, {"ici": {"fsdp": 8, "tensor": 4}})
    thrice = moved(DENSE_MODEL, {"ici": {"fsdp": 8, "tensor": 4}, "gradient_accumulation": 3})
    for key in (("tensor", "all-gather", "activations"), ("tensor", "reduce-scatter", "activations")):
        assert thrice[key] == tuple(3 * number for number in once[key])
    staged = moved(DENSE_MODEL, {"ici": {"fsdp": 4, "tensor": 4, "pipeline": 2}, "pipeline_microbatches": 2})
    # Half the layers a stage, twice the tokens a device.
    bytes_, count = staged["tensor", "all-gather", "activations"]
    assert bytes_ == once["tensor", "all-gather", "activations"][0]
    assert count == 6 * LAYERS / 2


@pytest.mark.parametrize(
    ("more", "exchanges"),
    [({}, 6), ({"remat_policy": "custom", "remat_tensors": {"moe_x_sorted": "device"}}, 5)],
    ids=["twice forward", "sorted rows kept"],
)
def test_an_expert_axis_sends_each_visit_there_and_back(more: dict[str, Any], exchanges: int) -> None:
    found = moved(MOE_MODEL, {"ici": {"fsdp": 4, "expert": 8}, **more})
    visits = T * 4 * LAYERS
    assert found["expert", "all-to-all", "tokens to experts and back"] == (
        visits * STREAM * exchanges * 7 / 8,
        LAYERS * exchanges,
    )
    rows = moved(MOE_MODEL, {"ici": {"fsdp": 4, "expert": 2, "tensor": 4}})["tensor", "all-gather", "activations"][0]
    # Two devices an expert group: the worst case doubles the rows.
    assert rows == 4 * T * STREAM * 3 / 4 * (LAYERS * (3 + 2 + 2 * 4) + 2)
    bound = moved(MOE_MODEL, {"ici": {"fsdp": 4, "expert": 2, "tensor": 4}}, ragged_buffer_factor=1.5)
    assert bound["tensor", "all-gather", "activations"][0] == 4 * T * STREAM * 3 / 4 * (LAYERS * (3 + 2 + 6) + 2)


SHARDS = {"ici": {"fsdp": 8, "context": 4}}
"""Four rows on the four devices of a context group."""


def test_gathered_keys_and_values_come_twice_and_their_gradients_go_once() -> None:
    found = moved(DENSE_MODEL, SHARDS)
    whole = 4 * T * KEYS_VALUES * 2 * LAYERS * 3 / 4
    assert found["context", "all-gather", "keys and values"] == (2 * whole, 4 * LAYERS)
    assert found["context", "reduce-scatter", "gradients of keys and values"] == (whole, 2 * LAYERS)
    split = moved(DENSE_MODEL, {"ici": {"fsdp": 2, "context": 4, "tensor": 4}})
    # The tensor axis splits the heads, and leaves four times the rows to a device.
    assert split["context", "all-gather", "keys and values"] == (2 * whole, 4 * LAYERS)


def test_a_ring_passes_keys_and_values_to_each_of_the_others() -> None:
    found = moved(DENSE_MODEL, SHARDS, context_strategy="ring")
    assert found["context", "permute", "keys and values"] == (4 * 3 * T * KEYS_VALUES * 2 * LAYERS, 8 * 3 * LAYERS)


def test_ulysses_exchanges_heads_for_sequence() -> None:
    found = moved(DENSE_MODEL, SHARDS, context_strategy="ulysses")
    exchanged = 3 * T * (KEYS_VALUES + QUERIES) * 2 * LAYERS
    assert found["context", "all-to-all", "heads for sequence"] == (exchanged * 3 / 4, 12 * LAYERS)


@pytest.mark.parametrize(("slices", "network"), [(1, ()), (2, ("dcn",))])
def test_stages_hand_on_and_rotate_their_buffers(slices: int, network: tuple[str, ...]) -> None:
    meshes = {"ici": {"fsdp": 16, "pipeline": 2}} if slices == 1 else {"ici": {"fsdp": 32}, "dcn": {"pipeline": 2}}
    found = moved(DENSE_MODEL, {**meshes, "per_device_batch": 3.0, "pipeline_microbatches": 4}, slices)
    # Four microbatches go round 6 times, and fill once: 25 iterations a pass, two passes, three buffers.
    passes = 2 * 25 * 3
    tokens = 3 * 2 * T
    assert found["pipeline", "permute", "microbatches", *network] == (passes * tokens / 4 * STREAM, passes)


def test_embedded_tokens_send_their_gradients_to_the_columns_of_the_table() -> None:
    found = moved(DENSE_MODEL, {"ici": {"fsdp": 32}, "gradient_accumulation": 3})
    assert found["fsdp", "all-to-all", "gradients of embedded tokens"] == (3 * T * STREAM * 31 / 32, 3)


LAYER = 3 * 2048 * 6144 + 2 * 2048 * 128 * (16 + 8)
"""Weights of a dense layer: three of the block, queries, keys, values and output."""


def test_weights_and_their_gradients_move_as_often_as_they_are_used() -> None:
    found = moved(DENSE_MODEL, {"ici": {"fsdp": 4, "data": 8}, "gradient_accumulation": 3, "num_vocab_tiling": 4})
    head = 32768 * D * 2
    layers = LAYERS * LAYER * 2
    matrices = 7 * LAYERS
    assert found["fsdp", "all-gather", "weights"] == (layers * 3 * 2 * 3 / 4, matrices * 3 * 2)
    assert found["fsdp", "reduce-scatter", "gradients of weights"] == (layers * 3 * 3 / 4, matrices * 3)
    assert found["fsdp", "all-gather", "output head"] == (head * 3 * 8 * 3 / 4, 3 * 8)
    assert found["fsdp", "reduce-scatter", "gradients of output head"] == (head * 3 * 4 * 3 / 4, 3 * 4)
    assert found["fsdp", "all-gather", "embedding"] == (head * 3 * 3 / 4, 3)
    # Sums over the replicas ride on the shards: layers every micro-step, the rest once, in float32.
    assert found["data", "all-reduce", "gradients of weights"] == (2 * layers / 4 * 3 * 7 / 8, matrices * 3)
    assert found["data", "all-reduce", "gradients of output head"] == (2 * head * 2 / 4 * 7 / 8, 1)


def test_shards_thinner_than_a_tile_move_whole_tiles() -> None:
    """8 rows of a tile's 16, to the power 1.5: a width of 2048 over 256 devices."""
    case = case_of(DENSE_MODEL, "4x4x8", batch=256)
    (weights,) = (
        c
        for c in collectives(case, split_rows(case, Split(ici={"fsdp": 256}, per_device_batch=1.0)))
        if c.purpose == "weights"
    )
    assert weights.bytes[0] == pytest.approx(LAYERS * LAYER * 2 * 2 * 255 / 256 * 2**1.5)
