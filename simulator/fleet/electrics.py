"""The loads of a step on the rail: voltages, currents, trips, and how likely each module falls off.

A job is a few levels of power that hold for shares of the time, and rises between them. Each level gives a voltage
(`solve_rail`), each rise a dip below it (`dip_v`), and the lowest of all is the step's

``V_min = min(V(P_k), V(P_start) - k (Z / N) dI / (1 - R I / V))``.

The rate at which module `j` falls off is that of its levels, by their shares, and that of the dips, by how often they
come: ``sum_k share_k lambda_j(V_k) + sum_e often_e dose_j(dip_e)``, with ``lambda_j`` from `drop_rate_per_s` and the
integral of ``lambda_j`` along a decaying dip from `dip_dose`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.files.gpu import BusHazard
from simulator.files.wiring import Wiring
from simulator.fleet.rail import RailSolution, RailSources, dip_v, solve_rail, source_ohm
from simulator.fleet.stretch import SAMPLES
from simulator.fleet.supplies import ALL, Supplies, Units
from simulator.fleet.table import Operation
from simulator.plant.bus import drop_rate_per_s
from telemetry.frames import FloatArray, MaskArray

# Points and weights on 0 to 1; eight integrate what is needed here to 0.1 % for dips of up to 0.5 V.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_POINTS, _WEIGHTS = 0.5 * (_POINTS + 1.0), 0.5 * _WEIGHTS
_EDGES = 3  # right after a rise, right before it, and before the one that ends a pause


def dip_dose(*, bottom_per_s: FloatArray, dip_v: FloatArray, transient_s: FloatArray, hazard: BusHazard) -> FloatArray:
    """Return the drops to expect of one dip, on top of those of the plateau that it ends on; the arguments broadcast.

    The dip decays with ``transient_s`` and hazard follows the voltage exponentially. With ``y = depth / scale_v`` the
    rate at the bottom therefore holds for ``transient_s exp(-y) integral (exp(x) - 1) / x dx``, x from 0 to y; for deep
    dips that is ``transient_s scale_v / depth``.
    """
    depth = np.asarray(dip_v / hazard.scale_v)[..., None]
    held = (np.exp(depth * (_POINTS - 1.0)) - np.exp(-depth)) / _POINTS @ _WEIGHTS
    dose: FloatArray = bottom_per_s * transient_s * held
    return dose


def plateau_per_s(
    *,
    voltage_v: FloatArray,
    power_w: FloatArray,
    shares: FloatArray,
    offset_v: FloatArray,
    contact_mohm: FloatArray,
    hazard: BusHazard,
) -> FloatArray:
    """Return the mean rate over the levels of a node, ``(n_nodes, n_gpus)``.

    Parameters
    ----------
    voltage_v, shares
        ``(n_nodes, n_levels)``.
    power_w
        ``(n_nodes, n_gpus, n_levels)``.
    """
    current_a = power_w / np.maximum(voltage_v, 1.0)[:, None, :]
    rate = drop_rate_per_s(
        voltage_v[:, None, :],
        current_a,
        offset_v=offset_v[:, :, None],
        contact_mohm=contact_mohm[:, :, None],
        hazard=hazard,
    )
    mean: FloatArray = np.einsum("ngk,nk->ng", rate, shares)
    return mean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepLoads:
    """Load of a group of nodes in a step.

    `level_w` is ``(n_nodes, n_gpus, n_levels)``, `start_w` and `there` ``(n_nodes, n_gpus)``, `sample_w`
    ``(SAMPLES, n_nodes, n_gpus)``, `other_w` ``(n_nodes,)``.
    """

    level_w: FloatArray
    start_w: FloatArray
    sample_w: FloatArray
    other_w: FloatArray
    operation: Operation
    there: MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RailResponse:
    """Response of the rails; see `FleetTruth`. Samples are ``(SAMPLES, n_nodes)``, with an axis for units or buses."""

    v_min_v: FloatArray
    busy_v: FloatArray
    quiet_v: FloatArray
    source_w: FloatArray
    loss_w: FloatArray
    drop_rate_per_s: FloatArray
    mean_square_a2: FloatArray
    sample_bus_v: FloatArray
    sample_a: FloatArray
    sample_output_v: FloatArray
    sample_node_w: FloatArray


class Electrics:
    """The electrical side of a group of nodes."""

    def __init__(self, hazard: BusHazard, supplies: Supplies, wiring: Wiring) -> None:
        self._hazard = hazard
        self._supplies = supplies
        self._wiring = wiring

    def carry(self, loads: StepLoads, *, offset_v: FloatArray, contact_mohm: FloatArray) -> RailResponse:
        """Solve each bus for all levels, edges and samples of a step at once, and again where a supply trips."""
        wiring = self._wiring
        if len(wiring.buses) == 1:
            return self._carry(loads, ALL, offset_v=offset_v, contact_mohm=contact_mohm)
        responses = []
        for bus in range(len(wiring.buses)):
            gpus = list(wiring.gpus_of(bus))
            responses.append(
                self._carry(
                    _on_bus(loads, gpus, rest=bus == wiring.of_rest),
                    list(wiring.supplies_of(bus)),
                    offset_v=offset_v[:, gpus],
                    contact_mohm=contact_mohm[:, gpus],
                )
            )
        return _joined(responses, wiring)

    def _carry(self, loads: StepLoads, units: Units, *, offset_v: FloatArray, contact_mohm: FloatArray) -> RailResponse:
        """Return the response of one bus to its loads."""
        n_levels = loads.level_w.shape[2]
        demand_w = _demand_w(loads)
        while True:
            sources = self._supplies.sources(units)
            rail = solve_rail(sources, demand_w)
            if not self._supplies.trip(rail.branch_a[:, :, 0], units):
                break
        shares = loads.operation.shares
        busy = shares[:, :-1]
        levels_v = rail.voltage_v[:, :n_levels]
        busy_time = busy.sum(axis=1)
        busy_v = (levels_v[:, :-1] * busy).sum(axis=1) / np.maximum(busy_time, 1e-9)
        bottoms_v, dips_v = self._dips(rail, sources, n_levels)
        rate = self._drop_rate(loads, rail, bottoms_v, dips_v, offset_v=offset_v, contact_mohm=contact_mohm)
        rises = np.stack([loads.operation.rises_per_s, loads.operation.deep_rises_per_s], axis=1) > 0.0
        lowest_v = np.where(rises, bottoms_v, np.inf).min(axis=1)
        output_v = sources.open_circuit_v[:, :, None] - self._supplies.output_ohm[:, units, None] * rail.branch_a
        fed = rail.voltage_v[:, None, :] > 0.0
        output_v = np.where(sources.on[:, :, None] & fed, output_v, 0.0)
        sampled = np.arange(n_levels + _EDGES, n_levels + _EDGES + SAMPLES)
        source_w, loss_w = _balance_w(sources, rail, shares)
        return RailResponse(
            v_min_v=np.minimum(lowest_v, np.where(shares > 0.0, levels_v, np.inf).min(axis=1)),
            busy_v=np.where(busy_time > 0.0, busy_v, levels_v[:, -1]),
            quiet_v=levels_v[:, -1],
            source_w=source_w,
            loss_w=loss_w,
            drop_rate_per_s=rate,
            mean_square_a2=np.einsum("nuk,nk->nu", rail.branch_a[:, :, :n_levels] ** 2, shares),
            sample_bus_v=rail.voltage_v[:, sampled].T[:, :, None],
            sample_a=np.moveaxis(rail.branch_a[:, :, sampled], 2, 0),
            sample_output_v=np.moveaxis(output_v[:, :, sampled], 2, 0),
            sample_node_w=(output_v * rail.branch_a)[:, :, sampled].sum(axis=1).T,
        )

    def _dips(self, rail: RailSolution, sources: RailSources, n_levels: int) -> tuple[FloatArray, FloatArray]:
        """Return the bottom and the depth of the dip after a rise and after a pause, ``(n_nodes, 2)``."""
        start_a, before_a = rail.current_a[:, n_levels], rail.current_a[:, n_levels + 1 : n_levels + _EDGES]
        units_on = np.maximum(sources.on.sum(axis=1), 1)
        depth_v = dip_v(
            rise_a=start_a[:, None] - before_a,
            current_a=start_a[:, None],
            voltage_v=rail.voltage_v[:, n_levels, None],
            transient_ohm=(self._supplies.transient_ohm / units_on)[:, None],
            ohm=source_ohm(sources)[:, None],
        )
        return np.maximum(rail.voltage_v[:, n_levels, None] - depth_v, 0.0), depth_v

    def _drop_rate(
        self,
        loads: StepLoads,
        rail: RailSolution,
        bottoms_v: FloatArray,
        dips_v: FloatArray,
        *,
        offset_v: FloatArray,
        contact_mohm: FloatArray,
    ) -> FloatArray:
        operation = loads.operation
        rate = plateau_per_s(
            voltage_v=rail.voltage_v[:, : loads.level_w.shape[2]],
            power_w=loads.level_w,
            shares=operation.shares,
            offset_v=offset_v,
            contact_mohm=contact_mohm,
            hazard=self._hazard,
        )
        for edge, often in enumerate((operation.rises_per_s, operation.deep_rises_per_s)):
            if not often.any():
                continue
            bottom_v = bottoms_v[:, edge, None]
            bottom = drop_rate_per_s(
                bottom_v,
                loads.start_w / np.maximum(bottom_v, 1.0),
                offset_v=offset_v,
                contact_mohm=contact_mohm,
                hazard=self._hazard,
            )
            dose = dip_dose(
                bottom_per_s=bottom,
                dip_v=dips_v[:, edge, None],
                transient_s=self._supplies.transient_s[:, None],
                hazard=self._hazard,
            )
            rate = rate + often[:, None] * dose
        return np.where(loads.there, rate, 0.0)


def _on_bus(loads: StepLoads, gpus: list[int], *, rest: bool) -> StepLoads:
    """Return the part of a load that some GPUs make, with the rest of the node or without."""
    operation = loads.operation
    return StepLoads(
        level_w=loads.level_w[:, gpus],
        start_w=loads.start_w[:, gpus],
        sample_w=loads.sample_w[:, :, gpus],
        other_w=loads.other_w if rest else np.zeros_like(loads.other_w),
        operation=replace(operation, rise_w=operation.rise_w[:, gpus], deep_rise_w=operation.deep_rise_w[:, gpus]),
        there=loads.there[:, gpus],
    )


def _joined(responses: Sequence[RailResponse], wiring: Wiring) -> RailResponse:
    """Return the responses of all buses as one: the lowest voltages, sums of power, and each GPU's and unit's own."""

    def each(name: str, of_bus: Callable[[int], tuple[int, ...]], axis: int) -> FloatArray:
        columns = np.concatenate([getattr(response, name) for response in responses], axis=axis)
        order = [place for bus in range(len(responses)) for place in of_bus(bus)]
        return np.take(columns, np.argsort(order), axis=axis)

    def lowest(name: str) -> FloatArray:
        of_buses: FloatArray = np.min([getattr(response, name) for response in responses], axis=0)
        return of_buses

    def total(name: str) -> FloatArray:
        of_buses: FloatArray = np.sum([getattr(response, name) for response in responses], axis=0)
        return of_buses

    return RailResponse(
        v_min_v=lowest("v_min_v"),
        busy_v=lowest("busy_v"),
        quiet_v=lowest("quiet_v"),
        source_w=total("source_w"),
        loss_w=total("loss_w"),
        drop_rate_per_s=each("drop_rate_per_s", wiring.gpus_of, 1),
        mean_square_a2=each("mean_square_a2", wiring.supplies_of, 1),
        sample_bus_v=np.concatenate([response.sample_bus_v for response in responses], axis=2),
        sample_a=each("sample_a", wiring.supplies_of, 2),
        sample_output_v=each("sample_output_v", wiring.supplies_of, 2),
        sample_node_w=total("sample_node_w"),
    )


def _demand_w(loads: StepLoads) -> FloatArray:
    """Return all loads of each node: levels, edges, samples; ``(n_nodes, n_loads)``."""
    operation = loads.operation
    start_w = loads.start_w.sum(axis=1)
    rise_w = (operation.rise_w * loads.there).sum(axis=1)
    deep_rise_w = (operation.deep_rise_w * loads.there).sum(axis=1)
    columns = [loads.level_w.sum(axis=1).T, [start_w, start_w - rise_w, start_w - deep_rise_w]]
    gpus_w = np.concatenate([*columns, loads.sample_w.sum(axis=2)]).T
    demand_w: FloatArray = gpus_w + loads.other_w[:, None]
    return demand_w


def _balance_w(sources: RailSources, rail: RailSolution, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what the supplies give and what is lost on the way, means over the step."""
    n_levels = shares.shape[1]
    branch_a, current_a = rail.branch_a[:, :, :n_levels], rail.current_a[:, :n_levels]
    given_w = (sources.open_circuit_v[:, :, None] * branch_a).sum(axis=1)
    lost_w = (sources.branch_ohm[:, :, None] * branch_a**2).sum(axis=1) + sources.bus_ohm[:, None] * current_a**2
    return (given_w * shares).sum(axis=1), (lost_w * shares).sum(axis=1)
