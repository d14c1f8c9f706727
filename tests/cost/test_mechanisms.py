"""Each mechanism of memory, time and network is there because some measured point needs it: without it, that point is missed.

A mechanism is a function or a constant that a module of the cost model defines for others, or a calibrated constant. For each
a row of `MECHANISMS` says what holds with it and not without it: that compiled or published points lie near, or a law in
numbers. A new mechanism without a row fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from compiled_collectives import POINTS, predicted_megabytes
from measured_collectives import MEASUREMENTS, predicted_s
from mechanisms import defined, forget, is_formula, switch_off
from places import DATA
from small_cases import DENSE, DENSE_MODEL, GQA, MOE, architecture, case_of

from benchmarks.compared import compiled_bytes, load_flags, read_corpus
from benchmarks.published import Run, read_runs
from shardplan.cost.calibration import calibration_file, calibration_names, constant, step_time_band
from shardplan.cost.estimate import step_time_of
from shardplan.cost.memory.setting import Setting
from shardplan.cost.memory.total import Memory, memory
from shardplan.cost.network.comm import collectives
from shardplan.cost.network.links import Network, Route
from shardplan.cost.time import compute
from shardplan.cost.time.step_time import step_time
from shardplan.loaders.presets import load_architecture
from shardplan.machine.chips import load_chip
from shardplan.spec import Case, Split
from shardplan.spec.machine import Compiler
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.splits.candidates import Candidates

CORPORA = ("compiled_memory.jsonl", "compiled_memory_wide.jsonl", "compiled_published.jsonl")


# --- what holds ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mechanism:
    """What holds with a mechanism and not without it."""

    holds: Callable[[], None]
    """Raises AssertionError, or cannot be computed at all, where the mechanism is off."""
    off: Any = None
    """What stands in its place; None for a function whose result adds nothing, or zeros."""


@cache
def _records() -> dict[str, dict[str, Any]]:
    return {record["id"]: record for name in CORPORA for record in read_corpus(DATA / name)}


@cache
def _compiled(name: str) -> tuple[Case, Candidates, float]:
    return (*load_flags(_records()[name]), compiled_bytes(_records()[name]))


@cache
def _runs() -> dict[str, Run]:
    return {run.name: run for name in ("recipes_tpu", "ablations_tpu") for run in read_runs(DATA / f"{name}.jsonl")}


def near(within: float, *ids: str, off: Any = None) -> Mechanism:
    """Predicted memory of compiled points lies near the compiler's."""

    def holds() -> None:
        assert ids
        for name in ids:
            case, candidates, compiled = _compiled(name)
            assert memory(case, candidates).total_bytes[0] == pytest.approx(compiled, rel=within), name

    return Mechanism(holds, off)


def met(within: float, *names: str, off: Any = None) -> Mechanism:
    """The predicted step times of published runs are near the measured ones."""

    def holds() -> None:
        assert names
        for name in names:
            run = _runs()[name]
            assert step_time_of(run.case, run.candidates)[0] == pytest.approx(run.step_time_s, rel=within), name

    return Mechanism(holds, off)


def moved(name: str, axis: str, kind: str, off: Any = None) -> Mechanism:
    """The bytes of a compiled program's collectives are those we predict."""

    def holds() -> None:
        point = next(point for point in POINTS if point.name == name)
        assert predicted_megabytes(point)[axis, kind] == pytest.approx(point.megabytes[axis, kind], rel=0.005)

    return Mechanism(holds, off)


def timed(within: float, name: str, off: Any = None) -> Mechanism:
    """A measured collective takes as long as we predict."""

    def holds() -> None:
        one = next(one for one in MEASUREMENTS if one.name == name)
        assert predicted_s(one) == pytest.approx(one.seconds, rel=within)

    return Mechanism(holds, off)


def _memory(topology: str = "tpu7x-8", slices: int = 1, **flags: Any) -> Memory:
    usual = {"model_name": "llama3.1-8b", "per_device_batch_size": 2, "max_target_length": 8192, "attention": "flash"}
    return memory(*load_flags({"id": "test", "topology": topology, "slices": slices, "flags": usual | flags}))


def band(expected: float, topology: str = "tpu7x-8", slices: int = 1, off: Any = None, **flags: Any) -> Mechanism:
    """The error band is this wide: features add up as independent errors do."""

    def holds() -> None:
        assert _memory(topology, slices, **flags).error_band[0] == pytest.approx(expected, abs=1e-4)

    return Mechanism(holds, off)


def _priced(case: Case, **split: Any) -> Memory:
    return memory(case, split_rows(case, Split(**({"per_device_batch": 1.0} | split))))


def _stage_holds_its_layers() -> None:
    """Fifteen other blocks of a stage hold three matrices of eight experts each, gathered."""
    flags = {"model_name": "mixtral-8x7b", "max_target_length": 2048, "ici_pipeline_parallelism": 2}
    got = _memory("tpu7x-32", **flags, num_layers_per_pipeline_stage=16, num_pipeline_microbatches=2)
    backward = next(moment for moment in got.moments if moment.name == "experts_backward")
    stage = sum(float(np.max(term.value)) for kind, term in backward.shared.parts if kind == "pipeline_bytes")
    assert stage > 15 * 3 * 2 * 8 * 4096 * 14336


