"""The rail of many nodes at once: branches side by side that give and never take, loads that take constant power."""

from dataclasses import dataclass

import numpy as np

from simulator.plant.supply import loaded_v
from telemetry.frames import FloatArray, MaskArray

# fit: share of the ideal droop that is left when the load rises in a millisecond and the GPUs of a job are some
# milliseconds apart; to the first tier, over the eight states of tests/simulator/fleet/test_agreement.py.
RISE_SHARE = 0.70
_SLOPE_MIN = 0.1  # where the slope is zero the rail collapses anyway


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RailSources:
    """Sources of each node; ``(n_nodes, n_units)``, and ``(n_nodes,)`` for the bus."""

    open_circuit_v: FloatArray
    branch_ohm: FloatArray
    on: MaskArray
    bus_ohm: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RailSolution:
    """The rail under `n_loads` loads per node.

    Attributes
    ----------
    voltage_v, current_a
        At the modules, ``(n_nodes, n_loads)``. Half the open-circuit voltage where the load asks for more than the rail
        can carry at any; zero where nothing feeds the node.
    branch_a
        ``(n_nodes, n_units, n_loads)``, never negative.
    """

    voltage_v: FloatArray
    current_a: FloatArray
    branch_a: FloatArray


def solve_rail(sources: RailSources, load_w: FloatArray) -> RailSolution:
    """Return the rail in balance under loads of shape ``(n_nodes, n_loads)``.

    Branches in parallel act as one source (Thevenin): ``E = sum(E_b / r_b) / sum(1 / r_b)`` behind
    ``R = 1 / sum(1 / r_b) + R_bus``; with constant power ``V**2 - E V + R P = 0``, and ``I_b = (E_b - V_bus) / r_b``. A
    branch whose own voltage lies below the bus carries nothing (OR-ing), and the others are solved again without it.
    """
    conducting = np.where(sources.on, 1.0 / sources.branch_ohm, 0.0)[:, :, None]
    rail, reverse = _solve(sources, conducting, load_w)
    if not reverse.any():
        return rail
    conducting = np.repeat(conducting, load_w.shape[1], axis=2)
    while reverse.any():
        conducting = np.where(reverse, 0.0, conducting)
        rail, reverse = _solve(sources, conducting, load_w)
    return rail


def dip_v(
    *, rise_a: FloatArray, current_a: FloatArray, voltage_v: FloatArray, transient_ohm: FloatArray, ohm: FloatArray
) -> FloatArray:
    """Return by how much a step of the current takes the rail below its new balance, at the worst; arguments broadcast.

    ``k (Z / N) dI / (1 - R I / V)``, so that the lowest voltage is ``V_min = V - k (Z / N) dI / (1 - R I / V)``, where
    `V` is the balance after the step: ``E - R I`` with ``I = P / V``. The droop of the supplies makes a load of
    constant power draw more, which deepens the dip by the last factor; `k` is `RISE_SHARE`.

    Parameters
    ----------
    transient_ohm
        Of all units of a node that deliver, side by side.
    ohm
        Between sources and modules, see `source_ohm`.
    """
    fed = voltage_v > 0.0
    slope = np.where(fed, 1.0 - ohm * current_a / np.where(fed, voltage_v, 1.0), 1.0)
    dip: FloatArray = RISE_SHARE * transient_ohm * np.maximum(rise_a, 0.0) / np.maximum(slope, _SLOPE_MIN)
    return np.where(fed, dip, 0.0)


def source_ohm(sources: RailSources) -> FloatArray:
    """Return resistance between the sources of a node and its modules, ``(n_nodes,)``; without any, the bus alone."""
    total = np.where(sources.on, 1.0 / sources.branch_ohm, 0.0).sum(axis=1)
    ohm: FloatArray = np.where(total > 0.0, 1.0 / np.maximum(total, 1e-9), 0.0) + sources.bus_ohm
    return ohm


def _solve(sources: RailSources, conducting: FloatArray, load_w: FloatArray) -> tuple[RailSolution, MaskArray]:
    total = conducting.sum(axis=1)  # (n_nodes, 1 or n_loads)
    fed = total > 0.0
    total = np.where(fed, total, 1.0)
    open_v = np.where(fed, (sources.open_circuit_v[:, :, None] * conducting).sum(axis=1) / total, 0.0)
    ohm = 1.0 / total + sources.bus_ohm[:, None]
    voltage_v = loaded_v(open_v, ohm, load_w)
    current_a = (open_v - voltage_v) / ohm
    bus_v = voltage_v + current_a * sources.bus_ohm[:, None]
    branch_a = (sources.open_circuit_v[:, :, None] - bus_v[:, None, :]) * conducting
    rail = RailSolution(voltage_v=voltage_v, current_a=current_a, branch_a=np.maximum(branch_a, 0.0))
    return rail, branch_a < -1e-9
