"""Named thresholds of the decision rules: `rules/thresholds.yaml`, each with unit, source and kind."""

from __future__ import annotations

from functools import cache
from typing import Literal

from shardplan.data import rules_folder
from shardplan.source import build, read_document
from shardplan.spec import Input, Number, Text


class Threshold(Input):
    """One constant a rule compares with."""

    value: Number
    unit: str
    source: Text
    kind: Literal["published", "derived", "measured", "chosen"]
    note: Text | None = None


class Thresholds(Input):
    """The file: thresholds by name."""

    thresholds: dict[str, Threshold]


@cache
def thresholds() -> dict[str, Threshold]:
    """All thresholds by name."""
    return build(Thresholds, read_document(rules_folder() / "thresholds.yaml")).thresholds


def threshold(name: str) -> float:
    """One threshold's value; KeyError for an unknown name."""
    return thresholds()[name].value