def _unrolled_layer_holds_its_rows() -> None:
    """A mixture of experts outside the loops holds two rows of the width, three hidden ones, for each visit."""
    groups = (
        {"count": 1, "attention": GQA, "feed_forward": MOE},
        {"count": 8, "attention": GQA, "feed_forward": DENSE},
    )
    got = _priced(case_of(architecture(*groups), batch=32), ici={"fsdp": 32})
    loss = next(moment for moment in got.moments if moment.name == "loss_and_logits")
    rows = sum(float(np.max(term.value)) for kind, term in loss.terms if kind == "moe_dispatch_bytes")
    assert rows == 4096 * 4 * 2 * (2 * 2048 + 3 * 1536)


def _few_tokens_do_not_wait_at_a_tied_head() -> None:
    """Gemma 2 27B over 16 devices with 1.8 times its width in tokens: the logits' gradient does not wait."""
    got = _memory("tpu7x-16", model_name="gemma2-27b", per_device_batch_size=1)
    for moment in got.moments:
        waiting = [float(np.max(t.value)) for _, t in moment.shared.parts if t.name == "logits_gradient_bytes"]
        assert sum(waiting) == 0


def _releases_that_were_not_compiled_are_wider() -> None:
    flags = {"model_name": "llama3.1-8b", "per_device_batch_size": 2, "max_target_length": 8192, "attention": "flash"}
    record = {"id": "test", "topology": "tpu7x-8", "flags": flags}
    case, candidates = load_flags(record)
    runtime = case.runtime.model_copy(update={"maxtext": "0.1.0"})
    old = memory(case.model_copy(update={"runtime": runtime}), candidates).error_band[0]
    assert old > memory(case, candidates).error_band[0] + 0.01


def _inputs_lie_on_the_host() -> None:
    got = _memory(remat_policy="custom", decoder_layer_input="offload")
    assert got.host_bytes[0] == 2 * 2 * 8192 * 4096 * 32


def _holes_are_a_line() -> None:
    got = _memory()
    assert sum(term.value_at(0) for term in got.terms_at(0)) == pytest.approx(got.total_bytes[0])


def _an_orthogonalised_update_squares_its_matrices() -> None:
    parts = _memory("tpu7x-8", opt_type="muon").moments[0].own
    products = sum(float(np.max(term.value)) for _, term in parts if term.name == "products_bytes")
    assert products == 16 * 32 * 4096**2


def _bytes(split: Split, purpose: str, axis: str, network: str = "ici", slices: int = 1) -> float:
    case = case_of(DENSE_MODEL, slices=slices)
    found = collectives(case, split_rows(case, split))
    return sum(float(c.bytes[0]) for c in found if (c.purpose, c.axis, c.network) == (purpose, axis, network))


def _summed_gradients_of_the_head_are_wide() -> None:
    once, summed = (
        _bytes(
            Split(ici={"fsdp": 8, "data": 4}, per_device_batch=1.0, gradient_accumulation=n),
            "gradients of output head",
            "data",
        )
        for n in (1, 2)
    )
    assert summed == 2 * once > 0


def _a_slice_sends_through_its_cards() -> None:
    """12.5 GB/s a chip of tpu7x, shared by two devices."""
    case = case_of(DENSE_MODEL, slices=2)
    network = Network.of(case.cluster, split_rows(case, Split(ici={"fsdp": 32}, dcn={"data": 2}, per_device_batch=1.0)))
    assert network.dcn_bytes_per_s == pytest.approx(6.25e9)


def _handed_over() -> None:
    """Two stages in two slices: each iteration hands a microbatch over cards of 6.25 GB/s a device, at 74%."""
    case = case_of(DENSE_MODEL, slices=2)
    split = Split(ici={"fsdp": 32}, dcn={"pipeline": 2}, per_device_batch=3.0, pipeline_microbatches=2)
    (handed,) = (c for c in collectives(case, split_rows(case, split)) if c.purpose == "microbatches")
    assert handed.seconds[0] == pytest.approx(handed.bytes[0] / (6.25e9 * 0.74))


def _stages_idle() -> None:
    case = case_of(DENSE_MODEL)
    split = Split(ici={"fsdp": 16, "pipeline": 2}, per_device_batch=3.0, pipeline_microbatches=2)
    rows = split_rows(case, split)
    parts = step_time(case, rows, collectives(case, rows)).breakdown
    busy = parts["compute_s"] + parts["recompute_s"] + parts["hbm_s"]
    # One stage of two waits: 1 / (2 microbatches x 6 rounds) of the busy time.
    assert parts["bubble_s"] == pytest.approx(busy / 12)


def _flops_are_maxtexts() -> None:
    """Llama 2 7B at 4096 tokens: 162.3755 TFLOP of weights and 13.1941 of attention a sequence. Source: MaxText 0.2.5."""
    model = load_architecture("llama2-7b")
    assert 3 * 4096 * compute.weight_flops_per_token(model) == pytest.approx(162.3755e12, rel=1e-5)
    assert 3 * 4096 * compute.attention_flops_per_token(model, 4096) == pytest.approx(13.1941e12, rel=1e-5)
    assert 4096 * compute.model_flops_per_token(model, 4096) == pytest.approx((162.3755 + 13.1941) * 1e12, rel=1e-5)


