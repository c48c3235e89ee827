"""Output of a fleet: the truth of each step, the sensor values in it, and the lost GPUs.

Every step carries `SAMPLES` moments at which all sensors of a node are read at once: the first while the job is busy,
the second while it is quiet, where the job keeps its GPUs together; else by chance. So voltages and currents belong
together, and two samples of one step give the resistance of the source. Nodes that have fewer GPUs or supplies than
others are filled up with NaN, False and -1.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.fleet.losses import Drop
from telemetry.frames import FloatArray, MaskArray

SAMPLES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetTruth:
    """The state of all nodes, one row per step; means over the step unless stated otherwise.

    Attributes
    ----------
    v_min_v
        The lowest voltage at the modules that any step of the job brings, ``(n_steps, n_nodes)``; these and the next
        are those of the lowest bus.
    busy_v, quiet_v
        In balance while the job is busy and while it is quiet, ``(n_steps, n_nodes)``.
    node_power_w
        At the modules' rail, fans and everything else included.
    source_power_w, loss_w
        What the supplies give, and what is lost between them and the modules.
    pace_ratio, steps_per_s
        Work against the highest clock, and steps of the job; 0 where nothing runs.
    job
        Index into `Fleet.jobs`.
    stopped_s
        From when on the job could not go on; NaN while it can.
    drop_rate_per_s
        Drops to expect of each GPU while it is present, ``(n_steps, n_nodes, n_gpus)``.
    power_w, start_w, die_c, clock_mhz, present
        Of each GPU; `start_w` right after a step of the load began, `present` at the end of the step.
    current_a
        Root mean square of each supply, ``(n_steps, n_nodes, n_units)``.
    joint_mohm, joint_c, supply_on
        Of each supply.
    """

    v_min_v: FloatArray
    busy_v: FloatArray
    quiet_v: FloatArray
    node_power_w: FloatArray
    source_power_w: FloatArray
    loss_w: FloatArray
    inlet_c: FloatArray
    fan_ratio: FloatArray
    pace_ratio: FloatArray
    steps_per_s: FloatArray
    job: npt.NDArray[np.int64]
    stopped_s: FloatArray
    drop_rate_per_s: FloatArray
    power_w: FloatArray
    start_w: FloatArray
    die_c: FloatArray
    clock_mhz: FloatArray
    present: MaskArray
    current_a: FloatArray
    joint_mohm: FloatArray
    joint_c: FloatArray
    supply_on: MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetSamples:
    """Sensor values, ``(n_steps, SAMPLES, n_nodes, ...)``; NaN where there is no sensor or no value.

    GPU arrays end in ``n_gpus``, those of the rail monitors in ``n_units``; the others belong to a node. The names
    are those of the signals that the sensor kinds in `simulator/sensors` measure.
    """

    gpu_power_w: FloatArray
    gpu_temp_c: FloatArray
    hbm_temp_c: FloatArray
    gpu_clock_mhz: FloatArray
    rail_voltage_v: FloatArray
    rail_current_a: FloatArray
    joint_temp_c: FloatArray
    inlet_temp_c: FloatArray
    bmc_rail_voltage_v: FloatArray
    bmc_inlet_temp_c: FloatArray
    bmc_node_power_w: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetStretch:
    """The steps that an advance completed.

    Attributes
    ----------
    time_s
        Beginning of each step, ``(n_steps,)``.
    sample_offset_s
        When in a step the samples are taken, ``(SAMPLES,)``.
    drops
        GPUs that were lost, in the order of time.
    """

    time_s: FloatArray
    sample_offset_s: FloatArray
    truth: FleetTruth
    samples: FleetSamples
    drops: tuple[Drop, ...]


# Which fields belong to something else than a node, and what stands for absent in those that have no NaN.
AXES = {
    **dict.fromkeys(("drop_rate_per_s", "power_w", "start_w", "die_c", "clock_mhz", "present"), "gpu"),
    **dict.fromkeys(("current_a", "joint_mohm", "joint_c", "supply_on"), "unit"),
    **dict.fromkeys(("gpu_power_w", "gpu_temp_c", "hbm_temp_c", "gpu_clock_mhz"), "gpu"),
    **dict.fromkeys(("rail_voltage_v", "rail_current_a", "joint_temp_c"), "unit"),
}
ABSENT: dict[str, float | int | bool] = {"job": -1, "present": False, "supply_on": False}
