"""A pytest plugin that runs the fastest tests first, by the seconds they took when they last ran here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SECONDS = Path(".seconds.json")
TOOK: Counter[str] = Counter()


def _known() -> dict[str, float]:
    return json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.exists() else {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests."""
    known = _known()
    items.sort(key=lambda item: known.get(item.nodeid, 0.0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a test took."""
    TOOK[report.nodeid] += report.duration


def pytest_sessionfinish(exitstatus: int) -> None:
    """Remember the seconds of a run that passed."""
    if not exitstatus:
        SECONDS.write_text(json.dumps(_known() | TOOK), encoding="utf-8")
