from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from shardplan import cli, plan

if TYPE_CHECKING:
    from collections.abc import Callable

GIB = 2**30


@dataclass(frozen=True)
class Ran:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `shardplan` in this process, as its entry point does."""

    def run_(*args: str) -> Ran:
        code = cli.main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Ran(code, out, err)

    return run_


def choice_of(rank: int = 1, **changes: Any) -> plan.ChoiceOut:
    """A plan with numbers a real one could have."""
    values: dict[str, Any] = {
        "rank": rank,
        "verdict": "fits",
        "mesh": plan.MeshOut(ici={"fsdp": 128}, dcn={}),
        "strategy": "FSDP",
        "remat_policy": "full",
        "remat_tensors": {},
        "per_device_batch": 2.0,
        "global_batch": 256,
        "gradient_accumulation": 1,
        "pipeline_microbatches": None,
        "num_vocab_tiling": 1,
        "allow_split_physical_axes": False,
        "memory": plan.MemoryOut(
            arguments_bytes=6.2 * GIB,
            temp_bytes=49.1 * GIB,
            total_bytes=55.3 * GIB,
            limit_bytes=94.74 * GIB,
            error_band=0.05,
            binding_moment="one layer's backward",
            breakdown={
                "weights_bytes": 2.1 * GIB,
                "optimizer_bytes": 4.1 * GIB,
                "gradients_bytes": 2.1 * GIB,
                "saved_activations_bytes": 40.0 * GIB,
                "logits_bytes": 7.0 * GIB,
                "dispatch_bytes": 0.0,
            },
            moments={"loss": 50.0 * GIB, "one layer's backward": 55.3 * GIB},
            host_bytes=0.0,
        ),
        "time": plan.TimeOut(
            estimate_s=12.3,
            lower_s=9.8,
            upper_s=15.1,
            error_band=0.1,
            breakdown={
                "compute_s": 8.2,
                "recompute_s": 2.6,
                "hbm_s": 0.9,
                "exposed_comm_s": 0.6,
                "bubble_s": 0.0,
            },
            days=88.2,
            usd=1_234_567.0,
        ),
        "tokens_per_s_per_device": 1331.9,
        "mfu": 0.4213,
        "bound_by": "compute",
        "communication": (
            plan.CollectiveOut(
                axis="fsdp",
                network="ici",
                kind="all_gather",
                purpose="weights, forward and backward",
                bytes=276e9,
                count=160,
                seconds=1.9,
                exposed_s=0.4,
            ),
            plan.CollectiveOut(
                axis="fsdp",
                network="ici",
                kind="reduce_scatter",
                purpose="gradients",
                bytes=276e9,
                count=80,
                seconds=1.9,
                exposed_s=0.2,
            ),
        ),
        "intensity": (
            plan.IntensityOut(
                axis="fsdp", ours=16384.0, needed=11535.0, unit="tokens", ok=True, rule="SP301"
            ),
        ),
        "rules": (
            plan.RuleOut(
                code="SP101", severity="note", explanation="dense at 8,192 tokens: FSDP alone is the default"
            ),
            plan.RuleOut(
                code="SP604", severity="warning", explanation="remat full recomputes 27% of the FLOPs"
            ),
        ),
        "maxtext_flags": {"ici_fsdp_parallelism": 128, "remat_policy": "full", "per_device_batch_size": 2.0},
        "libtpu_init_args": ("--xla_tpu_scoped_vmem_limit_kib=61440",),
    }
    return plan.ChoiceOut(**{**values, **changes})


def plan_of(**changes: Any) -> plan.PlanOut:
    """A result of `recommend` with two plans."""
    second = choice_of(
        2,
        verdict="at_risk",
        mesh=plan.MeshOut(ici={"fsdp": 32, "tensor": 4}, dcn={"data": 2}),
        strategy="FSDP + TP",
        remat_policy="save_dot_with_context_except_mlp",
        bound_by="ici:tensor",
    )
    values: dict[str, Any] = {
        "shardplan_version": "0.0.0",
        "case": "llama3.1-70b-8k",
        "model": {"name": "llama3.1-70b", "total_params": 70_553_706_496, "family": "dense", "layers": 80},
        "profile": PROFILE,
        "cluster": plan.ClusterOut(
            chip="tpu7x",
            topology=(4, 4, 4),
            chips=64,
            devices=128,
            slices=1,
            hbm_limit_bytes=94.74 * GIB,
            wraps=(True, True, True),
            resolution="tpu7x-128 counts JAX devices: 64 chips",
        ),
        "objective": "step-time",
        "plans": (choice_of(), second),
        "considered": 231,
        "rejected": {"SP201": 187, "SP402": 27},
        "rejections": {
            "SP201": "needs more memory than a device has",
            "SP402": "heads do not divide by tensor",
        },
        "problems": (),
    }
    return plan.PlanOut(**{**values, **changes})


PROFILE = plan.ProfileOut(
    family="dense",
    context="short",
    very_large=False,
    table_row="dense, short",
    table_strategy="FSDP",
    why=("sequence 8,192 is below 32,768", "state needs 12.3 of 64 chips"),
)

NOTHING_FITS = plan_of(
    plans=(),
    considered=214,
    rejected={"SP201": 187, "SP402": 27},
    problems=(
        plan.ProblemOut(
            code="SP201", message="the best plan needs 103.2 GiB, a device has 94.7 GiB", hint="use 128 chips"
        ),
    ),
    fixes=(
        plan.FixOut(
            change="keep the optimizer state in bfloat16",
            flags={"mu_dtype": "bfloat16", "gcs_metrics": False},
            saves_bytes=9.0 * GIB,
            costs_s=0.0,
            fits=True,
        ),
        plan.FixOut(change="one sequence less", flags={}, saves_bytes=2.0 * GIB, costs_s=0.5, fits=False),
    ),
)

CHECKED = plan.CheckOut(id="b1", verdict="fits", problems=(), choice=choice_of(), notes=("fsdp -1 is 128",))
INVALID = plan.CheckOut(
    id="wide",
    verdict="invalid",
    problems=(
        plan.ProblemOut(code="SP502", message="64 heads do not divide by tensor=48", hint="use 32 or 64"),
    ),
    choice=None,
)
TOO_BIG = plan.CheckOut(
    id="b64",
    verdict="does_not_fit",
    problems=NOTHING_FITS.problems,
    choice=choice_of(verdict="does_not_fit"),
    fixes=NOTHING_FITS.fixes,
)

EXPLANATION = plan.ExplanationOut(
    case="llama3.1-70b-8k",
    choice=choice_of(),
    profile=PROFILE,
    memory=(
        plan.LineOut(
            name="weights",
            formula="4 * P / fsdp",
            letters={"P": 70_553_706_496.0, "fsdp": 128.0},
            value=2.05 * GIB,
            unit="bytes",
            source="physics section 1",
        ),
    ),
    communication=(
        plan.LineOut(
            name="all-gather",
            formula="V / (W * M)",
            letters={"V": 276e9, "W": 1.8e11, "M": 3},
            value=0.51,
            unit="s",
        ),
    ),
    time=(
        plan.LineOut(name="matmuls", formula="6 * P * n / C", letters={}, value=8.2, unit="s"),
        plan.LineOut(
            name="model flops", formula="6 * P * n", letters={"P": 7e10, "n": 16384}, value=7e15, unit="flops"
        ),
        plan.LineOut(
            name="tokens", formula="B * T", letters={"B": 2, "T": 8192.5}, value=16384, unit="tokens"
        ),
    ),
    next_plan="fsdp=32 tensor=4 is 1.1 s slower: its all-gathers outlast the matmuls",
)
