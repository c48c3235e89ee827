"""In what precision a job calculates, and which parts can."""

from enum import StrEnum
from typing import Literal

from telemetry.errors import ConfigError, Problem

Architecture = Literal["volta", "ampere", "hopper", "blackwell"]


class JobPrecision(StrEnum):
    """Precision of a job; `fp64_tensor` is dense algebra, `fp64` work outside the tensor units."""

    FP64 = "fp64"
    FP64_TENSOR = "fp64_tensor"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"


# NVIDIA Volta, Ampere and Hopper architecture white papers: the tensor units of a V100 take half precision alone, those
# of an A100 bfloat16, TF32, double precision and integers too, and those of an H100 also eight-bit floating point.
_LACKING: dict[Architecture, frozenset[JobPrecision]] = {
    "volta": frozenset(
        {JobPrecision.FP64_TENSOR, JobPrecision.TF32, JobPrecision.BF16, JobPrecision.FP8, JobPrecision.INT8}
    ),
    "ampere": frozenset({JobPrecision.FP8}),
    "hopper": frozenset(),
    "blackwell": frozenset(),
}


def precision_on(wanted: JobPrecision | None, architecture: Architecture) -> JobPrecision:
    """Return the precision of a job: its own, else bfloat16, or half precision on a part without bfloat16."""
    if wanted is not None:
        return wanted
    return JobPrecision.FP16 if JobPrecision.BF16 in _LACKING[architecture] else JobPrecision.BF16


def check_precision(wanted: JobPrecision | None, architecture: Architecture, *, job: str) -> None:
    """Refuse a precision that the part does not calculate in.

    Raises
    ------
    ConfigError
        It does not, and what it does is said.
    """
    lacking = _LACKING[architecture]
    if wanted in lacking:
        has = ", ".join(precision for precision in JobPrecision if precision not in lacking)
        expected = f"what {architecture.capitalize()} parts calculate in: {has}"
        where = f"workload {job}"
        raise ConfigError(
            [Problem(where=where, line=None, key="precision", found=f"got '{wanted}'", expected=expected)]
        )
