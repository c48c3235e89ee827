"""What a link between GPUs shows."""

from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_C = SignalKind.COUNTER

_LINK = declare(
    EntityKind.LINK,
    Source.NVLINK,
    RateClass.SLOW,
    (
        ("nvlink_crc_errors", "", _C, 0, "Flits that arrived damaged."),
        ("nvlink_replays", "", _C, 0, "Transmissions that were repeated."),
    ),
)

LINK_SIGNALS = (*_LINK,)
