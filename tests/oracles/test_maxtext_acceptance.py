"""What MaxText itself said to flags that shardplan emits, and to launches one change away from legal ones.

Source: MaxText 0.2.5's own configuration and mesh creation, `make maxtext-acceptance`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from places import DATA

from shardplan.launch.gate import Judged, check_lines
from shardplan.loaders.load import load_record
from shardplan.maxtext.tables import table

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PATH = DATA / "maxtext_acceptance.jsonl"
ROWS = [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]
EMITTED = [row for row in ROWS if row["kind"] == "emitted"]
PUBLISHED = [row for row in ROWS if row["kind"] == "published"]
CHANGED = [row for row in ROWS if row["kind"] == "changed"]


def test_maxtext_accepted_every_emitted_plan() -> None:
    assert len(EMITTED) >= 300
    assert len({row["flags"]["model_name"] for row in EMITTED}) >= 10
    assert [row["id"] for row in EMITTED if not row["accepted"]] == []


def test_emitted_flags_are_known_closed_and_read_back() -> None:
    for row in EMITTED:
        assert row["flags"].keys() <= table().keys.keys()
        degrees = [value for key, value in row["flags"].items() if key.endswith("_parallelism")]
        assert min(degrees) >= 1
        split = load_record(row).split
        assert split.remat_policy == row["flags"]["remat_policy"]
        assert split.per_device_batch == row["flags"]["per_device_batch_size"]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Our verdicts on the published and the changed launches."""
    path = tmp_path_factory.mktemp("launches") / "launches.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in PUBLISHED + CHANGED), encoding="utf-8")
    return check_lines(str(path))


def disagreements(judged: Judged, rows: list[dict[str, Any]]) -> list[str]:
    ours = {result.id: result.verdict != "invalid" for result in judged.results}
    return [row["id"] for row in rows if ours.get(row["id"], row["accepted"]) != row["accepted"]]


def test_our_verdict_is_maxtexts_on_both_sides_of_the_line(judged: Judged) -> None:
    refused = [row for row in CHANGED if not row["accepted"]]
    assert len(refused) >= 100
    assert len(CHANGED) - len(refused) >= 100
    assert disagreements(judged, CHANGED) == []


def test_published_recipes_are_judged_as_maxtext_judges_them(judged: Judged) -> None:
    """Recipes were written for many releases; 0.2.5 no longer knows some of their keys."""
    assert len(PUBLISHED) >= 150
    assert disagreements(judged, PUBLISHED) == []


def test_only_custom_meshes_are_not_judged(judged: Judged) -> None:
    assert all("custom_mesh" in diagnostic.message for diagnostic in judged.unreadable)
    assert len(judged.results) >= len(PUBLISHED) + len(CHANGED) - 2


def test_a_refusal_of_ours_says_why(judged: Judged) -> None:
    assert [result.id for result in judged.results if result.verdict == "invalid" and not result.problems] == []


# --- other releases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["0.2.1", "0.2.3"])
def test_other_releases_accepted_what_is_emitted_for_them_and_refused_what_is_refused(
    release: str, tmp_path: Path
) -> None:
    """Source: the configuration and mesh creation of that release's own package."""
    rows = [json.loads(line) for line in (DATA / f"maxtext_acceptance_{release}.jsonl").read_text().splitlines()]
    emitted, changed = ([row for row in rows if row["kind"] == kind] for kind in ("emitted", "changed"))
    assert len(emitted) >= 100
    assert [row["id"] for row in emitted if not row["accepted"]] == []
    assert all(row["flags"].keys() <= table(release).keys.keys() for row in emitted)
    path = tmp_path / "launches.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judged = check_lines(str(path), maxtext=release)
    assert sum(not row["accepted"] for row in changed) >= 90
    assert disagreements(judged, rows) == []
    assert {result.release for result in judged.results} == {release}
