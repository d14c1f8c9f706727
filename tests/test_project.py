from __future__ import annotations

import re
import tomllib

import pytest
from places import ROOT

from shardplan.machine.chips import chip_names

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_module_has_its_layer() -> None:
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    named = re.findall(r"\w+", " ".join(layers))
    modules = {
        path.stem for path in (ROOT / "shardplan").iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert len(named) == len(set(named))
    assert modules - {"__init__", "__main__"} == set(named) & modules


def test_each_ignored_lint_rule_is_explained_in_three_words() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.flake8-type-checking]")]
    ignored = [line for line in block.splitlines() if re.match(r'\s+"[A-Z]+\d+",', line)]
    assert ignored
    assert [line for line in ignored if len(line.partition("#")[2].split()) not in {2, 3}] == []


def test_the_runtime_needs_five_packages_only() -> None:
    names = {re.split(r"[<>=]", requirement)[0] for requirement in PROJECT["project"]["dependencies"]}
    assert names == {"typer", "rich", "pydantic", "pyyaml", "numpy"}


@pytest.mark.parametrize(
    "target",
    ["demo", "quick", "test", "mutants", "check", "lint", "types", "contracts", "pytest", "maxtext-env", "accuracy"],
)
def test_make_lists_its_targets(target: str) -> None:
    assert re.search(rf"^{target}:.*## \S", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_ci_runs_the_documented_test_command() -> None:
    run = ROOT / ".ci" / "run"
    assert run.stat().st_mode & 0o111
    assert "make test" in run.read_text()
    assert "make test" in (ROOT / "README.md").read_text()


def test_no_chip_is_named_in_code() -> None:
    named = re.compile(rf"""["']({"|".join(map(re.escape, chip_names()))})["']""")
    assert [path for path in (ROOT / "shardplan").rglob("*.py") if named.search(path.read_text())] == []
