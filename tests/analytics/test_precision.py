"""From the activity of pipes to a expected for the precision of a job."""

import math

import pytest

from analytics.precision import Precision, precision_of


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ({"tensor_hmma_ratio": 0.3, "fp32_active_ratio": 0.4}, Precision.TENSOR_HALF),
        ({"fp32_active_ratio": 0.4, "fp64_active_ratio": 0.05}, Precision.FP32),
        ({"fp64_active_ratio": 0.5, "fp32_active_ratio": 0.1}, Precision.FP64),
        ({"tensor_dfma_ratio": 0.2, "tensor_dmma_ratio": 0.2, "fp32_active_ratio": 0.3}, Precision.TENSOR_FP64),
        ({"tensor_imma_ratio": 0.2, "fp32_active_ratio": 0.6}, Precision.TENSOR_INT),
        ({"fp16_active_ratio": 0.4, "fp32_active_ratio": 0.2}, Precision.FP16),
    ],
)
def test_the_pipe_that_does_most_of_the_work_names_the_precision(ratios: dict[str, float], expected: Precision) -> None:
    assert precision_of(ratios) is expected


@pytest.mark.parametrize(
    "ratios",
    [
        {},
        {"tensor_hmma_ratio": math.nan, "fp32_active_ratio": math.nan},
        {"fp32_active_ratio": 0.009, "tensor_hmma_ratio": 0.0},
        {"fp32_active_ratio": 0.2, "fp16_active_ratio": 0.1},
        {"sm_active_ratio": 0.9, "dram_active_ratio": 0.9},
    ],
    ids=["nothing", "not known", "idle", "two alike", "other signals"],
)
def test_the_precision_is_unknown_where_the_pipes_do_not_show_it(ratios: dict[str, float]) -> None:
    assert precision_of(ratios) is Precision.UNKNOWN


def test_what_is_not_known_of_one_pipe_does_not_hide_another() -> None:
    assert precision_of({"tensor_imma_ratio": math.nan, "fp64_active_ratio": 0.3}) is Precision.FP64
