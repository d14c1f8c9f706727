from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from fixtures.results import CHECKED, EXPLANATION, INVALID, NOTHING_FITS, TOO_BIG, WORKLOAD, choice_of, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardplan import plan
from shardplan.plan import Output
from shardplan.render import Format, Style, render
from shardplan.render.check import check_page
from shardplan.render.explain import EXACT_BELOW, explain_page, filled, number_text
from shardplan.render.machine import to_json, to_yaml
from shardplan.render.markdown import markdown
from shardplan.render.page import Column, Fields, Grid, Lines, Page, Text, texts
from shardplan.render.plain import plain
from shardplan.render.recommend import recommend_page
from shardplan.render.table import NARROWEST, table
from shardplan.render.words import mesh_text, remat_text, shares, workload_text
from shardplan.source import parse_yaml
from shardplan.spec import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.render.page import Block

PAGES = {
    "recommend": recommend_page(plan_of(), WORKLOAD, "case.yaml"),
    "nothing fits": recommend_page(NOTHING_FITS, WORKLOAD, "case.yaml"),
    "check one": check_page([TOO_BIG]),
    "check many": check_page([CHECKED, INVALID, TOO_BIG]),
    "explain": explain_page(EXPLANATION),
}
words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=60)


def pieces(document: Page, shown: Callable[[Text], str]) -> list[str]:
    """Every piece of text a document holds."""

    def of(block: Block) -> list[str]:
        if isinstance(block, Grid):
            names = [column.name for column in block.columns]
            return names + [shown(cell) for row in block.rows for cell in row]
        if isinstance(block, Fields):
            return [text for name, values in block.items for text in (name, *map(shown, values))]
        return [shown(item) for item in block.items]

    return [document.title, *(text for block in document.filled for text in (block.title, *of(block)))]


def whole(text: Text) -> str:
    return text.text


def short(text: Text) -> str:
    return text.text if text.short is None else text.short


def letters(text: str) -> Counter[str]:
    return Counter(re.sub(r"\s", "", text))


@pytest.mark.parametrize("page", PAGES)
@settings(max_examples=25, deadline=None)
@given(width=st.integers(1, 300))
def test_a_table_loses_no_character_at_any_width(page: str, width: int) -> None:
    laid_out = table(PAGES[page], width)
    missing = letters("".join(pieces(PAGES[page], short))) - letters(laid_out)
    assert not missing
    assert "…" not in laid_out
    assert max(map(len, laid_out.splitlines())) <= max(width, NARROWEST)


@pytest.mark.parametrize("page", PAGES)
def test_plain_has_every_piece_whole_on_one_line(page: str) -> None:
    lines = plain(PAGES[page]).splitlines()
    for piece in pieces(PAGES[page], whole):
        assert any(" ".join(piece.split()) in line for line in lines), piece


@settings(max_examples=50, deadline=None)
@given(cells=st.lists(st.tuples(words, words), min_size=1, max_size=5), width=st.integers(1, 200))
def test_no_text_breaks_a_layout(cells: list[tuple[str, str]], width: int) -> None:
    columns = (Column("a"), Column("b", right=True), Column("c", under="a"))
    grid = Grid("grid", columns, tuple(texts(left, right, left) for left, right in cells))
    document = Page("title", (grid, Fields("", ((cells[0][0], texts(*cells[0])),)), Lines("", texts(*cells[0]))))
    one_line = len(plain(Page("", (grid,))).splitlines())
    assert one_line == len(cells) + 2
    assert len(markdown(Page("", (grid,))).splitlines()) == len(cells) + 4
    assert table(document, width)


def test_plain_rows_have_as_many_columns_as_the_heading() -> None:
    text = plain(Page("", (Grid("", (Column("a"), Column("b"), Column("c")), (texts("1", "", "3"),)),)))
    assert [line.split() for line in text.splitlines()] == [["a", "b", "c"], ["1", "-", "3"]]


def test_a_grid_refuses_ragged_rows_and_unknown_places() -> None:
    with pytest.raises(AssertionError, match="ragged"):
        Grid("x", (Column("a"),), (texts("1", "2"),))
    with pytest.raises(AssertionError, match="no such column"):
        Grid("x", (Column("a", under="b"),), ())