def _nothing_is_faster_than_the_peaks() -> None:
    run = _runs()[BF16_RUN]
    bound = step_time(run.case, run.candidates, collectives(run.case, run.candidates)).lower_s[0]
    assert 0.5 * run.step_time_s < bound < run.step_time_s


@cache
def _errors() -> Any:
    runs = read_runs(DATA / "recipes_tpu.jsonl")
    return np.abs([step_time_of(run.case, run.candidates)[0] / run.step_time_s - 1 for run in runs])


def _nine_in_ten_runs_are_in_the_band() -> None:
    assert np.mean(_errors() <= constant("overlap", "error_band")) >= 0.9
    assert np.mean(_errors() <= constant("overlap", "error_band") / 2) < 0.9


def _a_chip_without_runs_is_less_certain() -> None:
    assert step_time_band(load_chip("v4")) == pytest.approx(0.304, abs=1e-4)


# --- the mechanisms ------------------------------------------------------------------------------------------------

BF16_RUN = "ironwood/llama3.1-70b/8k-bf16-tpu7x-4x4x4/xpk@edf6fa7"
FP8_RUN = "ironwood/llama3.1-405b/8k-fp8-tpu7x-4x8x8@86399bc"
LONG_RUN = "ironwood/llama3.1-70b/128k-bf16-tpu7x-4x8x8/xpk@82a737a"
DEEPSEEK, DEEPSEEK_FP8 = (f"ironwood/deepseek3-671b/4k-{p}-tpu7x-4x8x8@8aa6a5c" for p in ("bf16", "fp8"))
SMALL_MOE_RUN = "docs/understand_logs/deepseek2-16b-v5p-8"
LIGHT_RUN = "docs/tiering/llama3.1-8b-v6e256"
GEMMA_RUN = "trillium/Gemma3-12B-MaxText/2x-v6e-256@6472c99"
OFFLOAD_RUN = "ironwood/gpt-oss-120b/8k-bf16-tpu7x-4x4x4@8aa6a5c"
V6E_OFFLOAD_RUN = "trillium/Llama3.1-8B-MaxText/v6e-64@d95a9dc"
RING_RUN, ULYSSES_RUN = (f"pr4687/llama2-7b-32k-cp16/{strategy}" for strategy in ("ring", "ulysses"))
TINY_GATHER, SMALL_GATHER = "tiny all-gather over a line of 4", "all-gather of 0.25 MiB shards, 2x2 chips"
ALL_REDUCE = "all-reduce of 0.606 GB, 256 chips"
GPT_OSS = "q019_gpt-oss-20b_v5p-64"
MOE_FLAGS = {"model_name": "qwen3-30b-a3b", "max_target_length": 4096}

