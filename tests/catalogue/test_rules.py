from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from shardplan.catalogue.dimension import dimension
from shardplan.catalogue.rules import Catalogue, Rule, load_catalogue, placeholders
from shardplan.catalogue.thresholds import thresholds
from shardplan.data import rules_folder
from shardplan.errors import InputError
from shardplan.judge.facts import KINDS, VOCABULARY
from shardplan.machine.chips import chip_names

CATALOGUE = load_catalogue(rules_folder(), KINDS)
CONSTANTS = {name: constant.value for name, constant in thresholds().items()}
RULES = [pytest.param(rule, id=rule.code) for rule in CATALOGUE]
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.code}-{place}")
    for rule in CATALOGUE
    for place, example in enumerate(rule.entry.examples)
]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_every_example_fires_as_it_says(rule: Rule, example: dict[str, Any]) -> None:
    facts = CONSTANTS | example
    assert rule.predicate.holds(facts) is example["fires"]
    if example["fires"]:
        assert rule.message(facts) in rule.explanation(facts)
        assert "{" not in rule.explanation(facts)
        assert (rule.hint(facts) is None) is (rule.entry.hint is None)
    else:
        assert rule.predicate.explain(facts)


@pytest.mark.parametrize("rule", RULES)
def test_effect_and_severity_go_together(rule: Rule) -> None:
    entry = rule.entry
    assert (entry.severity == "error") == (entry.effect.kind == "forbid")
    assert entry.effect.kind != "prefer" or entry.severity == "note"


@pytest.mark.parametrize("rule", RULES)
def test_texts_are_sentences(rule: Rule) -> None:
    entry = rule.entry
    assert entry.why.endswith(".")
    assert not entry.message.endswith(".")
    assert not (entry.hint or "").endswith(".")


@pytest.mark.parametrize("rule", RULES)
def test_every_condition_stands_where_its_mark_says(rule: Rule) -> None:
    """Errors inside conditions are placed exactly only if each stands unquoted on one line."""
    lines = Path(rule.mark.source).read_text(encoding="utf-8").splitlines()
    assert any(line == f"    when: {rule.entry.when}" for line in lines)


def test_every_fact_a_rule_needs_is_known_and_documented() -> None:
    for rule in CATALOGUE:
        assert rule.kinds.keys() <= KINDS.keys() | CONSTANTS.keys()
    for fact in VOCABULARY.values():
        assert fact.about.endswith("."), fact.name
        assert fact.name.isidentifier()
        assert fact.name.islower() or "_" in fact.name
        assert (fact.unit == "choice") == bool(fact.choices), fact.name


def test_facts_are_named_once_and_no_threshold_shares_a_name() -> None:
    from shardplan.judge.facts import _MODULES

    names = [fact.name for module in _MODULES for fact in module.FACTS]
    assert len(names) == len(set(names))
    assert not set(names) & CONSTANTS.keys()


def test_thresholds_have_a_unit_and_say_why_they_were_chosen() -> None:
    for name, constant in thresholds().items():
        dimension(constant.unit)
        assert constant.kind != "chosen" or len(constant.source) + len(constant.note or "") > 40, name


def test_the_suffix_of_a_fact_is_its_unit() -> None:
    for fact in VOCABULARY.values():
        for suffix in ("bytes", "s"):
            if fact.name.endswith(f"_{suffix}"):
                assert fact.unit == suffix, fact.name


def test_families_have_their_codes_and_a_purpose() -> None:
    assert set(CATALOGUE.families) == {"table", "memory", "intensity", "topology", "maxtext", "tuning"}
    prefixes = {rule.family: {r.code[:3] for r in CATALOGUE if r.family == rule.family} for rule in CATALOGUE}
    assert sorted(itertools.chain(*prefixes.values())) == ["SP1", "SP2", "SP3", "SP4", "SP5", "SP6"]


def test_every_flag_group_is_chosen_by_a_rule_and_is_well_formed() -> None:
    chosen = {group for rule in CATALOGUE for group in rule.entry.effect.flags}
    assert chosen == set(CATALOGUE.flag_groups)
    for chips in CATALOGUE.flag_groups.values():
        assert set(chips) <= set(chip_names())
        for group in chips.values():
            assert all(flag.startswith("--xla_") and flag.count("=") == 1 and " " not in flag for flag in group.flags)


def test_flags_of_later_groups_replace_those_of_earlier_ones() -> None:
    flags = CATALOGUE.flags(["vmem-dense", "vmem-moe"], "v6e")
    assert flags == ("--xla_tpu_scoped_vmem_limit_kib=81920",)
    assert CATALOGUE.flags(["clock-and-bf16"], "v6e") == ()
    assert "--xla_tpu_dvfs_p_state=7" in CATALOGUE.flags(["clock-and-bf16"], "tpu7x")


def test_rules_are_found_by_code_with_a_suggestion() -> None:
    assert CATALOGUE.rule("SP201").entry.name == "does-not-fit"
    with pytest.raises(InputError) as caught:
        CATALOGUE.rule("SP21")
    assert caught.value.diagnostics[0].hint is not None


def test_forbidding_rules_are_chosen_by_family_and_by_what_is_known() -> None:
    codes = {rule.code for rule in CATALOGUE.forbidding()}
    assert {"SP201", "SP403", "SP510", "SP520"} <= codes
    assert {rule.family for rule in CATALOGUE.forbidding(["topology", "maxtext"])} == {"topology", "maxtext"}
    assert [rule.code for rule in CATALOGUE.forbidding(["topology"], {"is_within_bounds"})] == ["SP420"]


