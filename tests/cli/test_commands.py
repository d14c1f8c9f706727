from __future__ import annotations

import io
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fixtures.results import EXPLANATION, NOTHING_FITS, choice_of, plan_of

from shardplan.engine import decide as engine
from shardplan.engine import explain as explaining
from shardplan.errors import Diagnostic, ExitCode, InputError
from shardplan.launch import gate
from shardplan.launch import verdict as launch_verdict
from shardplan.loaders.presets import architecture_names
from shardplan.machine.chips import chip_names
from shardplan.plan import CheckOut, PlanOut
from shardplan.source import parse_yaml
from shardplan.source.files import line_batches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

CASE = """model: llama3.1-8b
workload: {sequence_length: 8192, global_batch: 64}
cluster: {chip: tpu7x, topology: 2x2x2}
"""
PLAN = "plan: {ici: {fsdp: 16}, per_device_batch: 4}\n"
LAUNCH = "LIBTPU_INIT_ARGS=--x=1 python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3.1-8b per_device_batch_size=1"
FLAGS = {"model_name": "llama3.1-8b", "per_device_batch_size": 1, "max_target_length": 8192}


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(CASE)
    return path


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the engine's decision; the dictionary says by what, and records what was asked."""
    answer: dict[str, Any] = {"plan": plan_of()}

    def decide(case: object, top: int, objective: str) -> PlanOut:
        answer.update(case=case, top=top, objective=objective)
        return answer["plan"]

    monkeypatch.setattr(engine, "decide", decide)
    return answer


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Replace the engine's verdict, by id; `fits` for all others."""
    answer: dict[str, str] = {}

    def check_split(case: object, split: object, name: str) -> CheckOut:
        verdict = answer.get(name, "fits")
        return CheckOut(id=name, verdict=verdict, problems=(), choice=choice_of(verdict=verdict))

    monkeypatch.setattr(gate, "check_split", check_split)
    monkeypatch.setattr(launch_verdict, "judge_splits", lambda *of: [check_split(*of[:2], name) for name in of[2]])
    monkeypatch.setattr(launch_verdict, "with_fixes", lambda result, *_: result)
    return answer


# --- recommend -------------------------------------------------------------------------------------------------------


def test_recommend_passes_on_what_was_asked(case: Path, decided: dict[str, Any], run: Callable[..., Ran]) -> None:
    ran = run("recommend", case, "--top", "7", "--objective", "memory")
    assert ran.code == ExitCode.YES
    assert not ran.err
    assert (decided["top"], decided["objective"]) == (7, "memory")
    assert decided["case"].cluster.devices == 16


def test_recommend_in_a_pipe_is_plain(case: Path, decided: dict[str, Any], run: Callable[..., Ran]) -> None:
    out = run("recommend", case).out
    assert "save_dot_with_context_except_mlp" in out
    assert "─" not in out
    assert f"shardplan export maxtext {case}" in out


