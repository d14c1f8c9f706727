from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan.errors import (
    INPUT_CODES,
    Diagnostic,
    DisagreementError,
    ExitCode,
    InputError,
    InvalidShardingError,
    Mark,
    ShardplanError,
    suggest,
)


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (Mark("case.yaml", 3, 5), "case.yaml:3:5"),
        (Mark("case.yaml", 3), "case.yaml:3"),
        (Mark("the command line"), "the command line"),
    ],
)
def test_a_mark_reads_as_editors_expect(mark: Mark, text: str) -> None:
    assert str(mark) == text


def test_a_diagnostic_reads_as_place_code_message_and_hint() -> None:
    whole = Diagnostic("SP010", "unknown key 'chp'", Mark("case.yaml", 3, 5), "did you mean 'chip'?")
    assert str(whole) == "case.yaml:3:5: SP010 unknown key 'chp' (did you mean 'chip'?)"
    assert str(Diagnostic("SP010", "unknown key 'chp'")) == "SP010 unknown key 'chp'"


def test_an_error_carries_every_diagnostic() -> None:
    diagnostics = [Diagnostic("SP011", "missing key 'chip'"), Diagnostic("SP011", "missing key 'model'")]
    error = InputError(iter(diagnostics))
    assert error.diagnostics == tuple(diagnostics)
    assert str(error).splitlines() == [str(diagnostic) for diagnostic in diagnostics]


def test_an_error_without_diagnostics_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="says nothing"):
        InputError([])


@pytest.mark.parametrize(
    ("kind", "exit_code"), [(InputError, ExitCode.CANNOT_RUN), (InvalidShardingError, ExitCode.INVALID)]
)
def test_each_error_knows_its_exit_code(kind: type[ShardplanError], exit_code: ExitCode) -> None:
    assert kind([Diagnostic("SP001", "no such file")]).exit_code is exit_code
    assert issubclass(kind, ShardplanError)


def test_exit_codes_are_the_published_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "YES": 0,
        "NO": 1,
        "CANNOT_RUN": 2,
        "INVALID": 3,
        "BUG": 70,
        "INTERRUPTED": 130,
    }


def test_input_codes_stay_below_the_codes_of_rules() -> None:
    assert all(re.fullmatch(r"SP0\d\d", code) for code in INPUT_CODES)
    assert all(sentence.endswith(".") for sentence in INPUT_CODES.values())


def test_a_disagreement_names_the_key_to_blame() -> None:
    error = DisagreementError("3 does not divide 8", at=("heads",), hint="take 2 or 4")
    assert (str(error), error.at, error.hint) == ("3 does not divide 8", ("heads",), "take 2 or 4")
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("tpu7", ["tpu7x", "v5p"], "did you mean 'tpu7x'?"),
        ("TPU7X", ["tpu7x", "v5p"], "did you mean 'tpu7x'?"),
        ("sequence_lenght", {"sequence_length": 1}, "did you mean 'sequence_length'?"),
        ("h100", ["tpu7x", "v5p"], None),
        ("anything", [], None),
        (12, ["13", 12], "did you mean '12'?"),
    ],
)
def test_suggest_finds_the_near_word_or_none(word: object, known: list[object], hint: str | None) -> None:
    assert suggest(word, known) == hint


@given(st.text(), st.lists(st.text()))
def test_suggest_names_only_known_words(word: str, known: list[str]) -> None:
    hint = suggest(word, known)
    assert hint is None or any(hint == f"did you mean {name!r}?" for name in known)


def test_suggest_is_quick_for_a_pasted_megabyte() -> None:
    begin = time.perf_counter()
    suggest("x" * 1_000_000, ["sequence_length"] * 100)
    assert time.perf_counter() - begin < 1.0
