"""Configurations that users reported in public, and what became of them; judged by `check --from` and `recommend`.

`user_cases.jsonl` has all of them in our words: `run` is tried here (with what stands in for hardware or code we do not
plan for), `lesson` is an estimator's mistake (test_estimator_lessons.py), the others say why they are out of scope.
A try merges its flags over those of its case. docs/user_cases.md sums it up.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from places import DATA, ROOT

from shardplan.cost.tensors.parameters import total_parameters
from shardplan.engine.decide import decide
from shardplan.launch.gate import check_command, check_lines
from shardplan.loaders.load import load_record, parse_case
from shardplan.machine.chips import resolve_cluster
from shardplan.machine.torus import lay_out
from shardplan.source import parse_json
from shardplan.spec import AXES
from shardplan.units import GIB

if TYPE_CHECKING:
    from shardplan.errors import Diagnostic
    from shardplan.plan import CheckOut, ChoiceOut, PlanOut

pytestmark = pytest.mark.slow

PATH = DATA / "user_cases.jsonl"
PAGE = ROOT / "docs" / "user_cases.md"
CASES: dict[str, dict[str, Any]] = {row["id"]: row for row in map(json.loads, PATH.read_text().splitlines())}
RUN = [case for case in CASES.values() if case["scope"] == "run"]
MISSED: dict[str, str] = {
    "T07: as reported": "MaxText 0.2.5 compiles it to 89.6 of 95.7 GiB; the report is of an older release with other flags",
}
"""Tries whose reported outcome we do not reach, by id, with the reason; strict: a mend must be noted here."""


class Outcome(NamedTuple):
    """What `check --from` made of one try: a verdict, or why it cannot be judged."""

    result: CheckOut | None
    unreadable: tuple[Diagnostic, ...]

    @property
    def choice(self) -> ChoiceOut:
        assert self.result is not None
        assert self.result.choice is not None
        return self.result.choice


def name_of(case: dict[str, Any], one: dict[str, Any]) -> str:
    return f"{case['id']}: {one['do']}"


def record_of(case: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """The line of a `check --from` file."""
    where = {key: one.get(key, case.get(key)) for key in ("topology", "slices")}
    flags = case.get("flags", {}) | one.get("flags", {})
    return {"id": name_of(case, one), "topology": where["topology"], "slices": where["slices"] or 1, "flags": flags}


TRIES = [(case, one) for case in RUN for one in case.get("tries", ())]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Every try by name, judged in one go."""
    path = tmp_path_factory.mktemp("cases") / "tries.jsonl"
    path.write_text("".join(json.dumps(record_of(*pair)) + "\n" for pair in TRIES))
    judged = check_lines(str(path))
    results = {result.id: result for result in judged.results}
    unreadable: dict[int, list[Diagnostic]] = {}
    for diagnostic in judged.unreadable:
        assert diagnostic.mark is not None
        assert diagnostic.mark.line is not None
        unreadable.setdefault(diagnostic.mark.line, []).append(diagnostic)
    return {
        name_of(*pair): Outcome(results.get(name_of(*pair)), tuple(unreadable.get(line, ())))
        for line, pair in enumerate(TRIES, 1)
    }


RECOMMENDED = {name_of(case, one): one for case in RUN for one in case.get("recommend", ())}


@pytest.fixture(scope="module")
def plans() -> dict[str, PlanOut]:
    """What is recommended for every question, by name."""
    return {name: decide(parse_case(parse_json(json.dumps(one["case"]), name)), 1) for name, one in RECOMMENDED.items()}


def _marked(name: str, *values: object) -> object:
    missed = MISSED.get(name)
    marks = [pytest.mark.xfail(strict=True, reason=missed)] if missed else []
    return pytest.param(*values, id=name, marks=marks)


