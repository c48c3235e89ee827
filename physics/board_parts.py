"""Table of GPU parts: board power, highest clock, idle power and assumed shape of the power curve.

Board power is that of NVIDIA's data sheets; clocks are boost clocks of the same sheets or what ``nvidia-smi -q`` of the
part lists. Idle power is the least certain number: a board with a context or filled memory idles far higher than one
without (an A40: 30 W and 110 W, github.com/NVIDIA/open-gpu-kernel-modules/issues/874), so each has a standard
deviation, and the board's own idle replaces it once seen. No data sheet gives power over clock. Of one load at two
clocks there are published records of a V100 SXM2 (350 W at 1530 MHz, 205 W at 1005 MHz, blbadger.github.io/gpu-server)
and of a Turing card (182 W at 1470 MHz, 134.6 W at 1200 MHz, github.com/dartraiden/NVIDIA-patcher/issues/584; the
V100's curve predicts 136 W). On A40, A100, H100 and H200 power rises in a line with the clock and faster above a clock
that depends on part and load (arXiv 2607.00819): the same form, with knees that are not published per part. Newer
parts have the V100's form with a smaller clock-independent share and wide deviations, since little is known.
"""

import re
from dataclasses import dataclass, replace

from physics.board_curve import BoardCurve, CurveShape, board_curve
from physics.power_curve import DEFAULT_CURVE, PowerCurve

# Through the two points of its record, which does not show where the voltage stops to fall. heuristic: boards were read
# at 712 mV (A100 at 1080 of 1410 MHz without load, github.com/NVIDIA/nvidia-docker/issues/1648) and 750 mV (RTX
# 3080 at 210 MHz, github.com/NVIDIA/open-gpu-kernel-modules/issues/314), of about one volt at the highest clock.
_VOLTA = CurveShape(
    curve=PowerCurve(idle=0.12, static=0.350, voltage_floor=0.70, knee=0.60),
    static_sd_ratio=0.25,
    floor_sd=0.08,
    knee_sd=0.12,
)
# heuristic: three quarters of the V100's ratio of clock-independent to switching power, since leakage per switched watt
# fell with FinFET generations; the deviation covers the V100's ratio and half of it.
_LATER = CurveShape(
    curve=PowerCurve(idle=0.12, static=0.304, voltage_floor=0.70, knee=0.60),
    static_sd_ratio=0.45,
    floor_sd=0.10,
    knee_sd=0.12,
)
# Cards with GDDR memory: their memory is a larger clock-independent part. heuristic: the V100's ratio, less certain.
_GDDR = replace(_VOLTA, static_sd_ratio=0.45, floor_sd=0.10)
# A part that is not in the table.
_UNKNOWN = replace(_VOLTA, static_sd_ratio=0.6, floor_sd=0.12)
# heuristic: of the board power, where no record of the part's idle power is at hand; 8 to 17 % on those that are.
_IDLE_RATIO, _IDLE_SD_RATIO = 0.12, 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPart:
    """Part of the table.

    Parameters
    ----------
    name
        Short name for people.
    pattern
        Regular expression that the driver's name of the GPU contains.
    board_w
        Board power of the data sheet, which is the highest default power limit.
    max_mhz
        Highest SM clock; the driver's own list is preferred where it is known.
    idle_w, idle_sd_w
        Power without a load, and its standard deviation from board to board and state to state.
    given
        Curve that caps use unchanged until the board's own is learnt; None if they use the cautious bound.
    """

    name: str
    pattern: str
    board_w: float
    max_mhz: float
    idle_w: float
    idle_sd_w: float
    shape: CurveShape
    source: str
    given: PowerCurve | None = None

    def curve(self) -> BoardCurve:
        """Return the curve of a board of this part of which nothing was seen yet."""
        return board_curve(self.shape, idle_w=self.idle_w, idle_sd_w=self.idle_sd_w, given=self.given)


def _part(
    name: str, pattern: str, board_w: float, max_mhz: float, shape: CurveShape, *, source: str, idle_w: float = 0.0
) -> BoardPart:
    return BoardPart(
        name=name,
        pattern=pattern,
        board_w=board_w,
        max_mhz=max_mhz,
        idle_w=idle_w or _IDLE_RATIO * board_w,
        idle_sd_w=_IDLE_SD_RATIO * board_w,
        shape=shape,
        source=source,
    )


