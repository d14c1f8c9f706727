from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan.errors import InputError
from shardplan.source import parse_json
from shardplan.source.document import MAX_DEPTH, MAX_NODES

# Control characters are legal in JSON if escaped; in the raw, this reader takes them for a binary file.
text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(min_value=-(10**40), max_value=10**40) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
)
jsonish = st.lists(
    st.sampled_from(["{", "}", "[", "]", ":", ",", '"', '"a"', "\\", "1", "-", "0", ".", "e", "true", "nul", " ", "\n"])
)


def parsed(source: str) -> Any:
    return parse_json(source, "config.json").value


@given(values, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_python_writes_is_read_back_the_same(value: object, indent: Any, ensure_ascii: bool) -> None:  # noqa: FBT001
    source = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    assert parsed(source) == value


@given(values)
def test_every_value_has_a_mark_where_its_text_begins(value: object) -> None:
    source = json.dumps(value, indent=2)
    document = parse_json(source, "config.json")
    lines = source.split("\n")

    def walk(inside: Any, path: tuple[Any, ...]) -> None:
        mark = document.mark(path)
        assert mark.line is not None
        assert mark.column is not None
        first = "{" if isinstance(inside, dict) else "[" if isinstance(inside, list) else json.dumps(inside)
        assert lines[mark.line - 1][mark.column - 1 :].startswith(first)
        for key, child in (
            inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
        ):
            walk(child, (*path, key))

    walk(value, ())


@given(st.text() | jsonish.map("".join))
def test_the_reader_accepts_what_python_accepts_and_never_stumbles(source: str) -> None:
    try:
        expected = json.loads(source)
    except ValueError:
        with pytest.raises(InputError) as caught:
            parsed(source)
        assert all(diagnostic.mark is not None for diagnostic in caught.value.diagnostics)
        return
    try:
        assert repr(parsed(source)) == repr(expected)  # NaN differs from itself
    except InputError as error:
        assert {diagnostic.code for diagnostic in error.diagnostics} <= {"SP002", "SP005", "SP008"}


@pytest.mark.parametrize(
    ("source", "code", "place"),
    [
        pytest.param("", "SP006", "config.json", id="empty"),
        pytest.param(" \n", "SP006", "config.json", id="blank"),
        pytest.param('{"a": 1,\n "a": 2}', "SP005", "config.json:2:2", id="duplicate key"),
        pytest.param("[1,]", "SP004", "config.json:1:4", id="trailing comma"),
        pytest.param('{"a": 1,}', "SP004", "config.json:1:9", id="trailing comma in mapping"),
        pytest.param('{"a" 1}', "SP004", "config.json:1:6", id="no colon"),
        pytest.param("{a: 1}", "SP004", "config.json:1:2", id="bare key"),
        pytest.param('{"a": tru}', "SP004", "config.json:1:7", id="unknown word"),
        pytest.param('{"a": ', "SP004", "config.json:1:7", id="cut off"),
        pytest.param('{"a": 1', "SP004", "config.json:1:8", id="not closed"),
        pytest.param('"abc', "SP004", "config.json:1:1", id="open text"),
        pytest.param('"\\x"', "SP004", "config.json:1:2", id="unknown escape"),
        pytest.param("01", "SP004", "config.json:1:2", id="leading zero"),
        pytest.param("[1] [2]", "SP004", "config.json:1:5", id="two values"),
        pytest.param("'a'", "SP004", "config.json:1:1", id="single quotes"),
        pytest.param('["\\ud800"]', "SP008", "config.json:1:2", id="half a surrogate pair"),
        pytest.param("9" * 5000, "SP008", "config.json:1:1", id="5000 digits"),
        pytest.param("[" * 100_000, "SP003", f"config.json:1:{MAX_DEPTH + 2}", id="deep"),
        pytest.param("[" + "1," * MAX_NODES + "1]", "SP003", f"config.json:1:{2 * MAX_NODES}", id="too many values"),
        pytest.param('"\0"', "SP002", "config.json:1:2", id="nul"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(source: str, code: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(source)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, str(diagnostic.mark)) == (code, place)


def test_a_duplicate_names_its_first_place() -> None:
    with pytest.raises(InputError) as caught:
        parsed('{"a": 1,\n "a": 2}')
    assert caught.value.diagnostics[0].hint == "first given at config.json:1:2"


def test_numbers_keep_their_kind_and_infinities_are_left_to_the_field() -> None:
    assert [type(x) for x in parsed("[1, 1.0, 1e2, -0]")] == [int, float, float, int]
    assert parsed("[1e400, -Infinity]") == [math.inf, -math.inf]
    assert math.isnan(parsed("NaN"))


def test_pairs_of_surrogates_and_byte_order_marks_are_read() -> None:
    assert parsed('\ufeff"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_key_marks_point_at_keys() -> None:
    document = parse_json('{"a":\n  {"b": 1}}', "config.json")
    assert str(document.key_mark(("a", "b"))) == "config.json:2:4"
    assert str(document.mark(("a", "b"))) == "config.json:2:9"
