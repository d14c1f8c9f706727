"""JSON lines: judged together as each alone, as they come, and none lost when a run is stopped."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from shardplan.launch.gate import check_lines, judge_lines
from shardplan.plan import CheckOut

if TYPE_CHECKING:
    from pathlib import Path

MODELS = (("llama3.1-8b", "tpu7x-16"), ("mixtral-8x7b", "v5p-64"), ("gemma2-9b", "v6e-32"))
POLICIES = ("full", "minimal", "save_qkv_proj", "minimal_offloaded", "qkv_proj_offloaded")


def drawn(count: int) -> list[dict[str, Any]]:
    """Rows that differ in model, mesh, batch and remat; some MaxText would refuse, some do not fit."""
    draw = random.Random(7)  # noqa: S311 (rows to judge, no secret)
    rows = []
    for number in range(count):
        model, topology = draw.choice(MODELS)
        flags = {
            "model_name": model,
            "max_target_length": draw.choice([2048, 4096]),
            "per_device_batch_size": draw.choice([0.5, 1, 2, 32]),
            "remat_policy": draw.choice(POLICIES),
            "ici_fsdp_parallelism": -1,
            "ici_tensor_parallelism": draw.choice([1, 2, 3]),
            "ici_pipeline_parallelism": draw.choice([1, 1, 2]),
            "gradient_accumulation_steps": draw.choice([1, 2]),
        }
        rows.append({"id": str(number), "topology": topology, "slices": 1, "flags": flags})
    return rows


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_rows_are_judged_in_company_as_each_alone(tmp_path: Path) -> None:
    rows = {row["id"]: row for row in drawn(60)}
    judged = check_lines(written(tmp_path / "rows.jsonl", [*rows.values()]))
    unreadable = {d.mark.line for d in judged.unreadable if d.mark is not None}
    assert len(judged.results) + len(unreadable) == len(rows)
    assert {result.verdict for result in judged.results} >= {"fits", "invalid", "does_not_fit"}
    for result in judged.results:
        (alone,) = check_lines(written(tmp_path / "row.jsonl", [rows[result.id]])).results
        assert unplaced(result) == unplaced(alone)


def unplaced(result: CheckOut) -> dict[str, Any]:
    """A verdict without the line it stands on."""
    return result.model_dump(exclude={"problems": {"__all__": {"place"}}})


def test_a_row_is_judged_before_the_next_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(write, "w") as rows:
        monkeypatch.setattr(sys, "stdin", stdin)
        found = judge_lines("-")
        for row in drawn(2):
            print(json.dumps(row), file=rows, flush=True)
            result = next(found)
            assert isinstance(result, CheckOut)
            assert result.id == row["id"]


@pytest.mark.parametrize("output", ["json", "yaml", "plain"])
def test_a_run_that_is_killed_has_printed_what_was_done(output: str) -> None:
    command = [sys.executable, "-m", "shardplan", "check", "--from", "-", "-o", output]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for row in drawn(3):
            print(json.dumps(row | {"id": f"row{row['id']}"}), file=process.stdin, flush=True)
        seen = ""
        while "row1" not in seen:
            seen += process.stdout.readline()
        process.kill()
    assert "row0" in seen