def test_recommend_on_a_terminal_is_a_table(
    case: Path, decided: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    from shardplan import cli

    for variable, colourful in (({"NO_COLOR": "1"}, False), ({}, True)):
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", "90")
            for name, value in variable.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", terminal := Terminal())
            assert cli.main(["recommend", str(case)]) == ExitCode.YES
        text = terminal.getvalue()
        assert "─" in text
        assert ("\x1b[32m" in text) is colourful


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_width_is_honoured(case: Path, decided: dict[str, Any], width: int, run: Callable[..., Ran]) -> None:
    out = run("recommend", case, "-o", "table", "--width", str(width)).out
    assert max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_recommend_for_programs(case: Path, decided: dict[str, Any], output: str, run: Callable[..., Ran]) -> None:
    out = run("recommend", case, "-o", output).out
    data = json.loads(out) if output == "json" else parse_yaml(out, "out").value
    assert data == json.loads(plan_of().model_dump_json())


def test_recommend_says_no_when_nothing_fits(case: Path, decided: dict[str, Any], run: Callable[..., Ran]) -> None:
    decided["plan"] = NOTHING_FITS
    ran = run("recommend", case)
    assert ran.code == ExitCode.NO
    assert "mu_dtype=bfloat16" in ran.out


def test_a_bad_case_is_an_error_with_a_place(tmp_path: Path, run: Callable[..., Ran]) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(CASE.replace("sequence_length", "sequence_lenght").replace("tpu7x", "tpu9x"))
    ran = run("recommend", path)
    assert ran.code == ExitCode.CANNOT_RUN
    assert not ran.out
    assert f"{path}:2:12: error SP010: " in ran.err
    assert f"{path}:3:" in ran.err


def test_a_missing_case_is_an_error(tmp_path: Path, run: Callable[..., Ran]) -> None:
    ran = run("recommend", tmp_path / "none.yaml")
    assert ran.code == ExitCode.CANNOT_RUN
    assert "SP001" in ran.err


# --- explain, export -------------------------------------------------------------------------------------------------


def test_explain_prints_the_arithmetic(case: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Ran]) -> None:
    asked: list[int] = []
    monkeypatch.setattr(explaining, "explain", lambda _, rank: asked.append(rank) or EXPLANATION)
    ran = run("explain", case, "--rank", "2")
    assert ran.code == ExitCode.YES
    assert asked == [2]
    assert "= 4 * 70.6B / 128" in ran.out
    assert json.loads(run("explain", case, "-o", "json").out)["schema_version"] == "1.0"


def test_explain_of_a_code_is_the_page_of_the_rule(run: Callable[..., Ran]) -> None:
    assert run("explain", "sp201").out == run("rules", "SP201").out


@pytest.mark.parametrize(
    ("format_", "piece"),
    [
        ("flags", "ici_fsdp_parallelism=128\n"),
        ("yml", "ici_fsdp_parallelism: 128\n"),
        ("command", "python3 -m maxtext.trainers.pre_train.train"),
    ],
)
def test_export_maxtext(format_: str, piece: str, case: Path, decided: dict[str, Any], run: Callable[..., Ran]) -> None:
    ran = run("export", "maxtext", case, "--format", format_)
    assert ran.code == ExitCode.YES
    assert not ran.err
    assert piece in ran.out


def test_export_of_nothing_says_why_on_stderr(case: Path, decided: dict[str, Any], run: Callable[..., Ran]) -> None:
    decided["plan"] = NOTHING_FITS
    ran = run("export", "maxtext", case)
    assert (ran.code, ran.out) == (ExitCode.NO, "")
    assert "error SP201: the best plan needs 103.2 GiB" in ran.err


def test_export_of_a_rank_there_is_not(case: Path, decided: dict[str, Any], run: Callable[..., Ran]) -> None:
    ran = run("export", "maxtext", case, "--rank", "9")
    assert (ran.code, ran.out) == (ExitCode.CANNOT_RUN, "")
    assert "the ranks are 1 to 2" in ran.err


# --- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "options", "code"),
    [
        ("fits", [], ExitCode.YES),
        ("at_risk", [], ExitCode.YES),
        ("at_risk", ["--strict"], ExitCode.NO),
        ("does_not_fit", [], ExitCode.NO),
        ("invalid", [], ExitCode.INVALID),
    ],
)
def test_check_of_a_case_ends_with_the_verdict(
    *,
    verdict: str,
    options: list[str],
    code: ExitCode,
    tmp_path: Path,
    verdicts: dict[str, str],
    run: Callable[..., Ran],
) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(CASE + PLAN)
    verdicts["case"] = verdict
    ran = run("check", path, *options)
    assert ran.code == code
    assert ran.out.startswith("case: ")


def test_check_of_a_case_without_a_plan(case: Path, run: Callable[..., Ran]) -> None:
    ran = run("check", case)
    assert ran.code == ExitCode.CANNOT_RUN
    assert "no section plan" in ran.err


