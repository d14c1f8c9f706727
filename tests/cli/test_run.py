from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from shardplan import __main__ as entry
from shardplan import __version__, cli
from shardplan.cli import schema
from shardplan.cli.diagnostics import diagnostic_lines, print_diagnostics
from shardplan.cli.output import emit
from shardplan.cli.run import split_command_line
from shardplan.errors import Diagnostic, ExitCode, InputError, InvalidShardingError, Mark
from shardplan.render.schema import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

SHARDPLAN = [sys.executable, "-m", "shardplan"]


def raiser(error: BaseException) -> Callable[[str], str]:
    def raise_(_: str) -> str:
        raise error

    return raise_


@pytest.fixture
def failing(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Ran]:
    """Run a command that raises the error."""

    def failing_(error: BaseException) -> Ran:
        monkeypatch.setattr("shardplan.render.schema.schema_text", raiser(error))
        return run("schema", "plan")

    return failing_


@pytest.mark.parametrize(
    ("arguments", "piece"),
    [
        (["recomend"], "Did you mean 'recommend'?"),
        (["recommend"], "Missing argument"),
        (["recommend", "a.yaml", "--tpo", "3"], "--top"),
        (["recommend", "a.yaml", "--top", "0"], "greater than or equal to 1"),
        (["recommend", "a.yaml", "--top", "many"], "--top"),
        (["recommend", "a.yaml", "-o", "jsn"], "json"),
        (["recommend", "a.yaml", "--objective", "speed"], "step-time"),
        (["recommend", "a.yaml", "b.yaml"], "b.yaml"),
        (["explain", "a.yaml", "--rank", "-1"], "--rank"),
        (["schema", "everything"], "plan"),
        (["export"], ""),
        (["export", "xpk"], "xpk"),
        (["check"], "exactly one of"),
        (["check", "a.yaml", "--plan", "b.json"], "CASE and --plan"),
        (["check", "a.yaml", "--slices", "2"], "after --"),
        (["--verbose"], "--verbose"),
    ],
)
def test_usage_errors_end_with_2(arguments: list[str], piece: str, run: Callable[..., Ran]) -> None:
    ran = run(*arguments)
    assert ran.code == ExitCode.CANNOT_RUN
    assert piece in ran.out + ran.err
    assert not ran.out or "Usage" in ran.out


def test_input_errors_are_all_printed_in_order_with_place_and_hint(
    failing: Callable[[BaseException], Ran],
) -> None:
    late = Diagnostic("SP010", "unknown key 'd_modle'", Mark("case.yaml", 7, 3), "did you mean 'd_model'?")
    early = Diagnostic("SP011", "missing key 'model'", Mark("case.yaml", 1, 1))
    nowhere = Diagnostic("SP014", "unknown chip")
    ran = failing(InputError([late, early, nowhere]))
    assert ran.code == ExitCode.CANNOT_RUN
    assert not ran.out
    assert ran.err.splitlines() == [
        "error SP014: unknown chip",
        "case.yaml:1:1: error SP011: missing key 'model'",
        "case.yaml:7:3: error SP010: unknown key 'd_modle'",
        "  hint: did you mean 'd_model'?",
        "3 errors",
    ]


def test_an_invalid_sharding_ends_with_3(failing: Callable[[BaseException], Ran]) -> None:
    ran = failing(InvalidShardingError([Diagnostic("SP502", "64 heads, tensor=48")]))
    assert ran.code == ExitCode.INVALID
    assert ran.err == "error SP502: 64 heads, tensor=48\n"


def test_our_bug_ends_with_70_and_one_line_and_how_to_report(failing: Callable[[BaseException], Ran]) -> None:
    ran = failing(AssertionError("rows\ndiffer"))
    assert ran.code == ExitCode.BUG
    first, second = ran.err.splitlines()
    assert "AssertionError at shardplan/cli/schema.py:" in first
    assert "rows differ" in first
    assert "SHARDPLAN_DEBUG=1" in second


