"""Write rules/maxtext/releases.json: what each MaxText release before the newest one had that the newest has not.

Run: `python benchmarks/maxtext_releases.py HISTORY.json [--git CLONE] [--python 0.2.1=PATH ...]`. The history lists releases,
and for each key the first and the last release with it, its defaults and its successor. With a clone of MaxText the commits
nearest to each release are written to commits.txt; with Pythons that have a release, its real keys are compared. What a key
that is gone means in the words of the newest release, and how strict a release is, is decided here, by hand.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

GIT = shutil.which("git") or "git"
RULES = Path(__file__).parents[1] / "rules" / "maxtext"
NEWEST = json.loads((RULES / "keys.json").read_text(encoding="utf-8"))
NOT_READ = frozenset({"logical_axis_rules", "mesh_axes", "data_sharding", "debug", "inference_replicas"})
"""Keys whose values shardplan never looks at, however often they changed."""
TILES = tuple(f"{side}_tile_{way}" for side in ("wi", "wo") for way in ("fwd", "dlhs", "drhs"))


def same(*names: str) -> dict[str, None]:
    """The value as it is, in each of these keys."""
    return dict.fromkeys(names)


MEANS: dict[str, dict[str, Any]] = {
    "base_num_heads": same("base_num_query_heads", "base_num_kv_heads"),
    "int8_training": {"quantization": {"true": "int8"}},
    "enable_profiler": {"profiler": {"true": "xplane"}},
    "expert_shard_attention_option": {"custom_mesh_and_rule": {"context": "ep-as-cp"}},
    "quantization_calibration_method": same(
        *(f"{what}_quantization_calibration_method" for what in ("weight", "act", "bwd"))
    ),
    "tile_batch_seq": same(*(f"{tile}_batch_seq" for tile in TILES)),
    "tile_embed_dim": same(*(f"{tile}_embed_dim" for tile in TILES)),
    "tile_mlp_dim": same(*(f"{tile}_mlp_dim" for tile in TILES)),
    "tile_activation_dim": same(*(f"{tile}_embed_dim" for tile in TILES)),
    "tile_weight_dim": same(*(f"{tile}_mlp_dim" for tile in TILES)),
}
"""What a key that is gone stands for: keys of the newest release with the same value, or with one that its value selects."""
MEANT = {
    name: {"until": "0.2.1", "means": same(name, f"moe_{name}"), "source": "PR #3414, merge de510213a, 2026-03-24"}
    for name in ("mlpwi_0", "mlpwi_1", "mlpwo")
}
"""Keys that stayed and once meant more: expert products had no names of their own."""
VALUES = (
    {"key": "remat_policy", "value": "minimal_with_context", "was": "minimal_flash", "until": "tpu-recipes-v0.1.4"},
)
"""Values that older releases had another name for."""
REFUSED = ("ici_tensor_transpose_parallelism", "dcn_tensor_transpose_parallelism")
"""Keys that are gone and cannot be modelled unless they have their default."""
RL_ALONE_SINCE = "0.2.4"
"""From here on the RL trainer's keys are in a configuration of its own. Source: PR #4431, merge 7b0e7980e, 2026-07-22."""
STRICTNESS: dict[str, dict[str, Any]] = {
    "76bd53b": {"unknown": "refused", "doubled": "refused", "environment": "refused", "configuration": "required"},
    "maxtext-tutorial-v1.3.0": {"unknown": "ignored", "doubled": "accepted", "environment": "ignored"},
    "maxtext-tutorial-v1.4.0": {"unknown": "refused"},
    "cf051eb": {"configuration": "optional"},
    "1adb45c": {"doubled": "refused"},
    "df1b359": {"doubled": "refused_if_different"},
}
"""How a release treats keys it does not know, keys its model file sets too, unknown variables M_KEY, and a launch without
a configuration file; each from that release on. Source: configs/pyconfig.py; PRs #2775, #3649, #3933."""
ENTRY_POINTS: tuple[tuple[str, str, str | None, str], ...] = (
    ("MaxText.train", "76bd53b", "0.2.1", "train"),
    ("MaxText.train_compile", "76bd53b", "0.2.1", "train"),
    ("maxtext.trainers.pre_train.train", "bf174d6", None, "train"),
    ("maxtext.trainers.pre_train.train_compile", "bf174d6", None, "train"),
    ("MaxText.sft_trainer", "tpu-recipes-v0.1.0", "tpu-recipes-v0.1.4", "sft"),
    ("MaxText.sft.sft_trainer", "0.1.0", "0.2.1", "sft_tunix"),
    ("maxtext.trainers.post_train.sft.train_sft", "bf174d6", None, "sft_tunix"),
    ("maxtext.trainers.post_train.sft.train_sft_deprecated", "bf174d6", "0.2.2", "sft"),
    ("maxtext.trainers.post_train.sft.train_sft_native", "df1b359", None, "sft"),
    ("MaxText.rl.train_rl", "maxtext-tutorial-v1.2.0", "0.2.1", "rl"),
    ("maxtext.trainers.post_train.rl.train_rl", "bf174d6", None, "rl"),
    ("MaxText.experimental.rl.grpo_trainer", "tpu-recipes-v0.1.3", "0.2.1", "rl"),
    ("maxtext.experimental.rl.grpo_trainer", "bf174d6", None, "rl"),
    ("maxtext.trainers.post_train.distillation.train_distill", "bf174d6", None, "distillation"),
    ("maxtext.trainers.post_train.dpo.train_dpo", "df1b359", None, "dpo"),
)
"""Modules that start a run: first and last release with them, and what they do. Source: the trees of the releases."""
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "base.yml": {},
    "sft.yml": {"use_sft": True, "packing": True},
    "sft-vision-chartqa.yml": {"use_sft": True, "packing": False, "use_multimodal": True},
    "sft-vision-slidevqa.yml": {"use_sft": True, "packing": False, "use_multimodal": True},
    "sft-vision-coco-captions.yml": {"use_sft": True, "packing": False, "use_multimodal": True},
    "dpo.yml": {"use_dpo": True, "per_device_batch_size": 2.0, "max_target_length": 512},
    "rl.yml": {},
    "grpo.yml": {"use_grpo": True},
    "distillation.yml": {"max_target_length": 2048, "per_device_batch_size": 2, "packing": True},
    "distillation_gpt_oss_20b.yml": {},
    "distillation_qwen3_30b_base.yml": {},
}
"""Configuration files that MaxText ships, with the keys they set among those that shardplan reads."""


