from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from shardplan.cli.app import app
from shardplan.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Ran

COMMAND = typer.main.get_command(app)


def commands(group: object = COMMAND, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group, by the words that reach it."""
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


PATHS = list(commands())


def command_at(path: tuple[str, ...]) -> object:
    command = COMMAND
    for word in path:
        command = command.commands[word]
    return command


def test_the_commands_are_these() -> None:
    assert set(commands()) == {
        (),
        ("chips",),
        ("check",),
        ("diff",),
        ("explain",),
        ("export",),
        ("export", "jax"),
        ("export", "jobset"),
        ("export", "maxtext"),
        ("export", "shell"),
        ("export", "xpk"),
        ("init",),
        ("models",),
        ("recommend",),
        ("rules",),
        ("scale",),
        ("schema",),
        ("verify",),
    }


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_documents_every_exit_code(path: tuple[str, ...], option: str, run: Callable[..., Ran]) -> None:
    ran = run(*path, option)
    assert ran.code == ExitCode.YES
    assert not ran.err
    listed = ran.out[ran.out.index("Exit codes:") :].splitlines()[1:]
    assert [int(line.split()[0]) for line in listed if line] == list(ExitCode)
    assert all(len(line.split()) > 1 for line in listed if line)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_option_and_argument_is_documented(path: tuple[str, ...]) -> None:
    for parameter in command_at(path).params:
        assert parameter.help, f"{' '.join(path)} {parameter.name}"
        assert parameter.help.endswith("."), parameter.help


@pytest.mark.parametrize("path", [path for path in PATHS if path and path != ("export",)], ids=" ".join)
def test_every_command_shows_an_example_that_parses(path: tuple[str, ...]) -> None:
    lines = [line.strip() for line in (command_at(path).help or "").splitlines()]
    examples = [line for line in lines if line.startswith("shardplan ")]
    assert examples
    for line in examples:
        assert line.split()[1 : 1 + len(path)] == list(path) or path[0] == "export", line


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_fits_eighty_columns_but_for_examples(
    path: tuple[str, ...], run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run(*path, "--help").out
    for line in text.splitlines():
        assert len(line) <= 80 or "python3 -m" in line, line


def test_without_arguments_the_help_is_printed_and_nothing_was_run(run: Callable[..., Ran]) -> None:
    ran = run()
    assert ran.code == ExitCode.CANNOT_RUN
    assert "recommend" in ran.out + ran.err


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from shardplan.cli import main; main(['--help']);"
        "print([m for m in ('numpy', 'pydantic', 'yaml', 'rich', 'json') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_module_and_the_script_are_the_same_program() -> None:
    script = Path(sys.executable).with_name("shardplan")
    outputs = [
        subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
        for command in ([sys.executable, "-m", "shardplan"], [str(script)])
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("shardplan ")