@pytest.mark.parametrize(("case", "one"), [_marked(name_of(*pair), *pair) for pair in TRIES])
def test_a_reported_configuration_is_judged_as_it_fared(
    case: dict[str, Any], one: dict[str, Any], outcomes: dict[str, Outcome]
) -> None:
    result, unreadable = outcomes[name_of(case, one)]
    if "unreadable" in one:
        messages, hints = _texts(unreadable)
        assert result is None
        assert all(part in messages for part in one["unreadable"]), messages
        assert all(part in hints for part in one.get("hint", ()))
        return
    assert result is not None, unreadable
    if "verdict" in one:
        assert result.verdict in one["verdict"], _need(result)
    if "code" in one:
        messages, hints = _texts([problem for problem in result.problems if problem.code == one["code"]])
        assert all(part in messages for part in one.get("says", ())), messages
        assert all(part in hints for part in one.get("hint", ())), hints
        assert messages
    assert all(note in result.notes for note in one.get("notes", ()))
    if result.choice is not None:
        assert set(one.get("warns", ())) <= {rule.code for rule in result.choice.rules}
        low, high = one.get("arguments_gib", (0, float("inf")))
        assert low <= result.choice.memory.arguments_bytes / GIB <= high
    else:
        assert not one.keys() & {"warns", "arguments_gib"}


COMPILED = {name_of(*pair): pair[1]["compiled_gib"] for pair in TRIES if "compiled_gib" in pair[1]}


@pytest.mark.parametrize("name", COMPILED)
def test_where_reports_and_estimate_differ_the_compiler_decides(name: str, outcomes: dict[str, Outcome]) -> None:
    """Arguments and temporaries of the same launch, compiled with MaxText 0.2.5 and libtpu without extra flags."""
    memory = outcomes[name].choice.memory
    assert memory.total_bytes / GIB == pytest.approx(COMPILED[name], rel=memory.error_band)


@pytest.mark.parametrize("name", RECOMMENDED)
def test_a_question_is_answered(name: str, plans: dict[str, PlanOut]) -> None:
    one, out = RECOMMENDED[name], plans[name]
    assert bool(out.plans) is one["fits"]
    assert one.get("resolution", "") in out.cluster.resolution
    if not one["fits"]:
        assert any(fix.fits for fix in out.fixes)
        return
    first = out.plans[0]
    assert first.verdict == "fits"
    degrees = {axis: first.mesh.ici.get(axis, 1) * first.mesh.dcn.get(axis, 1) for axis in AXES}
    assert all(degrees[axis] >= least for axis, least in one.get("at_least", {}).items()), degrees
    assert all(degrees[axis] <= most for axis, most in one.get("at_most", {}).items()), degrees


ORDERS = [(case, order) for case in RUN for order in case.get("order", ())]


@pytest.mark.parametrize(
    ("case", "order"), ORDERS, ids=lambda value: value.get("id") or f"{value['quantity']} rises to {value['rises'][-1]}"
)
def test_reported_differences_go_the_reported_way(
    case: dict[str, Any], order: dict[str, Any], outcomes: dict[str, Outcome], plans: dict[str, PlanOut]
) -> None:
    values = []
    for do in order["rises"]:
        name = f"{case['id']}: {do}"
        out = plans.get(name)
        choice = out.plans[0] if out else outcomes[name].choice
        values.append(_quantity(order["quantity"], choice, out.cluster.chips if out else 1))
    assert all(before < after for before, after in itertools.pairwise(values)), values
    low, high = order.get("by_gib", (0, float("inf")))
    assert low <= (values[-1] - values[0]) / GIB <= high or "by_gib" not in order
    low, high = order.get("times", (0, float("inf")))
    assert low <= values[-1] / values[0] <= high


def _quantity(name: str, choice: ChoiceOut, chips: int) -> float:
    per_sequence = choice.time.estimate_s / choice.global_batch
    return {
        "total_bytes": choice.memory.total_bytes,
        "step_s": choice.time.estimate_s,
        "mfu": choice.mfu,
        "s_per_sequence": per_sequence,
        "chip_s_per_sequence": per_sequence * chips,
    }[name]


