from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from shardplan.catalogue.rules import load_catalogue
from shardplan.cost.estimate import estimate
from shardplan.data import model_configs_folder, names, rules_folder
from shardplan.judge.facts import KINDS, VOCABULARY, Facts, names_known_by, observe
from shardplan.judge.judge import judge
from shardplan.judge.profile import profile
from shardplan.loaders.load import load_case
from shardplan.maxtext.remat import POLICIES
from shardplan.spec import Optimizer, Split
from shardplan.splits.candidates import Candidates, Mesh

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardplan.spec import Case

CASES = model_configs_folder() / "cases"
CATALOGUE = load_catalogue(rules_folder(), KINDS)


def case_of(name: str) -> Case:
    return load_case(CASES / f"{name}.yaml")


def candidates_of(*meshes: Mapping[str, int], dcn: Mapping[str, int] | None = None, rows: float = 2.0) -> Candidates:
    n = len(meshes)
    one = np.ones(n, dtype=np.int64)
    return Candidates(
        ici=Mesh.of(meshes), dcn=Mesh.of([dcn or {}] * n), per_device_batch=np.full(n, rows), gradient_accumulation=one,
        pipeline_microbatches=one, pipeline_repeats=one, num_vocab_tiling=one, remat=0 * one,
        remat_policies=(POLICIES["full"], POLICIES["minimal_with_context"]), needs_split=one == 0,
    )  # fmt: skip


def estimates_of(candidates: Candidates, seed: int = 0) -> Any:
    """Prices made up at random, in the shape of the real ones."""
    draw = np.random.default_rng(seed)
    n = len(candidates)

    def column() -> Any:
        return draw.uniform(1, 2, n)

    kinds = ("logits_bytes", "saved_activations_bytes", "gathered_weights_bytes", "layer_work_bytes")
    moments = [SimpleNamespace(terms=[(kind, SimpleNamespace(value=column())) for kind in kinds]) for _ in range(2)]
    memory = SimpleNamespace(
        total_bytes=column() * 5e10, error_band=np.full(n, 0.05), arguments_bytes=column(), host_bytes=column(),
        moments=moments, binding=draw.integers(0, 2, n),
    )  # fmt: skip
    axes = (("weights", "ici"), ("tensor", "ici"), ("data", "dcn"))
    collectives = [SimpleNamespace(axis=axis, network=network, seconds=column()) for axis, network in axes]
    parts = ("compute_s", "recompute_s", "hbm_s", "exposed_comm_s", "bubble_s", "optimizer_s", "offload_s")
    time = SimpleNamespace(
        estimate_s=column() * 9, breakdown={part: column() for part in parts},
        exposed_s=[collective.seconds / 2 for collective in collectives],
    )  # fmt: skip
    return SimpleNamespace(memory=memory, collectives=collectives, time=time)


def facts_of(name: str, candidates: Candidates, **runtime: Any) -> Facts:
    case = case_of(name)
    case = case.model_copy(update={"runtime": case.runtime.model_copy(update=runtime)})
    return observe(case, profile(case), candidates, estimates_of(candidates))


MESHES = (
    {"fsdp": 128},
    {"fsdp": 64, "tensor": 2},
    {"fsdp": 16, "tensor": 8},
    {"fsdp": 32, "context": 4},
    {"data": 2, "fsdp": 64},
)


