"""Bus of 48 or 54 V that only the board's controller measures, as one source and one load.

The supplies' meters show voltage and current at their outputs many times a second; the controller shows the voltage of
the board every one to ten seconds in coarse steps. Between the two lies resistance only:

``V_board(I) = E - offset - (R_line + R_path) I``

`E` is the voltage of the outputs without load, `R_line` the supplies' own load lines side by side. `offset` is what the
two kinds of meters differ by, and `R_path` what the joints between them add. Each error is taken to the safe side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from physics.node_state import MeasuredNode, MeasuredSupply
from physics.rail_classes import MAIN_BUSES_V
from physics.supply_path import SupplyPath
from rules.caps.targets import gpus_of_supply, kind_of, supplies_of_incident
from telemetry.entities import SOURCE_TAG, EntityKind, Topology
from telemetry.records import Finding, FindingStatus, Incident

DETECTORS = frozenset({"board_rail", "bus_rail"})
# No meter of a board is coarser than a byte over some 1.2 times the nominal voltage (IPMI 2.0, 35.14): 0.27 V of 54 V.
COARSEST_STEP = 0.005
# What the meters of board and supplies differ by at most. heuristic: 1 % each, as data sheets of supplies state for
# READ_VOUT; the mean over the supplies of a bus is nearer to the truth.
METERS_ERROR = 0.015
# Drop of a sound path under its usual load, whatever the meters show of it. heuristic: bus bars, blades and joints of
# simulated sound nodes drop 0.3 to 0.7 per cent.
SOUND_DROP = 0.007
# A controller reads a rail every one to ten seconds: its newest reading may be from so long ago.
BOARD_ROUND_S = 10.0
# Time after a cap in which a sag at the board may still be shown: until the controller reads the rail again, and then
# fifteen of its readings above the limit, a second apart (`BoardRailLimits.clear_readings`).
SHOWN_LATE_S = BOARD_ROUND_S + 15.0
# Depth of a dip over what the meter of a supply shows of it: a mean over 10 ms is 0.63 of a dip that recovers within
# 10 ms. heuristic: such a meter, and such a supply.
WHOLE_DIP_RATIO = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardBus:
    """Supplies of a bus together, as measured now: currents are sums.

    `open_v` is the mean voltage of their outputs without load, `line_ohm` are their load lines side by side, and
    `transient_ohm` is the depth of a dip per ampere of a step.
    """

    open_v: float
    high_a: float
    low_a: float
    line_ohm: float
    transient_ohm: float
    limit_scale: float

    @property
    def meter_step_v(self) -> float:
        """Most that a step of the board's meter may be; no finding names the step itself."""
        return COARSEST_STEP * self.open_v


def board_findings(incident: Incident) -> tuple[Finding, ...]:
    """Return the newest active findings on the bus at the board, one of each cause and entity."""
    newest: dict[tuple[str, str], Finding] = {}
    for finding in sorted(incident.findings, key=lambda item: item.time_ns):
        if is_of_board(finding):
            newest[finding.entity_id, finding.cause] = finding
    return tuple(one for one in newest.values() if one.status is not FindingStatus.CLEARED)


def is_of_board(finding: Finding) -> bool:
    """Return True for a finding on the bus at the board."""
    return finding.detector.partition(".")[0] in DETECTORS


def shown_late_s(incident: Incident) -> float:
    """Return for how long after a cap an incident may still be open though its cause is gone."""
    active = [one for one in incident.findings if one.status is not FindingStatus.CLEARED]
    return SHOWN_LATE_S if active and all(is_of_board(one) for one in active) else 0.0


def metered_supplies(incident: Incident) -> tuple[str, ...]:
    """Return the supplies of an incident with a meter of their own, without rails of the board."""
    boards = {finding.entity_id for finding in incident.findings if is_of_board(finding)}
    return tuple(one for one in supplies_of_incident(incident) if one not in boards)