# --- catalogues that are wrong -------------------------------------------------------------------------------------

RULE = """\
family: test
codes: SP9
about: Rules to test with.
rules:
  - code: SP901
    name: too-much
    severity: warning
    when: tensor > 1 and context == 1
    effect: {kind: advise}
    message: TP={tensor}
    why: Because.
    sources: [here]
    examples:
      - {tensor: 8, context: 1, fires: true}
      - {tensor: 1, context: 1, fires: false}
"""
FLAGS = """\
groups:
  fast:
    tpu7x: {flags: [--xla_a=1], source: here, evidence: recipe}
"""


def catalogue_of(folder: Path, *texts: str) -> Catalogue:
    (folder / "flags.yaml").write_text(FLAGS, encoding="utf-8")
    for place, text in enumerate(texts):
        (folder / f"rules{place}.yaml").write_text(text, encoding="utf-8")
    return load_catalogue(folder, KINDS)


def test_a_small_catalogue_is_read(tmp_path: Path) -> None:
    rule = catalogue_of(tmp_path, RULE).rule("SP901")
    assert rule.explanation({"tensor": 8, "context": 1}) == "TP=8 (tensor 8 > 1 and context 1 == 1)"
    assert rule.hint({"tensor": 8}) is None
    assert str(rule.mark).endswith("rules0.yaml:5:5")


WRONG = {
    "unknown fact": ("when: tensor >", "when: tq >", "SP010", ":8:11", "unknown fact 'tq'"),
    "units": ("context == 1", "context == step_s", "SP015", ":8:26", "units differ"),
    "placeholder": ("TP={tensor}", "TP={tpp}", "SP010", ":10:14", "unknown fact 'tpp'"),
    "brace": ("TP={tensor}", "TP={tensor", "SP010", ":10:14", "unknown fact '{'"),
    "status": ("name: too-much", "name: too-much\n    status: old", "SP014", ":7:13", "expected"),
    "code": ("SP901", "SP9", "SP013", ":5:11", "code"),
    "family": ("codes: SP9", "codes: SP8", "SP015", ":5:11", "SP901 is not one of SP8xx"),
    "unknown key": ("why:", "because: it is\n    why:", "SP010", ":11:5", "unknown key 'because'"),
    "flags without advice": (
        "{kind: advise}",
        "{kind: demote, flags: [fast]}",
        "SP015",
        ":9:13",
        "belong to the effect",
    ),
    "unknown group": ("{kind: advise}", "{kind: advise, flags: [fats]}", "SP014", ":9:35", "unknown flag group 'fats'"),
    "example lacks a fact": (
        "{tensor: 1, context: 1,",
        "{tensor: 1,",
        "SP011",
        ":15:9",
        "example lacks the fact 'context'",
    ),
    "example has too much": (
        "{tensor: 1,",
        "{tensor: 1, expert: 1,",
        "SP010",
        ":15:29",
        "'expert' is not used by the rule",
    ),
    "example of a wrong kind": (
        "{tensor: 1,",
        "{tensor: true,",
        "SP012",
        ":15:18",
        "tensor: expected a number, found True",
    ),
    "fires of a wrong kind": ("fires: false", "fires: 0", "SP012", ":15:40", "fires: expected true or false, found 0"),
    "no example that fires": (
        "fires: true",
        "fires: false",
        "SP015",
        ":14:7",
        "an example that fires and one that does not",
    ),
    "one example": ("      - {tensor: 1, context: 1, fires: false}\n", "", "SP013", ":14:7", "examples"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_rule_is_refused_at_its_place(tmp_path: Path, case: str) -> None:
    old, new, code, place, words = WRONG[case]
    assert old in RULE
    with pytest.raises(InputError) as caught:
        catalogue_of(tmp_path, RULE.replace(old, new, 1))
    assert any(
        d.code == code and words in d.message and str(d.mark).endswith(f"rules0.yaml{place}")
        for d in caught.value.diagnostics
    ), str(caught.value)


def test_truths_and_words_of_examples_are_checked(tmp_path: Path) -> None:
    text = (
        RULE.replace("tensor > 1 and context == 1", "is_moe and precision == 'fp8'")
        .replace("TP={tensor}", "x")
        .replace("{tensor: 8, context: 1, fires: true}", "{is_moe: 1, precision: fp9, fires: true}")
        .replace("{tensor: 1, context: 1, fires: false}", "{is_moe: false, precision: bf16, fires: false}")
    )
    with pytest.raises(InputError) as caught:
        catalogue_of(tmp_path, text)
    assert [d.code for d in caught.value.diagnostics] == ["SP012", "SP012"]
    assert "expected truth" in caught.value.diagnostics[0].message


def test_a_code_may_not_be_given_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        catalogue_of(tmp_path, RULE, RULE)
    assert "SP901 is given twice" in caught.value.diagnostics[0].message
    assert "rules1.yaml:5:11" in str(caught.value)


def test_faults_of_all_files_are_found_at_once(tmp_path: Path) -> None:
    other = RULE.replace("SP9", "SP8").replace("tensor > 1", "tq > 1")
    with pytest.raises(InputError) as caught:
        catalogue_of(tmp_path, RULE.replace("context == 1", "cq == 1"), other, "nonsense: 1\n")
    assert {Path(d.mark.source).name for d in caught.value.diagnostics if d.mark} == {
        "rules0.yaml",
        "rules1.yaml",
        "rules2.yaml",
    }


def test_placeholders_are_the_names_in_braces() -> None:
    assert placeholders("TP={tensor} of {context}, {{literally}}") == {"tensor", "context"}
    assert placeholders("nothing") == frozenset()
