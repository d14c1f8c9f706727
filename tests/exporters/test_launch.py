from __future__ import annotations

import json
import re
from typing import Any

import pytest
import typer
from fixtures.jobs import AWKWARD, job_of
from places import ROOT

from shardplan.cli.app import app
from shardplan.errors import InputError
from shardplan.exporters.launch import nodes, tpu_type
from shardplan.machine.chips import chip_names, load_chip, resolve_cluster

XPK: dict[str, list[Any]] = json.loads((ROOT / "tests" / "data" / "xpk_slices.json").read_text())
"""By name: topology, GKE accelerator, chips of a node, nodes of a slice. Source: xpk 367c838, system_characteristics.py."""


@pytest.mark.parametrize("chip", chip_names())
def test_slices_are_called_and_laid_out_as_xpk_does(chip: str) -> None:
    prefix = load_chip(chip).nodes.tpu_type_prefix
    rows = {name: row for name, row in XPK.items() if name.startswith(f"{prefix}-")}
    assert len(rows) >= 6
    for name, (topology, accelerator, chips, hosts) in rows.items():
        cluster = resolve_cluster(None, accelerator=name)
        on_a_node = min(nodes(cluster).chips_per_node, cluster.chips)
        assert tpu_type(cluster) == name
        assert "x".join(map(str, cluster.topology)) == topology
        assert (nodes(cluster).accelerator, on_a_node, cluster.chips // on_a_node) == (accelerator, chips, hosts)


@pytest.mark.parametrize(
    ("accelerator", "name"),
    [("v5e-256", "v5litepod-256"), ("v6e-256", "v6e-256"), ("v5p-512", "v5p-512"), ("tpu7x-128", "tpu7x-128"),
     ("tpu7x-4x4x16", "tpu7x-4x4x16")],
)  # fmt: skip
def test_names_of_slices(accelerator: str, name: str) -> None:
    assert tpu_type(resolve_cluster(None, accelerator=accelerator)) == name


def test_a_chip_without_nodes_cannot_be_launched_on() -> None:
    cluster = resolve_cluster("v5p", topology="4x4x4")
    with pytest.raises(InputError, match="no nodes"):
        nodes(cluster.model_copy(update={"chip": load_chip("v5p").model_copy(update={"nodes": None})}))


@pytest.mark.parametrize("name", AWKWARD)
def test_names_are_safe_everywhere(name: str) -> None:
    job = job_of(name=name)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", job.name)
    assert job.title.isprintable()
    assert "\n" not in job.title


def test_every_format_has_a_command() -> None:
    folder = ROOT / "shardplan" / "exporters"
    formats = {
        path.stem for path in folder.iterdir() if path.stem not in {"__init__", "__pycache__", "launch", "placeholder"}
    }
    assert set(typer.main.get_command(app).commands["export"].commands) == formats