def test_the_traceback_of_a_bug_shows_on_request(
    failing: Callable[[BaseException], Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDPLAN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())


def test_an_interrupt_ends_with_130(failing: Callable[[BaseException], Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    ran = failing(KeyboardInterrupt())
    assert (ran.code, ran.out, ran.err) == (ExitCode.INTERRUPTED, "", "")
    monkeypatch.setattr(cli, "main", raiser(KeyboardInterrupt()).__get__(""))
    assert entry.main() == ExitCode.INTERRUPTED


def test_the_entry_point_returns_the_code(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["shardplan", "schema", "nothing"])
    assert entry.main() == ExitCode.CANNOT_RUN
    assert "nothing" in capfd.readouterr().err


def test_a_reader_that_leaves_changes_nothing(tmp_path: object) -> None:
    for arguments in (["schema", "plan"], ["--help"]):
        with subprocess.Popen([*SHARDPLAN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert not process.stderr.read()
            assert process.wait() == ExitCode.YES


def test_output_survives_a_terminal_without_unicode() -> None:
    done = subprocess.run(
        [*SHARDPLAN, "chips", "tpu7x"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        check=True,
    )
    assert done.stdout.decode("ascii")


@pytest.mark.parametrize(
    ("arguments", "ours", "command"),
    [
        (["check", "a.yaml"], ["check", "a.yaml"], None),
        (["check", "--", "A=1", "python3", "--x", "--"], ["check"], ("A=1", "python3", "--x", "--")),
        (["check", "-o", "json", "--"], ["check", "-o", "json"], ()),
        (["recommend", "--", "-odd.yaml"], ["recommend", "--", "-odd.yaml"], None),
        ([], [], None),
    ],
)
def test_a_launch_command_is_kept_verbatim(arguments: list[str], ours: list[str], command: object) -> None:
    assert split_command_line(arguments) == (ours, command)


def test_diagnostics_have_colour_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnostic = Diagnostic("SP001", "no such file", Mark("x"), "y")
    assert diagnostic_lines(diagnostic, color=True) == [
        "x: \x1b[1;31merror\x1b[0m SP001: no such file",
        "  \x1b[36mhint\x1b[0m: y",
    ]
    for variable, value, colourful in (
        ("TERM", "xterm", True),
        ("TERM", "dumb", False),
        ("NO_COLOR", "1", False),
    ):
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            patch.setenv(variable, value)
            patch.setattr(sys.stderr, "isatty", lambda: True)
            print_diagnostics([diagnostic])
        assert ("\x1b[" in capsys.readouterr().err) is colourful


def test_every_schema_can_be_asked_for() -> None:
    assert [name.value for name in schema.Schema] == list(SCHEMAS)


def test_the_version_is_printed(run: Callable[..., Ran]) -> None:
    ran = run("--version")
    assert (ran.code, ran.out, ran.err) == (ExitCode.YES, f"shardplan {__version__}\n", "")


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), ExitCode.INTERRUPTED), (SystemExit(0), ExitCode.YES), (SystemExit(2), ExitCode.CANNOT_RUN)],
)
def test_every_way_to_end_has_its_code(
    error: BaseException, code: ExitCode, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Ran]
) -> None:
    def end(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("shardplan.cli.run.app", end)
    assert run().code == code


def test_help_for_a_reader_that_has_gone_is_no_no(monkeypatch: pytest.MonkeyPatch, run: Callable[..., Ran]) -> None:
    def end(*_: object, **__: object) -> None:
        try:
            Gone().write("help")
        except BrokenPipeError:
            sys.exit(1)

    monkeypatch.setattr("shardplan.cli.run.app", end)
    assert run().code == ExitCode.YES


class Gone(io.StringIO):
    """A stream whose reader has gone."""

    def __init__(self, descriptor: int = -1) -> None:
        super().__init__()
        self.descriptor = descriptor

    def write(self, _: str) -> int:
        raise BrokenPipeError

    def fileno(self) -> int:
        return self.descriptor


def test_writing_for_a_reader_that_has_gone_is_quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Gone(file.fileno()))
        patch.setattr(sys, "stderr", Gone())
        emit("text")
        print_diagnostics([Diagnostic("SP001", "no such file")])
        os.write(file.fileno(), b"to nowhere")
    assert not (tmp_path / "out").read_text()


def test_letters_a_terminal_does_not_have_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        emit("12.3 s ±10%\n")
        print_diagnostics([Diagnostic("SP001", "no file 'é'")])
    assert out.buffer.getvalue() == b"12.3 s ?10%\n"  # type: ignore[attr-defined]
    assert err.buffer.getvalue() == b"error SP001: no file '\\xe9'\n"  # type: ignore[attr-defined]