def _texts(problems: Any) -> tuple[str, str]:
    """Messages and hints, each as one text."""
    return "; ".join(p.message for p in problems), "; ".join(p.hint or "" for p in problems)


def _need(result: CheckOut) -> str:
    if result.choice is None:
        return _texts(result.problems)[0]
    memory = result.choice.memory
    return f"{memory.total_bytes / GIB:.2f} GiB +- {memory.error_band:.1%} of {memory.limit_bytes / GIB:.2f}"


def test_a_script_is_judged_as_it_is_written() -> None:
    """T01: the launch of MaxText's v4/52b.sh before and after it was mended; its compiler flags are not priced, and it says so."""
    flags = " ".join(f"{key}={value}" for key, value in CASES["T01"]["flags"].items())
    line = f"export LIBTPU_INIT_ARGS='--xla_enable_async_all_gather=true'; python3 -m maxtext.trainers.pre_train.train base.yml {flags}"
    before, after = (
        check_command([line + more], "v4-384", 2).results[0] for more in ("", " num_vocab_tiling=8 attention=flash")
    )
    assert before.choice is not None
    assert after.choice is not None
    assert any("LIBTPU_INIT_ARGS is not read" in note for note in before.notes)
    assert after.choice.memory.total_bytes < before.choice.memory.total_bytes


SIZED = [case for case in RUN if "billions" in case]


@pytest.mark.parametrize("case", SIZED, ids=lambda case: case["id"])
def test_a_model_is_as_large_as_its_sizes_make_it(case: dict[str, Any]) -> None:
    """Whatever its name says: the scripts called 22b and 52b have 25.8 and 65.2 billion parameters."""
    architecture = load_record(record_of(case, case["tries"][0])).case.architecture
    assert total_parameters(architecture) / 1e9 == pytest.approx(case["billions"], rel=0.005)


def test_an_axis_of_four_on_a_side_of_sixteen_is_a_line() -> None:
    """T31: the report's 64 x 4 mesh; a whole side of 16 is a ring."""
    cluster = resolve_cluster(None, accelerator="v6e-256")
    cut, whole = (lay_out(cluster, tuple({"fsdp": 256 // n, "tensor": n}.get(a, 1) for a in AXES)) for n in (4, 16))
    assert cut is not None
    assert whole is not None
    assert [piece.is_ring for piece in cut.pieces["tensor"]] == [False]
    assert [piece.is_ring for piece in whole.pieces["tensor"]] == [True]


def test_every_published_case_is_accounted_for() -> None:
    """All cases of the collection: tried, a lesson, or out of scope with a reason; the page counts them right."""
    assert len(CASES) == 135
    scopes = Counter(case["scope"] for case in CASES.values())
    assert scopes.keys() == {"run", "lesson", "gpu", "not stated", "other memory", "not MaxText training"}
    assert all(case["why"] for case in CASES.values())
    assert all(case.get("tries") or case.get("recommend") for case in RUN)
    table = [row.split("|")[1:6] for row in PAGE.read_text().splitlines() if row.count("|") == 7 and row[2].islower()]
    kinds = {kind.strip(): tuple(int(cell) for cell in cells) for kind, *cells in table if kind.strip() != "kind"}
    missed = Counter(CASES[name.partition(":")[0]]["kind"] for name in MISSED)
    for kind, counts in kinds.items():
        cases = [case for case in CASES.values() if case["kind"] == kind]
        tried = sum(case["scope"] in {"run", "lesson"} for case in cases)
        assert counts == (len(cases), tried, tried - missed[kind], missed[kind])
    assert kinds.keys() == {case["kind"] for case in CASES.values()}
    assert {case["kind"] for case in RUN} == {"oom", "invalid", "question", "slow", "odd-config"}
