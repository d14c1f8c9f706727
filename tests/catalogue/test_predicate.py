from __future__ import annotations

import ast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardplan.catalogue.dimension import Kind
from shardplan.catalogue.predicate import parse
from shardplan.catalogue.predicate.check import MAX_DEPTH, MAX_LENGTH
from shardplan.errors import InputError, Mark

KINDS = {
    "tp": Kind(""),
    "cp": Kind(""),
    "share": Kind("fraction"),
    "tp_comm_s": Kind("s"),
    "mlp_math_s": Kind("s"),
    "room_bytes": Kind("bytes"),
    "need_bytes": Kind("bytes"),
    "tokens": Kind("tokens"),
    "ridge": Kind("flops/bytes"),
    "is_moe": Kind("truth"),
    "fits": Kind("truth"),
    "precision": Kind("choice", ("bf16", "fp8")),
}
ROW = {
    "tp": 8,
    "cp": 1,
    "share": 0.25,
    "tp_comm_s": 0.4,
    "mlp_math_s": 0.31,
    "room_bytes": 2.0**30,
    "need_bytes": 2.0**31,
    "tokens": 8192,
    "ridge": 11535.0,
    "is_moe": False,
    "fits": True,
    "precision": "fp8",
}
MARK = Mark("rules/x.yaml", 10, 9)

# --- conditions that mean something, made at random ----------------------------------------------------------------

PURE = st.sampled_from(("tp", "cp", "share", "2", "0", "1.5", "7"))
UNITS = {"": ("tp", "cp", "share"), "s": ("tp_comm_s", "mlp_math_s"), "bytes": ("room_bytes", "need_bytes")}


@st.composite
def quantities(draw: st.DrawFn, unit: str, depth: int = 2) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(PURE if unit == "" else st.sampled_from(UNITS[unit]))
    form = draw(st.sampled_from(("sum", "scale", "call", "part", "minus")))
    left = draw(quantities(unit, depth - 1))
    if form == "scale":
        return f"({left}) {draw(st.sampled_from('*/'))} ({draw(quantities('', depth - 1))})"
    if form == "part":
        return f"({left}) {draw(st.sampled_from(('%', '//')))} {draw(st.sampled_from(('tp', 'cp', '3')))}"
    if form == "minus":
        return f"-({left})"
    right = draw(quantities(unit, depth - 1))
    if form == "call":
        return f"{draw(st.sampled_from(('min', 'max')))}({left}, {right})"
    return f"({left}) {draw(st.sampled_from('+-'))} ({right})"


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        form = draw(st.sampled_from(("truth", "word", "words", "compare", "chain")))
        if form == "truth":
            return draw(st.sampled_from(("is_moe", "fits")))
        if form == "word":
            return f"precision {draw(st.sampled_from(('==', '!=')))} 'fp8'"
        if form == "words":
            return f"precision {draw(st.sampled_from(('in', 'not in')))} ('fp8', 'bf16')"
        unit = draw(st.sampled_from(tuple(UNITS)))
        sides = [draw(quantities(unit)) for _ in range(3 if form == "chain" else 2)]
        ops = [draw(st.sampled_from(("<", "<=", ">", ">=", "==", "!="))) for _ in sides[1:]]
        return sides[0] + "".join(f" {op} {side}" for op, side in zip(ops, sides[1:], strict=True))
    form = draw(st.sampled_from(("and", "or", "not")))
    left = draw(conditions(depth - 1))
    if form == "not":
        return f"not ({left})"
    return f"({left}) {form} ({draw(conditions(depth - 1))})"


COLUMNS = st.fixed_dictionaries(
    {
        "tp": st.lists(st.integers(1, 64), min_size=4, max_size=4).map(lambda x: np.array(x, dtype=np.int64)),
        "cp": st.integers(1, 64),
        "share": st.floats(0, 1),
        "tp_comm_s": st.lists(st.floats(0, 1e3), min_size=4, max_size=4).map(np.array),
        "mlp_math_s": st.lists(st.floats(0, 1e3), min_size=4, max_size=4).map(np.array),
        "room_bytes": st.floats(0, 1e12),
        "need_bytes": st.lists(st.floats(0, 1e12), min_size=4, max_size=4).map(np.array),
        "is_moe": st.booleans(),
        "fits": st.lists(st.booleans(), min_size=4, max_size=4).map(np.array),
        "precision": st.one_of(
            st.sampled_from(("bf16", "fp8")),
            st.lists(st.sampled_from(("bf16", "fp8")), min_size=4, max_size=4).map(np.array),
        ),
    }
)