def kind(default: Any) -> str:
    """Type of a key that no release at hand declares, by its default."""
    return {bool: "bool", int: "int", float: "float", str: "text", list: "list", dict: "map"}.get(type(default), "any")


def gone(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """What is to be known of a key that the newest release has not; nothing if the RL trainer still has it."""
    if row.get("config") == "rl" and row["until"] is None:
        return {}
    successor = row["renamed_to"]
    means = MEANS.get(name) or (same(successor) if successor else None)
    default = list(row["defaults"].values())[-1]
    effect = "refused" if name in REFUSED else "inert"
    for target in means or ():
        effect = NEWEST["keys"].get(target, ["inert"])[0] if effect == "inert" else effect
    known: dict[str, Any] = {"key": [effect, kind(default), None if effect == "inert" else default]}
    if means:
        known["means"] = means
    elif row.get("instead"):
        known["instead"] = row["instead"]
    if row.get("evidence"):
        known["source"] = row["evidence"].split(":")[0].split(";")[0]
    return known


def releases(history: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One record a release, oldest first, and the keys that are gone."""
    names = history["releases"]
    index = {name: i for i, name in enumerate(names)}
    rows: list[dict[str, Any]] = []
    for fact in history["release_facts"]:
        also = [str(other)[:40] for other in (fact["commit"], fact["tag"]) if other and other != fact["name"]]
        rows.append({"name": fact["name"], "date": fact["date"], **({"also": also} if also else {})})
    departed: dict[str, Any] = {}
    for name, row in history["keys"].items():
        newest_has_it = name in NEWEST["keys"]
        spans = _spans(row, names, index)
        if row.get("config") == "rl" and not newest_has_it:
            cut = index[RL_ALONE_SINCE]
            rows[index[row["since"]]].setdefault("rl", []).append(name)
            spans = [(first, min(last, cut)) for first, last in spans if first < cut]
        _enter(rows, name, spans)
        if not newest_has_it:
            departed |= {name: known} if (known := gone(name, row)) else {}
        elif NEWEST["keys"][name][0] != "inert" and name not in NOT_READ:
            for before, after in itertools.pairwise(row["defaults"].items()):
                rows[index[after[0]]].setdefault("was", {})[name] = before[1]
    _enter_models(rows, history["models"], index)
    for release, strictness in STRICTNESS.items():
        rows[index[release]]["strictness"] = strictness
    return rows, departed


def _enter(rows: list[dict[str, Any]], name: str, spans: list[tuple[int, int]]) -> None:
    """Note where a key came and went."""
    for first, last in spans:
        rows[first].setdefault("came", []).append(name)
        if last < len(rows):
            rows[last].setdefault("went", []).append(name)


def _enter_models(rows: list[dict[str, Any]], models: dict[str, Any], index: dict[str, int]) -> None:
    """Note where a model's file came, and what it set before each change."""
    for model, row in models.items():
        rows[index[row["since"]]].setdefault("models", []).append(model)
        for release, changes in row["changed"].items():
            was = {
                key: None if old == "(unset)" else old for key, (old, new) in changes.items() if _matters(key, old, new)
            }
            if was:
                rows[index[release]].setdefault("models_were", {})[model] = was


def _matters(key: str, old: Any, new: Any) -> bool:
    """Whether a change of a model file can be seen: sharding rules only by being there."""
    return key not in NOT_READ or "(unset)" in (old, new)


def _spans(row: dict[str, Any], names: list[str], index: dict[str, int]) -> list[tuple[int, int]]:
    """Stretches of releases with a key: first, and first without."""
    end = index[row["until"]] + 1 if row["until"] else len(names)
    here = [i for i in range(index[row["since"]], end) if names[i] not in row.get("absent_in", ())]
    starts = [i for i in here if i - 1 not in here]
    return [(start, next(i for i in range(start + 1, end + 1) if i not in here)) for start in starts]


def commits(clone: str, rows: list[dict[str, Any]]) -> str:
    """Commits by the release they are nearest to in the history, seven digits each, one release a line."""
    order = subprocess.run(
        [GIT, "-C", clone, "rev-list", "--topo-order", "--reverse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.split()  # fmt: skip
    place = {commit: i for i, commit in enumerate(order)}
    pinned: list[tuple[int, str]] = []
    for row in rows:
        for name in (*row.get("also", ()), row["name"]):
            done = subprocess.run(
                [GIT, "-C", clone, "rev-parse", "-q", "--verify", f"{name}^{{commit}}"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.stdout.strip() in place:
                pinned.append((place[done.stdout.strip()], row["name"]))
                break
    found: dict[str, list[str]] = {}
    for i, commit in enumerate(order):
        nearest = min(pinned, key=lambda pin: abs(pin[0] - i))[1]
        found.setdefault(nearest, []).append(commit[:7])
    return "".join(f"{name} {''.join(digits)}\n" for name, digits in found.items())


def compare(name: str, python: str) -> str:
    """The keys of an installed release against the table's."""
    from shardplan.maxtext.tables import table

    code = "import json; from maxtext.configs.types import MaxTextConfig as c; print('KEYS', json.dumps([*c.model_fields]))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    real = set(json.loads(next(line for line in done.stdout.splitlines() if line.startswith("KEYS"))[5:]))
    ours = {key for key in table(name).keys if "." not in key}
    return f"{name}: {len(real)} keys; not in the table: {sorted(real - ours)}; only there: {sorted(ours - real)}"


def main() -> None:
    """Write the files, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("history", type=Path)
    parser.add_argument("--git", help="a clone of MaxText with its history")
    parser.add_argument("--python", action="append", default=[], metavar="RELEASE=PATH")
    options = parser.parse_args()
    rows, departed = releases(json.loads(options.history.read_text(encoding="utf-8")))
    parts = {
        "releases": rows,
        "gone": [{"name": name, **known} for name, known in sorted(departed.items())],
        "meant": [{"name": name, **meaning} for name, meaning in MEANT.items()],
        "values": list(VALUES),
        "entry_points": [dict(zip(("module", "since", "until", "does"), row, strict=True)) for row in ENTRY_POINTS],
        "configurations": [{"name": name, "sets": sets} for name, sets in CONFIGURATIONS.items()],
    }
    about = "What older releases had: keys that came and went, defaults and model files as they were before a release."
    text = f'{{"about": {json.dumps(about)}'
    for part, entries in parts.items():
        text += f',\n"{part}": [\n' + ",\n".join("  " + json.dumps(entry) for entry in entries) + "\n]"
    (RULES / "releases.json").write_text(text + "\n}\n", encoding="utf-8")
    print(len(rows), "releases,", len(departed), "keys gone")
    if options.git:
        (RULES / "commits.txt").write_text(commits(options.git, rows), encoding="utf-8")
    for pair in options.python:
        print(compare(*pair.split("=", 1)))


if __name__ == "__main__":
    main()
