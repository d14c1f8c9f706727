"""A new file is tested the moment it exists, as docs/extend.md says.

A copy of the project gets a chip, a rule, a preset, an exporter and a format of models, all in `tests/data/extend`; its own tests
find them and hold them to the promises of their kind.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ADDED = ROOT / "tests" / "data" / "extend"
PARTS = ("shardplan", "rules", "model_configs", "benchmarks", "tests", "docs", "pyproject.toml", "README.md")
PROMISES = (
    "tests/exporters/test_conformance.py", "tests/loaders/test_conformance.py", "tests/loaders/test_presets.py",
    "tests/machine/test_conformance.py", "tests/machine/test_chips.py", "tests/catalogue/test_rules.py", "tests/cli/test_help.py",
)  # fmt: skip
NEW = "v9-lite or SP699 or moonbeam-3b or nohup_script or gguf_model"
"""In the names of tests of the new files."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the newcomer's files, and nothing else changed."""
    folder = tmp_path_factory.mktemp("copy")
    for part in PARTS:
        place = ROOT / part
        if place.is_dir():
            shutil.copytree(place, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, folder / part)
    for part in ("shardplan", "rules", "model_configs"):
        shutil.copytree(ADDED / part, folder / part, dirs_exist_ok=True)
    with (folder / "rules" / "tuning.yaml").open("a") as rules:
        rules.write((ADDED / "rule.yaml").read_text())
    return folder


def kept_promises(folder: Path, selected: str) -> subprocess.CompletedProcess[str]:
    """The tests of what is found by folder, of some names, in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", *PROMISES, "-k", selected)
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_new_files_are_tested_the_moment_they_exist(copy: Path) -> None:
    done = kept_promises(copy, NEW)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.findall(r"^PASSED (\S+)", done.stdout, re.MULTILINE)
    for name in NEW.split(" or "):
        assert sum(name in line for line in passed) >= 2, (name, passed)


WRONG = (
    ("shardplan/exporters/nohup_script.py", "shlex.join(job.words)", "shlex.join(job.words[:-9])", "test_a_launch_read_back_is"),
    ("shardplan/exporters/nohup_script.py", "shlex.quote(folder)", "folder", "test_no_name_breaks_out_of_its_quotes"),
    ("shardplan/loaders/gguf_model.py", '"general.architecture" in document.value', '"vocab_size" in document.value',
     "test_a_format_reads_its_own_example_and_no_other_does"),
    ("rules/hardware/v9-lite.yaml", "published_runs: 0", "published_runs: 3", "test_a_chip_says_how_many_measurements_stand_behind_it"),
    ("rules/hardware/v9-lite.yaml", "v9-pod: chips", "v9-pod: chips, v6e: chips", "test_no_two_chips_answer_to_one_name"),
    ("rules/tuning.yaml", "{fsdp: 2, fires: false}", "{fsdp: 4, fires: false}", "test_every_example_fires_as_it_says[SP699-1]"),
    ("model_configs/moonbeam-3b.yaml", "2,680,588,800", "2,680,588,801", "test_a_preset_says_in_its_first_line"),
)  # fmt: skip
"""A file, what is in it and what a mistake would make of it, and the test that says so."""


def test_mistakes_in_new_files_are_found(copy: Path) -> None:
    right = {path: (copy / path).read_text() for path, *_ in WRONG}
    for path, old, new, _ in WRONG:
        text = (copy / path).read_text()
        assert old in text
        (copy / path).write_text(text.replace(old, new))
    try:
        done = kept_promises(copy, f"{NEW} or no_two_chips or test_a_format_reads")
    finally:
        for path, text in right.items():
            (copy / path).write_text(text)
    failed = "\n".join(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE))
    assert [test for *_, test in WRONG if test not in failed] == [], failed or done.stdout[-2000:]