def test_the_table_is_colourful_only_when_asked() -> None:
    assert "\x1b[" not in table(PAGES["recommend"], 100)
    assert "\x1b[" in table(PAGES["recommend"], 100, color=True)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", table(PAGES["recommend"], 100, color=False))


def test_wide_tables_have_bars_and_narrow_ones_do_not() -> None:
    assert "█" in table(PAGES["recommend"], 120)
    assert "█" not in table(PAGES["recommend"], 80)


@pytest.mark.parametrize(("share", "bar"), [(0.0, "░░░░░░░░"), (0.5, "████░░░░"), (1.0, "████████"), (3.0, "████████")])
def test_bars_show_the_share(share: float, bar: str) -> None:
    grid = Grid("", (Column("a"),), ((Text("x", share=share),),))
    assert bar in table(Page("", (grid,)), 120)


def test_recommend_says_what_was_asked_and_what_it_costs() -> None:
    text = plain(PAGES["recommend"])
    for piece in (
        "70,553,706,496 parameters",
        "64 chips, 128 JAX devices, 1 slice of 4x4x4 torus, wraps x, y, z",
        "tpu7x-128 counts JAX devices",
        "sequence 8,192 is below 32,768",
        "2x128x1=256",
        "save_dot_with_context_except_mlp",
        "12.3 s ±10%",
        "256 a step (2.10M tokens), bf16, adamw",
        "the cost model agree",
        "SP402",
        "shardplan export maxtext case.yaml",
        "88 days",
        "rejected 214 of 231",
    ):
        assert piece in text, piece


@pytest.mark.parametrize(
    ("batch", "piece"),
    [
        ({"global_batch_tokens": 8192 * 64}, "64 a step (524k tokens)"),
        ({"per_device_batch": 1.5}, "1.5 a device"),
        ({"per_device_batch": "auto", "training_tokens": 15 * 10**12}, "as many a device as pay off"),
    ],
)
def test_the_workload_is_echoed(batch: dict[str, Any], piece: str) -> None:
    assert piece in workload_text(Workload(sequence_length=8192, **batch))


def test_nothing_fits_says_by_how_much_and_what_would_help() -> None:
    text = plain(PAGES["nothing fits"])
    for piece in (
        "nothing fits",
        "fsdp=64 expert=2",
        "needs 103.2 GiB, a device has 94.7 GiB",
        "mu_dtype=bfloat16",
        "9.0 GiB",
        "fits",
    ):
        assert piece in text
    assert "export" not in text


def test_check_of_one_is_a_page_and_of_many_a_table() -> None:
    one, many = plain(PAGES["check one"]), plain(PAGES["check many"])
    assert "one layer's backward" in one
    assert "3 configurations: 1 fits, 1 does not fit, 1 invalid" in many
    assert [line.split()[0] for line in many.splitlines()[3:]] == ["b1", "wide", "b64"]


def test_check_without_a_plan_still_has_a_page() -> None:
    text = plain(check_page([INVALID]))
    assert "wide: invalid" in text
    assert "use 32 or 64" in text


def test_check_says_how_much_is_missing_and_the_micro_steps() -> None:
    memory = choice_of().memory.model_copy(update={"total_bytes": 100 * 2**30, "host_bytes": 2**30})
    choice = choice_of(verdict="does_not_fit", memory=memory, gradient_accumulation=4)
    result = plan.CheckOut(id="x", verdict="does_not_fit", problems=(), choice=choice)
    text = plain(check_page([result]))
    assert "5.3 GiB too much" in text
    assert "4 micro-steps" in text
    assert "host 1.0 GiB" in text


def test_explain_fills_in_every_letter() -> None:
    text = plain(PAGES["explain"])
    assert "4 * P / fsdp  = 4 * 70.6B / 128" in text
    assert "physics section 1" in text
    assert "fsdp=32 tensor=4 is 1.1 s slower" in text


