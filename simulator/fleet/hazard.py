"""Probability of a bus drop in a step: the plateau of each level, and the dip after each rise."""

import numpy as np

from simulator.files.gpu import BusHazard
from simulator.plant.bus import drop_rate_per_s
from telemetry.frames import FloatArray

# Points and weights on 0 to 1; eight integrate what is needed here to 0.1 % for dips of up to 0.5 V.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_POINTS, _WEIGHTS = 0.5 * (_POINTS + 1.0), 0.5 * _WEIGHTS


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
