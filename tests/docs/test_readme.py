from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT

from shardplan import cli

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"^\$ (shardplan .+)$", re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    """Every command shown with its output, with the page it is on."""
    found = [(page.name, command) for page in PAGES for command in SHELL.findall(page.read_text())]
    return list(dict.fromkeys(found))


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), commands())
def test_commands_in_the_docs_run(
    page: str, command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    code = cli.main(shlex.split(command)[1:])
    out, err = capfd.readouterr()
    says_no = "per_device_batch_size=64" in command
    assert code == (1 if says_no else 0), err
    assert out
    assert not err


def test_the_python_in_the_readme_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "ici_fsdp_parallelism" in done.stdout


def test_make_has_the_commands_of_the_readme() -> None:
    targets = re.findall(r"^    make (\S+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link
