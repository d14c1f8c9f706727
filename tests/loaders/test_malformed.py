"""Inputs that are wrong: each is refused with a code and a place, and none ends in a traceback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shardplan.errors import ExitCode, InputError, InvalidShardingError, ShardplanError
from shardplan.loaders.load import load_case, load_command, load_record, parse_case
from shardplan.source import Document, parse_json, parse_yaml

if TYPE_CHECKING:
    from pathlib import Path

ATTENTION = "{n_query_heads: 16, n_key_value_heads: 8, head_width: 128}"
MODEL = f"""\
  model_width: 2048
  vocab_size: 32000
  layer_groups:
    - count: 16
      attention: {ATTENTION}
      feed_forward: {{width: 8192}}
"""
WORKLOAD = "  sequence_length: 4096\n  global_batch: 64\n"
CLUSTER = "  chip: tpu7x\n  topology: 2x2x2\n"


def case(model: str = MODEL, workload: str = WORKLOAD, cluster: str = CLUSTER, more: str = "") -> str:
    return f"model:\n{model}workload:\n{workload}cluster:\n{cluster}{more}"


def model(**replaced: str) -> str:
    """The case with lines of the model replaced by what follows their key; "" drops a line."""
    lines = MODEL.splitlines(keepends=True)
    for key, value in replaced.items():
        at = next(i for i, line in enumerate(lines) if line.strip().lstrip("- ").startswith(f"{key}:"))
        lines[at] = lines[at].partition(f"{key}:")[0] + f"{key}: {value}\n" if value else ""
    return case(model="".join(lines))


def attention(text: str) -> str:
    return model(attention=text)


def feed_forward(text: str) -> str:
    return model(feed_forward=text)


def workload(text: str) -> str:
    return case(workload=text)


def cluster(text: str) -> str:
    return case(cluster=text)


def constraints(text: str) -> str:
    return case(more=f"constraints: {text}\n")


def plan(text: str) -> str:
    return case(more=f"plan: {text}\n")


BOMB = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))

YAML_TEXTS: dict[str, tuple[str, str]] = {
    # the text itself
    "empty file": ("", "SP006"),
    "only a comment": ("# nothing here\n", "SP006"),
    "only blanks": ("   \n\n", "SP006"),
    "two documents": (case() + "---\na: 1\n", "SP006"),
    "tab as indentation": ("model:\n\tname: x\n", "SP004"),
    "unclosed bracket": ("model: [1, 2\n", "SP004"),
    "unclosed quote": ('model: "llama\n', "SP004"),
    "key given twice": (case(workload=WORKLOAD + "  global_batch: 32\n"), "SP005"),
    "section given twice": (case() + "cluster:\n  chip: v5p\n", "SP005"),
    "alias bomb": (f"a: &a [x, x]\n{BOMB}", "SP003"),
    "deep nesting": ("a: " + "[" * 2000 + "]" * 2000, "SP004"),
    "deep nesting by indentation": ("".join(" " * i + "a:\n" for i in range(200)), "SP003"),
    "recursive alias": ("model: &a [*a]\n", "SP004"),
    "python object": ("model: !!python/object/apply:os.system ['true']\n", "SP007"),
    "a control character": (case() + 'name: "a\x07b"\n', "SP002"),
    "an undefined alias": ("model: *nowhere\n", "SP004"),
    # the top level
    "a list": ("- model\n- workload\n", "SP012"),
    "a scalar": ("llama3.1-70b\n", "SP012"),
    "no workload": (f"model:\n{MODEL}cluster:\n{CLUSTER}", "SP011"),
    "no cluster": (f"model:\n{MODEL}workload:\n{WORKLOAD}", "SP011"),
    "no model": (f"workload:\n{WORKLOAD}cluster:\n{CLUSTER}", "SP011"),
    "unknown section": (case(more="clusters: {}\n"), "SP010"),
    "a section that is null": (f"model:\n{MODEL}workload:\ncluster:\n{CLUSTER}", "SP012"),
    "a section that is a list": (case(workload="  - 1\n"), "SP012"),
    "a name of another type": (case(more="name: 7\n"), "SP012"),
    "a key that is no text": (case(more="7: 8\n"), "SP013"),
    # the model
    "a model that is a number": (f"model: 70\nworkload:\n{WORKLOAD}cluster:\n{CLUSTER}", "SP012"),
    "a model that is a list": (f"model: [a]\nworkload:\n{WORKLOAD}cluster:\n{CLUSTER}", "SP012"),
    "a model that is true": (f"model: true\nworkload:\n{WORKLOAD}cluster:\n{CLUSTER}", "SP012"),
    "no model width": (model(model_width=""), "SP011"),
    "a width of zero": (model(model_width="0"), "SP013"),
    "a negative width": (model(model_width="-2048"), "SP013"),
    "a width of 10**30": (model(model_width="1" + "0" * 30), "SP013"),
    "a width of 5000 digits": (model(model_width="9" * 5000), "SP008"),
    "a width that is a float": (model(model_width="2048.5"), "SP012"),
    "a width that is true": (model(model_width="true"), "SP012"),
    "a width that is text": (model(model_width='"2048"'), "SP012"),
    "a vocabulary that is NaN": (model(vocab_size=".nan"), "SP012"),
    "no layers": (model(layer_groups="[]\n  notes:"), "SP013"),
    "layers that are a mapping": (model(layer_groups="{}\n  notes:"), "SP012"),
    "a count of zero layers": (model(count="0"), "SP013"),
    "heads that do not divide": (attention("{n_query_heads: 16, n_key_value_heads: 5, head_width: 128}"), "SP015"),
    "zero heads": (attention("{n_query_heads: 0, n_key_value_heads: 8, head_width: 128}"), "SP013"),
    "no head width": (attention("{n_query_heads: 16, n_key_value_heads: 8}"), "SP015"),
    "an unknown attention": (attention("{kind: mamba, n_query_heads: 16, n_key_value_heads: 8}"), "SP014"),
    "latent attention without ranks": (attention("{kind: mla, n_query_heads: 8, n_key_value_heads: 8}"), "SP015"),
    "a misspelt attention key": (attention("{n_heads: 16, n_key_value_heads: 8, head_width: 128}"), "SP010"),
    "an unknown feed-forward": (feed_forward("{kind: sparse, width: 8192}"), "SP014"),
    "zero experts": (feed_forward("{kind: moe, width: 8192, n_experts: 0, n_active_experts: 2}"), "SP015"),
    "more active than experts": (feed_forward("{kind: moe, width: 8, n_experts: 4, n_active_experts: 8}"), "SP015"),
    "experts in a dense block": (feed_forward("{width: 8192, n_experts: 8}"), "SP015"),
    "a feed-forward of text": (feed_forward("dense"), "SP012"),
    # the workload
    "no sequence length": (workload("  global_batch: 64\n"), "SP011"),
    "a sequence of 0": (workload("  sequence_length: 0\n  global_batch: 64\n"), "SP013"),
    "a sequence of text": (workload("  sequence_length: 8k\n  global_batch: 64\n"), "SP012"),
    "a sequence in sexagesimal": (workload("  sequence_length: 1:30\n  global_batch: 64\n"), "SP012"),
    "no batch": (workload("  sequence_length: 4096\n"), "SP015"),
    "two batches": (workload(WORKLOAD + "  per_device_batch: 2\n"), "SP015"),
    "a batch of zero": (workload("  sequence_length: 4096\n  global_batch: 0\n"), "SP013"),
    "a negative batch": (workload("  sequence_length: 4096\n  global_batch: -64\n"), "SP013"),
    "a batch of 10**30": (workload(f"  sequence_length: 4096\n  global_batch: {10**30}\n"), "SP013"),
    "tokens in no unit": (workload("  sequence_length: 4096\n  global_batch_tokens: 2X\n"), "SP012"),
    "tokens no multiple": (workload("  sequence_length: 4096\n  global_batch_tokens: 1M\n"), "SP015"),
    "tokens negative": (workload("  sequence_length: 4096\n  global_batch_tokens: -5\n"), "SP013"),
    "tokens infinite": (workload("  sequence_length: 4096\n  global_batch_tokens: .inf\n"), "SP012"),
    "tokens beyond counting": (workload(WORKLOAD + "  training_tokens: 9999999999T\n"), "SP013"),
    "a device batch of NaN": (workload("  sequence_length: 4096\n  per_device_batch: .nan\n"), "SP013"),
    "a device batch of false": (workload("  sequence_length: 4096\n  per_device_batch: false\n"), "SP013"),
    "a device batch of a word": (workload("  sequence_length: 4096\n  per_device_batch: many\n"), "SP014"),
    "an unknown precision": (workload(WORKLOAD + "  precision: fp4\n"), "SP014"),
    "an unknown optimizer": (workload(WORKLOAD + "  optimizer: adafactor\n"), "SP014"),
    "an unknown state type": (workload(WORKLOAD + "  optimizer: {weight_dtype: float64}\n"), "SP014"),
    "a misspelt workload key": (workload(WORKLOAD + "  sequence_lenght: 4096\n"), "SP010"),
    "a batch nothing can split": (
        case(workload="  sequence_length: 512\n  global_batch: 1\n", cluster="  chip: tpu7x\n  topology: 8x8x8\n"),
        "SP015",
    ),
    # the cluster
    "an unknown chip": (cluster("  chip: tpu9\n  topology: 2x2x2\n"), "SP014"),
    "no chip": (cluster("  topology: 2x2x2\n"), "SP011"),
    "no shape": (cluster("  chip: tpu7x\n"), "SP015"),
    "two shapes": (cluster("  chip: tpu7x\n  topology: 2x2x2\n  chips: 8\n"), "SP015"),
    "a shape the cloud lacks": (cluster("  chip: tpu7x\n  topology: 3x3x3\n"), "SP014"),
    "a shape in two sides": (cluster("  chip: tpu7x\n  topology: 4x4\n"), "SP014"),
    "a shape in words": (cluster("  chip: tpu7x\n  topology: big\n"), "SP012"),
    "a shape with a zero side": (cluster("  chip: tpu7x\n  topology: 0x4x4\n"), "SP014"),
    "a shape as a list": (cluster("  chip: tpu7x\n  topology: [4, 4, 4]\n"), "SP012"),
    "a number of chips the cloud lacks": (cluster("  chip: tpu7x\n  chips: 7\n"), "SP014"),
    "a negative number of chips": (cluster("  chip: tpu7x\n  chips: -64\n"), "SP013"),
    "an unknown accelerator": (cluster("  accelerator: h100-8\n"), "SP014"),
    "an odd accelerator": (cluster("  accelerator: tpu7x-3\n"), "SP014"),
    "an accelerator of another chip": (cluster("  chip: v5p\n  accelerator: tpu7x-8\n"), "SP015"),
    "zero slices": (cluster(CLUSTER + "  slices: 0\n"), "SP013"),
    "slices by a float": (cluster(CLUSTER + "  slices: 2.0\n"), "SP012"),
    "a price of nothing": (cluster(CLUSTER + "  usd_per_chip_hour: 0\n"), "SP013"),
    "fp8 on a chip without it": (
        case(WORKLOAD and MODEL, WORKLOAD + "  precision: fp8\n", "  chip: v4\n  topology: 2x2x2\n"),
        "SP015",
    ),
    # constraints, runtime, plan
    "headroom of 150%": (constraints("{hbm_headroom: 150%}"), "SP013"),
    "headroom in words": (constraints("{hbm_headroom: some}"), "SP012"),
    "a policy that is not there": (constraints("{remat: fulll}"), "SP014"),
    "an activation that is not there": (constraints("{remat: {contexts: device}}"), "SP010"),
    "an activation kept nowhere": (constraints("{remat: {context: disk}}"), "SP014"),
    "a bound of zero": (constraints("{max_tensor_parallelism: 0}"), "SP013"),
    "an unknown constraint": (constraints("{max_tp: 8}"), "SP010"),
    "an unknown kernel": (case(more="runtime: {attention: sparse}\n"), "SP014"),
    "an unknown runtime key": (case(more="runtime: {flash: true}\n"), "SP010"),
    "a factor of infinity": (case(more="runtime: {capacity_factor: .inf}\n"), "SP013"),
    "a plan of an unknown axis": (plan("{ici: {model: 8}, per_device_batch: 1}"), "SP015"),
    "a plan with an open degree": (plan("{ici: {fsdp: -1}, per_device_batch: 1}"), "SP013"),
    "a plan without a batch": (plan("{ici: {fsdp: 16}}"), "SP011"),
    "a plan of an unknown policy": (plan("{ici: {fsdp: 16}, per_device_batch: 4, remat_policy: most}"), "SP014"),
    "a plan with idle tensors": (
        plan("{ici: {fsdp: 16}, per_device_batch: 4, remat_tensors: {context: device}}"),
        "SP015",
    ),
}


def refused(error: ShardplanError, code: str) -> None:
    assert error.exit_code == ExitCode.CANNOT_RUN
    assert code in {diagnostic.code for diagnostic in error.diagnostics}, str(error)
    for diagnostic in error.diagnostics:
        assert diagnostic.mark is not None, diagnostic
        assert len(str(diagnostic)) < 2000
    assert "Traceback" not in str(error)


def test_the_case_the_malformed_ones_are_made_from_is_fine() -> None:
    found = parse_case(parse_yaml(case(), "case.yaml"))
    assert found.cluster.devices == 16
    assert found.architecture.n_layers == 16


@pytest.mark.parametrize("name", YAML_TEXTS)
def test_malformed_yaml_is_refused_with_its_place(name: str) -> None:
    text, code = YAML_TEXTS[name]
    with pytest.raises(InputError) as caught:
        parse_case(parse_yaml(text, "case.yaml"))
    refused(caught.value, code)
    assert all(str(d.mark).startswith("case.yaml") for d in caught.value.diagnostics)


FILES: dict[str, tuple[str, bytes, str]] = {
    "an empty file": ("case.yaml", b"", "SP006"),
    "a binary file": ("case.yaml", bytes(range(256)) * 8, "SP002"),
    "a file of NULs": ("case.yaml", b"\0" * 64, "SP002"),
    "latin-1 text": ("case.yaml", "name: café\n".encode("latin-1"), "SP002"),
    "utf-16 text": ("case.yaml", case().encode("utf-16"), "SP002"),
    "a file of 5 MiB": ("case.yaml", b"# " + b"x" * (5 * 2**20), "SP003"),
    "json with a comma too many": ("case.json", b'{"model": 1,}', "SP004"),
    "json cut short": ("case.json", b'{"model": {"a": [1, 2', "SP004"),
    "json with a key twice": ("case.json", b'{"model": "a", "model": "b"}', "SP005"),
    "json with NaN": ("case.json", b'{"model": NaN}', "SP012"),
    "json of one number": ("case.json", b"17", "SP012"),
    "json nested deeply": ("case.json", b"[" * 5000 + b"]" * 5000, "SP003"),
}


@pytest.mark.parametrize("name", FILES)
def test_malformed_files_are_refused_by_name(name: str, tmp_path: Path) -> None:
    file_name, content, code = FILES[name]
    path = tmp_path / file_name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_case(path)
    refused(caught.value, code)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(InputError) as caught:
            load_case(path)
        refused(caught.value, "SP001")


MODEL_FILES: dict[str, tuple[str, Any]] = {
    "a config of another kind": ("config.json", {"hello": "world"}),
    "an unsupported model type": ("config.json", {"model_type": "mamba", "hidden_size": 8}),
    "a config with text for a number": (
        "config.json",
        {"model_type": "llama", "hidden_size": "big", "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
    "a config with heads that do not divide": (
        "config.json",
        {
            "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6,
            "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 100, "head_dim": 16,
        },
    ),
    "a config without layers": ("config.json", {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 0}),
    "a config that is a list": ("config.json", [1, 2]),
    "a yml with an unknown block": ("model.yml", {"decoder_block": "rwkv", "base_emb_dim": 64}),
    "a yml with a negative width": ("model.yml", {"decoder_block": "llama2", "base_emb_dim": -64}),
    "a yml with linear attention": ("model.yml", {"decoder_block": "qwen3_next", "base_emb_dim": 64}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODEL_FILES)
def test_malformed_model_files_are_refused(name: str, tmp_path: Path) -> None:
    file_name, content = MODEL_FILES[name]
    (tmp_path / file_name).write_text(json.dumps(content))
    path = tmp_path / "case.yaml"
    path.write_text(f"model: {file_name}\nworkload:\n{WORKLOAD}cluster:\n{CLUSTER}")
    with pytest.raises(InputError) as caught:
        load_case(path)
    assert caught.value.exit_code == ExitCode.CANNOT_RUN
    assert file_name in str(caught.value)


@pytest.mark.parametrize(
    "name", ["llama3.1-700b", "", "a" * 100_000, "../../../etc/passwd", "none.json", "nul\0byte.json", "~/x.yml", "."]
)
def test_models_that_are_not_there_are_refused(name: str) -> None:
    text = f"model: {json.dumps(name)}\nworkload:\n{WORKLOAD}cluster:\n{CLUSTER}"
    with pytest.raises(InputError) as caught:
        parse_case(parse_yaml(text.replace("\\u0000", "\\0"), "case.yaml"))
    assert len(str(caught.value)) < 2000


def test_all_problems_of_all_sections_are_found_at_once() -> None:
    text = case(
        workload="  sequence_length: 0\n  global_batch: -1\n",
        cluster="  chip: tpu9\n  topology: 4x4x4\n",
        more="constraints: {remat: fulll}\nplan: {ici: {model: 8}, per_device_batch: 1}\n",
    )
    with pytest.raises(InputError) as caught:
        parse_case(parse_yaml(text, "case.yaml"))
    lines = [d.mark.line for d in caught.value.diagnostics if d.mark]
    assert len(lines) >= 5
    assert lines == sorted(lines)
    assert "did you mean 'full'?" in str(caught.value)


# --- launches ---------------------------------------------------------------------------------------------------------

LAUNCH = "python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3.1-8b per_device_batch_size=1"
COMMANDS: dict[str, str] = {
    "nothing": "",
    "blanks": "   ",
    "another program": "python3 -m http.server 8000=1",
    "a post-training trainer": "python3 -m maxtext.trainers.post_train.rl.train_rl model_name=llama3.1-8b",
    "another configuration": "python3 -m maxtext.trainers.pre_train.train tpu/v5.yml model_name=llama3.1-8b",
    "a dashed flag": LAUNCH + " --ici_fsdp_parallelism 8",
    "an open quote": LAUNCH + " run_name='x",
    "a bare word": LAUNCH + " hello",
    "custom mesh": LAUNCH + " custom_mesh_and_rule=pure-fsdp",
    "diloco": LAUNCH + " enable_diloco=true",
    "an indexer": "python3 -m maxtext.trainers.pre_train.train model_name=deepseek3.2-671b per_device_batch_size=1",
    "an axis that is not planned": LAUNCH + " ici_tensor_sequence_parallelism=2",
    "a sequence of 10**30": LAUNCH + f" max_target_length={10**30}",
    "float32 activations": LAUNCH + " dtype=float32",
    "a billion microbatches": LAUNCH + " ici_pipeline_parallelism=2 num_pipeline_microbatches=2000000000",
    "an int4 recipe": LAUNCH + " quantization=int4",
    "xpk without a command": "xpk workload create --tpu-type tpu7x-16",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_launches_that_cannot_be_read_or_modelled_end_in_2(name: str) -> None:
    with pytest.raises(InputError) as caught:
        load_command([COMMANDS[name]], accelerator="tpu7x-16")
    assert caught.value.exit_code == ExitCode.CANNOT_RUN
    assert all(d.mark is not None for d in caught.value.diagnostics)


REFUSED: dict[str, str] = {
    "an axis of old releases": "ici_tensor_transpose_parallelism=2",
    "a product that is too small": "ici_fsdp_parallelism=8",
    "a product that is too large": "ici_fsdp_parallelism=32",
    "a degree that leaves no whole rest": "ici_tensor_parallelism=3",
    "two open axes": "ici_data_parallelism=-1",
    "a degree of zero": "ici_fsdp_parallelism=0",
    "a degree of -2": "ici_fsdp_parallelism=-2",
    "a degree that is text": "ici_fsdp_parallelism=many",
    "a degree that is a boolean": "ici_fsdp_parallelism=true",
    "a degree that is a fraction": "ici_fsdp_parallelism=8.5",
    "a degree of 10**30": f"ici_fsdp_parallelism={10**30}",
    "slices that are not there": "dcn_data_parallelism=2",
    "a batch of zero": "per_device_batch_size=0",
    "a batch of NaN": "per_device_batch_size=nan",
    "a batch that is a word": "per_device_batch_size=auto",
    "a policy that is not there": "remat_policy=minimum",
    "a tensor kept nowhere": "remat_policy=custom context=disk",
    "an optimizer that is not there": "opt_type=adafactor",
    "a type that is not there": "weight_dtype=float64",
    "a quantisation that is not there": "quantization=fp6",
    "a model that is not there": "model_name=llama9-1b",
    "a size the model sets": "base_emb_dim=1024",
    "a boolean that is a word": "scan_layers=maybe",
    "a tile that does not divide": "sa_block_q=768",
    "a ragged sort without experts": "use_ragged_sort=true",
}


@pytest.mark.parametrize("name", REFUSED)
def test_launches_maxtext_would_refuse_end_in_3(name: str) -> None:
    with pytest.raises(InvalidShardingError) as caught:
        load_command([f"{LAUNCH} {REFUSED[name]}"], accelerator="tpu7x-16")
    assert caught.value.exit_code == ExitCode.INVALID
    for diagnostic in caught.value.diagnostics:
        assert str(diagnostic.mark).startswith("command line")


@pytest.mark.parametrize(
    "record",
    [
        {}, {"flags": {}}, {"flags": [], "topology": "tpu7x-8"}, {"flags": {}, "topology": 8},
        {"flags": {}, "topology": "tpu7x-8", "slices": 0}, {"flags": {}, "topology": "tpu7x-8", "slices": True},
        {"flags": {}, "topology": "tpu7x-7"}, {"flags": {}, "topology": "tpu7x-8", "slices": 10**12}, {"flags": None, "topology": None, "slices": "2"},
    ],
)  # fmt: skip
def test_malformed_records_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        load_record(record)


def test_without_an_accelerator_the_launch_says_what_to_add() -> None:
    with pytest.raises(InputError, match="--accelerator"):
        load_command([LAUNCH])


# --- fuzz -------------------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(min_value=10**18, max_value=10**40), st.floats(),
    st.text(max_size=20), st.sampled_from(["tpu7x", "4x4x4", "auto", "2M", "fsdp", "mla", "moe", "custom", "adamw", "5%"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        ("model",), ("model", "model_width"), ("model", "layer_groups"), ("model", "layer_groups", 0),
        ("model", "layer_groups", 0, "attention"), ("model", "layer_groups", 0, "attention", "kind"),
        ("model", "layer_groups", 0, "feed_forward"), ("model", "layer_groups", 0, "feed_forward", "n_experts"),
        ("model", "tied_embeddings"), ("model", "notes"), ("workload",), ("workload", "sequence_length"),
        ("workload", "global_batch"), ("workload", "global_batch_tokens"), ("workload", "per_device_batch"),
        ("workload", "optimizer"), ("workload", "precision"), ("workload", "training_tokens"), ("cluster",),
        ("cluster", "chip"), ("cluster", "topology"), ("cluster", "chips"), ("cluster", "accelerator"),
        ("cluster", "slices"), ("cluster", "usd_per_chip_hour"), ("constraints",), ("constraints", "remat"),
        ("constraints", "hbm_headroom"), ("constraints", "gradient_accumulation"), ("runtime",),
        ("runtime", "capacity_factor"), ("plan",), ("plan", "ici"), ("plan", "remat_tensors"), ("name",), ("surprise",),
    ]
)  # fmt: skip


def put(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    """A copy with the value at a path replaced."""
    if not path:
        return leaf
    if isinstance(value, list):
        return [put(item, path[1:], leaf) if i == path[0] else item for i, item in enumerate(value)]
    inner = value if isinstance(value, dict) else {}
    return {**inner, path[0]: put(inner.get(path[0]), path[1:], leaf)}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes=st.lists(st.tuples(PATHS, VALUES), min_size=1, max_size=3))
def test_any_value_in_any_field_is_read_or_refused(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    value = parse_yaml(case(), "case.yaml").value
    for path, leaf in changes:
        value = put(value, path, leaf)
    try:
        parse_case(Document(value, "case.yaml"))
    except InputError as error:
        assert all(d.mark is not None for d in error.diagnostics)


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_yaml, parse_json):
        try:
            parse_case(parse(text, "case"))
        except InputError:
            continue


FLAG_KEYS = st.sampled_from(
    [
        "ici_fsdp_parallelism", "dcn_data_parallelism", "ici_tensor_parallelism", "ici_context_parallelism",
        "ici_pipeline_parallelism", "per_device_batch_size", "max_target_length", "gradient_accumulation_steps",
        "remat_policy", "context", "decoder_layer_input", "num_vocab_tiling", "model_name", "override_model_config",
        "base_num_decoder_layers", "base_num_kv_heads", "num_experts", "global_parameter_scale", "mlp_activations",
        "decoder_block", "sa_block_q", "sa_block_kv_compute", "num_pipeline_microbatches", "num_pipeline_repeats",
        "num_layers_per_pipeline_stage", "capacity_factor", "quantization", "mu_dtype", "attention", "scan_layers",
        "logical_axis_rules", "compile_topology", "compile_topology_num_slices", "run_name", "steps", "nonsense",
    ]
)  # fmt: skip
FLAG_TEXTS = st.one_of(
    st.integers(min_value=-3, max_value=64).map(str), st.integers().map(str), st.floats().map(str), st.text(max_size=12),
    st.sampled_from(["true", "false", "null", "", "custom", "device", "[]", "[gelu]", "{}", "default", "1e400", "'", "-1"]),
)  # fmt: skip


@example(flags=[("compile_topology_num_slices", "1000000001")])
@example(flags=[("sa_block_q", "1000000001")])
@settings(max_examples=150, deadline=None)
@given(flags=st.lists(st.tuples(FLAG_KEYS, FLAG_TEXTS), max_size=6))
def test_any_flags_are_read_or_refused(flags: list[tuple[str, str]]) -> None:
    words = ["python3", "-m", "maxtext.trainers.pre_train.train", *(f"{key}={text}" for key, text in flags)]
    try:
        launch = load_command(words, accelerator="tpu7x-16")
    except ShardplanError as error:
        assert all(d.mark is not None for d in error.diagnostics)
    else:
        degrees = [*launch.split.ici.values()]
        product = 1
        for degree in degrees:
            product *= degree
        assert product == 16


@settings(max_examples=100, deadline=None)
@given(line=st.text(max_size=120))
def test_any_command_line_is_read_or_refused(line: str) -> None:
    try:
        load_command([line], accelerator="tpu7x-16")
    except ShardplanError as error:
        assert error.diagnostics
