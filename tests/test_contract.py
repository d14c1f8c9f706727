"""The keys that job scripts and dashboards read: name, type and meaning stay, whatever else is added."""

from __future__ import annotations

import json
import subprocess
import sys
from math import prod
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NUMBER = (int, float)
CASE = """
model: llama3.1-70b
workload: {sequence_length: 8192, global_batch: 256, precision: bf16}
cluster: {chip: tpu7x, topology: 4x4x4}
"""
MODEL_KEYS = {"name": str, "total_params": int, "active_params": int, "layers": int, "family": str}
PLAN_KEYS = {
    "schema_version": str,
    "shardplan_version": str,
    "profile.family": str,
    "profile.context": str,
    "profile.very_large": bool,
    "profile.table_row": str,
    "profile.why": list,
    "cluster.chip": str,
    "cluster.topology": list,
    "cluster.chips": int,
    "cluster.devices": int,
    "cluster.slices": int,
    "cluster.hbm_limit_bytes": NUMBER,
    "plans": list,
    "considered": int,
    "rejected": dict,
    "problems": list,
}
CHOICE_KEYS = {
    "rank": int,
    "mesh.ici": dict,
    "mesh.dcn": dict,
    "remat_policy": str,
    "remat_tensors": dict,
    "per_device_batch": NUMBER,
    "global_batch": int,
    "gradient_accumulation": int,
    "num_vocab_tiling": int,
    "memory.arguments_bytes": NUMBER,
    "memory.temp_bytes": NUMBER,
    "memory.total_bytes": NUMBER,
    "memory.limit_bytes": NUMBER,
    "memory.error_band": NUMBER,
    "memory.binding_moment": str,
    "memory.host_bytes": NUMBER,
    "memory.breakdown.weights_bytes": NUMBER,
    "memory.breakdown.optimizer_bytes": NUMBER,
    "memory.breakdown.gradients_bytes": NUMBER,
    "memory.breakdown.saved_activations_bytes": NUMBER,
    "memory.breakdown.logits_bytes": NUMBER,
    "memory.breakdown.gathered_weights_bytes": NUMBER,
    "memory.breakdown.layer_work_bytes": NUMBER,
    "time.estimate_s": NUMBER,
    "time.lower_s": NUMBER,
    "time.upper_s": NUMBER,
    "time.error_band": NUMBER,
    "time.breakdown.compute_s": NUMBER,
    "time.breakdown.recompute_s": NUMBER,
    "time.breakdown.hbm_s": NUMBER,
    "time.breakdown.exposed_comm_s": NUMBER,
    "time.breakdown.bubble_s": NUMBER,
    "tokens_per_s_per_device": NUMBER,
    "mfu": NUMBER,
    "bound_by": str,
    "communication": list,
    "intensity": list,
    "rules": list,
    "maxtext_flags": dict,
    "libtpu_init_args": list,
}
CHECK_KEYS = {"id": str, "verdict": str, "problems": list, "choice": dict, "fixes": list}
ITEM_KEYS = {
    "communication": {
        "axis": str,
        "network": str,
        "kind": str,
        "bytes": NUMBER,
        "count": NUMBER,
        "seconds": NUMBER,
        "exposed_s": NUMBER,
    },
    "intensity": {"axis": str, "ours": NUMBER, "needed": NUMBER, "unit": str, "ok": bool, "rule": str},
    "rules": {"code": str, "severity": str, "explanation": str},
}


