"""Signals of a link between GPUs."""

from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_C, _F, _G = SignalKind.COUNTER, SignalKind.FLAGS, SignalKind.GAUGE

_LINK = declare(
    EntityKind.LINK,
    Source.NVLINK,
    RateClass.SLOW,
    (
        ("nvlink_crc_errors", "", _C, 0, "Flits that arrived damaged."),
        ("nvlink_replays", "", _C, 0, "Transmissions that were repeated."),
        ("nvlink_recoveries", "", _C, 0, "Times that the link was retrained."),
        ("nvlink_symbol_errors", "", _C, 0, "Symbols that arrived damaged after correction, NVLink 5 and newer."),
        ("nvlink_up", "", _F, 0, "1 while the link is up."),
        ("nvlink_speed_bytes_per_s", "B/s", _G, 0, "Rate at which the link runs, in each direction."),
        ("nvlink_tx_bytes", "B", _C, 0, "Payload that the GPU sent over the link."),
        ("nvlink_rx_bytes", "B", _C, 0, "Payload that the GPU received over the link."),
        ("nvlink_tx_raw_bytes", "B", _C, 0, "Bytes sent over the link, protocol included."),
        ("nvlink_rx_raw_bytes", "B", _C, 0, "Bytes received over the link, protocol included."),
    ),
)

LINK_SIGNALS = (*_LINK,)
