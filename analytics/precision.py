"""Precision in which a GPU computes, from the activity of its arithmetic pipes."""

import math
from enum import StrEnum

# Operations a second of each pipe at full activity, relative to single precision: H100 SXM data sheet, dense (FP64 34,
# FP64 tensor 67, FP32 67, FP16 134, FP16 tensor 989, INT8 tensor 1979 TFLOP/s). A cycle in a tensor unit is worth many
# elsewhere, so activity alone would call every mixed-precision job a single-precision one.
_PEAK = {
    "fp64_active_ratio": 0.5,
    "fp32_active_ratio": 1.0,
    "fp16_active_ratio": 2.0,
    "tensor_dfma_ratio": 1.0,
    "tensor_dmma_ratio": 1.0,
    "tensor_hmma_ratio": 15.0,
    "tensor_imma_ratio": 30.0,
}
# heuristic: below 1 % activity everywhere the precision is unknown; it is named for more than half of the work.
_LEAST_ACTIVE = 0.01
_LEAST_SHARE = 0.5


class Precision(StrEnum):
    """Main precision of a GPU; `unknown` if it is idle, mixed or not measured.

    `tensor_half` covers everything that the HMMA pipe does: half precision, bfloat16, and on newer parts TF32.
    """

    FP64 = "fp64"
    FP32 = "fp32"
    FP16 = "fp16"
    TENSOR_FP64 = "tensor_fp64"
    TENSOR_HALF = "tensor_half"
    TENSOR_INT = "tensor_int"
    UNKNOWN = "unknown"


_PRECISION_OF = {
    "fp64_active_ratio": Precision.FP64,
    "fp32_active_ratio": Precision.FP32,
    "fp16_active_ratio": Precision.FP16,
    "tensor_dfma_ratio": Precision.TENSOR_FP64,
    "tensor_dmma_ratio": Precision.TENSOR_FP64,
    "tensor_hmma_ratio": Precision.TENSOR_HALF,
    "tensor_imma_ratio": Precision.TENSOR_INT,
}


def precision_of(ratios: dict[str, float]) -> Precision:
    """Return the precision of the pipe that does more than half of the work.

    Parameters
    ----------
    ratios
        Activity from 0 to 1 by signal name; other signals are left aside, NaN counts as not known.
    """
    known = {name: ratios[name] for name in _PEAK if not math.isnan(ratios.get(name, math.nan))}
    if not known or max(known.values()) < _LEAST_ACTIVE:
        return Precision.UNKNOWN
    work: dict[Precision, float] = {}
    for name, ratio in known.items():
        work[_PRECISION_OF[name]] = work.get(_PRECISION_OF[name], 0.0) + _PEAK[name] * ratio
    precision, most = max(work.items(), key=lambda item: item[1])
    return precision if most > _LEAST_SHARE * sum(work.values()) else Precision.UNKNOWN
