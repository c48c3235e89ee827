"""Signal catalogue: every measured quantity, declared once.

Documentation, store schema, dashboards and Prometheus names are generated from `CATALOGUE`. A name ends in its unit;
ratios run from 0 to 1. A signal that is added in `telemetry/catalogue` appears in the store, the page and
the references.
"""

from telemetry.catalogue.agent import AGENT_SIGNALS
from telemetry.catalogue.gpu import GPU_SIGNALS, LINK_SIGNALS
from telemetry.catalogue.node import FAN_SIGNALS, JOB_SIGNALS, NODE_SIGNALS
from telemetry.catalogue.pins import PIN_SIGNALS
from telemetry.catalogue.signal import RateClass, Signal, SignalKind, Source
from telemetry.catalogue.supply import SUPPLY_SIGNALS
from telemetry.entities import EntityKind

__all__ = ["CATALOGUE", "SENT_SOURCES", "RateClass", "Signal", "SignalKind", "Source", "signal", "signals_of"]

# Sources that no collector reads: other programs send their readings.
SENT_SOURCES = (Source.PROBE, Source.JOB)

CATALOGUE: tuple[Signal, ...] = (
    *GPU_SIGNALS,
    *PIN_SIGNALS,
    *SUPPLY_SIGNALS,
    *FAN_SIGNALS,
    *LINK_SIGNALS,
    *NODE_SIGNALS,
    *JOB_SIGNALS,
    *AGENT_SIGNALS,
)


def signals_of(
    entity: EntityKind, *, source: Source | None = None, rate: RateClass | None = None
) -> tuple[Signal, ...]:
    """Return the signals of one entity kind, in catalogue order, narrowed by source and rate class."""
    return tuple(
        signal
        for signal in CATALOGUE
        if signal.entity is entity and source in (None, signal.source) and rate in (None, signal.rate)
    )


def signal(entity: EntityKind, name: str) -> Signal:
    """Return one signal of the catalogue; KeyError where there is none of that name."""
    for candidate in CATALOGUE:
        if candidate.entity is entity and candidate.name == name:
            return candidate
    raise KeyError(f"{entity}.{name} is not in the signal catalogue")