# More specific names first: the first pattern that the driver's name contains counts.
PARTS: tuple[BoardPart, ...] = (
    BoardPart(
        name="V100 SXM2",
        pattern=r"V100-SXM2",
        board_w=300.0,
        max_mhz=1530.0,
        idle_w=42.0,
        idle_sd_w=3.0,
        shape=_VOLTA,
        source="Tesla V100 data sheet; 40 to 45 W idle, about 350 W at 1530 MHz: blbadger.github.io/gpu-server",
        given=DEFAULT_CURVE,
    ),
    _part("V100 SXM3", r"V100-SXM3", 350.0, 1597.0, _VOLTA, source="nvidia-smi of a DGX-2, 350 W"),
    _part("V100S PCIe", r"V100S", 250.0, 1597.0, _VOLTA, source="V100S data sheet"),
    _part("V100 PCIe", r"V100-PCIE", 250.0, 1380.0, _VOLTA, source="Tesla V100 data sheet"),
    _part("T4", r"\bT4\b", 70.0, 1590.0, _GDDR, source="T4 data sheet"),
    _part(
        "A100 SXM4",
        r"A100-SXM",
        400.0,
        1410.0,
        _LATER,
        source="A100 data sheet; Ampere white paper; idle 56 W on PCIe, github.com/JimZeyuYang/GPU_Power_Benchmark",
        idle_w=60.0,
    ),
    _part(
        "A100 80GB PCIe",
        r"A100 80GB PCIe|A100-PCIE-80GB",
        300.0,
        1410.0,
        _LATER,
        source="A100 80GB PCIe product brief; idle 56 W, github.com/JimZeyuYang/GPU_Power_Benchmark",
        idle_w=56.0,
    ),
    _part("A100 40GB PCIe", r"A100-PCIE", 250.0, 1410.0, _LATER, source="A100 data sheet", idle_w=40.0),
    _part("A800 SXM4", r"A800-SXM", 400.0, 1410.0, _LATER, source="as the A100 SXM4", idle_w=60.0),
    _part("A30", r"\bA30\b", 165.0, 1440.0, _LATER, source="A30 data sheet"),
    _part(
        "A40",
        r"\bA40\b",
        300.0,
        1740.0,
        _GDDR,
        source="A40 data sheet; idle 30 W, github.com/NVIDIA/open-gpu-kernel-modules/issues/874",
        idle_w=30.0,
    ),
    _part("A10", r"\bA10\b", 150.0, 1695.0, _GDDR, source="A10 data sheet"),
    _part("RTX A6000", r"RTX A6000", 300.0, 1800.0, _GDDR, source="RTX A6000 data sheet"),
    _part("L4", r"\bL4\b", 72.0, 2040.0, _GDDR, source="L4 data sheet"),
    _part("L40S", r"\bL40S\b", 350.0, 2520.0, _GDDR, source="L40S data sheet"),
    _part("L40", r"\bL40\b", 300.0, 2490.0, _GDDR, source="L40 data sheet"),
    _part("RTX 6000 Ada", r"RTX 6000 Ada", 300.0, 2505.0, _GDDR, source="RTX 6000 Ada data sheet"),
    _part(
        "H100 SXM5",
        r"H100 80GB HBM3|H100-SXM|H800(?! PCIe)",
        700.0,
        1980.0,
        _LATER,
        source="H100 data sheet; idle 83 and 88 W, github.com/NVIDIA/nccl/issues/1264; 140 W with filled memory, "
        "github.com/wilicc/gpu-burn/issues/114",
        idle_w=85.0,
    ),
    _part("H100 NVL", r"H100 NVL", 400.0, 1785.0, _LATER, source="H100 NVL product brief"),
    _part("H100 PCIe", r"H100 PCIe|H800 PCIe", 350.0, 1755.0, _LATER, source="H100 PCIe product brief"),
    _part("H200 NVL", r"H200 NVL", 600.0, 1785.0, _LATER, source="H200 data sheet, up to 600 W"),
    _part("H200 SXM", r"\bH200", 700.0, 1980.0, _LATER, source="H200 data sheet; idle as the H100 SXM5", idle_w=85.0),
    _part(
        "B200",
        r"\bB200",
        1000.0,
        1965.0,
        _LATER,
        source="HGX B200 data sheet, 1000 W; 1965 MHz, capture of a node in github.com/NVIDIA/k8s-test-infra",
        idle_w=140.0,
    ),
    _part("GeForce RTX 3090", r"RTX 3090\b(?! Ti)", 350.0, 2100.0, _GDDR, source="GeForce RTX 3090 specifications"),
    _part("GeForce RTX 4090", r"RTX 4090\b(?! [DL])", 450.0, 3105.0, _GDDR, source="GeForce RTX 4090 specifications"),
    _part(
        "GeForce RTX 5090",
        r"RTX 5090\b(?! [DL])",
        575.0,
        3090.0,
        _GDDR,
        source="GeForce RTX 5090 specifications; 3090 MHz, github.com/kekzl/imp/issues/1671; idle 14 to 35 W, "
        "recordings of github.com/ksokolowski/astral-hwmon",
        idle_w=25.0,
    ),
)


def part_of(model: str | None) -> BoardPart | None:
    """Return the part that a driver's name of a GPU belongs to; None if the table does not have it."""
    if not model:
        return None
    return next((part for part in PARTS if re.search(part.pattern, model)), None)


def curve_of(model: str | None) -> BoardCurve | None:
    """Return the curve of a board of which nothing but its name was seen; None without a name."""
    if not model:
        return None
    part = part_of(model)
    if part is None:
        return board_curve(_UNKNOWN, idle_w=UNKNOWN_IDLE_W, idle_sd_w=_UNKNOWN_IDLE_SD_W)
    return part.curve()


# Idle power of a part that is not in the table. heuristic: the middle of the table; what the board shows replaces it.
# Its deviation is half of it, as that of the parts without a record of their idle power.
UNKNOWN_IDLE_W, _UNKNOWN_IDLE_SD_W = 45.0, 22.5