@pytest.mark.parametrize(
    ("formula", "letters", "expected"),
    [
        ("2*N*H", {"N": 64, "H": 128}, "2*64*128"),
        ("N_q * N", {"N": 2}, "N_q * 2"),
        ("NN + n", {"N": 1, "NN": 2, "n": 3}, "2 + 3"),
        ("x", {}, "x"),
        ("a.b + b", {"b": 1}, "a.b + 1"),
    ],
)
def test_letters_are_filled_in_as_whole_names(formula: str, letters: dict[str, float], expected: str) -> None:
    assert filled(formula, letters) == expected


@given(st.integers(-EXACT_BELOW + 1, EXACT_BELOW - 1))
def test_small_whole_numbers_are_exact(n: int) -> None:
    assert number_text(float(n)) == str(n)


def test_fractions_and_large_numbers_are_short() -> None:
    assert number_text(0.12345) == "0.123"
    assert number_text(1.8e11) == "180B"


def test_meshes_name_both_networks() -> None:
    assert mesh_text(plan.MeshOut(ici={"fsdp": 8}, dcn={"data": 2})) == "fsdp=8 | dcn data=2"
    assert mesh_text(plan.MeshOut(ici={}, dcn={})) == "one device"


def test_custom_remat_names_its_tensors() -> None:
    tensors = {"context": "device", "key_proj": "device", "mlpwo": "offload"}
    choice = choice_of(remat_policy="custom", remat_tensors=tensors)
    assert remat_text(choice) == "custom(context, key_proj on device; mlpwo on host)"


def test_shares_are_ordered_and_leave_out_nothing_but_zeros() -> None:
    assert shares({"a_bytes": 1.0, "b_c_s": 3.0, "d": 0.0}, 4.0) == [
        ("b c", 3.0, "75.0%"),
        ("a", 1.0, "25.0%"),
    ]
    assert shares({"a": 1.0}, 0.0) == [("a", 1.0, "")]


@pytest.mark.parametrize(
    "result", [plan_of(), NOTHING_FITS, CHECKED, INVALID, EXPLANATION], ids=lambda r: type(r).__name__
)
def test_json_and_yaml_say_the_same_and_read_back(result: plan.Output) -> None:
    data = json.loads(to_json(result))
    assert type(result).model_validate_json(to_json(result)) == result
    assert parse_yaml(to_yaml(result), "x").value == data


def test_a_list_of_many_has_one_result_a_line() -> None:
    text = to_json([CHECKED, INVALID, TOO_BIG])
    assert [row["id"] for row in json.loads(text)] == ["b1", "wide", "b64"]
    assert len(text.splitlines()) == 3
    assert json.loads(to_json([CHECKED]))[0]["id"] == "b1"


def test_a_number_that_is_none_never_reaches_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json(choice_of().model_copy(update={"mfu": float("nan")}))


def _kinds(record: type[Output]) -> set[object]:
    return {of.annotation for of in record.model_fields.values()}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("record", [r for r in Output.__subclasses__() if float in _kinds(r)], ids=lambda r: r.__name__)
def test_no_record_takes_a_number_that_is_none(record: type[Output], number: float) -> None:
    field = next(name for name, of in record.model_fields.items() if of.annotation is float)
    with pytest.raises(ValueError, match=rf"{field}\n  Input should be a finite number"):
        record.model_validate({field: number})


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("format_", Format)
def test_every_format_renders(format_: Format, page: str) -> None:
    text = render(plan_of(), lambda: PAGES[page], Style(format_, 100))
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "fsdp" in text


def test_markdown_escapes_what_would_be_markup() -> None:
    text = markdown(Page("a|b", (Grid("g", (Column("x"),), (texts("save_qkv|proj *"),)),)))
    assert r"save\_qkv\|proj \*" in text


def test_markdown_keeps_commands_verbatim() -> None:
    text = markdown(Page("", (Lines("next", texts("a_b *"), verbatim=True),)))
    assert "```\na_b *\n```" in text


def test_a_very_narrow_terminal_is_taken_to_be_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert max(map(len, table(PAGES["recommend"]).splitlines())) == NARROWEST
