from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from shardplan.errors import InputError
from shardplan.source import dump_yaml, parse_yaml
from shardplan.source.document import MAX_DEPTH, MAX_NODES

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

readable = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from("\n\t"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.sampled_from(
        [
            "no",
            "on",
            "1:30",
            "4.59e14",
            "459e12",
            "0o7",
            "0x1F",
            "1_000",
            "~",
            "",
            "<<",
            "=",
            "2024-01-01",
            "-",
        ]
    )
)
keys = st.text(st.characters(codec="utf-8"), max_size=10) | st.integers(min_value=-9, max_value=99)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))
yamlish = st.lists(
    st.sampled_from(
        [*list("abc:-[]{}&*!|>'\"%@`#?,<~. \n\t01e"), "a: ", "- ", "\n  ", "&a ", "*a", "<<: ", "--- ", "!!"]
    )
)


def parsed(text: str) -> Any:
    return parse_yaml(text, "case.yaml").value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("4.59e14", 4.59e14),
        ("459e12", 459e12),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("-1.", -1.0),
        ("12", 12),
        ("+12", 12),
        ("-0", 0),
        ("1_000_000", 1_000_000),
        ("0o17", 15),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("=", "="),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ('"null"', "null"),
        ('! "12"', "12"),
        ("!!str 12", "12"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1e400", math.inf),
        (str(10**30), 10**30),
        ("_1", "_1"),
        ("1_", "1_"),
        ("1.2.3", "1.2.3"),
        ("4x4x8", "4x4x8"),
        ("|\n  12\n", "12\n"),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(written: str, value: object) -> None:
    read = parsed(f"key: {written}")["key"]
    assert read == value
    assert type(read) is type(value)


def test_not_a_number_is_read_and_left_to_the_field() -> None:
    assert math.isnan(parsed(".nan"))


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        pytest.param("", "SP006", "case.yaml", id="empty"),
        pytest.param("# only a comment\n", "SP006", "case.yaml", id="comment"),
        pytest.param("\ufeff \n", "SP006", "case.yaml", id="bom"),
        pytest.param("a: 1\n--- \nb: 2", "SP006", "case.yaml:2:1", id="two documents"),
        pytest.param("a: 1\na: 2", "SP005", "case.yaml:2:1", id="duplicate key"),
        pytest.param("a: {b: 1, c: 2, b: 3}", "SP005", "case.yaml:1:17", id="duplicate in flow"),
        pytest.param("1: x\n1: y", "SP005", "case.yaml:2:1", id="duplicate number"),
        pytest.param("a: [1, 2", "SP004", "case.yaml:1:4", id="open list"),
        pytest.param("a:\n\tb: 1", "SP004", "case.yaml:2:1", id="tab"),
        pytest.param("a: b: c", "SP004", "case.yaml:1:5", id="two colons"),
        pytest.param("a: 'b", "SP004", "case.yaml:1:6", id="open quote"),
        pytest.param("a: @b", "SP004", "case.yaml:1:4", id="reserved character"),
        pytest.param("a: *b", "SP004", "case.yaml:1:4", id="unknown alias"),
        pytest.param("a: &b [*b]", "SP004", "case.yaml:1:8", id="endless alias"),
        pytest.param('a: "\\ud800"', "SP004", "case.yaml:1:7", id="surrogate escape"),
        pytest.param("a: !!python/object:os.system x", "SP007", "case.yaml:1:4", id="tag"),
        pytest.param("a: !!int '3'", "SP007", "case.yaml:1:4", id="int tag"),
        pytest.param("? [1]\n: 2", "SP007", "case.yaml:1:3", id="list as key"),
        pytest.param("true: 1", "SP007", "case.yaml:1:1", id="boolean key"),
        pytest.param("~: 1", "SP007", "case.yaml:1:1", id="null key"),
        pytest.param("<<: 3", "SP007", "case.yaml:1:5", id="merge of a number"),
        pytest.param("a: 1\nb: \0", "SP002", "case.yaml:2:4", id="nul"),
        pytest.param("a: \ud800", "SP002", "case.yaml:1:4", id="lone surrogate"),
        pytest.param("a: \x1b[31m", "SP002", "case.yaml:1:4", id="escape sequence"),
        pytest.param(f"a: {'9' * 5000}", "SP008", "case.yaml:1:4", id="5000 digits"),
        pytest.param("[" * 1000, "SP003", f"case.yaml:1:{MAX_DEPTH + 2}", id="deep flow"),
        pytest.param("- " * 1000, "SP003", f"case.yaml:1:{2 * (MAX_DEPTH + 1) + 1}", id="deep block"),
        pytest.param(BOMB, "SP003", "case.yaml:5:4", id="alias bomb"),
        pytest.param("[" + "1," * (MAX_NODES + 1) + "]", "SP003", "case.yaml:1:1", id="too many items"),
        pytest.param(
            "{" + ",".join(f"{i}: 1" for i in range(MAX_NODES)) + "}",
            "SP003",
            "case.yaml:1:1",
            id="too many keys",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, code: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(text)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, str(diagnostic.mark)) == (code, place)


def test_duplicates_are_reported_all_at_once_with_both_places() -> None:
    with pytest.raises(InputError) as caught:
        parsed("a: 1\nb: {c: 1, c: 2}\na: 3")
    places = [(str(diagnostic.mark), diagnostic.hint) for diagnostic in caught.value.diagnostics]
    assert places == [
        ("case.yaml:2:11", "first given at case.yaml:2:5"),
        ("case.yaml:3:1", "first given at case.yaml:1:1"),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a:\n\tb: 1", "tabs"),
        ("a:\n  b: 1\n\tc: 1", "tabs"),
        ("a: b: c", "quote"),
        ("a: b\0", "binary"),
        ("true: 1", "quote"),
    ],
)
def test_common_slips_have_a_hint(text: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(text)
    assert hint in (caught.value.diagnostics[0].hint or "")


def test_aliases_repeat_a_value() -> None:
    assert parsed("a: &x {k: [1, 2]}\nb: *x\nc: [*x, *x]") == {
        "a": {"k": [1, 2]},
        "b": {"k": [1, 2]},
        "c": [{"k": [1, 2]}, {"k": [1, 2]}],
    }


def test_merge_keys_fill_in_what_is_not_given() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nnew: {<<: [*b, *m], x: 9}\none: {<<: *m}\ntext: {'<<': 1}"
    read = parsed(text)
    assert read["new"] == {"x": 9, "y": 2, "z": 4}
    assert read["one"] == {"y": 3, "z": 4}
    assert read["text"] == {"<<": 1}


def test_a_byte_order_mark_a_version_and_one_document_are_fine() -> None:
    assert parsed("\ufeff%YAML 1.2\n---\na: 1\n...\n") == {"a": 1}


def test_marks_point_at_values_and_key_marks_at_keys() -> None:
    document = parse_yaml("model:\n  groups:\n    - {count: 3,  width: 'é'}\n", "case.yaml")
    assert str(document.mark(("model", "groups", 0, "width"))) == "case.yaml:3:26"
    assert str(document.key_mark(("model", "groups", 0, "width"))) == "case.yaml:3:19"
    assert str(document.mark(("model", "groups", 0))) == "case.yaml:3:7"
    assert str(document.mark()) == "case.yaml:1:1"


def test_the_mark_of_something_missing_is_its_nearest_ancestor() -> None:
    document = parse_yaml("a:\n  b: 1\n", "case.yaml")
    assert str(document.mark(("a", "c", "d"))) == "case.yaml:2:3"
    assert str(document.key_mark(("a", "c"))) == "case.yaml:2:3"


def test_a_part_is_found_by_path_or_reported_missing() -> None:
    document = parse_yaml("a: [{b: 1}]", "case.yaml")
    assert document.at(("a", 0, "b")) == 1
    assert document.at(()) == {"a": [{"b": 1}]}
    for path in (("c",), ("a", 1), ("a", -1), ("a", "b"), ("a", 0, "b", "c")):
        with pytest.raises(InputError, match="missing key"):
            document.at(path)


@given(values)
@example({"a": "x" * 200 + " " + "y" * 200, "b": "a\n\nb ", "c": " lead", "d": "#", "e": "a: b"})
def test_what_is_dumped_is_read_back_the_same(value: object) -> None:
    assert parsed(dump_yaml(value)) == value


@given(values)
def test_a_yaml_1_1_reader_takes_the_dump_for_the_same_value(value: object) -> None:
    assert yaml.safe_load(dump_yaml(value)) == value


@given(values)
def test_every_value_has_a_mark_where_its_text_begins(value: object) -> None:
    text = dump_yaml(value)
    document = parse_yaml(text, "case.yaml")
    lines = text.split("\n")

    def walk(inside: Any, path: tuple[Any, ...]) -> None:
        mark = document.mark(path)
        assert mark.line is not None
        assert mark.column is not None
        if isinstance(inside, int) and not isinstance(inside, bool):
            assert lines[mark.line - 1][mark.column - 1 :].startswith(str(inside))
        for key, child in (
            inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
        ):
            walk(child, (*path, key))

    # Guard: YAML counts these as line ends; str.split("\n") above does not.
    if not any(character in text for character in "\x85\u2028\u2029"):
        walk(value, ())


@given(st.text() | readable | yamlish.map("".join))
def test_no_text_makes_the_reader_stumble(text: str) -> None:
    try:
        parsed(text)
    except InputError as error:
        assert all(diagnostic.mark is not None for diagnostic in error.diagnostics)


def test_the_reader_without_the_c_parser_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 'two', 3.5]\nb: {c: *x}\n"
    expected = parse_yaml(text, "case.yaml")
    monkeypatch.delattr(yaml, "CLoader", raising=False)
    assert parse_yaml(text, "case.yaml") == expected
    for broken in ("a: [", 'a: "\\U99999999"', "a: 'b"):
        with pytest.raises(InputError):
            parsed(broken)