# --- every fact ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names(CASES))
def test_every_fact_is_a_scalar_of_the_case_or_a_column(name: str) -> None:
    case = case_of(name)
    devices, slices = case.cluster.devices_per_slice, case.cluster.slices
    candidates = candidates_of(
        {"fsdp": devices}, {"data": devices}, {"fsdp": devices // 2, "expert": 2}, dcn={"data": slices}
    )
    facts = observe(case, profile(case), candidates, estimates_of(candidates))
    for fact in VOCABULARY.values():
        value = facts[fact.name]
        assert np.ndim(value) in (0, 1), fact.name
        assert np.ndim(value) == 0 or np.shape(value) == (3,), fact.name
        if fact.unit == "choice":
            assert value in fact.choices
        elif fact.unit == "truth":
            assert np.asarray(value).dtype == np.bool_, fact.name
        else:
            assert np.asarray(value).dtype in (np.int64, np.float64), fact.name
            assert not np.isnan(np.asarray(value, dtype=float)).any(), fact.name


def test_facts_of_many_candidates_are_those_of_each() -> None:
    together = facts_of("llama3.1-70b-8k", candidates_of(*MESHES))
    for row, mesh in enumerate(MESHES):
        alone = facts_of("llama3.1-70b-8k", candidates_of(mesh))
        for fact in VOCABULARY.values():
            if fact.level != "estimates":
                assert together.at(row)[fact.name] == alone.at(0)[fact.name], fact.name


def test_facts_that_need_prices_are_not_known_before() -> None:
    known = names_known_by("mesh")
    assert {"tensor", "kv_heads", "long_context_tokens", "needs_split"} <= known
    assert not {"rows", "total_bytes"} & known
    assert "rows" in names_known_by("split")
    assert names_known_by("estimates") >= set(VOCABULARY)
    case = case_of("llama3.1-8b")
    facts = observe(case, None, candidates_of({"fsdp": case.cluster.devices_per_slice}))
    for name in known & set(VOCABULARY) - {"is_long", "is_very_large", "state_bytes", "slice_bytes"}:
        facts[name]
    with pytest.raises(AssertionError, match="price"):
        facts["total_bytes"]
    with pytest.raises(AssertionError, match="profile"):
        facts["is_long"]


def test_facts_are_a_mapping_of_facts_and_constants() -> None:
    facts = facts_of("llama3.1-8b", candidates_of({"fsdp": 1}))
    assert set(facts) == names_known_by("estimates")
    assert len(facts) == len(set(facts)) == len(facts.at(0))
    assert set(facts.at(0)) == set(facts)
    assert facts["attention_block_tokens"] == 512
    with pytest.raises(KeyError):
        facts["no_such_fact"]


# --- single facts ----------------------------------------------------------------------------------------------------


def test_thresholds_of_the_70b_case_on_64_ironwood_chips() -> None:
    facts = facts_of("llama3.1-70b-8k", candidates_of(*MESHES))
    assert facts["ici_intensity"] == pytest.approx(11_535)
    assert facts["weight_links"].tolist() == [3, 3, 2, 3, 3]
    assert facts["gather_tokens_needed"][0] == pytest.approx(11_535 / 3)
    assert facts["tokens_per_chip"][0] == 2 * 2 * 8192
    # The two devices of a chip share gathered weights, unless they hold different copies (data) or halves (tensor).
    assert facts["tokens_per_gather"].tolist() == [32_768, 32_768, 131_072, 32_768, 16_384]
    # On the die-to-die link tensor parallelism is six times cheaper; beyond, the torus axis counts.
    assert facts["tensor_on_pair"].tolist() == [False, True, True, False, False]
    assert facts["tensor_width_needed"][1] == pytest.approx(2 / 3 * 2 * (11_535 / 2) / 6)
    assert facts["tensor_width_needed"][2] == pytest.approx(2 / 3 * 8 * (11_535 / 2))
    assert facts["data_links"][4] == 6
    assert facts["mixed_tokens_needed"] == pytest.approx(11_535**2 / (2 * 28_672))
    assert facts["tokens_per_replica"][4] == 64 * 2 * 8192 * 2


def test_experts_multiply_the_tokens_that_fsdp_needs() -> None:
    facts = facts_of(
        "deepseek3-671b", candidates_of({"fsdp": 512}, {"fsdp": 64, "expert": 8}, {"fsdp": 256, "expert": 2})
    )
    assert facts["sparsity"] == 32
    assert facts["moved_over_used"].tolist() == [32, 4, 16]
    assert facts["gather_tokens_needed"][0] == pytest.approx(32 * 11_535 / 3)
    assert facts["expert_on_pair"].tolist() == [False, True, True]
    assert facts["expert_width_needed"][1] == pytest.approx(4 / 24 * 4 * 11_535)
    assert facts["worst_routed_rows"].tolist() == [1, 8, 2]
    assert facts["latent_rank"] == 512
    assert facts["mtp_layers"] == case_of("deepseek3-671b").architecture.n_mtp_layers


def test_lines_halve_the_links_and_double_the_way() -> None:
    case = case_of("llama3.1-8b")
    cluster = case.cluster.model_copy(update={"topology": (2, 2, 2), "slices": 1})
    small = case.model_copy(update={"cluster": cluster})
    degrees = {"fsdp": cluster.devices_per_slice}
    facts = observe(small, profile(small), candidates_of(degrees))
    assert not facts["is_torus"]
    assert facts["weight_links"][0] < 3
    # On so few lines tensor parallelism lowers no floor: FSDP alone is the better of the two.
    assert facts["mixed_tokens_needed"] == pytest.approx(11_535 / 1.5)
    single = case.model_copy(update={"cluster": case.cluster.model_copy(update={"topology": (1, 1, 1)})})
    assert observe(single, None, candidates_of({"fsdp": 2}))["mixed_tokens_needed"] == pytest.approx(11_535)


def test_slices_need_tokens_for_the_data_centre_network() -> None:
    facts = facts_of("llama3.1-70b-4-slices-v6e", candidates_of({"fsdp": 256}, dcn={"data": 4}))
    assert facts["slice_tokens_needed"] == pytest.approx(918e12 / 12.5e9)
    assert facts["tokens_per_slice"].tolist() == [256 * 2 * 8192]
    assert facts["mesh_slices"].tolist() == [4]
    assert facts["dcn_data"].tolist() == [4]
    assert facts["data"].tolist() == [4]
    assert facts["ici_data"].tolist() == [1]


def test_policies_and_settings_become_facts() -> None:
    candidates = candidates_of({"fsdp": 128}, {"fsdp": 128})
    candidates = replace(candidates, remat=np.array([0, 1]))
    facts = facts_of("llama3.1-70b-8k", candidates, attention="dot_product", quantization="int8")
    assert facts["is_full_remat"].tolist() == [True, False]
    assert facts["keeps_context"].tolist() == [False, True]
    assert facts["is_custom_remat"].tolist() == [False, False]
    assert facts["offloaded_tensors"].tolist() == [0, 0]
    assert facts["attention_kernel"] == "dot_product"
    assert facts["quantization"] == "int8"


def test_precision_decides_the_quantization_where_none_is_asked_for() -> None:
    case = case_of("llama3.1-70b-8k")
    fp8 = case.model_copy(update={"workload": case.workload.model_copy(update={"precision": "fp8"})})
    facts = observe(fp8, profile(fp8), candidates_of({"fsdp": 128}))
    assert facts["quantization"] == "fp8_full"
    assert facts["ici_intensity"] == pytest.approx(23_070)
    assert facts["fp8_speedup"] == 2


def test_prices_become_facts_at_the_worst_moment() -> None:
    candidates = candidates_of(*MESHES)
    estimates = estimates_of(candidates)
    case = case_of("llama3.1-70b-8k")
    facts = observe(case, profile(case), candidates, estimates)
    for row in range(len(candidates)):
        moment = estimates.memory.moments[estimates.memory.binding[row]]
        assert facts["logits_bytes"][row] == dict(moment.terms)["logits_bytes"].value[row]
    assert facts["low_bytes"] == pytest.approx(facts["total_bytes"] * 0.95)
    assert facts["high_bytes"] == pytest.approx(facts["total_bytes"] * 1.05)
    tensor = estimates.collectives[1].seconds
    assert facts["tensor_comm_s"].tolist() == tensor.tolist()
    assert facts["tensor_exposed_s"].tolist() == (tensor / 2).tolist()
    assert facts["dcn_comm_s"].tolist() == estimates.collectives[2].seconds.tolist()
    assert facts["pipeline_comm_s"].tolist() == [0] * len(candidates)
    # A host of four two-device chips holds what eight devices offload.
    assert facts["host_bytes_per_host"] == pytest.approx(estimates.memory.host_bytes * 8)


@pytest.mark.parametrize("name", ["llama3.1-70b-8k", "deepseek3-671b", "llama3.1-70b-4-slices-v6e"])
def test_prices_of_the_cost_model_are_facts(name: str) -> None:
    case = case_of(name)
    devices, slices = case.cluster.devices_per_slice, case.cluster.slices
    meshes = ({"fsdp": devices}, {"fsdp": devices // 8, "tensor": 8}, {"fsdp": devices // 4, "context": 4})
    candidates = candidates_of(*meshes, dcn={"data": slices}, rows=4.0)
    estimates = estimate(case, candidates)
    facts = observe(case, profile(case), candidates, estimates)
    for fact in VOCABULARY.values():
        if fact.unit not in ("choice", "truth") and fact.name != "host_ram_bytes":
            assert np.isfinite(facts[fact.name]).all(), fact.name
    assert facts["total_bytes"].tolist() == estimates.memory.total_bytes.tolist()
    assert (facts["tensor_comm_s"] > 0).tolist() == [False, True, False]
    assert (facts["context_comm_s"] > 0).tolist() == [False, False, True]
    assert (facts["dcn_comm_s"] > 0).all() == (slices > 1)
    assert (facts["logits_bytes"] + facts["saved_bytes"] + facts["gathered_bytes"] + facts["work_bytes"] > 0).all()
    parts = sum(
        facts[f"{short}_exposed_s"]
        for short in ("data", "pipeline", "fsdp", "fsdp_transpose", "context", "tensor", "expert")
    )
    # What the axes leave unhidden is all of it, but for the wait of one slice for another.
    waits = facts["exposed_comm_s"] - parts
    assert (waits > 0.01).all() if slices > 1 else waits == pytest.approx(0, abs=1e-6)


def test_bounds_and_splitting_come_from_the_case() -> None:
    case = case_of("llama3.1-70b-8k")
    bound = case.model_copy(update={"constraints": case.constraints.model_copy(update={"max_tensor_parallelism": 4})})
    facts = observe(bound, profile(bound), candidates_of(*MESHES))
    assert facts["is_within_bounds"].tolist() == [True, True, False, True, True]
    assert facts["allows_split"] == case.constraints.allow_split_physical_axes
    planned = case.model_copy(update={"plan": Split(per_device_batch=2.0, allow_split_physical_axes=False)})
    assert not observe(planned, None, candidates_of({"fsdp": 128}))["allows_split"]


def test_a_mesh_that_cannot_be_laid_out_has_no_links() -> None:
    facts = facts_of("llama3.1-70b-8k", candidates_of({"fsdp": 64}))
    assert np.isnan(facts["weight_links"]).all()
    verdicts = judge(facts, CATALOGUE)
    assert verdicts.forbidden.tolist() == [True]
    assert verdicts.tally() == {"SP401": 1}


def test_optimizer_facts() -> None:
    case = case_of("llama3.1-70b-8k")
    optimizer = Optimizer(name="adam_pax", first_moment_dtype="bfloat16", host_offload=True)
    changed = case.model_copy(update={"workload": case.workload.model_copy(update={"optimizer": optimizer})})
    facts = observe(changed, profile(changed), candidates_of({"fsdp": 128}))
    assert (facts["optimizer"], facts["sets_first_moment"], facts["offloads_optimizer"]) == ("adam_pax", True, True)
    assert [rule.code for rule in judge(facts, [CATALOGUE.rule("SP582")]).firing(0)] == ["SP582"]


# --- verdicts ------------------------------------------------------------------------------------------------------


def test_verdicts_say_what_fires_where() -> None:
    case = case_of("llama3.1-70b-8k")
    candidates = candidates_of(*MESHES, {"fsdp": 8, "tensor": 16})
    verdicts = judge(observe(case, profile(case), candidates), [CATALOGUE.rule(c) for c in ("SP520", "SP101", "SP312")])
    assert verdicts.forbidden.tolist() == [False] * 5 + [True]
    assert verdicts.preferred.tolist() == [True] + [False] * 5
    assert verdicts.demotions.tolist() == [0, 0, 1, 0, 0, 1]
    assert verdicts.tally() == {"SP520": 1}
    assert [rule.code for rule in verdicts.firing(5)] == ["SP312", "SP520"]
    assert [rule.code for rule in verdicts.rules] == ["SP101", "SP312", "SP520"]
    message = CATALOGUE.rule("SP520").explanation(verdicts.facts.at(5))
    assert "Tensor parallelism 16 must divide key-value heads 8" in message


def test_a_candidate_that_two_rules_forbid_counts_once() -> None:
    case = case_of("llama3.1-70b-8k")
    candidates = candidates_of({"fsdp": 4, "tensor": 16}, rows=0.3)
    verdicts = judge(observe(case, profile(case), candidates), CATALOGUE.forbidding(names=names_known_by("split")))
    assert sum(verdicts.tally().values()) == 1
    assert len(verdicts.firing(0)) > 1


def test_rules_that_were_removed_are_not_judged_with() -> None:
    case = case_of("llama3.1-70b-8k")
    rule = CATALOGUE.rule("SP520")
    removed = replace(rule, entry=rule.entry.model_copy(update={"status": "removed"}))
    facts = observe(case, profile(case), candidates_of({"fsdp": 8, "tensor": 16}))
    assert not judge(facts, [removed]).rules


def test_flags_are_advised_only_on_chips_they_were_seen_on() -> None:
    ironwood, trillium = case_of("llama3.1-70b-8k"), case_of("llama3.1-70b-4-slices-v6e")
    rules = [CATALOGUE.rule("SP610"), CATALOGUE.rule("SP613"), CATALOGUE.rule("SP203")]
    fired = []
    for case in (ironwood, trillium):
        candidates = candidates_of({"fsdp": case.cluster.devices_per_slice}, dcn={"data": case.cluster.slices})
        facts = observe(case, profile(case), candidates, estimates_of(candidates))
        fired.append([rule.code for rule in judge(facts, rules).rules if rule.effect == "advise" and rule.chips])
    assert fired == [["SP610"], ["SP613"]]


def test_the_whole_catalogue_can_be_judged_on_every_case() -> None:
    for name in names(CASES):
        case = case_of(name)
        mesh = {"fsdp": case.cluster.devices_per_slice}
        candidates = candidates_of(mesh, dcn={"data": case.cluster.slices})
        verdicts = judge(observe(case, profile(case), candidates, estimates_of(candidates)), CATALOGUE)
        for rule in verdicts.firing(0):
            assert rule.explanation(verdicts.facts.at(0))
