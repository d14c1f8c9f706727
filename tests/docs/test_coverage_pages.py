from __future__ import annotations

import re

import pytest
from places import ROOT

from shardplan.catalogue.rules import load_catalogue
from shardplan.data import rules_folder
from shardplan.judge.facts import KINDS

DOCS = ROOT / "docs"
CATALOGUE = load_catalogue(rules_folder(), KINDS)
GUIDE = {"FP": 7, "SH": 9, "CO": 1, "RM": 6, "KE": 5}
"""Rows of the Ironwood guide by part."""


def codes(page: str) -> set[str]:
    return set(re.findall(r"SP\d{3}", (DOCS / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("row", [f"I-{part}{n}" for part, rows in GUIDE.items() for n in range(1, rows + 1)])
def test_every_row_of_the_guide_has_a_rule_or_a_behaviour(row: str) -> None:
    lines = (DOCS / "ironwood_coverage.md").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {row} |"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert len(cells) == 3
    assert cells[2]


@pytest.mark.parametrize("page", ["ironwood_coverage.md", "maxtext_coverage.md"])
def test_codes_of_the_page_are_rules(page: str) -> None:
    assert codes(page) <= set(CATALOGUE.rules)


def test_every_rule_that_cites_the_guide_or_maxtext_is_on_its_page() -> None:
    for rule in CATALOGUE:
        if any(source.startswith("Ironwood guide I-") for source in rule.entry.sources):
            assert rule.code in codes("ironwood_coverage.md"), rule.code
        if rule.family == "maxtext":
            assert rule.code in codes("maxtext_coverage.md"), rule.code


def test_rows_that_rules_cite_are_rows_of_the_maxtext_page() -> None:
    text = (DOCS / "maxtext_coverage.md").read_text(encoding="utf-8")
    for rule in CATALOGUE:
        for source in rule.entry.sources:
            if source.startswith("MaxText check"):
                for row in re.findall(r"\b[MBDACEPQO]\d{1,2}\b", source.partition(":")[0]):
                    assert re.search(rf"\b{row}\b", text), (rule.code, row)
