from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field, ValidationError, field_validator, model_validator

from shardplan.errors import Diagnostic, DisagreementError, InputError
from shardplan.source import Document, build, parse_json, parse_yaml
from shardplan.source.records import Record
from shardplan.source.wording import EXPECTED_TYPES, RANGES, found

Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


class Dense(Record):
    kind: Literal["dense"]
    width: Count
    """F, hidden width.

    Of the whole block.
    """


class Moe(Record):
    kind: Literal["moe"]
    n_experts: Count
    width: Count


class Layer(Record):
    count: Count = 1
    heads: tuple[Count, Count] = (8, 8)
    block: Annotated[Dense | Moe, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.heads[0] % self.heads[1]:
            raise DisagreementError(f"{self.heads[1]} does not divide {self.heads[0]}", at=("heads", 1), hint="take 2")
        return self


class House(Record):
    name: Annotated[str, Field(min_length=1, max_length=8)] = "inline"
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    ratio: Annotated[float, Field(gt=0, lt=2, allow_inf_nan=False)] = 1.0
    batch: Count | Literal["auto"] = "auto"
    remat: str | dict[str, Literal["device", "offload"]] = "auto"
    colour: Colour = Colour.RED
    tied: bool = False
    degrees: dict[int, float] = {}
    near: Annotated[int, Field(multiple_of=8, alias="nearby")] = 8
    flags: frozenset[str] = frozenset()
    nothing: None = None
    parts: dict[str, Dense] = {}

    @field_validator("remat")
    @classmethod
    def _no_blank(cls, value: Any) -> Any:
        if value == "blank":
            raise ValueError("blank is no policy")
        return value


LAYERS = "layers: [{block: {kind: dense, width: 4}}]\n"


def complaints(text: str, at: tuple[str | int, ...] = ()) -> list[Diagnostic]:
    with pytest.raises(InputError) as caught:
        build(House, parse_yaml(text, "case.yaml"), at)
    return list(caught.value.diagnostics)


def test_a_good_document_becomes_the_record() -> None:
    house = build(
        House,
        parse_yaml(
            LAYERS
            + "ratio: 1\ncolour: green\ndegrees: {2: 0.5, 4: 1}\nnearby: 16\nflags: [a, b]\nremat: {x: device}\n",
            "case.yaml",
        ),
    )
    assert (house.ratio, house.colour, house.degrees, house.near) == (1.0, Colour.GREEN, {2: 0.5, 4: 1.0}, 16)
    assert house.flags == {"a", "b"}
    assert house.layers[0].heads == (8, 8)
    assert house.remat == {"x": "device"}


def test_a_part_of_a_document_is_built_and_blamed_in_place() -> None:
    document = parse_yaml("first: 1\nhouse:\n  layers: [{block: {kind: dense, width: 4}}]\n  tied: 1\n", "case.yaml")
    with pytest.raises(InputError) as caught:
        build(House, document, ("house",))
    assert str(caught.value) == "case.yaml:4:9: SP012 house.tied: expected true or false, found 1"
    with pytest.raises(InputError, match="missing key 'barn'"):
        build(House, document, ("barn",))


def test_json_is_blamed_in_place_too() -> None:
    with pytest.raises(InputError) as caught:
        build(House, parse_json('{"layers": [],\n "tied": 0}', "case.json"))
    assert [str(diagnostic.mark) for diagnostic in caught.value.diagnostics] == [
        "case.json:1:12",
        "case.json:2:10",
    ]


def test_a_document_without_marks_still_names_its_source() -> None:
    with pytest.raises(InputError, match="the command line: SP011 missing key 'layers'"):
        build(House, Document({}, "the command line"))


@pytest.mark.parametrize(
    ("text", "code", "place", "message", "hint"),
    [
        ("tied: 1", "SP012", "2:7", "tied: expected true or false, found 1", None),
        ("tied: 'true'", "SP012", "2:7", "tied: expected true or false, found text 'true'", None),
        ("name: 3", "SP012", "2:7", "name: expected text, found 3", None),
        ("name: ''", "SP013", "2:7", "name: needs at least 1 character, found text ''", None),
        (
            "name: 123456789a",
            "SP013",
            "2:7",
            "name: takes at most 8 characters, found text '123456789a'",
            None,
        ),
        ("ratio: '1'", "SP012", "2:8", "ratio: expected a number, found text '1'", None),
        ("ratio: true", "SP012", "2:8", "ratio: expected a number, found true", None),
        ("ratio: null", "SP012", "2:8", "ratio: expected a number, found null", None),
        ("ratio: .nan", "SP013", "2:8", "ratio: must be a finite number, found nan", None),
        ("ratio: .inf", "SP013", "2:8", "ratio: must be a finite number, found inf", None),
        ("ratio: -1.5", "SP013", "2:8", "ratio: must be greater than 0.0, found -1.5", None),
        ("ratio: 2", "SP013", "2:8", "ratio: must be less than 2.0, found 2", None),
        ("nearby: 12", "SP013", "2:9", "nearby: must be a multiple of 8, found 12", None),
        ("nearby: 8.0", "SP012", "2:9", "nearby: expected a whole number, found 8.0", None),
        ("near: 8", "SP010", "2:1", "near: unknown key 'near'", "did you mean 'nearby'?"),
        ("zzz: 8", "SP010", "2:1", "zzz: unknown key 'zzz'", "known here: batch, colour, degrees, flags"),
        ("batch: -1", "SP013", "2:8", "batch: must be at least 1, found -1", None),
        (
            "batch: 1000000000000000000000000000000",
            "SP013",
            "2:8",
            "batch: must be at most 1,000,000, found 1000",
            None,
        ),
        (
            "batch: autoo",
            "SP014",
            "2:8",
            "batch: expected a whole number or 'auto', found text 'autoo'",
            "did you mean 'auto'?",
        ),
        ("batch: [1]", "SP014", "2:8", "batch: expected a whole number or 'auto', found a list of 1", None),
        ("remat: 3", "SP012", "2:8", "remat: expected text or a mapping, found 3", None),
        ("remat: blank", "SP013", "2:8", "remat: blank is no policy", None),
        (
            "remat: {x: devise}",
            "SP014",
            "2:12",
            "remat.x: expected 'device' or 'offload', found text 'devise'",
            "did you mean 'device'?",
        ),
        ("colour: blue", "SP014", "2:9", "colour: expected 'red' or 'green', found text 'blue'", None),
        ("degrees: {2: x}", "SP012", "2:14", "degrees[2]: expected a number, found text 'x'", None),
        (
            "degrees: {two: 1}",
            "SP012",
            "2:16",
            "degrees.two: expected a whole number, found text 'two'",
            None,
        ),
        ("flags: a", "SP012", "2:8", "flags: expected a list, found text 'a'", None),
        (
            "parts: {a: {kind: dense, width: 1, widht: 2}}",
            "SP010",
            "2:36",
            "parts.a.widht: unknown key 'widht'",
            "did you mean 'width'?",
        ),
        ("nothing: 1", "SP012", "2:10", "nothing: expected null, found 1", None),
    ],
)
def test_each_fault_of_a_field_is_said_in_place(
    text: str, code: str, place: str, message: str, hint: str | None
) -> None:
    (diagnostic,) = complaints(LAYERS + text)
    assert (diagnostic.code, str(diagnostic.mark)) == (code, f"case.yaml:{place}")
    assert diagnostic.message.startswith(message)
    assert (diagnostic.hint or "").startswith(hint or "") if hint else diagnostic.hint is None


@pytest.mark.parametrize(
    ("layer", "code", "place", "message", "hint"),
    [
        ("{}", "SP011", "1:10", "missing key 'layers[0].block'", None),
        ("{block: {width: 4}}", "SP011", "1:18", "missing key 'layers[0].block.kind'", None),
        (
            "{block: {kind: dense}}",
            "SP011",
            "1:18",
            "missing key 'layers[0].block.width'",
            "F, hidden width.",
        ),
        (
            "{block: {kind: mo, width: 4}}",
            "SP014",
            "1:25",
            "layers[0].block.kind: expected 'dense' or 'moe', found text 'mo'",
            "did you mean 'moe'?",
        ),
        (
            "{block: {kind: moe, width: 4, n_expert: 2, n_experts: 1}}",
            "SP010",
            "1:40",
            "layers[0].block.n_expert: unknown key 'n_expert'",
            "did you mean 'n_experts'?",
        ),
        ("{block: [1]}", "SP012", "1:18", "layers[0].block: expected a mapping, found a list of 1", None),
        (
            "{block: {kind: dense, width: 4}, heads: [8]}",
            "SP011",
            "1:50",
            "missing key 'layers[0].heads[1]'",
            None,
        ),
        (
            "{block: {kind: dense, width: 4}, heads: [8, 2, 2]}",
            "SP013",
            "1:50",
            "layers[0].heads: takes at most 2 items, found a list of 3",
            None,
        ),
        (
            "{block: {kind: dense, width: 4}, heads: [8, 0]}",
            "SP013",
            "1:54",
            "layers[0].heads[1]: must be at least 1, found 0",
            None,
        ),
        (
            "{block: {kind: dense, width: 4}, heads: [8, 3]}",
            "SP015",
            "1:54",
            "layers[0].heads[1]: 3 does not divide 8",
            "take 2",
        ),
        ("3", "SP012", "1:10", "layers[0]: expected a mapping, found 3", None),
    ],
)
def test_each_fault_of_a_nested_record_is_said_in_place(
    layer: str, code: str, place: str, message: str, hint: str | None
) -> None:
    (diagnostic,) = complaints(f"layers: [{layer}]")
    assert (diagnostic.code, str(diagnostic.mark), diagnostic.message) == (
        code,
        f"case.yaml:{place}",
        message,
    )
    assert diagnostic.hint == hint


@pytest.mark.parametrize("text", ["[1]", "3", "text", "null", "[]"])
def test_a_document_that_is_no_mapping_is_refused(text: str) -> None:
    (diagnostic,) = complaints(text)
    assert (diagnostic.code, str(diagnostic.mark)) == ("SP012", "case.yaml:1:1")
    assert diagnostic.message.startswith("expected a mapping, found")


def test_all_faults_come_at_once_in_the_order_of_the_text() -> None:
    found_here = complaints("tied: 1\nzzz: 2\nlayers: []\nratio: -3\nbatch: x\n")
    assert [diagnostic.mark.line for diagnostic in found_here if diagnostic.mark] == [1, 2, 3, 4, 5]
    assert [diagnostic.code for diagnostic in found_here] == ["SP012", "SP010", "SP013", "SP013", "SP014"]


def test_a_faulty_item_does_not_make_its_list_too_short() -> None:
    (diagnostic,) = complaints("layers: [{block: {kind: dense, width: 0}}]")
    assert diagnostic.message == "layers[0].block.width: must be at least 1, found 0"


def test_a_long_value_is_shortened() -> None:
    (diagnostic,) = complaints(LAYERS + f"tied: {'x' * 10_000}")
    assert len(diagnostic.message) < 200


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping with a"),
        (None, "null"),
        (3.5, "3.5"),
        (object, "<class 'object'>"),
    ],
)
def test_values_are_named_as_people_would(value: object, words: str) -> None:
    assert found(value) == words


def test_every_type_and_range_of_pydantic_we_word_exists() -> None:
    from typing import get_args

    from pydantic_core.core_schema import ErrorType

    assert set(EXPECTED_TYPES) | set(RANGES) <= set(get_args(ErrorType))


def test_records_are_frozen_and_strict_about_scalars() -> None:
    layer = Layer.model_validate({"block": {"kind": "dense", "width": 4}})
    with pytest.raises(ValidationError, match="frozen"):
        layer.count = 3  # type: ignore[misc]
    for width in ("4", 4.0, True, None):
        with pytest.raises(ValidationError):
            Dense.model_validate({"kind": "dense", "width": width})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "layers",
                    "block",
                    "kind",
                    "width",
                    "heads",
                    "ratio",
                    "batch",
                    "remat",
                    "degrees",
                    "x",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
)


@given(anything)
@example({"layers": [{"block": {"kind": "dense", "width": 4}}], "ratio": 0.5})
def test_no_value_makes_the_builder_stumble(value: object) -> None:
    document = Document(value, "case.yaml")
    try:
        house = build(House, document)
    except InputError as error:
        assert error.diagnostics
    else:
        assert math.isfinite(house.ratio)
