"""Source and load of each supply of an incident, from which the voltage under a cap is predicted.

The load is taken once, when a cap is first set, because a capped GPU no longer shows its full power. The source,
open-circuit voltage and resistance, is taken again at every step, since it ages; so is the power curve of each board,
since the step of the clock by the cap itself is what it is learnt from.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from physics.constants import Z_LOWER
from physics.node_state import MeasuredGpu, MeasuredNode, MeasuredSupply, SourceBand, of_bounds
from physics.power_curve import DEFAULT_CURVE, HeightCurve, PowerCurve
from physics.supply_path import GpuLoad, SupplyLoad, SupplyPath
from rules.caps.board_bus import (
    BoardBus,
    board_bus,
    board_findings,
    board_path,
    is_of_board,
    supplies_of_board,
)
from rules.caps.bus_meters import lower_meter_v
from rules.caps.targets import gpus_of_supply, kind_of, supplies_of_gpu
from telemetry.entities import EntityKind, Topology, label_of_id
from telemetry.records import Finding, FindingStatus, Incident

# heuristic: below this part of their power, the swing of the GPUs does not show how supplies share it.
SWING_RATIO_MIN = 0.2

# Depth of a dip over what a monitor shows of it: the mean over its conversion of 4 ms is 0.82 of a dip that recovers
# within 10 ms. heuristic: such a monitor, and such a supply; a slower one shows less of a dip.
WHOLE_DIP_RATIO = 1.22


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyBasis:
    """Source and load of one supply when the cap was first set, with a finding of `found_ns`.

    `limit_scale` is the voltage to hold over that at 12 V, `lower_meter_v` by how much another meter of its bus reads
    lower. A bus that is measured at the board has the `supplies` that feed it, and the step of the board's meter.
    """

    entity_id: str
    path: SupplyPath
    load: SupplyLoad
    found_ns: int = 0
    limit_scale: float = 1.0
    lower_meter_v: float = 0.0
    supplies: tuple[str, ...] = ()
    meter_step_v: float = 0.0


def bases_of(
    incident: Incident, node: MeasuredNode, *, targets: Sequence[str], topology: Topology
) -> tuple[tuple[SupplyBasis, ...], str]:
    """Return source and load of each supply of the incident; empty with a reason if they are not known."""
    bases = []
    doubt = "no finding names a supply"
    for finding in supply_findings(incident):
        basis, reason = _basis(finding.entity_id, finding, node, targets=targets, topology=topology)
        if basis is None:
            doubt = reason
        else:
            bases.append(basis)
    known = _with_lower_meters(bases, node, topology)
    boards = dict.fromkeys(finding.entity_id for finding in board_findings(incident))
    at_board = [_board_basis(name, incident, node, targets, topology) for name in boards]
    doubt = next((reason for basis, reason in at_board if basis is None), doubt)
    return (*known, *(basis for basis, _ in at_board if basis is not None)), doubt


def bases_now(
    bases: Sequence[SupplyBasis],
    incident: Incident,
    node: MeasuredNode,
    *,
    targets: Sequence[str],
    topology: Topology,
) -> tuple[SupplyBasis, ...] | None:
    """Return the same supplies as they are measured now, under a cap; None unless each of them is."""
    findings = {finding.entity_id: finding for finding in supply_findings(incident)}
    fresh = []
    for basis in bases:
        finding = findings.get(basis.entity_id)
        if basis.supplies:
            found = _board_window(basis, node, targets=targets, topology=topology)
        else:
            found = _basis_now(basis, finding, node, targets=targets, topology=topology)
        if found is None:
            return None
        fresh.append(replace(found, found_ns=basis.found_ns if finding is None else finding.time_ns))
    return _with_lower_meters(fresh, node, topology)


def _basis_now(
    basis: SupplyBasis, finding: Finding | None, node: MeasuredNode, *, targets: Sequence[str], topology: Topology
) -> SupplyBasis | None:
    live = node.supply(basis.entity_id)
    if live is None or live.source_resistance_ohm is None or live.current_high_a is None:
        return None
    found, _ = _basis(basis.entity_id, finding, node, targets=targets, topology=topology)
    if found is None:
        return None
    return replace(found, path=replace(found.path, transient_ohm=_whole_dip_ohm(found.path, live)))


def supply_findings(incident: Incident) -> tuple[Finding, ...]:
    """Return the newest finding of each supply, without cleared ones."""
    newest: dict[str, Finding] = {}
    for finding in sorted(incident.findings, key=lambda item: item.time_ns):
        is_supply = kind_of(finding.entity_id) == EntityKind.SUPPLY and not is_of_board(finding)
        if is_supply and finding.status is not FindingStatus.CLEARED:
            newest[finding.entity_id] = finding
    return tuple(newest.values())


def path_now(
    basis: SupplyBasis, incident: Incident, node: MeasuredNode, *, resistance_ratio: float = 1.0
) -> SupplyPath:
    """Return the present source of a supply at a multiple of its resistance; the first one if none is newer.

    The finding from when the cap was set is not newer: samples were preferred to it then.
    """
    newer = (item for item in supply_findings(incident) if item.time_ns > basis.found_ns)
    found = next((item for item in newer if item.entity_id == basis.entity_id), None)
    source = _source(found, node, basis.entity_id) or basis.path
    return replace(
        source,
        open_circuit_v=source.open_circuit_v - basis.lower_meter_v,
        source_resistance_ohm=resistance_ratio * source.source_resistance_ohm,
        transient_ohm=basis.path.transient_ohm,
    )


def with_newest_boards(bases: Sequence[SupplyBasis], incident: Incident, node: MeasuredNode) -> tuple[SupplyBasis, ...]:
    """Return the supplies with the source of each bus at the board by findings that came since, under their load.

    A bus of which no finding is left is left out: its path is another one now, and nothing shows it at full rate.
    """
    active = board_findings(incident)
    by_board = {basis.entity_id: [one for one in active if one.entity_id == basis.entity_id] for basis in bases}
    kept = (basis for basis in bases if not basis.supplies or by_board[basis.entity_id])
    return tuple(_board_now(basis, by_board[basis.entity_id], node) if basis.supplies else basis for basis in kept)


def _board_now(basis: SupplyBasis, own: Sequence[Finding], node: MeasuredNode) -> SupplyBasis:
    newest_ns = max(one.time_ns for one in own)
    bus = board_bus(basis.supplies, node) if newest_ns > basis.found_ns else None
    path = None if bus is None else board_path(own, bus, since_ns=basis.found_ns)
    return basis if path is None else replace(basis, path=path, found_ns=newest_ns)


def _board_basis(
    entity_id: str, incident: Incident, node: MeasuredNode, targets: Sequence[str], topology: Topology
) -> tuple[SupplyBasis | None, str]:
    """Return source and load of a bus that is measured at the board; None with a reason if they are not known."""
    own = [one for one in board_findings(incident) if one.entity_id == entity_id]
    supplies = supplies_of_board(entity_id, topology)
    bus = board_bus(supplies, node)
    path = None if bus is None else board_path(own, bus)
    if bus is None or path is None:
        return None, "the currents of the supplies behind the board rail are not known"
    load = _board_load(bus, path, _fed_by(supplies, topology), node, targets)
    if load is None:
        return None, "the power of the GPUs under load is not known"
    return SupplyBasis(
        entity_id=entity_id,
        path=path,
        load=load,
        found_ns=max(one.time_ns for one in own),
        limit_scale=bus.limit_scale,
        supplies=supplies,
        meter_step_v=bus.meter_step_v,
    ), ""


def _board_window(
    basis: SupplyBasis, node: MeasuredNode, *, targets: Sequence[str], topology: Topology
) -> SupplyBasis | None:
    """Return a bus at the board with its present load and dips; its source is that of the findings."""
    bus = board_bus(basis.supplies, node)
    if bus is None:
        return None
    load = _board_load(bus, basis.path, _fed_by(basis.supplies, topology), node, targets)
    path = replace(basis.path, transient_ohm=bus.transient_ohm)
    return None if load is None else replace(basis, path=path, load=load)


def _fed_by(supplies: Sequence[str], topology: Topology) -> frozenset[str]:
    return frozenset(gpu for one in supplies for gpu in gpus_of_supply(one, topology))


def _board_load(
    bus: BoardBus, path: SupplyPath, fed: Collection[str], node: MeasuredNode, targets: Sequence[str]
) -> SupplyLoad | None:
    """Return the load of a bus, all of which its supplies carry; None where the power of a GPU is not known."""
    loads = [gpu_load(gpu) for gpu in node.gpus if gpu.entity_id in fed and gpu.entity_id in targets]
    gpus = tuple(one for one in loads if one is not None)
    if not gpus or len(gpus) < len(loads):
        return None
    high_w, low_w = (
        amps * (path.open_circuit_v - path.source_resistance_ohm * amps) for amps in (bus.high_a, bus.low_a)
    )
    return SupplyLoad(power_high_w=high_w, power_low_w=low_w, share_ratio=1.0, gpus=gpus)


def _with_lower_meters(bases: Sequence[SupplyBasis], node: MeasuredNode, topology: Topology) -> tuple[SupplyBasis, ...]:
    named = tuple(basis.entity_id for basis in bases)
    return tuple(replace(basis, lower_meter_v=lower_meter_v(basis.entity_id, named, node, topology)) for basis in bases)


def load_now(basis: SupplyBasis, node: MeasuredNode) -> SupplyLoad:
    """Return the load of a supply with the present power curve of each board."""
    gpus = tuple(
        gpu
        if (measured := node.gpu(gpu.entity_id)) is None
        else replace(gpu, curve=_curve(measured, gpu.power_high_w, gpu.clock_mhz / gpu.max_clock_mhz))
        for gpu in basis.load.gpus
    )
    return replace(basis.load, gpus=gpus)


def _basis(
    supply_id: str, finding: Finding | None, node: MeasuredNode, *, targets: Sequence[str], topology: Topology
) -> tuple[SupplyBasis | None, str]:
    live = node.supply(supply_id)
    scale = 1.0 if live is None else live.limit_scale
    source = _source(finding, node, supply_id)
    high_a, low_a = _currents(supply_id, finding, node)
    if source is None or math.isnan(scale):  # mains has no voltage to hold
        return None, f"the source resistance of {label_of_id(supply_id)} is not known"
    if high_a is None:
        return None, f"the current of {label_of_id(supply_id)} is not known"
    open_circuit_v, resistance_ohm = source.open_circuit_v, source.source_resistance_ohm
    fed_ids = gpus_of_supply(supply_id, topology) or tuple(gpu.entity_id for gpu in node.gpus)
    fed = [gpu for gpu in node.gpus if gpu.entity_id in fed_ids]
    capped = [known for gpu in fed if gpu.entity_id in targets and (known := gpu_load(gpu)) is not None]
    if not capped or len(capped) < sum(gpu.entity_id in targets for gpu in fed):
        return None, "the power of the GPUs under load is not known"
    low_a = high_a if low_a is None else min(low_a, high_a)
    high_w = high_a * (open_circuit_v - resistance_ohm * high_a)
    low_w = low_a * (open_circuit_v - resistance_ohm * low_a)
    if not high_w > 0.0:
        return (
            None,
            f"open-circuit voltage, resistance and current of {label_of_id(supply_id)} contradict each other",
        )
    loads = [known for gpu in fed if (known := gpu_load(gpu)) is not None]
    if high_w - low_w > sum(gpu.power_high_w for gpu in loads):  # as in the first moment of a job
        return None, f"the power of the GPUs is not yet that of the load on {label_of_id(supply_id)}"
    supplies = _supplies_beside(supply_id, fed[0].entity_id, topology)
    share = _share(high_w - low_w, high_w, loads, supplies)
    plateau_v = open_circuit_v - resistance_ohm * high_a
    path = replace(source, transient_ohm=_transient_ohm(supply_id, finding, node, plateau_v, high_a - low_a))
    load = SupplyLoad(power_high_w=high_w, power_low_w=low_w, share_ratio=share, gpus=tuple(capped))
    return SupplyBasis(
        entity_id=supply_id, path=path, load=load, found_ns=0 if finding is None else finding.time_ns, limit_scale=scale
    ), ""


def _source(finding: Finding | None, node: MeasuredNode, supply_id: str) -> SupplyPath | None:
    """Return the source as measured now, else by the finding, with its error band."""
    live = node.supply(supply_id)
    if live is not None and live.open_circuit_v is not None and live.source_resistance_ohm is not None:
        return _known(live.open_circuit_v, live.source_resistance_ohm, live.band)
    if finding is None:
        return None
    open_circuit_v, resistance_ohm = finding.number("open_circuit_v"), finding.number("source_resistance_ohm")
    open_low_v, resistance_high_ohm = (
        finding.number("open_circuit_low_v"),
        finding.number("source_resistance_high_ohm"),
    )
    high_a, low_a = finding.number("current_high_a"), finding.number("current_low_a")
    if open_circuit_v is None or resistance_ohm is None:
        return None
    # The finding does not hold the whole error band: use the worst of the bounds that it has.
    if open_low_v is None or resistance_high_ohm is None or high_a is None or low_a is None:
        worst_v = open_circuit_v if open_low_v is None else open_low_v
        return _known(worst_v, resistance_ohm if resistance_high_ohm is None else resistance_high_ohm, None)
    band = of_bounds(
        centre_a=(high_a + low_a) / 2.0,
        open_reach_v=max(open_circuit_v - open_low_v, 0.0),
        resistance_reach_ohm=max(resistance_high_ohm - resistance_ohm, 0.0),
    )
    if resistance_ohm <= Z_LOWER * band.resistance_sd_ohm:
        return None
    return _known(open_circuit_v, resistance_ohm, band)


def _known(open_circuit_v: float, resistance_ohm: float, band: SourceBand | None) -> SupplyPath | None:
    if not (open_circuit_v > 0.0 and resistance_ohm > 0.0):
        return None
    return SupplyPath(open_circuit_v=open_circuit_v, source_resistance_ohm=resistance_ohm, band=band)


def _whole_dip_ohm(path: SupplyPath, live: MeasuredSupply) -> float:
    """Return the extra drop per ampere of a step: the whole of the dip, and without the noise of the lowest reading."""
    return max(WHOLE_DIP_RATIO * path.transient_ohm - _dip_noise_ohm(live), 0.0)


def dip_noise_ohm(basis: SupplyBasis, node: MeasuredNode) -> float:
    """Return the standard deviation of a dip of `bases_now` by the noise of its reading, per ampere of the step."""
    live = node.supply(basis.entity_id)
    return 0.0 if live is None else _dip_noise_ohm(live)


def _dip_noise_ohm(live: MeasuredSupply) -> float:
    step_a = (live.current_high_a or 0.0) - (live.current_low_a or 0.0)
    return WHOLE_DIP_RATIO * live.scatter_v / step_a if step_a > 0.0 else 0.0


def _currents(supply_id: str, finding: Finding | None, node: MeasuredNode) -> tuple[float | None, float | None]:
    """Return the currents of the high and the low phase: as measured now, else by the finding."""
    live = node.supply(supply_id)
    if live is not None and live.current_high_a is not None:
        return live.current_high_a, live.current_low_a
    if finding is None:
        return None, None
    return finding.number("current_high_a"), finding.number("current_low_a")


def gpu_load(gpu: MeasuredGpu) -> GpuLoad | None:
    """Return the load of a GPU with the curve of its board; None where its power is not known."""
    if gpu.power_high_w is None or not gpu.power_high_w > 0.0:
        return None
    low_w = gpu.power_high_w if gpu.power_low_w is None else min(gpu.power_low_w, gpu.power_high_w)
    clock_mhz = gpu.clock_mhz if gpu.clock_mhz is not None and gpu.clock_mhz > 0.0 else gpu.max_clock_mhz
    clock_mhz = min(clock_mhz, gpu.max_clock_mhz)
    return GpuLoad(
        max_clock_mhz=gpu.max_clock_mhz,
        clock_mhz=clock_mhz,
        power_high_w=gpu.power_high_w,
        power_low_w=low_w,
        curve=_curve(gpu, gpu.power_high_w, clock_mhz / gpu.max_clock_mhz),
        entity_id=gpu.entity_id,
    )


def _curve(gpu: MeasuredGpu, power_w: float, clock_ratio: float) -> PowerCurve | HeightCurve:
    """Return the curve of a board, the upper bound of its power at other clocks; the V100's if it has no name."""
    return DEFAULT_CURVE if gpu.board is None else gpu.board.cautious(power_w, clock_ratio)


