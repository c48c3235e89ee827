"""``railwatch clocks``: what held the clocks of each GPU down, over a recording."""

import math
from pathlib import Path
from typing import Annotated

import typer

from analytics.clock_accounting import ClockAccount, Reason, clock_account, rounded
from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import JsonFlag
from railwatch.operator.action_groups import capped_gpus
from railwatch.operator.incident_context import gpu_frame
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import Frame
from telemetry.recording import read_recording

_TENTHS = 1000  # shares are printed in tenths of a per cent


def clocks(
    recording: Annotated[Path, typer.Argument(help="Recording, .parquet or .csv in long form.")],
    as_json: JsonFlag = False,
) -> None:
    """Report what held each GPU below its highest clock, for how long, and at what cost.

    Reasons: power limit, heat, power brake, sync boost, clock caps and other set clocks, idle. Each is taken from the
    reason bits or the counters of the driver, whichever shows more. Shares are of the time in which the GPU was read.
    """
    read = read_recording(recording)
    frame = gpu_frame([*read.frames()])
    if frame is None or len(frame) < 2:
        raise EnvironmentLacksError(f"{recording}: no GPU rows with clocks or throttle reasons")
    capped = capped_gpus(read.records)
    account = clock_account(frame, capped=capped)
    if not account.seconds > 0:
        raise EnvironmentLacksError(f"{recording}: rows are too far apart to attribute the time between them")
    if as_json:
        _print_objects(account, frame)
        return
    rows = [row for index, entity in enumerate(frame.spec.entities) for row in _rows(account, index, entity.label)]
    print_table(f"{account.seconds:.0f} s", ("GPU", "read", "held by", "of that time", "clock lost"), rows)


def _print_objects(account: ClockAccount, frame: Frame) -> None:
    for index, entity in enumerate(frame.spec.entities):
        for reason, lost in zip(Reason, account.lost_ratio[index].tolist(), strict=True):
            print_json(
                {
                    "entity_id": entity.id,
                    "reason": reason.value,
                    "seconds": float(account.read_s[index]),
                    "share_ratio": account.share(index, reason),
                    "clock_lost_ratio": None if math.isnan(lost) else lost,
                }
            )


def _rows(account: ClockAccount, index: int, name: str) -> list[tuple[str, ...]]:
    """Return one row per reason, the largest share first."""
    tenths = rounded([account.share(index, reason) for reason in Reason], _TENTHS)
    held = zip(Reason, tenths, account.lost_ratio[index].tolist(), strict=True)
    return [
        (
            name,
            f"{account.read_s[index]:.0f} s",
            reason.value,
            f"{tenth / 10:.1f}%",
            "-" if math.isnan(lost) else f"{lost:.1%}",
        )
        for reason, tenth, lost in sorted(held, key=lambda one: -one[1])
        if tenth
    ]