def supplies_of_board(entity_id: str, topology: Topology) -> tuple[str, ...]:
    """Return the supplies of the bus behind a node or a rail of the board, by the GPUs that they feed."""
    fed = set(gpus_of_supply(entity_id, topology)) if kind_of(entity_id) == EntityKind.SUPPLY else None
    return tuple(
        one.id
        for one in topology.of_kind(EntityKind.SUPPLY)
        if one.nominal_v in MAIN_BUSES_V
        and one.tag(SOURCE_TAG) is None
        and (own := gpus_of_supply(one.id, topology))
        and (fed is None or set(own) == fed)
    )


def board_bus(supplies: Sequence[str], node: MeasuredNode) -> BoardBus | None:
    """Return the supplies of a bus together; None where one is not measured, or all carry nothing."""
    measured = [_Output.of(node.supply(one)) for one in supplies]
    known = [one for one in measured if one is not None]
    if not known or len(known) < len(measured):
        return None
    high_a, low_a = sum(one.high_a for one in known), sum(one.low_a for one in known)
    if not high_a > 0.0:
        return None
    dip_v = fmean(one.dip_v for one in known)
    return BoardBus(
        open_v=fmean(one.open_v for one in known),
        high_a=high_a,
        low_a=low_a,
        line_ohm=1.0 / sum(1.0 / one.line_ohm for one in known),
        transient_ohm=WHOLE_DIP_RATIO * dip_v / max(high_a - low_a, 1.0),
        limit_scale=known[0].limit_scale,
    )


def board_path(findings: Sequence[Finding], bus: BoardBus, *, since_ns: int = -1) -> SupplyPath | None:
    """Return the source of a bus as the board sees it, on the safe side; None where no finding names its voltage.

    What the meters differ by while the joints are sound is taken for their errors alone, half a step is added, and it
    is no less than what a sound path drops. How far the drop rose over its current is a resistance at any load; the
    lowest reading belongs to the present load, and counts only after `since_ns`.
    """
    rise = next((one for one in findings if one.number("risen_v") is not None), None)
    sag = next((one for one in findings if one.number("minimum_v") is not None and one.time_ns > since_ns), None)
    if rise is None and sag is None:
        return None
    usual_v = None if rise is None else rise.number("usual_drop_v")
    unknown_v = METERS_ERROR * bus.open_v if usual_v is None else usual_v + bus.meter_step_v / 2.0
    open_v = bus.open_v - max(unknown_v, SOUND_DROP * bus.open_v)
    ohm = bus.line_ohm + _risen_ohm(rise)
    if sag is not None:
        lowest_v = (sag.number("minimum_v") or open_v) - bus.meter_step_v / 2.0
        ohm = max(ohm, (open_v - lowest_v) / bus.high_a)
    return SupplyPath(open_circuit_v=open_v, source_resistance_ohm=ohm, transient_ohm=bus.transient_ohm)


def _risen_ohm(rise: Finding | None) -> float:
    """Return by how much the resistance between supplies and board rose."""
    if rise is None:
        return 0.0
    risen_v, total_a = rise.number("risen_v") or 0.0, rise.number("current_a") or 0.0
    return max(risen_v, 0.0) / total_a if total_a > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class _Output:
    """A supply at its own output: voltage without load, current of the high and of the low phase, depth of a dip."""

    open_v: float
    high_a: float
    low_a: float
    line_ohm: float
    dip_v: float
    limit_scale: float

    @staticmethod
    def of(supply: MeasuredSupply | None) -> "_Output | None":
        if supply is None or supply.open_circuit_v is None or supply.source_resistance_ohm is None:
            return None
        if supply.current_high_a is None or supply.current_low_a is None or not supply.source_resistance_ohm > 0.0:
            return None
        output_v = supply.open_circuit_v - supply.source_resistance_ohm * supply.current_high_a
        lowest_v = output_v if supply.minimum_v is None else supply.minimum_v
        return _Output(
            open_v=supply.open_circuit_v,
            high_a=supply.current_high_a,
            low_a=supply.current_low_a,
            line_ohm=supply.source_resistance_ohm,
            dip_v=max(output_v - lowest_v - supply.scatter_v, 0.0),
            limit_scale=supply.limit_scale,
        )
