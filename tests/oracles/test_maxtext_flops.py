"""Model FLOPs against MaxText's own count (calculate_tflops_training_per_device), one sequence a device."""

from __future__ import annotations

import pytest

from shardplan.cost.time.compute import TRAINING_PASSES, attention_flops_per_token, weight_flops_per_token
from shardplan.data import model_configs_folder
from shardplan.source import build, read_document
from shardplan.spec import Architecture

TFLOP = 1e12
TABLE = {
    # model: (weights at 4096, attention at 4096, attention at 8192), TFLOP; MaxText 0.2.5
    "llama2-7b": (162.3755, 13.1941, 52.7766),
    "llama3.1-8b": (184.4345, 13.1941, 52.7766),
    "llama3.1-70b": (1708.0741, 65.9707, 263.8828),
    "llama3.1-405b": (9922.5083, 207.8077, 831.2308),
    "mistral-7b": (174.745, 13.1941, 52.7766),
    "mixtral-8x7b": (313.3093, 13.1941, 52.7766),
    "mixtral-8x22b": (957.4674, 34.6346, 138.5385),
    "gemma2-9b": (227.1206, 17.3173, 60.6106),
    "gemma3-27b": (663.74, 13.5034, 36.5931),
    "qwen3-8b": (185.9936, 14.8434, 59.3736),
    "qwen3-32b": (786.0273, 52.7766, 211.1062),
    "qwen3-30b-a3b": (74.7518, 19.7912, 79.1648),
    "qwen3-235b-a22b": (530.0462, 77.5156, 310.0623),
    "gpt-oss-20b": (88.6491, 5.2522, 20.4049),
    "gpt-oss-120b": (126.1019, 7.8783, 30.6073),
    "deepseek2-16b": (60.2434, 6.9578, 27.8314),
    "deepseek3-671b": (900.0861, 125.7566, 503.0266),
    "kimi-k2-1t": (778.7168, 62.8783, 251.5133),
    "llama4-17b-16e": (396.6053, 24.739, 98.956),
    "llama4-17b-128e": (396.8952, 24.739, 98.956),
    "gpt3-175b": (4290.0925, 118.7473, 474.989),
}


def _preset(model: str) -> Architecture:
    return build(Architecture, read_document(model_configs_folder() / f"{model}.yaml"))


@pytest.mark.parametrize("model", TABLE, ids=str)
def test_weight_flops_are_those_maxtext_counts(model: str) -> None:
    flops = TRAINING_PASSES * 4096 * weight_flops_per_token(_preset(model))
    assert flops / TFLOP == pytest.approx(TABLE[model][0], rel=1e-4)


@pytest.mark.parametrize("model", TABLE, ids=str)
@pytest.mark.parametrize(("length", "column"), [(4096, 1), (8192, 2)], ids=["4096", "8192"])
def test_attention_flops_are_those_maxtext_counts(model: str, length: int, column: int) -> None:
    flops = TRAINING_PASSES * length * attention_flops_per_token(_preset(model), length)
    assert flops / TFLOP == pytest.approx(TABLE[model][column], rel=1e-4)
