"""Every model preset and every format of models in the folders: a new file is held to this the moment it exists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardplan.cost.tensors.parameters import total_parameters
from shardplan.data import model_configs_folder
from shardplan.engine.decide import judge_split
from shardplan.errors import InputError
from shardplan.exporters import maxtext
from shardplan.loaders import model_formats
from shardplan.loaders.load import parse_case
from shardplan.loaders.presets import architecture_names, load_architecture
from shardplan.source import Document, parse_json, parse_yaml
from shardplan.spec import Architecture, Split
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = {form.__name__.rpartition(".")[2]: form for form in model_formats()}
CASE = "model: {model}\nworkload: {{sequence_length: 2048, global_batch: 64}}\ncluster: {{accelerator: v6e-64}}\n"


@pytest.mark.parametrize("name", architecture_names())
def test_a_preset_can_be_launched_or_says_why_not(name: str) -> None:
    case = parse_case(parse_yaml(CASE.format(model=name), "case.yaml"))
    choice = judge_split(case, split_rows(case, Split(ici={"fsdp": 64}, per_device_batch=1.0)), "x").choice
    assert choice is not None
    assert choice.launchable == bool(choice.maxtext_flags) == (choice.why_not_launchable is None)
    if choice.launchable:
        assert maxtext.model_flags(case.architecture).items() <= choice.maxtext_flags.items()
    else:
        assert case.architecture.maxtext_model_name is None
        assert re.search(r"MaxText lacks .+", choice.why_not_launchable or "")


@pytest.mark.parametrize("name", architecture_names())
def test_a_preset_says_in_its_first_line_how_many_parameters_it_has(name: str) -> None:
    first = (model_configs_folder() / f"{name}.yaml").read_text().splitlines()[0]
    stated = re.search(r": ([\d,]+) parameters", first)
    assert stated is not None, first
    assert int(stated[1].replace(",", "")) == total_parameters(load_architecture(name))


def document(text: str, name: str = "model") -> Document:
    return parse_json(text, f"{name}.json") if text.startswith("{") else parse_yaml(text, f"{name}.yml")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_reads_its_own_example_and_no_other_does(name: str, tmp_path: Path) -> None:
    text = FORMATS[name].EXAMPLE
    assert [other for other, form in FORMATS.items() if form.recognises(document(text))] == [name]
    path = tmp_path / ("tiny.json" if text.startswith("{") else "tiny.yml")
    path.write_text(text)
    model = load_architecture(str(path))
    assert model.name == "tiny"
    assert model == load_architecture(str(path))
    assert total_parameters(model) > 0


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("value", [None, [], "text", {}, {"layer_groups": []}, {"no": "model"}])
def test_what_is_of_no_format_is_recognised_by_none(name: str, value: Any) -> None:
    assert FORMATS[name].recognises(Document(value, "x")) is False


@pytest.mark.parametrize("name", FORMATS)
@given(key=st.integers(0, 63), value=st.sampled_from([0, -1, 1.5, 10**13, "text", None, [], {}, True]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.differing_executors])
def test_a_wrong_value_is_refused_at_its_place_or_does_not_matter(name: str, key: int, value: Any) -> None:
    form = FORMATS[name]
    keys = dict(document(form.EXAMPLE).value)
    wrong = list(keys)[key % len(keys)]
    if not form.recognises(changed := Document(keys | {wrong: value}, "model")):
        return
    try:
        assert isinstance(form.read(changed, "model"), Architecture)
    except InputError as error:
        assert all(diagnostic.mark and diagnostic.mark.source == "model" for diagnostic in error.diagnostics)