def shardplan(*arguments: str) -> tuple[int, Any]:
    """The exit code and the JSON of a run in its own process."""
    command = [sys.executable, "-m", "shardplan", *arguments, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, json.loads(done.stdout)


def assert_keys(record: dict[str, Any], keys: dict[str, Any]) -> None:
    for path, kind in keys.items():
        value: Any = record
        for key in path.split("."):
            assert key in value, f"{path} is missing"
            value = value[key]
        assert isinstance(value, kind), f"{path} is {value!r}"
        assert kind is bool or not isinstance(value, bool), f"{path} is {value!r}"


def assert_choice(choice: dict[str, Any], devices: int, slices: int) -> None:
    assert_keys(choice, CHOICE_KEYS)
    for key, keys in ITEM_KEYS.items():
        for item in choice[key]:
            assert_keys(item, keys)
    assert prod(choice["mesh"]["ici"].values()) * slices == devices
    assert prod(choice["mesh"]["dcn"].values()) == slices
    batch = choice["per_device_batch"] * devices * choice["gradient_accumulation"]
    assert batch == pytest.approx(choice["global_batch"])
    memory, time = choice["memory"], choice["time"]
    assert sum(memory["breakdown"].values()) == pytest.approx(memory["total_bytes"])
    assert sum(time["breakdown"].values()) == pytest.approx(time["estimate_s"])
    assert memory["arguments_bytes"] + memory["temp_bytes"] == pytest.approx(memory["total_bytes"])
    assert time["lower_s"] <= time["estimate_s"] <= time["upper_s"]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("contract") / "case.yaml"
    path.write_text(CASE)
    return path


@pytest.fixture(scope="module")
def recommended(case: Path) -> dict[str, Any]:
    """What `recommend` prints, run once."""
    code, plan = shardplan("recommend", str(case))
    assert code == 0
    return dict(plan)


def test_models_json() -> None:
    code, model = shardplan("models", "llama3.1-8b")
    assert code == 0
    assert_keys(model, MODEL_KEYS)
    assert (model["total_params"], model["family"]) == (8_030_261_248, "dense")


def test_recommend_json(recommended: dict[str, Any]) -> None:
    plan = recommended
    assert_keys(plan, PLAN_KEYS)
    assert plan["plans"]
    assert plan["schema_version"] == "1.0"
    assert (plan["cluster"]["chips"], plan["cluster"]["devices"]) == (64, 128)
    assert [choice["rank"] for choice in plan["plans"]] == list(range(1, len(plan["plans"]) + 1))
    for choice in plan["plans"]:
        assert_choice(choice, devices=128, slices=1)


def test_a_plan_can_be_checked_by_its_rank(recommended: dict[str, Any], tmp_path: Path) -> None:
    plan = recommended
    saved = tmp_path / "plan.json"
    saved.write_text(json.dumps(plan))
    code, (result,) = shardplan("check", "--plan", str(saved), "--rank", "2")
    assert code == 0
    assert result["choice"]["mesh"] == plan["plans"][1]["mesh"]
    ours, theirs = result["choice"]["memory"], plan["plans"][1]["memory"]
    assert ours["breakdown"] == pytest.approx(theirs["breakdown"], rel=1e-9)
    assert ours["total_bytes"] == pytest.approx(theirs["total_bytes"], rel=1e-9)


def test_check_json_lines(tmp_path: Path) -> None:
    flags = {"model_name": "llama3.1-8b", "max_target_length": 8192, "remat_policy": "full", "attention": "flash"}
    points = [
        {"id": f"b{n}", "topology": "tpu7x-8", "slices": 1, "flags": {**flags, "per_device_batch_size": n}}
        for n in (1, 64)
    ]
    path = tmp_path / "points.jsonl"
    path.write_text("".join(json.dumps(point) + "\n" for point in points))
    code, results = shardplan("check", "--from", str(path))
    assert code == 1
    assert [(result["id"], result["verdict"]) for result in results] == [("b1", "fits"), ("b64", "does_not_fit")]
    for result in results:
        assert_keys(result, CHECK_KEYS)
        assert_choice(result["choice"], devices=8, slices=1)
    assert results[1]["fixes"]
    for fix in results[1]["fixes"]:
        assert_keys(fix, {"flags": dict, "saves_bytes": NUMBER, "costs_s": NUMBER})
    assert results[1]["problems"]
