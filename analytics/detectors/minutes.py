"""Minutes of a load: when a verdict is due, and when a gap makes the minute begin again."""

from enum import StrEnum

from analytics.detectors.seconds import MAX_GAP_S
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits


class Minute(StrEnum):
    """State of a minute when a second ends."""

    OPEN = "open"
    BROKEN = "broken"
    ENDED = "ended"


def minute_at(
    second: int, limits: SupplyMarginsLimits, *, last: int | None, since: int | None, judged: int | None
) -> Minute:
    """Return the state of the minute that began at `since`; `last` is the second before, `judged` the last verdict.

    It is broken across a gap, or where the clock was set back.
    """
    if last is None or since is None:
        return Minute.OPEN
    if not 0 < second - last <= MAX_GAP_S:
        return Minute.BROKEN
    due_s = limits.first_after_s if judged is None else limits.every_s
    return Minute.OPEN if second - since < due_s else Minute.ENDED