def test_check_of_a_launch_command(verdicts: dict[str, str], run: Callable[..., Ran]) -> None:
    ran = run("check", "--accelerator", "tpu7x-8", "--slices", "1", "-o", "json", "--", *LAUNCH.split())
    assert ran.code == ExitCode.YES
    (result,) = json.loads(ran.out)
    assert result["id"] == "command"
    assert result["notes"]


def test_check_of_a_launch_that_maxtext_refuses(run: Callable[..., Ran]) -> None:
    ran = run("check", "--accelerator", "tpu7x-8", "-o", "json", "--", *LAUNCH.split(), "no_such_key=1")
    assert ran.code == ExitCode.INVALID
    (result,) = json.loads(ran.out)
    assert (result["verdict"], result["release"]) == ("invalid", "0.2.5")
    assert "no_such_key" in result["problems"][0]["message"]
    assert result["choice"]["memory"]["total_bytes"] > 0


def test_check_of_a_launch_under_the_releases_that_take_it(run: Callable[..., Ran]) -> None:
    launch = "python3 -m MaxText.train MaxText/configs/base.yml model_name=deepseek3-671b fsdp_shard_on_exp=true"
    ran = run("check", "--accelerator", "tpu7x-512", "--maxtext", "auto", "-o", "json", "--", *launch.split())
    (result,) = json.loads(ran.out)
    assert result["release"] == "98a3d4c"
    assert result["releases_accepting"][0] == "98a3d4c"
    assert result["releases_accepting"][-1] == "3eb77db"
    assert result["verdict"] != "invalid"


def test_check_without_an_accelerator(run: Callable[..., Ran]) -> None:
    ran = run("check", "--", *LAUNCH.split())
    assert ran.code == ExitCode.CANNOT_RUN
    assert "--accelerator" in ran.err


def test_check_of_a_saved_plan_by_rank(
    case: Path, tmp_path: Path, verdicts: dict[str, str], run: Callable[..., Ran]
) -> None:
    flags = {**FLAGS, "ici_fsdp_parallelism": 128}
    saved = tmp_path / "plan.json"
    saved.write_text(plan_of(plans=(choice_of(maxtext_flags=flags),)).model_dump_json())
    ran = run("check", "--plan", saved)
    assert ran.code == ExitCode.YES, ran.err
    assert ran.out.startswith("llama3.1-70b-8k#1: fits")
    ran = run("check", "--plan", saved, "--rank", "3")
    assert ran.code == ExitCode.CANNOT_RUN
    assert "no plan of rank 3; the ranks are 1 to 1" in ran.err


def lines(*records: object) -> str:
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def record(name: str, **changes: Any) -> dict[str, Any]:
    return {"id": name, "topology": "tpu7x-8", "slices": 1, "flags": FLAGS, **changes}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"a": "fits"}, ExitCode.YES),
        ({"a": "fits", "b": "at_risk"}, ExitCode.YES),
        ({"a": "does_not_fit", "b": "fits"}, ExitCode.NO),
        ({"a": "does_not_fit", "b": "invalid"}, ExitCode.INVALID),
    ],
)
def test_many_configurations_end_with_the_gravest(
    given: dict[str, str], code: ExitCode, tmp_path: Path, verdicts: dict[str, str], run: Callable[..., Ran]
) -> None:
    verdicts.update(given)
    path = tmp_path / "points.jsonl"
    path.write_text(lines(*(record(name) for name in given)) + "\n")
    ran = run("check", "--from", path, "-o", "json")
    assert ran.code == code
    assert {row["id"]: row["verdict"] for row in json.loads(ran.out)} == given