MEMORY: dict[str, Mechanism] = {
    "experts.PACKED_ROWS": near(0.04, "ds3_t7x512_s4k_b4_full_ep1", off=1),
    "experts.SPARSE_MOMENTS": near(0.005, "q001_mixtral-8x7b_tpu7x-32", "z_q235L8ep8", "z_mxL8ep8"),
    "experts.DENSE_MOMENTS": near(
        0.03, "q017_deepseek2-16b_v5p-64", "trillium/Mixtral-8x7B-MaxText@f190d41", "z_mxL8cap"
    ),
    "experts.ALL_ROWS": near(0.015, "h001_qwen3-30b-a3b_tpu7x-32", "z_ds2", "c_q30_v5p-64"),
    "experts.SPLIT_ROWS": near(0.03, "z_mxL8tp2", "q020_mixtral-8x7b_v6e-256", "z_q30tp4"),
    "experts.PRESSED_ROWS": near(0.005, "q001_mixtral-8x7b_tpu7x-32", "z_q235L8ep8", "z_mxL8ep8"),
    "experts.PRESSURE": near(0.02, "z_ds2ep8", "z_q30", "n_q30ep8_t16"),
    "experts.BIASES": near(0.04, "h044_gpt-oss-20b_v5p-16", "q019_gpt-oss-20b_v5p-64", "z_oss20ep8"),
    "experts.expert_rows": near(0.015, "mx8x7_t7x16_s4k_b4_full_ep8", "z_q30min", "z_l4L8"),
    "experts.held_experts": near(0.02, "z_oss20", "z_l4L8", "h044_gpt-oss-20b_v5p-16"),
    "experts.apart_experts": near(0.04, "q019_gpt-oss-20b_v5p-64"),
    "experts.expert_moments": near(0.015, "z_q235L8", "z_mxL8", "z_ds3L6"),
    "head.TIED_SHARDS": near(0.02, "z_gemma3-4b_tpu7x-8"),
    "head.WAITING_SHARDS": near(0.03, "l8_tp2_b1", "l8_t7x8_s8k_b2_full_tp2", "z_q30tp4"),
    "head.HOLE_UNDER_LOGITS": near(0.02, "c_l8_cp4_v5p-64", "n_l8_t64_b2"),
    "head.SCRATCH_SHARE": near(
        0.03, "m_llama3.1-405b_tpu7x-512_s8192_b1", "ds3_t7x512_s4k_b4_full_ep16", "l70_t7x128_s8k_b2_full"
    ),
    "head.loss": near(0.01, "c_l8_v6e-64", "c_l8_v6e-256", "h021_qwen3-1.7b_tpu7x-32"),
    "head.embedding_scratch": near(
        0.03, "m_llama3.1-405b_tpu7x-512_s8192_b1", "ds3_t7x512_s4k_b4_full_ep16", "l70_t7x128_s8k_b2_full"
    ),
    "head.before_loss": near(0.04, "r2_min_ft", "h011_qwen3-8b_tpu7x-32", "r2_min_dpft"),
    "head.after_loss": near(
        0.005, "l8_off_decoder_layer_input", "m_llama2-7b_tpu7x-8_s4096_b2", "l8_t7x8_s8k_b2_save_qkv_proj"
    ),
    "head.logits_gradient_waits": near(0.005, "l8_dev_query_proj", "l8_dev_key_proj", "l8_dev_mlpwo"),
    "head.pipeline_outputs": near(0.025, "c_l8_dcnpp2_v5p-32"),
    "kept.BFLOAT16_BYTES": near(0.02, "h037_llama2-7b_v6e-16", "h001_qwen3-30b-a3b_tpu7x-32", "l8_wbf16"),
    "kept.saved_activations": near(0.005, "l8_t7x8_s8k_b2_full", "l8_none", "l8_s2048_b8"),
    "kept.relaid": near(0.015, "l8_off_mlpwi0", "r1_wi01q", "r1_wi01"),
    "kept.relaid_last": near(0.025, "q010_qwen3-8b_tpu7x-8", "l8_t7x8_s8k_b2_minimal_offloaded", "l8_off_qkv"),
    "kept.returned_stack": near(0.04, "r2_min_ft", "h011_qwen3-8b_tpu7x-32", "r2_min_dpft"),
    "kept.returning": near(0.025, "r1_wi01q", "r1_wi01", "trillium/Mixtral-8x7B-MaxText@f190d41"),
    "kept.last_iteration": near(
        0.03, "q010_qwen3-8b_tpu7x-8", "l8_t7x8_s8k_b2_minimal_offloaded", "h002_llama3.1-8b_v6e-16"
    ),
    "kept.weight_copies": near(0.005, "l8_t7x8_s8k_b2_full_mubf16", "l8_dev_mlpwi_0", "l8_dev_mlpwi_1"),
    "kept.layer_gradients": near(0.005, "l8_optoff", "l8_t7x2_s8k_b2_full", "l8_t7x8_s8k_b2_minimal"),
    "layers.BLOCK_NORMS": near(
        0.025, "h037_llama2-7b_v6e-16", "q007_mistral-7b_v5e-256", "trillium/Mixtral-8x7B-MaxText@f190d41"
    ),
    "layers.recomputed": near(0.005, "c_l8_v6e-16", "l8_t7x8_s8k_b1_full_tp4", "l8_t7x8_s8k_b2_full_fp8"),
    "layers.held": near(0.02, "q037_gemma3-27b_v5p-16", "z_gemma3-4b_tpu7x-8", "z_ds2ep8"),
    "layers.stream": near(0.005, "l8_vt2", "l8_t7x8_s8k_b2_full_vt8", "l8_vt4"),
    "layers.gathered_stream": near(0.01, "h034_qwen3-32b_tpu7x-8", "h036_mistral-7b_v5e-16", "l8_t7x8_s8k_b1_full_tp4"),
    "layers.attention": near(0.005, "l8_vt16", "l8_b3", "h013_mistral-7b_tpu7x-16"),
    "layers.queries": near(0.015, "h049_llama3.1-8b_tpu7x-16", "h000_llama3.1-8b_tpu7x-16", "h010_default_tpu7x-8"),
    "layers.softmax_statistics": near(0.025, "h052_llama3.1-70b_tpu7x-32", "l8_pp2", "c_l8_vt4_v5p-64"),
    "layers.hidden": near(
        0.005, "l8_t7x8_s8k_b2_save_out_proj", "l8_dev_out_proj", "l8_t7x8_s8k_b2_save_dot_except_mlp"
    ),
    "layers.gathered_weights": near(0.01, "h028_llama3.1-405b_tpu7x-8", "h007_llama3.1-70b_tpu7x-16", "c_l8_v6e-16"),
    "layers.attention_weights": near(
        0.02, "z_405L6", "m_llama3.1-405b_tpu7x-512_s8192_b1", "m_llama2-13b_tpu7x-8_s4096_b2"
    ),
    "layers.recomputed_hidden": near(0.01, "l8_gbf16", "l8_ft2", "l8_b6"),
    "layers.held_dense": near(0.015, "q037_gemma3-27b_v5p-16", "z_ds2", "z_ds2ep8"),
    "layers.apart_dense": near(0.035, "trillium/Gemma3-12B-MaxText/v6e-256@6472c99"),
    "layers.waiting_hidden": near(0.035, "trillium/Gemma3-12B-MaxText/v6e-256@6472c99"),
    "layers.staged_dense": near(0.025, "l8_pp2"),
    "layers.dense_moments": near(0.005, "l8_t7x2_s8k_b6_full", "l8_t7x8_s8k_b2_full_dp8", "l8_s4096_b2"),
    "moments.WIDE_HOLES": near(
        0.035, "m_llama3.1-405b_tpu7x-512_s8192_b1", "l70_t7x128_s8k_b2_full", "l70_t7x512_s128k_recipe"
    ),
    "moments.EXPERT_HOLES": near(0.02, "z_q30ep4", "c_q30_v5p-64", "z_q235L8ep8"),
    "rescue.MARGIN": near(0.045, "trillium/Mixtral-8x7B-MaxText@f190d41", "trillium/GPT3-175B-MaxText/bf16@44189f9"),
    "setting.RING_SHARDS": near(0.01, "c_l8_min_v5p-64", "l8_s32768_b1", "z_gemma-2b_tpu7x-8"),
    "Setting.fuses_matmuls": near(0.01, "h039_mistral-7b_v5p-16", "c_l8_v6e-32", "c_l8_v5p-16"),
    "Setting.stages": near(0.025, "c_l8_pp4_v5p-64", "c_l8_dcnpp2_v5p-32", "l8_pp2"),
    "Setting.expert_shards": near(0.03, "z_ds3L6", "q235_t7x512_s4k_b4_full", "h044_gpt-oss-20b_v5p-16"),
    "Setting.ring": near(0.01, "l8_t7x8_s8k_b1_full", "c_l8_v6e-8", "l8_t7x8_s32k_b0.25_full_cp4"),
    "Setting.lean": near(0.025, "c_l8_v5e-64", "c_l8_v5e-256", "q007_mistral-7b_v5e-256"),
    "Setting.scatters_wide": near(
        0.02, "l70_t7x128_s8k_b2_recipe", "ds3_t7x512_s4k_b4_full_ep16", "m_llama3.1-405b_tpu7x-512_s8192_b1"
    ),
    "Setting.split": near(0.02, "h034_qwen3-32b_tpu7x-8", "c_l8_tp4_v5p-64", "h036_mistral-7b_v5e-16"),
    "Setting.gathers": near(0.01, "q032_llama3.1-8b_v6e-16", "c_l8_dp4_v5p-64", "c_l8_v5p-64"),
    "Setting.untiled": near(0.01, "l8_dp2", "l8_t7x8_s8k_b2_save_dot_with_context_except_mlp", "l8_dev_context"),
    "Setting.kept": near(0.015, "h015_qwen3-8b_tpu7x-32", "l8_t7x8_s8k_b2_save_qkv_proj", "l8_dev_query_proj"),
    "Setting.offloaded": near(0.015, "l8_off_decoder_layer_input", "r1_wi01q", "r1_wi01"),
    "Setting.recomputed": near(0.005, "m_llama2-7b_tpu7x-8_s4096_b2", "l8_dev_key_proj", "l8_dev_mlpwo"),
    "Setting.inputs": near(0.01, "h024_llama2-13b_tpu7x-8", "c_l8_v5p-8", "h009_qwen3-4b_v5p-16"),
    "Setting.passes": near(0.015, "l8_cp4", "l8_ga2", "l8_t7x8_s8k_b2_full"),
    "Setting.blocks_per_stage": near(0.025, "c_l8_pp4_v5p-64", "c_l8_dcnpp2_v5p-32", "l8_pp2"),
    "Setting.layer_elements": near(0.015, "h019_qwen3-30b-a3b_v5p-16", "l8_none", "l8_s2048_b8"),
    "Setting.outer_elements": near(
        0.01, "q010_qwen3-8b_tpu7x-8", "q032_llama3.1-8b_v6e-16", "h007_llama3.1-70b_tpu7x-16"
    ),
    "Setting.scanned_matrix_elements": near(0.005, "l8_t7x8_s8k_b2_full_mubf16", "l8_dev_mlpwi_0", "l8_dev_mlpwi_1"),
    "Setting.weight_bytes": near(0.015, "l8_optoff", "z_llama70L12v5p", "l8_tokamax"),
    "Setting.gradient_bytes": near(0.015, "l8_sl2_dp", "l8_t7x2_s8k_b2_full", "h056_llama2-13b_tpu7x-16"),
    "terms.weight_copies_bytes": near(0.005, "l8_t7x8_s8k_b2_minimal", "l8_t7x8_s8k_b2_full_fp8", "l8_vt2"),
    "terms.layer_gradients_bytes": near(0.005, "l8_t7x8_s8k_b2_full_vt8", "l8_vt4", "l8_vt16"),
    "terms.accumulated_gradients_bytes": near(
        0.02, "h026_llama3.1-70b_tpu7x-16", "h020_mixtral-8x7b_tpu7x-16", "h009_qwen3-4b_v5p-16"
    ),
    "terms.layer_inputs_bytes": near(
        0.015, "h055_gemma2-27b_v5p-32", "z_qwen3-0.6b_tpu7x-8", "l8_t7x8_s8k_b2_save_out_proj"
    ),
    "terms.kept_bytes": near(
        0.005, "l8_dev_out_proj", "l8_t7x8_s8k_b2_minimal_with_context", "l8_t7x8_s8k_b2_save_dot_except_mlp"
    ),
    "terms.logits_bytes": near(0.015, "z_gemma2-2b_tpu7x-8", "h029_llama3.1-8b_tpu7x-8", "l8_t7x2_s8k_b6_full"),
    "terms.output_head_bytes": near(0.02, "c_l8_v6e-64", "c_l8_v6e-256", "q027_llama3.1-8b_tpu7x-8"),
    "terms.stream_bytes": near(0.005, "l8_b3", "l8_gbf16", "h013_mistral-7b_tpu7x-16"),
    "terms.gathered_stream_bytes": near(0.025, "l8_tp8", "l8_t7x8_s8k_b2_full_tp2", "h008_qwen3-8b_v6e-16"),
    "terms.attention_bytes": near(
        0.025, "h052_llama3.1-70b_tpu7x-32", "h010_default_tpu7x-8", "h050_llama2-13b_tpu7x-16"
    ),
    "terms.statistics_bytes": near(0.025, "h052_llama3.1-70b_tpu7x-32", "c_l8_vt4_v5p-64", "l8_pp2"),
    "terms.scores_bytes": near(0.03, "h004_qwen3-32b_tpu7x-16", "l8_dot"),
    "terms.feed_forward_bytes": near(0.015, "m_llama2-13b_tpu7x-8_s4096_b2", "l8_dev_attention_out", "l8_ft2"),
    "terms.expert_rows_bytes": near(0.02, "h018_qwen3-30b-a3b_tpu7x-8", "q001_mixtral-8x7b_tpu7x-32", "z_mxL8tp2"),
    "terms.expert_hidden_bytes": near(0.015, "mx8x7_t7x16_s4k_b4_full_ep8", "z_mxL8ep8", "z_q30"),
    "terms.slots_bytes": near(0.03, "q017_deepseek2-16b_v5p-64", "trillium/Mixtral-8x7B-MaxText@f190d41", "z_mxL8cap"),
    "terms.expert_weights_bytes": near(0.015, "z_q235L8", "z_mxL8", "z_l4L8"),
    "terms.matrices_bytes": near(0.025, "h028_llama3.1-405b_tpu7x-8", "z_llama70L12", "c_l8_v6e-16"),
    "terms.products_bytes": near(0.035, "l8_muon"),
    "terms.given_back_bytes": near(
        0.08,
        "trillium/Mixtral-8x7B-MaxText@f190d41",
        "docs/understand_logs/deepseek2-16b-v5p-8",
        "docs/tiering/llama3.1-70b-v6e256",
    ),
    "terms.relief_bytes": near(0.025, "l8_t7x8_s8k_b2_full_dp8", "l70_v6e256_s8k_b2_full", "l8_t7x2_s8k_b6_full"),
    "update.PREFETCHED": near(0.005, "l8_optoff"),
    "update.MUON_COPIES": near(0.035, "l8_muon"),
    "update.update": near(0.035, "l8_muon"),
    "update.prefetched_moments": near(0.005, "l8_optoff"),
    "experts.staged_experts": Mechanism(_stage_holds_its_layers),
    "experts.unrolled_experts": Mechanism(_unrolled_layer_holds_its_rows),
    "head.TIED_TOKENS": Mechanism(_few_tokens_do_not_wait_at_a_tied_head),
    "kept.offloaded_bytes": Mechanism(_inputs_lie_on_the_host),
    "terms.fragmentation_bytes": Mechanism(_holes_are_a_line),
    "rescue.without_waiting_logits": near(
        0.025, "trillium/Mixtral-8x7B-MaxText@f190d41", off=lambda moments, _: moments
    ),
    "band.usual_band": band(0.03),
    "band.BASE": band(0.03),
    "band.EXPERTS": band(0.0424, "tpu7x-16", **MOE_FLAGS),
    "band.DISPATCH": band(0.0583, "tpu7x-16", **MOE_FLAGS, ici_expert_parallelism=4),
    "band.TENSOR": band(0.0424, ici_tensor_parallelism=2),
    "band.SLICES": band(0.0583, slices=2, dcn_data_parallelism=2),
    "band.OFFLOAD": band(0.0762, remat_policy="minimal_offloaded", per_device_batch_size=1),
    "band.PIPELINE": band(0.0583, ici_pipeline_parallelism=2, num_layers_per_pipeline_stage=16),
    "band.UNFUSED": band(0.05, attention="dot_product", max_target_length=2048),
    "band.APART": band(0.0583, "tpu7x-16", model_name="gemma3-4b", remat_policy="custom", max_target_length=4096),
    "band.ORTHOGONALISED": band(0.153, opt_type="muon"),
    "release_band.release_band": Mechanism(_releases_that_were_not_compiled_are_wider),
}

