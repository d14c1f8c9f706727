"""Our own plans are legal: a recommended plan, exported and checked, is the same plan at the same price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardplan.data import model_configs_folder
from shardplan.data import names as names_in
from shardplan.engine.chosen import chosen
from shardplan.engine.decide import decide, judge_split
from shardplan.errors import InputError
from shardplan.launch.gate import flag_record
from shardplan.loaders.load import load_record, parse_case
from shardplan.source import Document
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.plan import ChoiceOut, PlanOut
    from shardplan.spec import Case

LENGTHS = (
    64,
    100,
    128,
    130,
    192,
    200,
    256,
    320,
    384,
    448,
    500,
    512,
    640,
    768,
    896,
    1000,
    1152,
    1280,
    1536,
    2304,
    4096,
    8192,
)
SMALL = (
    "llama3.1-8b",
    "gemma2-2b",
    "gpt3-6b",
    "deepseek2-16b",
    "mixtral-8x7b",
    "qwen3-30b-a3b",
    "gpt-oss-20b",
    "olmo3-7b",
    "qwen3-0.6b",
)
ACCELERATORS = ("tpu7x-8", "tpu7x-16", "tpu7x-64", "v5p-16", "v6e-16", "v5litepod-16")


def case_of(**sections: Any) -> Case:
    return parse_case(Document(sections, "case.yaml"))


def plain(length: int, **sections: Any) -> Case:
    workload = {"sequence_length": length, "global_batch": 128}
    return case_of(**{"model": "llama3.1-8b", "workload": workload, "cluster": {"accelerator": "tpu7x-16"}, **sections})


def same_again(plan: PlanOut, choice: ChoiceOut) -> None:
    """Assert that the launch of a plan is judged as the plan was."""
    launch = load_record(flag_record(plan, choice))
    checked = judge_split(launch.case, split_rows(launch.case, launch.split), "launch")
    assert checked.problems == ()
    assert checked.verdict == choice.verdict
    assert checked.choice is not None
    assert checked.choice.memory.total_bytes == pytest.approx(choice.memory.total_bytes, rel=1e-9)
    assert checked.choice.memory.arguments_bytes == pytest.approx(choice.memory.arguments_bytes, rel=1e-9)
    assert checked.choice.time.estimate_s == pytest.approx(choice.time.estimate_s, rel=1e-9)
    assert checked.choice.mesh == choice.mesh
    assert checked.choice.maxtext_flags == choice.maxtext_flags


@pytest.mark.parametrize("length", LENGTHS)
def test_every_length_has_a_plan_that_is_legal(length: int) -> None:
    plan = decide(plain(length), 1)
    assert plan.plans
    same_again(plan, plan.plans[0])
    has_tiles = length % 128 == 0
    assert plan.plans[0].maxtext_flags["attention"] == ("flash" if has_tiles else "dot_product")
    if has_tiles:
        tile = plan.plans[0].maxtext_flags["sa_block_q"]
        assert isinstance(tile, int)
        assert tile % 128 == 0
        assert length % tile == 0


@pytest.mark.parametrize("wanted", [64, 100, 128, 384, 3000])
def test_any_wanted_tile_becomes_a_legal_one(wanted: int) -> None:
    plan = decide(plain(4096, runtime={"attention_tile_tokens": wanted}), 1)
    same_again(plan, plan.plans[0])
    assert plan.plans[0].maxtext_flags["sa_block_kv"] == {64: 128, 100: 128, 128: 128, 384: 512, 3000: 4096}[wanted]


def test_flash_attention_that_is_asked_for_needs_whole_tiles() -> None:
    plan = decide(plain(320, runtime={"attention": "flash"}), 1)
    assert not plan.plans
    assert set(plan.rejected) >= {"SP530"}


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "deepseek2-16b", "gpt-oss-20b"])
def test_fp8_experts_get_tiles_that_divide_them(model: str) -> None:
    """A tile wider than the expert, or that does not divide it, is an assertion in the kernel."""
    case = case_of(
        model=model, workload={"sequence_length": 4096, "global_batch": 128, "precision": "fp8"},
        cluster={"accelerator": "tpu7x-64"}, runtime={"quantization": "fp8_full"},
    )  # fmt: skip
    plan = decide(case, 1)
    same_again(plan, plan.plans[0])
    width = case.architecture.layers[-1][0].feed_forward.width
    split = plan.plans[0].mesh.ici.get("tensor", 1)
    for key in ("wi_tile_fwd_mlp_dim", "wi_tile_drhs_mlp_dim"):
        tile = plan.plans[0].maxtext_flags[key]
        assert isinstance(tile, int)
        assert width // split % tile == 0


def maybe(draw: st.DrawFn, key: str, values: Sequence[Any]) -> dict[str, Any]:
    return {key: draw(st.sampled_from(values))} if draw(st.integers(0, 3)) == 0 else {}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    workload: dict[str, Any] = {"sequence_length": draw(st.sampled_from(LENGTHS))}
    workload |= draw(
        st.sampled_from(
            [{"global_batch": n} for n in (1, 16, 24, 96, 256, 2048)]
            + [{"per_device_batch": n} for n in ("auto", 1, 0.5)]
        )
    )
    workload["optimizer"] = {
        "name": draw(st.sampled_from(["adamw", "sgd"])),
        "weight_dtype": draw(st.sampled_from(["float32", "bfloat16"])),
    }
    runtime = (
        maybe(draw, "attention", ["flash", "dot_product", "dot_product"])
        | maybe(draw, "attention_tile_tokens", [64, 384, 2048])
        | maybe(draw, "context_strategy", ["ring", "ulysses", "all_gather"])
        | maybe(draw, "context_load_balance", [False])
        | maybe(draw, "tokamax_splash", [True, False])
        | maybe(draw, "fused_attention_backward", [True])
        | maybe(draw, "iota_embed", [True])
        | maybe(draw, "quantization", ["int8"])
        | maybe(draw, "pipeline_delay_activations", [True])
        | maybe(draw, "scan_layers", [False])
    )
    limits = maybe(draw, "max_fsdp_parallelism", [1, 4]) | maybe(draw, "max_data_parallelism", [1])
    cluster = {"accelerator": draw(st.sampled_from(ACCELERATORS)), "slices": draw(st.sampled_from([1, 1, 2]))}
    return {
        "model": draw(st.sampled_from(SMALL)),
        "workload": workload,
        "cluster": cluster,
        "runtime": runtime,
        "constraints": limits,
    }


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(documents())
def test_random_plans_come_back_the_same(document: dict[str, Any]) -> None:
    assert set(SMALL) <= set(names_in(model_configs_folder()))
    try:
        case = case_of(**document)
    except InputError:
        return
    plan = decide(case, 2)
    for choice in plan.plans:
        if choice.maxtext_flags:
            same_again(plan, choice)
    if plan.plans:
        again = chosen(case)
        assert again is not None
        assert again.choice.maxtext_flags == plan.plans[0].maxtext_flags
        rebuilt = judge_split(again.case, split_rows(again.case, again.split), "rebuilt").choice
        assert rebuilt is not None
        assert rebuilt.time.estimate_s == pytest.approx(plan.plans[0].time.estimate_s, rel=1e-9)
        assert rebuilt.memory.total_bytes == pytest.approx(plan.plans[0].memory.total_bytes, rel=1e-9)


# --- one meaning -----------------------------------------------------------------------------------------------------


def test_accumulation_goes_on_while_a_micro_step_has_a_sequence_a_device() -> None:
    case = case_of(
        model="gemma-2b",
        workload={"sequence_length": 8192, "global_batch": 4096},
        cluster={"accelerator": "v5litepod-4"},
    )
    plan = decide(case, 1)
    assert plan.plans
    assert plan.plans[0].gradient_accumulation > 16


@pytest.mark.parametrize("delayed", [False, True])
def test_microbatches_that_nobody_gives_are_the_same_in_a_case_and_in_a_launch(*, delayed: bool) -> None:
    split = {"ici": {"pipeline": 4, "fsdp": 4}, "per_device_batch": 8}
    case = plain(4096, plan=split, runtime={"pipeline_delay_activations": delayed})
    assert case.plan is not None
    rows = split_rows(case, case.plan)
    flags = f"ici_pipeline_parallelism=4 ici_fsdp_parallelism=4 pipeline_delay_activation_forwarding={delayed}"
    record = {
        "topology": "tpu7x-16",
        "flags": {"model_name": "llama3.1-8b", **dict(f.split("=") for f in flags.split())},
    }
    assert (
        rows.pipeline_microbatches.tolist()
        == [8 if delayed else 4]
        == [load_record(record).split.pipeline_microbatches]
    )
    own = chosen(case)
    assert own is not None
    assert own.choice.maxtext_flags["num_pipeline_microbatches"] == (8 if delayed else 4)


def test_a_bound_on_fsdp_bounds_both_of_its_axes() -> None:
    case = plain(4096, constraints={"max_fsdp_parallelism": 2})
    for choice in decide(case, 5).plans:
        assert choice.mesh.ici.get("fsdp", 1) * choice.mesh.ici.get("fsdp_transpose", 1) <= 2


def test_a_one_hot_embedding_costs_its_matmul() -> None:
    """Forward and the gradient of the table, 2 x 2 n V D FLOPs. Source: MaxText layers/embeddings.py."""
    lookup, one_hot = (chosen(plain(4096, runtime={"iota_embed": wanted})) for wanted in (False, True))
    assert lookup is not None
    assert one_hot is not None
    split = split_rows(lookup.case, lookup.split)
    before, after = (judge_split(found.case, split, "").choice for found in (lookup, one_hot))
    assert before is not None
    assert after is not None
    more = after.time.breakdown["compute_s"] - before.time.breakdown["compute_s"]
    flops = 4 * 4096 * 128 / 16 * 128256 * 4096
    peak_s = flops / lookup.case.cluster.chip.flops_per_s("bf16")
    assert peak_s < more < 1.6 * peak_s
