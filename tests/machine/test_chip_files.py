"""What is wrong in a chip's file is said when it is read, at its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from places import ROOT

from shardplan import data
from shardplan.errors import InputError
from shardplan.machine import chips
from shardplan.spec import Compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STRANGER = (ROOT / "tests" / "data" / "extend" / "rules" / "hardware" / "v9-lite.yaml").read_text()


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., chips.Chip]]:
    """Reads a text as the file of a chip."""
    (tmp_path / "hardware").mkdir()
    monkeypatch.setattr(data, "rules_folder", lambda: tmp_path)

    def read(text: str, name: str = "v9-lite") -> chips.Chip:
        (tmp_path / "hardware" / f"{name}.yaml").write_text(text)
        return chips._chip.__wrapped__(name)

    return read


def without(key: str) -> str:
    """The file without a key and what is below it."""
    text, count = re.subn(rf"^{key}:.*\n(?: .*\n)*", "", STRANGER, flags=re.MULTILINE)
    assert count == 1
    return text


def test_a_whole_file_is_a_chip(read: Callable[..., chips.Chip]) -> None:
    assert read(STRANGER).name == "v9-lite"


@pytest.mark.parametrize(
    "key",
    ["bf16_flops_per_s", "hbm_bytes", "usable_hbm_bytes_per_device", "ici_link_bytes_per_s", "compiler", "calibration", "compile_host"],
)  # fmt: skip
def test_a_missing_constant_is_named(key: str, read: Callable[..., chips.Chip]) -> None:
    with pytest.raises(InputError, match=rf"v9-lite\.yaml:\d+:\d+: SP011 missing key '{key}'"):
        read(without(key))


@pytest.mark.parametrize("trait", sorted(Compiler.model_fields.keys() - {"note"}))
def test_a_missing_trait_is_named(trait: str, read: Callable[..., chips.Chip]) -> None:
    head, compiler, tail = STRANGER.partition("\ncompiler:\n")
    text = head + compiler + re.sub(rf"^  {trait}: .*\n", "", tail, flags=re.MULTILINE)
    with pytest.raises(InputError, match=rf"v9-lite\.yaml:\d+:\d+: SP011 missing key 'compiler\.{trait}'"):
        read(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("v9-pod: chips", "v9-cube: chips", "nodes.tpu_type_prefix: accelerator_prefixes lacks v9-pod"),
        ("{v9-lite: chips, ", "{", "name: accelerator_prefixes lacks v9-lite"),
        ("v9-pod: chips", "v9-pod: cubes", "accelerator_prefixes.v9-pod: expected 'chips'"),
        ("name: v9-lite", "name: V9 Lite", "name: "),
        ("name: v9-lite\n", "name: v9-pod\n", "name: v9-pod is in a file called v9-lite.yaml"),
        ("accelerator: tpu-v9-lite-slice", 'accelerator: "a b"', "nodes.accelerator: "),
        ("jax_devices_per_chip: 1", "jax_devices_per_chip: 2", "2 devices a chip need d2d_bytes_per_s"),
        ("small_slices: [[1, 1], ", "small_slices: [[1, 1, 1], ", "small_slices[0]: 3 sides on a torus of 2 dimensions"),
        ("published_runs: 0", "published_runs: -1", "calibration.published_runs: "),
        ("  heap_holes: 0.009", "  heap_hole: 0.009", "unknown key 'heap_hole'"),
    ],
)  # fmt: skip
def test_what_does_not_agree_is_refused_at_its_place(
    old: str, new: str, words: str, read: Callable[..., chips.Chip]
) -> None:
    assert old in STRANGER
    with pytest.raises(InputError) as caught:
        read(STRANGER.replace(old, new, 1))
    diagnostic = next(d for d in caught.value.diagnostics if words in d.message)
    assert diagnostic.mark is not None
    assert diagnostic.mark.line is not None
    assert diagnostic.mark.source.endswith("v9-lite.yaml")