TIME: dict[str, Mechanism] = {
    "compute.TRAINING_PASSES": met(0.01, BF16_RUN),
    "compute.tile_share": met(0.01, LONG_RUN),
    "compute.pair_share": Mechanism(_flops_are_maxtexts),
    "compute.weight_flops_per_token": Mechanism(_flops_are_maxtexts),
    "compute.attention_flops_per_token": Mechanism(_flops_are_maxtexts),
    "compute.model_flops_per_token": Mechanism(_flops_are_maxtexts),
    "seconds.FORWARD_MATMUL_SHARE": met(0.04, V6E_OFFLOAD_RUN),
    "seconds.FORWARD_HBM_SHARE": met(0.01, LIGHT_RUN),
    "seconds.at_peak_s": Mechanism(_nothing_is_faster_than_the_peaks),
    "tally.CAST_BYTES": met(0.03, DEEPSEEK_FP8),
    "tally.LOGIT_BYTES": met(0.01, LIGHT_RUN),
    "tally.LOGIT_PASSES": met(0.01, LIGHT_RUN),
    "tally.ELEMENTWISE_PASSES": met(0.01, LIGHT_RUN, "trillium/Llama3-8B-MaxText/v6e-8@44189f9"),
    "tally.WIDTH_TOUCHES": met(0.01, LIGHT_RUN),
    "tally.NORM_TOUCHES": met(0.01, LIGHT_RUN),
    "tally.HEAD_TOUCHES": met(0.01, DEEPSEEK),
    "tally.GATE_TOUCHES": met(0.01, LIGHT_RUN),
    "tally.ROW_PASSES": met(0.02, SMALL_MOE_RUN),
    "tally.ROW_TOUCHES": met(0.02, SMALL_MOE_RUN),
    "tally.COMBINE_BYTES": met(0.02, SMALL_MOE_RUN),
}

