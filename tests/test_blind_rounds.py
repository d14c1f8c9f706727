"""Blind rounds: what is committed is whole, and the readers of the compiler's dumps read them right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.buffers import Value, peak, shape_key
from benchmarks.features import features

BLIND = Path(__file__).parent / "data" / "blind"


def read(name: str) -> list[dict]:
    return [json.loads(line) for line in (BLIND / name).read_text().splitlines()]


@pytest.mark.parametrize("name", ["round1_points.jsonl", "round2_points.jsonl"])
def test_points_name_their_features(name: str) -> None:
    points = read(name)
    assert len({point["id"] for point in points}) == len(points) >= 60
    assert [point["id"] for point in points if point["features"] != features(point)] == []


def test_every_point_of_round_one_was_predicted() -> None:
    assert [told["id"] for told in read("round1_predictions.jsonl")] == [p["id"] for p in read("round1_points.jsonl")]


def test_a_plain_launch_has_only_plain_labels() -> None:
    record = {"topology": "v5p-16", "slices": 1, "flags": {"model_name": "llama3.1-8b", "max_target_length": 8192}}
    expected = ["chip:v5p", "devices:2-63", "mesh:fsdp", "model:llama3.1-8b", "policy:full", "sequence:4k-16k"]
    assert features(record) == expected


def test_offloads_are_counted_by_tensor() -> None:
    flags = {"remat_policy": "custom", "mlpwo": "offload", "context": "offload", "out_proj": "device"}
    found = features({"topology": "tpu7x-8", "slices": 1, "flags": flags})
    assert {"offloads:2", "offload:mlpwo", "offload:context", "keep:out_proj"} <= set(found)


def test_values_that_share_a_slot_count_once_at_the_peak() -> None:
    def value(name: str, offset: int, first: int, last: int) -> Value:
        return Value(name, is_phi=False, size=100, offset=offset, shape="f32[25]", first=first, last=last)

    in_place = [value("a", 0, 1, 5), value("b", 0, 4, 9), value("c", 100, 6, 7), value("d", 200, 8, 9)]
    assert peak(in_place) == (6, 200)


def test_transposes_have_one_shape() -> None:
    assert shape_key("bf16[1,16384,128,32]{3,2,0,1:T(8,128)}") == shape_key("bf16[32,128,16384]{2,1,0}")
