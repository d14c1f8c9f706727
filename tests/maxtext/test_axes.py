"""The axes that split a dimension, one table: what others read of it."""

from __future__ import annotations

from shardplan.maxtext.axes import (
    ACTIVATION_RULES,
    BATCH_AXES,
    EXPERT_WIDTH_AXES,
    FEED_FORWARD_AXES,
    WEIGHT_AXES,
    WEIGHT_RULES,
    WIDTH_AXES,
)
from shardplan.spec import AXES


def test_only_mesh_axes_split_anything() -> None:
    named = [axes for _, axes in WEIGHT_RULES] + list(ACTIVATION_RULES.values())
    assert {axis for axes in named for axis in axes} == set(AXES)
    assert {axis for _, axes in WEIGHT_RULES for axis in axes} | {"pipeline"} == set(WEIGHT_AXES)


def test_the_first_rule_of_a_name_is_what_splits_it() -> None:
    assert WIDTH_AXES == ("fsdp", "fsdp_transpose", "context", "expert")
    assert EXPERT_WIDTH_AXES == ("fsdp", "fsdp_transpose", "context")
    assert FEED_FORWARD_AXES == ("fsdp_transpose", "tensor")
    assert BATCH_AXES == ("data", "fsdp", "fsdp_transpose", "expert")
