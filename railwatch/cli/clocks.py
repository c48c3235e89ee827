"""``railwatch clocks``: where the clocks of each GPU went, over a recording."""

from pathlib import Path
from typing import Annotated

import typer

from analytics.clock_accounting import Reason, clock_account
from railwatch.beside import gpu_frame
from railwatch.cli.output import print_json, print_table
from railwatch.cli.place import JsonFlag
from telemetry.errors import EnvironmentLacksError
from telemetry.recording import read_recording

_LEAST_SHARE = 0.0005  # rounds to nothing on a screen


def clocks(
    recording: Annotated[Path, typer.Argument(help="A .parquet or .csv file in long form.")],
    as_json: JsonFlag = False,
) -> None:
    """Say how long each reason held a GPU below its highest clock, and how much clock that cost.

    Power limit, heat, power brake, sync boost, clocks that were set, nothing to do: by the driver's bits and counters,
    whichever saw more.
    """
    read = read_recording(recording)
    frame = gpu_frame([*read.frames()])
    if frame is None or len(frame) < 2:
        raise EnvironmentLacksError(f"{recording}: no rows of GPUs with clocks or their reasons")
    account = clock_account(frame)
    if not account.seconds > 0:
        raise EnvironmentLacksError(f"{recording}: rows lie too far apart to say what held between them")
    reasons = tuple(Reason)
    rows = []
    for index, entity in enumerate(frame.spec.entities):
        shares = {reason: account.share(index, reason) for reason in reasons}
        lost = dict(zip(reasons, account.lost_ratio[index].tolist(), strict=True))
        if as_json:
            for reason in reasons:
                print_json(
                    {
                        "entity_id": entity.id,
                        "reason": reason.value,
                        "seconds": account.seconds,
                        "share_ratio": shares[reason],
                        "clock_lost_ratio": None if lost[reason] != lost[reason] else lost[reason],
                    }
                )
        rows += [
            (
                entity.name,
                reason.value,
                f"{shares[reason]:.1%}",
                "-" if lost[reason] != lost[reason] else f"{lost[reason]:.1%}",
            )
            for reason in sorted(reasons, key=lambda one: -shares[one])
            if shares[reason] >= _LEAST_SHARE
        ]
    if not as_json:
        print_table(f"{account.seconds:.0f} s", ("GPU", "held by", "of the time", "clock lost"), rows)