def row_of(columns: dict[str, object], row: int) -> dict[str, object]:
    return {k: v[row] if isinstance(v, np.ndarray) else v for k, v in columns.items()}


@given(conditions(), COLUMNS)
def test_the_mask_of_columns_is_the_verdict_row_by_row(text: str, columns: dict[str, object]) -> None:
    predicate = parse(text, KINDS)
    mask = predicate.mask(columns, 4)
    assert mask.shape == (4,)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [predicate.holds(row_of(columns, row)) for row in range(4)]


@given(conditions())
def test_a_condition_reads_back_as_itself(text: str) -> None:
    predicate = parse(text, KINDS)
    again = parse(predicate.text, KINDS)
    assert again == predicate
    assert again.text == predicate.text
    assert again.names == predicate.names


@given(conditions(), COLUMNS)
def test_every_verdict_can_be_explained(text: str, columns: dict[str, object]) -> None:
    predicate = parse(text, KINDS)
    explanation = predicate.explain(row_of(columns, 0))
    assert explanation
    assert "{" not in explanation


@given(st.text(alphabet=st.sampled_from("tpcs_ moefits0159.+-*/%<>=!()[]{}'\"andornotinif:,\\\n#@é\x00"), max_size=80))
@example("1if 2else 3")
@example("'\\d' == precision")
@example("(" * 300)
@example("not " * 200 + "fits")
@example("-" * 900 + "tp > 1")
@example("9" * 900 + " > tp")
@example("tp > 1e999")
@example("\x00")
@example("\ud800")
@example("é > 1 and (tp")
def test_any_text_is_a_condition_or_a_located_error(text: str) -> None:
    try:
        parse(text, KINDS, MARK)
    except InputError as error:
        assert all(d.mark is not None and d.mark.source == MARK.source for d in error.diagnostics)
        assert all(d.mark.line == MARK.line and (d.mark.column or 0) >= 1 for d in error.diagnostics if d.mark)


@given(st.text(max_size=60))
def test_any_unicode_is_a_condition_or_an_error(text: str) -> None:
    try:
        parse(text, KINDS)
    except InputError as error:
        assert error.diagnostics


# --- what is refused, and where ------------------------------------------------------------------------------------

