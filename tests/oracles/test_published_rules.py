"""What ran or was refused in the world must be allowed or refused by the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from places import DATA

from benchmarks.published import Run, read_runs
from shardplan.catalogue.rules import load_catalogue
from shardplan.data import model_configs_folder, rules_folder
from shardplan.judge.facts import KINDS, observe
from shardplan.judge.judge import judge
from shardplan.loaders.load import load_case
from shardplan.maxtext.remat import POLICIES
from shardplan.splits.candidates import Candidates, Mesh

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNS = read_runs(DATA / "recipes_tpu.jsonl")
LEGALITY = load_catalogue(rules_folder(), KINDS).forbidding(["topology", "maxtext"])


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in RUNS])
def test_no_rule_refuses_a_run_that_was_published(run: Run) -> None:
    if (
        run.case.runtime.context_strategy == "ulysses"
    ):  # Ulysses runs without load balancing; the record leaves it open.
        runtime = run.case.runtime.model_copy(update={"context_load_balance": False})
        run_case = run.case.model_copy(update={"runtime": runtime})
    else:
        run_case = run.case
    verdicts = judge(observe(run_case, None, run.candidates), LEGALITY)
    assert [rule.explanation(verdicts.facts.at(0)) for rule in verdicts.firing(0)] == []


REFUSED: dict[str, tuple[str, Mapping[str, int], Mapping[str, int], dict[str, float], str]] = {
    "batch of a pipeline": ("llama3.1-70b-8k", {"fsdp": 128}, {"pipeline": 2}, {"microbatches": 8}, "SP510"),
    "wrong product": ("llama3.1-70b-8k", {"fsdp": 64}, {}, {}, "SP401"),
    "DCN on one slice": ("llama3.1-70b-8k", {"fsdp": 128}, {"data": 2}, {}, "SP402"),
    "24 rows over 16": ("llama3.1-8b", {"fsdp": 16}, {}, {"batch": 1.5}, "SP510"),
    "0.3 rows": ("llama3.1-70b-8k", {"fsdp": 128}, {}, {"batch": 0.3}, "SP513"),
    "16 tensor ways of 8 heads": ("llama3.1-70b-8k", {"fsdp": 8, "tensor": 16}, {}, {}, "SP520"),
    "width 2880 of gpt-oss": ("gpt-oss-120b", {"fsdp": 128}, {}, {}, "SP524"),
    "latent rank of DeepSeek": ("deepseek3-671b-9216-chips", {"fsdp": 1024, "data": 18}, {}, {}, "SP524"),
    "shards of 256 tokens": ("llama3.1-70b-8k", {"fsdp": 4, "context": 32}, {}, {}, "SP540"),
}
"""Case, ICI and DCN degrees, changes, and the rule. Source: MaxText's own refusals, reference sections 1.5, 2.2 and 2.3."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_maxtext_refused_is_refused(name: str) -> None:
    case_name, ici, dcn, changes, code = REFUSED[name]
    case = load_case(model_configs_folder() / "cases" / f"{case_name}.yaml")
    one = np.ones(1, dtype=np.int64)
    candidates = Candidates(
        ici=Mesh.of([ici]), dcn=Mesh.of([dcn]), per_device_batch=one * changes.get("batch", 2.0),
        gradient_accumulation=one, pipeline_microbatches=one * int(changes.get("microbatches", 1)), pipeline_repeats=one,
        num_vocab_tiling=one, remat=0 * one, remat_policies=(POLICIES["full"],), needs_split=one == 0,
    )  # fmt: skip
    verdicts = judge(observe(case, None, candidates), LEGALITY)
    assert code in [rule.code for rule in verdicts.firing(0)]
