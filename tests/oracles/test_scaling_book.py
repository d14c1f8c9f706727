"""Worked problems of "How To Scale Your Model" against the public formulas that cover them."""

from __future__ import annotations

import pytest
from book_problems import FORMULAS, VECTORS, answer


@pytest.mark.parametrize("vector", sorted(FORMULAS), ids=str)
def test_a_worked_problem_has_the_books_answer(vector: str) -> None:
    expected = VECTORS[vector]["expected"]
    assert answer(vector) == pytest.approx(expected["value"], rel=expected["tolerance_rel"])