def _supplies_beside(supply_id: str, gpu_id: str, topology: Topology) -> int:
    """Return how many supplies share the load of a GPU, this one included.

    A supply of another nominal voltage is before or behind it in the same path, a shelf holds some of them; a
    controller's reading of the bus is no supply.
    """
    feeding = [topology.entity(one).rail for one in supplies_of_gpu(gpu_id, topology)]
    own = next((one.rail for one in topology.of_kind(EntityKind.SUPPLY) if one.id == supply_id), None)
    return max(sum(one == own for one in feeding), 1)


def _share(swing_w: float, high_w: float, gpus: Sequence[GpuLoad], supplies: int) -> float:
    """Return the supply's share of the GPUs' swing; an even share if the swing is too small."""
    gpu_high_w = sum(gpu.power_high_w for gpu in gpus)
    gpu_swing_w = gpu_high_w - sum(gpu.power_low_w for gpu in gpus)
    even = 1.0 / supplies
    share = swing_w / gpu_swing_w if gpu_swing_w > SWING_RATIO_MIN * gpu_high_w else even
    if share < 0.5 * even:  # the two were not measured over the same load
        share = even
    return min(share, 1.0, high_w / gpu_high_w)


def _transient_ohm(
    supply_id: str, finding: Finding | None, node: MeasuredNode, plateau_v: float, step_a: float
) -> float:
    """Return the extra drop per ampere of a step: by the finding, else from the lowest voltage under the plateau.

    The lowest voltage is that of the window of the currents: one from another clock belongs to another step.
    """
    named = None if finding is None else finding.number("transient_impedance_ohm")
    live = node.supply(supply_id)
    noted_v = None if finding is None else finding.number("minimum_v")
    minimum_v = live.minimum_v if live is not None and live.current_high_a is not None else noted_v
    if named is not None:
        return max(named, 0.0)
    if minimum_v is None or step_a < 1.0:
        return 0.0
    return max((plateau_v - minimum_v) / step_a, 0.0)
