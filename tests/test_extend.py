"""Extending takes one file, as docs/extend.md says: each is done here as a stranger would, in a copy of the knowledge."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
import shardplan.data
shardplan.data._folder = lambda name: Path({folder!r}) / name
import shardplan.exporters
shardplan.exporters.__path__.append(str(Path({folder!r}) / "exporters"))
from shardplan.cli import main
sys.exit(main(sys.argv[1:]))
"""
CASE = (
    "model: {model}\nworkload: {{sequence_length: 4096, global_batch: 64}}\ncluster: {{accelerator: {accelerator}}}\n"
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the shipped knowledge, to add to."""
    for name in ("rules", "model_configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "exporters").mkdir()
    return tmp_path


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The program with that knowledge."""
    script = PROGRAM.format(folder=str(copy))
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False, cwd=copy)


def case(copy: Path, model: str = "llama3.1-8b", accelerator: str = "v5p-128") -> str:
    (copy / "case.yaml").write_text(CASE.format(model=model, accelerator=accelerator))
    return "case.yaml"


def chip_text(**changes: str) -> str:
    """The file of a chip that does not exist, whose name has hyphens."""
    text = (ROOT / "rules" / "hardware" / "v5p.yaml").read_text()
    lines = {
        "name": "name: my-chip-9",
        "aliases": "aliases: []",
        "accelerator_prefixes": "accelerator_prefixes: {my-chip-9: chips}",
        "  tpu_type_prefix": "  tpu_type_prefix: my-chip-9",
        "calibration": "calibration: {compiled_points: 0, published_runs: 0}",
    } | changes
    kept = [line for line in text.splitlines() if line.split(":")[0] not in lines or line.startswith("#")]
    place = next(i for i, line in enumerate(kept) if line.startswith("nodes:")) + 1
    nested = [line for line in lines.values() if line.startswith("  ")]
    return "\n".join(
        [*kept[:place], *nested, *kept[place:], *(line for line in lines.values() if not line.startswith("  "))]
    )


def test_a_chip_is_one_file(copy: Path) -> None:
    (copy / "rules" / "hardware" / "my-chip-9.yaml").write_text(chip_text())
    assert "my-chip-9" in run(copy, "chips").stdout
    path = case(copy, accelerator="my-chip-9-64")
    done = run(copy, "recommend", path, "-o", "json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["cluster"]["chip"], plan["cluster"]["devices"]) == ("my-chip-9", 64)
    first = plan["plans"][0]
    assert any(rule["code"] == "SP412" and "uncalibrated" in rule["explanation"] for rule in first["rules"])
    assert first["memory"]["error_band"] > 0.18
    assert first["time"]["error_band"] > 0.17
    for exporter in ("xpk", "jobset", "shell", "maxtext", "jax"):
        written = run(copy, "export", exporter, path)
        assert written.returncode == 0, written.stderr
    assert "--tpu-type my-chip-9-64" in run(copy, "export", "xpk", path).stdout
    flags = ["model_name=llama3.1-8b", "per_device_batch_size=1", "max_target_length=4096"]
    assert (
        run(
            copy, "check", "--accelerator", "my-chip-9-4x4x4", "--", "python3", "MaxText/train.py", "base.yml", *flags
        ).returncode
        == 0
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"accelerator_prefixes": "accelerator_prefixes: {other: chips}"}, "accelerator_prefixes lacks my-chip-9"),
        ({"  tpu_type_prefix": "  tpu_type_prefix: other"}, "accelerator_prefixes lacks other"),
        ({"calibration": "#"}, "missing key 'calibration'"),
        ({"mxu_dim": "#"}, "missing key 'mxu_dim'"),
    ],
)
def test_a_chip_that_lacks_something_is_refused_where_it_is_read(
    copy: Path, changes: dict[str, str], said: str
) -> None:
    (copy / "rules" / "hardware" / "my-chip-9.yaml").write_text(chip_text(**changes))
    done = run(copy, "recommend", case(copy, accelerator="my-chip-9-64"))
    assert done.returncode == 2
    assert said in done.stderr
    assert "my-chip-9.yaml:" in done.stderr


MODEL = """
model_width: 2048
vocab_size: 50000
layer_groups:
  - count: 12
    attention: {n_query_heads: 16, n_key_value_heads: 4, head_width: 128, qk_norm: full}
    feed_forward: {width: 8192}
    n_norms: 4
"""


def test_a_model_is_one_file_and_may_be_one_that_maxtext_lacks(copy: Path) -> None:
    (copy / "model_configs" / "my-model.yaml").write_text("name: my-model" + MODEL)
    assert "my-model" in run(copy, "models").stdout
    path = case(copy, "my-model")
    done = run(copy, "recommend", path)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0] + done.stdout.splitlines()[1]
    assert "not launchable: MaxText lacks" in first
    assert "export maxtext" not in done.stdout
    (plan, *_) = json.loads(run(copy, "recommend", path, "-o", "json").stdout)["plans"]
    assert plan["launchable"] is False
    assert "norms after the blocks" in plan["why_not_launchable"]
    assert plan["maxtext_flags"] == {}
    assert run(copy, "export", "maxtext", path).returncode == 2


RULE = """
  - code: SP699
    name: my-rule
    severity: warning
    when: fsdp > 32
    effect: {kind: demote}
    message: FSDP over {fsdp} devices is more than this site likes
    why: A made-up reason.
    sources: ["this test"]
    examples:
      - {fsdp: 64, fires: true}
      - {fsdp: 8, fires: false}
"""


def test_a_rule_is_one_entry(copy: Path) -> None:
    with (copy / "rules" / "tuning.yaml").open("a") as file:
        file.write(RULE)
    assert "my-rule" in run(copy, "rules", "SP699").stdout
    plans = json.loads(run(copy, "recommend", case(copy), "-o", "json").stdout)["plans"]
    wide = [plan for plan in plans if plan["mesh"]["ici"].get("fsdp", 1) > 32]
    assert wide
    assert all(any(rule["code"] == "SP699" for rule in plan["rules"]) for plan in wide)


EXPORTER = """
from shardplan.exporters.setting import Setting

SUMMARY = "The mesh alone."
ABOUT = "Print the mesh."
SEPARATOR = Setting("separator", "TEXT", "What stands between axes.", (",", ";"))
SETTINGS = (SEPARATOR,)
FOR_MAXTEXT = False


def export(job):
    return job.given.get(SEPARATOR, ",").join(f"{axis}={degree}" for axis, degree in job.choice.mesh.ici.items()) + "\\n"
"""


def test_an_exporter_is_one_module(copy: Path) -> None:
    (copy / "exporters" / "plainmesh.py").write_text(EXPORTER)
    assert "plainmesh" in run(copy, "export", "--help").stdout
    done = run(copy, "export", "plainmesh", case(copy), "--separator", ";")
    assert (done.returncode, done.stdout) == (0, "fsdp=64\n")
    assert run(copy, "export", "plainmesh", case(copy), "--separator", "x").returncode == 2
