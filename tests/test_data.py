from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardplan import data

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_the_folders_of_a_checkout_are_found() -> None:
    assert (data.rules_folder() / "README.md").is_file()
    assert (data.model_configs_folder() / "README.md").is_file()


def test_names_are_the_yaml_files_sorted(tmp_path: Path) -> None:
    for name in ("b.yaml", "a-1.5b.yaml", "README.md", "c.yml"):
        (tmp_path / name).touch()
    assert data.names(tmp_path) == ["a-1.5b", "b"]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that looks like site-packages with shardplan in it."""
    package = tmp_path / "shardplan"
    package.mkdir()
    monkeypatch.setattr(data, "__file__", str(package / "data.py"))
    data._folder.cache_clear()
    yield package
    data._folder.cache_clear()


def test_an_installed_package_finds_its_own_folder_not_a_neighbour(installed: Path) -> None:
    (installed.parent / "rules").mkdir()
    (installed / "rules").mkdir()
    assert data.rules_folder() == installed / "rules"


def test_a_missing_folder_is_our_bug(installed: Path) -> None:
    assert installed.is_dir()
    with pytest.raises(AssertionError, match="model_configs"):
        data.model_configs_folder()