NETWORK: dict[str, Mechanism] = {
    "traffic.BF16": moved("fsdp 4", "fsdp", "all-gather", off=1),
    "traffic.FP8": met(0.01, FP8_RUN, off=2),
    "traffic.F32": Mechanism(_summed_gradients_of_the_head_are_wide, off=2),
    "traffic.TILE_ROW_BYTES": met(0.03, DEEPSEEK_FP8),
    "traffic.stage_visits": moved("fsdp 4", "fsdp", "all-gather"),
    "Route.neighbour_bytes_per_s": timed(0.05, "neighbour to neighbour, 1 GB"),
    "Network.dcn_bytes_per_s": Mechanism(_a_slice_sends_through_its_cards),
}

IN_USE: dict[str, Mechanism] = {
    "collectives.received_bytes": moved("fsdp 4", "fsdp", "all-gather"),
    "collectives.reduced_bytes": moved("fsdp 4 x data 2", "data", "all-reduce"),
    "collectives.passed_bytes": moved("fsdp 4 x pipeline 2", "pipeline", "permute"),
    "collectives.timed_gather_s": timed(0.01, SMALL_GATHER),
    "collectives.timed_reduce_s": timed(0.01, ALL_REDUCE),
    "collectives.timed_exchange_s": met(0.08, ULYSSES_RUN),
    "collectives.timed_permute_s": met(0.02, RING_RUN),
    "traffic.thin_shard_factor": met(0.03, DEEPSEEK_FP8),
    "compute.attention_two_pass_flops": met(0.03, GEMMA_RUN),
    "compute.grouped_rows_factor": met(0.01, DEEPSEEK),
    "compute.matmul_bytes_per_flop": met(0.03, DEEPSEEK_FP8),
    "compute.attention_forward_flops": met(0.01, LONG_RUN),
    "compute.attention_backward_flops": met(0.01, LONG_RUN),
    "compute.causal_tile_share": met(0.01, LONG_RUN),
    "compute.sliding_tile_share": met(0.03, GEMMA_RUN),
    "seconds.matmul_s": met(0.01, BF16_RUN),
    "seconds.attention_s": met(0.01, LONG_RUN),
    "seconds.traffic_s": met(0.02, SMALL_MOE_RUN),
    "seconds.hidden_s": met(0.02, RING_RUN),
    "seconds.exposed_s": met(0.01, DEEPSEEK),
    "seconds.bubble_s": Mechanism(_stages_idle),
    "seconds.unhidden_offload_s": met(0.02, OFFLOAD_RUN),
    "seconds.slice_wait_s": met(0.03, GEMMA_RUN),
}
"""Formulas in the estimate, beside what `test_formulas` says of each alone; those of memory are in `MEMORY`."""

