"""What MaxText said while it built and traced the train step of what shardplan emits, and of launches around its lines.

Source: MaxText's own ahead-of-time compiler, stopped before compiling; `make maxtext-acceptance`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from places import DATA

from shardplan.engine.decide import judge_split
from shardplan.errors import InputError, InvalidShardingError
from shardplan.loaders.load import load_record
from shardplan.splits.enumeration import split_rows

pytestmark = pytest.mark.slow

PATH = DATA / "maxtext" / "traced.jsonl"
ROWS = [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]
EMITTED = [row for row in ROWS if row["kind"] == "emitted"]
CHANGED = [row for row in ROWS if row["kind"] == "changed"]

Verdict = tuple[str, frozenset[str]]


def verdict(row: dict[str, Any]) -> Verdict:
    """Accepted, refused or not modelled, with the codes of what stands in the way."""
    try:
        launch = load_record(row)
    except InvalidShardingError as error:
        return "refused", frozenset(diagnostic.code for diagnostic in error.diagnostics)
    except InputError as error:
        return "not modelled", frozenset(diagnostic.code for diagnostic in error.diagnostics)
    result = judge_split(launch.case, split_rows(launch.case, launch.split), row["id"])
    return "refused" if result.verdict == "invalid" else "accepted", frozenset(p.code for p in result.problems)


def is_stricter(row: dict[str, Any], codes: frozenset[str]) -> bool:
    """Whether we refuse on purpose what is traced: the trainer refuses it (SP541), or it is padded (SP510)."""
    return "SP541" in codes or ("SP510" in codes and row["flags"].get("attention") == "dot_product")


@pytest.fixture(scope="module")
def ours() -> dict[str, Verdict]:
    return {row["id"]: verdict(row) for row in ROWS}


def test_maxtext_traced_every_emitted_plan(ours: dict[str, Verdict]) -> None:
    assert len(EMITTED) >= 60
    assert len({row["flags"]["model_name"] for row in EMITTED}) >= 12
    assert len({(row["topology"], row["slices"]) for row in EMITTED}) >= 6
    assert [row["id"] for row in EMITTED if not row["accepted"]] == []
    assert [row["id"] for row in EMITTED if ours[row["id"]][0] != "accepted"] == []


def test_our_verdict_is_that_of_tracing(ours: dict[str, Verdict]) -> None:
    refused = [row for row in CHANGED if not row["accepted"]]
    assert len([row for row in refused if row["stage"] == "trace"]) >= 60
    assert len(CHANGED) - len(refused) >= 60
    for row in CHANGED:
        found, codes = ours[row["id"]]
        if found == "not modelled" or (row["accepted"] and is_stricter(row, codes)):
            continue
        assert found == ("accepted" if row["accepted"] else "refused"), (row["id"], codes, row["error"])


def test_few_launches_are_not_modelled(ours: dict[str, Verdict]) -> None:
    """Pipelines over blocks of several layers, of which MaxText builds one for every layer."""
    unknown = [row for row in CHANGED if ours[row["id"]][0] == "not modelled"]
    assert len(unknown) <= len(CHANGED) // 20
    assert all("pipeline" in row["id"] for row in unknown)


def test_one_version_said_it_all() -> None:
    assert {row["versions"].split(",")[0] for row in ROWS} == {"maxtext 0.2.5"}
