"""Where the shipped knowledge lies: beside the package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def rules_folder() -> Path:
    """The folder of rules, thresholds, chips and calibration."""
    return _folder("rules")


def model_configs_folder() -> Path:
    """The folder of model presets, with complete cases in its `cases/`."""
    return _folder("model_configs")


def names(folder: Path) -> list[str]:
    """The names of the YAML files of a folder, without suffix, sorted."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


@cache
def _folder(name: str) -> Path:
    package = Path(__file__).resolve().parent
    for place in (package.parent / name, package / name):
        # Guard: a wheel's parent is site-packages, where another project may have a folder `rules`.
        if place.is_dir() and (place.parent == package or (package.parent / "pyproject.toml").is_file()):
            return place
    raise AssertionError(f"this installation of shardplan lacks its folder {name}/")