CALIBRATED: dict[str, Mechanism] = {
    "ici.ici_fraction": timed(0.01, "all-gather of 16 MiB shards, 2x2 chips", off=1.0),
    "ici.reduction_fraction": timed(0.01, ALL_REDUCE, off=1.0),
    "ici.launch": timed(0.01, TINY_GATHER, off=0.0),
    "ici.dcn_fraction": Mechanism(_handed_over, off=1.0),
    "kernels.attention_kernel": met(0.01, LONG_RUN, off=1.0),
    "kernels.hbm": met(0.01, LIGHT_RUN, off=1.0),
    "kernels.row_gather": met(0.02, SMALL_MOE_RUN, off=1.0),
    "kernels.grouped_tile_rows": met(0.01, DEEPSEEK, off=0.0),
    "kernels.measured_tile_tokens": met(0.02, "ironwood/qwen3-235b-a22b/4k-bf16-tpu7x-4x8x8@ef89281", off=1.0),
    "matmul.matmul_sustained": met(0.01, BF16_RUN, off=1.0),
    "matmul.low_precision_gain": met(0.01, FP8_RUN, off=1.0),
    "overlap.weights_hidden": met(0.01, DEEPSEEK, off=0.0),
    "overlap.thin_shard_power": met(0.03, DEEPSEEK_FP8, off=0.0),
    "overlap.host_link": met(0.02, OFFLOAD_RUN, off=1.0),
    "overlap.slice_wait": met(0.03, GEMMA_RUN, off=0.0),
    "overlap.uncalibrated_band": Mechanism(_a_chip_without_runs_is_less_certain, off=0.0),
    "memory.uncalibrated_band": band(0.229, "v4-8", off=0.0),
    "overlap.error_band": Mechanism(_nine_in_ten_runs_are_in_the_band, off=0.05),
}