def test_one_unreadable_line_does_not_keep_the_others(
    tmp_path: Path, verdicts: dict[str, str], run: Callable[..., Ran]
) -> None:
    path = tmp_path / "points.jsonl"
    bad = [record("b", topology=7), "{", "[]", record("c", topology="tpu9-8")]
    path.write_text(lines(record("a"), *bad, {k: v for k, v in record("").items() if k != "id"}))
    ran = run("check", "--from", path, "-o", "json")
    assert ran.code == ExitCode.CANNOT_RUN
    assert [row["id"] for row in json.loads(ran.out)] == ["a", "line 6"]
    places = [line.partition(" ")[0] for line in ran.err.splitlines() if "error SP" in line]
    assert [int(place.split(":")[1]) for place in places] == [2, 3, 4, 5]


def test_configurations_come_from_stdin(
    verdicts: dict[str, str], monkeypatch: pytest.MonkeyPatch, run: Callable[..., Ran]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines(record("a"), record("b")).encode())))
    ran = run("check", "--from", "-")
    assert ran.code == ExitCode.YES
    assert ran.out.endswith("\n2 configurations: 2 fit\n")


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_no_configuration_at_all_is_an_error(text: str, tmp_path: Path, run: Callable[..., Ran]) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text(text)
    ran = run("check", "--from", path)
    assert ran.code == ExitCode.CANNOT_RUN
    assert "SP006" in ran.err


def test_a_line_that_is_too_long_ends_the_run_after_the_lines_before_it(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, verdicts: dict[str, str]
) -> None:
    """A cut stream must not exit 0 over rows that were never read."""
    rows = lines(record("a"), record("b")).encode() + b'{"id": "' + b"z" * 2**20 + b'"}'
    monkeypatch.setattr(gate, "line_batches", partial(line_batches, max_line_bytes=2**19))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(rows))))
    ran = run("check", "--from", "-", "-o", "json")
    assert ran.code == ExitCode.CANNOT_RUN
    assert "stdin:3: error SP003" in ran.err
    assert '"a"' in ran.out


def test_a_closed_standard_input_is_an_error_of_the_input(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    ran = run("check", "--from", "-")
    assert ran.code == 2
    assert "stdin: error SP001" in ran.err


# --- catalogues ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", chip_names())
def test_a_chip_is_printed_with_the_source_of_every_figure(name: str, run: Callable[..., Ran]) -> None:
    chip = json.loads(run("chips", name, "-o", "json").out)
    assert all(figure["source"] for figure in chip["figures"])
    out = run("chips", name).out
    assert all(" ".join(figure["source"].split()) in out for figure in chip["figures"])


def test_the_lists_have_every_name(run: Callable[..., Ran]) -> None:
    chips, rules, models = run("chips").out, run("rules").out, run("models").out
    assert [name for name in chip_names() if name not in chips] == []
    assert [code for code in engine.catalogue().rules if code not in rules] == []
    assert [name for name in architecture_names() if name not in models] == []
    assert len(architecture_names()) > 50


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [(["chips", "tpu7xx"], "tpu7x"), (["models", "llama3.1-80b"], "llama3.1-"), (["rules", "SP999"], "SP")],
)
def test_unknown_names_end_with_2_and_a_suggestion(arguments: list[str], hint: str, run: Callable[..., Ran]) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.out) == (ExitCode.CANNOT_RUN, "")
    assert hint in ran.err


def test_a_model_is_printed_to_the_digit(run: Callable[..., Ran]) -> None:
    out = run("models", "llama3.1-8b").out
    assert "8,030,261,248" in out
    assert "32 x grouped attention, 32 heads of 128, 8 key-value; gated feed-forward of 14336" in out


def test_init_prints_a_case_that_works(tmp_path: Path, decided: dict[str, Any], run: Callable[..., Ran]) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(run("init").out)
    assert run("recommend", path).code == ExitCode.YES
    assert decided["case"].cluster.chips == 8


def test_the_exit_code_of_a_rank_the_engine_refuses(
    case: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Ran]
) -> None:
    def refuse(*_: object) -> None:
        raise InputError([Diagnostic("SP017", "there is no plan of rank 9")])

    monkeypatch.setattr(explaining, "explain", refuse)
    assert run("explain", case, "--rank", "9").code == ExitCode.CANNOT_RUN