REFUSED = {
    "tpp > 1": ("SP010", 0, "unknown fact 'tpp'"),
    "tp > 1 and cpp == 1": ("SP010", 11, "unknown fact 'cpp'"),
    "tp > tp_comm_s": ("SP015", 0, "units differ: a pure number and s"),
    "is_moe and room_bytes > tokens": ("SP015", 11, "units differ: bytes and tokens"),
    "tokens > 8192": ("SP015", 0, "units differ: tokens and a pure number"),
    "tp + tp_comm_s > 1": ("SP015", 0, "units differ"),
    "tokens % room_bytes > 0": ("SP015", 0, "units differ"),
    "min(tp, tokens) > 1": ("SP015", 0, "units differ"),
    "ridge * room_bytes > tokens": ("SP015", 0, "units differ: flops and tokens"),
    "ridge / tp_comm_s > tokens": ("SP015", 0, "units differ: flops/bytes/s and tokens"),
    "1 / tp_comm_s > tokens": ("SP015", 0, "units differ: 1/s and tokens"),
    "tp": ("SP012", 0, "expected a condition (true or false), found a pure number"),
    "precision": ("SP012", 0, "found one of bf16, fp8"),
    "0": ("SP012", 0, "expected a condition (true or false), found 0"),
    "tp and is_moe": ("SP012", 0, "expected a condition, found a pure number"),
    "not tp": ("SP012", 4, "expected a condition"),
    "is_moe + 1 > 2": ("SP012", 0, "expected a number, found a condition"),
    "-is_moe > 2": ("SP012", 1, "expected a number, found a condition"),
    "is_moe > 2": ("SP012", 0, "expected a number, found a condition"),
    "precision > tp": ("SP012", 0, "expected a number, found one of"),
    "tp > 'x'": ("SP012", 5, "expected fact == 'word'"),
    "tp == 'x'": ("SP012", 0, "expected a fact with words as values"),
    "tpp == 'x'": ("SP010", 0, "unknown fact 'tpp'"),
    "precision in 'fp8'": ("SP012", 13, "expected fact == 'word'"),
    "precision == ('fp8', 'bf16')": ("SP012", 13, "expected fact == 'word'"),
    "precision == 'fp9'": ("SP014", 13, "expected one of bf16, fp8, found 'fp9'"),
    "precision == fp8": ("SP012", 0, "expected a number, found one of bf16, fp8"),
    "'fp8' == precision": ("SP012", 0, "expected a number"),
    "tp in (1, 2)": ("SP012", 0, "expected < <="),
    "tp is 1": ("SP012", 0, "expected < <="),
    "True": ("SP012", 0, "expected a number"),
    "tp == None": ("SP012", 6, "expected a number"),
    "tp > 1j": ("SP012", 5, "expected a number"),
    "tp > 1e999": ("SP013", 5, "expected a number up to 2**53"),
    "tp > 10**3": ("SP012", 5, "expected only"),
    "tp > ~1": ("SP012", 5, "expected only"),
    "tp.real > 1": ("SP012", 0, "expected only"),
    "tp[0] > 1": ("SP012", 0, "expected only"),
    "abs(tp) > 1": ("SP012", 0, "expected only"),
    "min(tp) > 1": ("SP012", 0, "expected only"),
    "max(tp, key=tp) > 1": ("SP012", 0, "expected only"),
    "(lambda: tp)() > 1": ("SP012", 0, "expected only"),
    "[t for t in tp] > 1": ("SP012", 0, "expected only"),
    "__import__('os').system('x') > 1": ("SP012", 0, "expected only"),
    "é > 1 and tq > 1": ("SP010", 0, "unknown fact 'é'"),
    "tp > ": ("SP004", 0, "expected a condition such as"),
    "tp > 1;": ("SP004", 6, "expected a condition such as"),
    "": ("SP004", 0, "expected a condition such as"),
    "tp > 1\ntp": ("SP004", None, "expected a condition such as"),
    "tp > " + "1" * MAX_LENGTH: ("SP003", 0, f"at most {MAX_LENGTH} characters"),
    "not " * (MAX_DEPTH + 1) + "fits": ("SP003", 0, f"nested deeper than {MAX_DEPTH}"),
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_means_nothing_is_refused_at_its_place(text: str) -> None:
    code, offset, words = REFUSED[text]
    with pytest.raises(InputError) as caught:
        parse(text, KINDS, MARK)
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert words in first.message
    assert first.mark is not None
    if offset is not None:
        assert (first.mark.line, first.mark.column) == (10, 9 + offset)


def test_all_faults_are_found_at_once_with_hints() -> None:
    with pytest.raises(InputError) as caught:
        parse("tpp > 1 and room_bytes > tokens or precision == 'fp9'", KINDS, MARK)
    assert [d.code for d in caught.value.diagnostics] == ["SP010", "SP015", "SP014"]
    assert caught.value.diagnostics[0].hint == "did you mean 'tp'?"
    assert caught.value.diagnostics[2].hint == "did you mean 'fp8'?"


def test_columns_count_characters_not_bytes() -> None:
    with pytest.raises(InputError) as caught:
        parse("'é' == precision and tq > 1", KINDS, MARK)
    assert caught.value.diagnostics[2].mark == Mark("rules/x.yaml", 10, 9 + 21)


def test_without_a_column_the_place_is_the_given_one() -> None:
    with pytest.raises(InputError) as caught:
        parse("tq > 1", KINDS, Mark("rules/x.yaml"))
    assert caught.value.diagnostics[0].mark == Mark("rules/x.yaml")
    with pytest.raises(InputError) as caught:
        parse("tq > 1", KINDS)
    assert str(caught.value.diagnostics[0].mark) == "expression:1:1"


# --- what is accepted ----------------------------------------------------------------------------------------------

HOLDS = {
    "tp > 1": True,
    "1 < tp <= 8 < 9": True,
    "1 < tp < 8": False,
    "tp_comm_s > 0": True,
    "0 < room_bytes": True,
    "room_bytes > share * need_bytes": True,
    "need_bytes / room_bytes == 2": True,
    "tokens % (2 * tp) == 0": True,
    "tokens // tp > 0 and tokens % 3 != 0": True,
    "tokens * 0 == 0": True,
    "0 * tokens + tokens > 0": True,
    "tp * 0 == 0": True,
    "0 / tokens == 0": True,
    "tp % 0 == 1": False,
    "tp / 0 > 1": True,
    "min(tp, cp, 3) == 1 and max(tp, cp) == 8": True,
    "-tp < 0": True,
    "precision == 'fp8' and precision != 'bf16'": True,
    "precision not in ('bf16',)": True,
    "is_moe or fits": True,
    "not is_moe": True,
    "ridge * room_bytes / tp_comm_s > 0": True,
}


@pytest.mark.parametrize(("text", "expected"), HOLDS.items())
def test_conditions_hold_or_not(text: str, expected: bool) -> None:  # noqa: FBT001
    assert parse(text, KINDS).holds(ROW) is expected


def test_facts_are_asked_for_only_while_they_matter() -> None:
    asked: list[str] = []

    class Asked(dict[str, object]):
        def __getitem__(self, name: str) -> object:
            asked.append(name)
            return super().__getitem__(name)

    facts = Asked(ROW | {"tp": np.array([8, 8]), "cp": np.array([1, 1])})
    assert not parse("is_moe and tp_comm_s > mlp_math_s", KINDS).mask(facts, 2).any()
    assert not parse("cp > 1 and tp_comm_s > mlp_math_s", KINDS).mask(facts, 2).any()
    assert parse("tp > 1 or tp_comm_s > mlp_math_s", KINDS).mask(facts, 2).all()
    assert asked == ["is_moe", "cp", "tp"]


EXPLANATIONS = {
    "tp > 1 and tp_comm_s > mlp_math_s": "tp 8 > 1 and tp_comm_s 400 ms > mlp_math_s 310 ms",
    "is_moe or tp > 1 or cp > 1": "tp 8 > 1",
    "is_moe and tp > 1": "is_moe",
    "not is_moe": "not is_moe",
    "not (tp > 1 and cp > 1)": "not (cp 1 > 1)",
    "fits and (is_moe or tp == 8 and cp == 1)": "fits and (tp 8 == 8 and cp 1 == 1)",
    "fits and (is_moe or tp == 8)": "fits and tp 8 == 8",
    "tokens % (2 * tp) != 1 * tokens": "tokens 8,192 tokens % (2 * tp 8) = 0 tokens != 1 * tokens 8,192 tokens = 8,192 tokens",
    "tp * cp * 2 > 1": "tp 8 * cp 1 * 2 = 16 > 1",
    "tp - (cp - 2) > 1": "tp 8 - (cp 1 - 2) = 9 > 1",
    "(tp + cp) * 2 > 1": "(tp 8 + cp 1) * 2 = 18 > 1",
    "ridge * room_bytes > 0": "ridge 11,535 FLOPs/byte * room_bytes 1.0 GiB = 12.4 TFLOPs > 0",
    "max(tp, -cp) > share": "max(tp 8, -cp 1) = 8 > share 25.0%",
    "precision == 'fp8'": "precision fp8",
    "precision not in ('bf16',)": "precision fp8",
    "0.5 < tp <= 8": "0.5 < tp 8 <= 8",
}


@pytest.mark.parametrize(("text", "expected"), EXPLANATIONS.items())
def test_the_explanation_fills_in_the_numbers(text: str, expected: str) -> None:
    assert parse(text, KINDS).explain(ROW) == expected


def test_a_predicate_is_as_text_and_knows_its_names() -> None:
    predicate = parse("(tp)>1 and  fits", KINDS)
    assert predicate.text == "tp > 1 and fits"
    assert predicate == parse("tp > 1 and fits", KINDS)
    assert len({predicate, parse("tp > 1 and fits", KINDS), parse("fits and tp > 1", KINDS)}) == 2
    assert predicate != "tp > 1 and fits"
    assert predicate.names == {"tp", "fits"}
    assert isinstance(predicate.tree, ast.BoolOp)