TRAITS: dict[str, tuple[float, str, object]] = {
    "fuses_matmuls": (0.005, "c_l8_v5p-16", False),
    "fuses_gradients": (0.02, "c_l8_v5e-64", False),
    "late_ring_tokens_per_width": (0.01, "c_l8_v5p-16", 0.0),
    "heap_holes": (0.02, "q036_default_tpu7x-16", 0.0),
    "relief": (0.025, "l70_v6e256_s8k_b2_full", 0.0),
    "relief_most": (0.025, "l8_t7x8_s8k_b2_full_dp8", 1.0),
}
"""Traits of a chip's compiler: how near a point is to it, and the trait of other chips."""

FRAME = {
    "moments.moments", "setting.part", "total.memory", "total.KINDS", "kept.named_activations",
    "Setting.compiler", "Setting.width", "Setting.vocabulary", "Setting.here", "Setting.state", "Setting.shards",
    "comm.collectives", "traffic.flows", "traffic.weight_sums", "Network.of", "Network.route",
    "compute.BACKWARD_MATMULS", "compute.layer_matmuls", "seconds.SUMMED", "seconds.step_lines", "seconds.total_s",
    "seconds.added", "step_time.BREAKDOWN", "step_time.BOUNDS", "step_time.step_time", "step_time.step_seconds",
    "step_time.traffic_of", "step_time.TINY_S", "tally.PER_SHAPE", "tally.PER_POLICY", "tally.layers_of", "work.work",
    "matmul.matmul_plateau",
}  # fmt: skip
"""What puts mechanisms together, names their parts, or is only the scale that others are derived with."""

EVERY = {**MEMORY, **TIME, **NETWORK, **IN_USE}
DEFINED = {
    **defined("shardplan.cost.memory", Setting),
    **defined("shardplan.cost.network", Network, Route),
    **defined("shardplan.cost.time"),
}
CONSTANTS = [f"{file}.{name}" for file in calibration_names() for name in calibration_file(file).constants]


@pytest.mark.parametrize("name", EVERY)
def test_a_mechanism_is_missed_when_it_is_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = EVERY[name]
    mechanism.holds()
    switch_off(name, DEFINED[name], mechanism.off, monkeypatch)
    assert not _holds(mechanism)


@pytest.mark.parametrize("name", CALIBRATED)
def test_a_calibrated_constant_is_missed_when_it_is_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, (file, _, key) = CALIBRATED[name], name.partition(".")
    mechanism.holds()
    constants = calibration_file(file).constants
    neutral = {"value": mechanism.off, "by_chip": {}}
    monkeypatch.setitem(constants, key, constants[key].model_copy(update=neutral))
    forget()
    assert not _holds(mechanism)
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_of_a_compiler_is_missed_when_it_is_another_chip_s(trait: str) -> None:
    within, name, other = TRAITS[trait]
    case, candidates, compiled = _compiled(name)
    chip = case.cluster.chip
    changed = chip.model_copy(update={"compiler": chip.compiler.model_copy(update={trait: other})})
    elsewhere = case.model_copy(update={"cluster": case.cluster.model_copy(update={"chip": changed})})
    assert memory(case, candidates).total_bytes[0] == pytest.approx(compiled, rel=within)
    assert memory(elsewhere, candidates).total_bytes[0] != pytest.approx(compiled, rel=within)


def test_beyond_the_limit_the_band_is_that_of_the_compiler_s_rescues() -> None:
    for topology in ("v6e-8", "tpu7x-8"):
        beyond = _memory(topology, per_device_batch_size=64)
        assert beyond.total_bytes[0] > beyond.limit_bytes
        rescue = load_chip(topology.partition("-")[0]).compiler.rescue_band
        assert (
            beyond.error_band[0]
            >= rescue
            > _memory(topology, per_device_batch_size=1, remat_policy="full").error_band[0]
        )


def _holds(mechanism: Mechanism) -> bool:
    try:
        with np.errstate(all="ignore"):
            mechanism.holds()
    except AssertionError:
        return False
    return True


def test_every_mechanism_has_its_row() -> None:
    mechanisms = {name for name in DEFINED if not is_formula(DEFINED[name]) or name.startswith("terms.")}
    assert mechanisms - FRAME == (MEMORY | TIME | NETWORK).keys()
    of_releases = {name for name in CONSTANTS if name.startswith("releases.")}
    assert set(CONSTANTS) - FRAME - of_releases == CALIBRATED.keys()
    assert Compiler.model_fields.keys() - {"source", "kind", "note", "rescue_band"} == TRAITS.keys()
    assert (IN_USE.keys() | FRAME) <= DEFINED.keys() | set(CONSTANTS)
