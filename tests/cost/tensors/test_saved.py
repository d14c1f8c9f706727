"""What a remat policy keeps: a tensor that spares time costs bytes, whatever the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_cases import case_of

from shardplan.cost.memory.total import memory
from shardplan.cost.tensors.saved import INPUT, NEVER, block_layers, saved_tensors, spared_by
from shardplan.cost.time.compute import layer_matmuls
from shardplan.cost.time.work import work
from shardplan.loaders.presets import architecture_names, load_architecture
from shardplan.maxtext.remat import TENSORS, custom
from shardplan.spec import Attention, FeedForward, Layer, Split
from shardplan.splits.enumeration import split_rows

LAYERS = {
    (layer, D, is_last): f"{name} {'last' if is_last else 'inner'} {layer.feed_forward.kind}"
    for name in reversed(architecture_names())
    for model in [load_architecture(name)]
    for D in [model.model_width]
    for group in model.layer_groups
    for layer, _, is_last in block_layers(group)
}
EVERY_LAYER = [pytest.param(*key, id=name) for key, name in LAYERS.items()]


@pytest.mark.parametrize(("layer", "D", "is_last"), EVERY_LAYER)
def test_what_spares_work_is_there_to_be_kept(layer: Layer, D: int, *, is_last: bool) -> None:
    kept_by = {name: t.row_bytes for t in saved_tensors(layer, D, is_last=is_last) for name in t.names}
    spared = spared_by(layer, is_last=is_last)
    for matmul in layer_matmuls(layer, D, is_last_of_block=is_last):
        assert matmul.spared_by == spared.get(matmul.name, ())
        for names in matmul.spared_by:
            assert all(kept_by[name] > 0 for name in names), (matmul.name, names)


@pytest.mark.parametrize(("layer", "D", "is_last"), EVERY_LAYER)
def test_every_name_of_a_kept_tensor_is_one_maxtext_has(layer: Layer, D: int, *, is_last: bool) -> None:
    tensors = saved_tensors(layer, D, is_last=is_last)
    assert frozenset().union(*(t.names for t in tensors)) <= TENSORS
    assert len({t.name for t in tensors}) == len(tensors)


def test_every_name_keeps_a_tensor_of_some_layer() -> None:
    found = {n for layer, D, last in LAYERS for t in saved_tensors(layer, D, is_last=last) for n in t.names}
    assert TENSORS - found == {"moe_routing_maps", "indexer_cutoff_threshold", "kv_proj"}


SMALL = [
    "gemma2-2b",
    "gemma3-4b",
    "llama2-7b",
    "llama4-17b-16e",
    "deepseek2-16b",
    "gpt-oss-20b",
    "mixtral-8x7b",
    "gpt3-6b",
]


@pytest.mark.parametrize("where", ["device", "offload"])
@pytest.mark.parametrize("model", SMALL)
def test_a_tensor_that_spares_time_costs_bytes(model: str, where: str) -> None:
    case = case_of(load_architecture(model), "4x4x4", batch=128)
    names = sorted(TENSORS - {INPUT})
    blank = split_rows(case, *[Split(ici={"fsdp": 128}, per_device_batch=1)] * (len(names) + 1))
    policies = (custom({}), *(custom({name: where}) for name in names))
    rows = replace(blank, remat=np.arange(len(policies)), remat_policies=policies)
    done, needed = work(case, rows), memory(case, rows)
    again = done.low_again_s + done.plain_again_s + done.attention_again_s
    spares = again[1:] < again[0]
    stacks = (
        needed.host_bytes
        if where == "offload"
        else np.array([needed.breakdown_at(row)["saved_activations_bytes"] for row in range(len(policies))])
    )
    assert spares.any()
    assert (stacks[1:] > stacks[0])[spares].all(), [n for n, s in zip(names, spares, strict=True) if s]


ATTENTION = Attention(n_query_heads=32, n_key_value_heads=8, head_width=128)


@pytest.mark.parametrize(
    ("n_norms", "is_last", "needed"), [(2, True, False), (2, False, True), (4, True, True), (4, False, True)]
)
def test_the_blocks_output_is_kept_only_where_a_norm_or_a_layer_reads_it(
    n_norms: int, *, is_last: bool, needed: bool
) -> None:
    layer = Layer(attention=ATTENTION, feed_forward=FeedForward(width=512), n_norms=n_norms)
    names = {tensor.name for tensor in saved_tensors(layer, 256, is_last=is_last)}
    assert ("mlpwo" in names) == needed
    assert (spared_by(layer, is_last=is_last)["down"] == NEVER) != needed


def test_offloading_what_no_backward_pass_reads_changes_nothing() -> None:
    """MaxText names the output of a llama block, and XLA drops what is never read."""
    case = case_of(load_architecture("llama3.1-8b"), "4x4x4", batch=128)
    splits = [
        Split(ici={"fsdp": 128}, per_device_batch=1, remat_policy="custom", remat_tensors=tensors)
        for tensors in ({}, {"mlpwo": "offload"})
    ]
    needed = memory(case, split_rows(case, *splits))
    assert needed.total_bytes[0] == needed.total_bytes[1]
    assert needed.host_bytes[0] == needed.host_bytes[1] == 0


def test_a_row_of_two_names_is_kept_once() -> None:
    ff = FeedForward(kind="moe", width=512, n_experts=8, n_active_experts=2)
    tensors = saved_tensors(Layer(attention=ATTENTION, feed_forward=ff), 256, is_last=True)
    assert [t.name for t in tensors if t.names & {"mlpwo", "moe_mlpwo"}] == ["moe_mlpwo"]


def test_heads_and_rows_are_split_as_maxtext_splits_them() -> None:
    tensors = {
        t.name: t
        for t in saved_tensors(Layer(attention=ATTENTION, feed_forward=FeedForward(width=512)), 256, is_last=True)
    }
    rows, t = np.array([64.0]), np.array([4.0])
    assert tensors["query_proj"].bytes(rows, rows, t) == 64 * 32 * 128 * 2 / 4
    assert tensors["context"].bytes(rows, rows, t) == 64 * 32 * (128 * 2 + 4) / 4
