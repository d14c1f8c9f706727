"""Variants of a split: named policies, and custom sets in the order of their worth."""

from __future__ import annotations

import numpy as np
from small_cases import DENSE_MODEL, MOE_MODEL, case_of

from shardplan.engine.variants import LAYER_INPUT, VOCAB_TILINGS, by_value, expand, plainest, variants_of
from shardplan.maxtext.remat import POLICIES
from shardplan.spec import Constraints
from shardplan.splits.enumeration import enumerate_candidates


def test_variants_are_every_policy_and_tiling() -> None:
    case = case_of(DENSE_MODEL)
    splits = enumerate_candidates(case).candidates.take(np.arange(7))
    variants = variants_of(case, splits)
    rows = expand(case, splits, variants)
    assert len(rows) == 7 * len(variants)
    assert set(rows.num_vocab_tiling.tolist()) == set(VOCAB_TILINGS)
    assert set(POLICIES.values()) <= set(variants.policies)
    assert len(set(variants.policies)) == len(variants.policies)


def test_what_the_user_fixed_is_the_only_variant() -> None:
    fixed = case_of(DENSE_MODEL, constraints=Constraints(remat="minimal_flash", num_vocab_tiling=4))
    splits = enumerate_candidates(fixed).candidates
    assert [p.name for p in variants_of(fixed, splits).policies] == ["minimal_with_context"]
    assert variants_of(fixed, splits).tilings == (4,)
    chosen = case_of(DENSE_MODEL, constraints=Constraints(remat={"context": "device", "out_proj": "offload"}))
    assert variants_of(chosen, splits).policies[0].tensors == {"context": "device", "out_proj": "offload"}


def test_the_attention_kernel_is_worth_most_and_the_block_output_nothing() -> None:
    case = case_of(DENSE_MODEL, tokens=8192)
    names = by_value(case, plainest(enumerate_candidates(case).candidates))
    assert names[0] == "context"
    assert {"query_proj", "mlpwi_0", "mlpwi_1"} <= set(names)
    assert "mlpwo" not in names
    assert not any(name.startswith("moe_") for name in names)


def test_experts_have_tensors_of_their_own() -> None:
    case = case_of(MOE_MODEL)
    names = by_value(case, plainest(enumerate_candidates(case).candidates))
    assert any(name.startswith("moe_") or name == "mlpwi_0" for name in names)


def test_layer_inputs_go_to_the_host_or_stay() -> None:
    case = case_of(DENSE_MODEL)
    policies = variants_of(case, enumerate_candidates(case).candidates).policies
    assert any(p.offload == {LAYER_INPUT} and not p.device for p in policies)
    assert all(LAYER_INPUT not in p.device for p in policies)


def test_the_plainest_split_has_the_least_model_parallelism() -> None:
    splits = enumerate_candidates(case_of(DENSE_MODEL)).candidates
    one = plainest(splits)
    assert len(one) == 1
    model = splits.degree("tensor", "context", "expert", "pipeline")
    assert one.degree("tensor", "context", "expert", "pipeline")[0] == model.min()
