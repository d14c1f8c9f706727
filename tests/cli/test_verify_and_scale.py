"""`verify` and `scale` from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fixtures.fake_maxtext import answer, fake_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

CASE = """model: llama3.1-8b
workload: {sequence_length: 8192, global_batch: 64}
cluster: {chip: CHIP, topology: TOPOLOGY}
"""
GIB = 2**30
MEMORY = {
    "argument_size_in_bytes": 6 * GIB, "temp_size_in_bytes": 70 * GIB, "peak_memory_in_bytes": 75 * GIB,
}  # fmt: skip


@pytest.fixture
def case(tmp_path: Path) -> Callable[..., str]:
    def write(topology: str, chip: str = "tpu7x") -> str:
        path = tmp_path / "case.yaml"
        path.write_text(CASE.replace("TOPOLOGY", topology).replace("CHIP", chip))
        return str(path)

    return write


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_prediction_and_verdict_stand_side_by_side(
    run: Callable[..., Ran], case: Callable[..., str], tmp_path: Path
) -> None:
    python = fake_python(tmp_path, answer(memory=MEMORY))
    ran = run("verify", case("2x2x2"), "--python", python, "-o", "json")
    assert ran.code == 0
    result = json.loads(ran.out)
    assert result["compiled"]["arguments_bytes"] == 6 * GIB
    assert result["compiled"]["temp_bytes"] == 70 * GIB
    assert result["compiled"]["oom"] is False
    assert result["ratio"] == pytest.approx(result["predicted"]["total_bytes"] / (76 * GIB))
    assert result["versions"]["maxtext"] == "0.2.5"
    assert not result["cached"]
    assert "compile" in ran.err
    request = json.loads((tmp_path / "calls").read_text())
    assert request["topology"] == "tpu7x-16"
    assert request["flags"]["model_name"] == "llama3.1-8b"


def test_several_plans_are_a_list_and_come_from_the_cache_again(
    run: Callable[..., Ran], case: Callable[..., str], tmp_path: Path
) -> None:
    python = fake_python(tmp_path, answer(memory=MEMORY))
    first = run("verify", case("2x2x2"), "--python", python, "--top", "2", "-o", "plain")
    again = run("verify", case("2x2x2"), "--python", python, "--top", "2", "-o", "json")
    assert first.code == again.code == 0
    assert "fits, 80.2% of 94.7 GiB" in first.out
    assert [result["cached"] for result in json.loads(again.out)] == [True, True]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            {
                "error": "RESOURCE_EXHAUSTED",
                "out_of_memory": {"what": "x", "needed_bytes": 99.0 * GIB, "limit_bytes": 94.74 * GIB},
            },
            "out of memory: needs 99.0 GiB of 94.7 GiB",
        ),
        ({"error": "ValueError: no such key"}, "ValueError: no such key"),
    ],
)
def test_a_refusal_is_a_no(
    run: Callable[..., Ran], case: Callable[..., str], tmp_path: Path, result: dict[str, object], words: str
) -> None:
    ran = run("verify", case("2x2x2"), "--python", fake_python(tmp_path, answer(**result)), "-o", "plain")
    assert ran.code == 1
    assert words in ran.out


def test_without_a_plan_there_is_nothing_to_verify(
    run: Callable[..., Ran], case: Callable[..., str], tmp_path: Path
) -> None:
    python = fake_python(tmp_path, answer(memory=MEMORY))
    ran = run("verify", case("1x1", "v5e"), "--python", python, "-o", "plain")
    assert ran.code == 1
    assert "nothing fits" in ran.out


def test_without_maxtext_it_cannot_run(run: Callable[..., Ran], case: Callable[..., str], tmp_path: Path) -> None:
    ran = run("verify", case("2x2x2"), "--python", str(tmp_path / "none"))
    assert ran.code == 2
    assert "make maxtext-env" in ran.err


def test_a_shape_maxtext_has_no_name_for_is_refused(
    run: Callable[..., Ran], case: Callable[..., str], tmp_path: Path
) -> None:
    python = fake_python(tmp_path, answer(memory=MEMORY))
    ran = run("verify", case("4x4x16"), "--python", python)
    assert ran.code == 2
    assert "4x4x16" in ran.err
    assert "tpu7x-512" in ran.err


def test_scaling_is_a_row_a_size(run: Callable[..., Ran], case: Callable[..., str]) -> None:
    ran = run("scale", case("2x2", "v5e"), "--chips", "1..16", "-o", "json")
    assert ran.code == 0
    rows = json.loads(ran.out)["rows"]
    assert [row["chips"] for row in rows] == [1, 4, 8, 16]
    assert [row["fits"] for row in rows] == [False, False, False, True]
    page = run("scale", case("2x2", "v5e"), "--chips", "8..16", "-o", "plain")
    assert "nothing fits" in page.out
    assert "communication-bound" in page.out


def test_scaling_that_never_fits_is_a_no(run: Callable[..., Ran], case: Callable[..., str]) -> None:
    assert run("scale", case("2x2", "v5e"), "--chips", "1..1").code == 1


@pytest.mark.parametrize("chips", ["16", "64..16", "0..4", "a..b", "1...2"])
def test_a_bad_range_is_a_usage_error(run: Callable[..., Ran], case: Callable[..., str], chips: str) -> None:
    ran = run("scale", case("2x2x2"), "--chips", chips)
    assert ran.code == 2
    assert "FROM..TO" in ran.err
