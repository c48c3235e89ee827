"""Sensor faults of a scenario, and their times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile, SensorFaultKind
from simulator.files.sensing import check_sensor
from simulator.sensors.windows import IndexArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnFault:
    """Fault of some columns of an instrument, from `start_ms` until before `end_ms`."""

    start_ms: float
    end_ms: float
    kind: SensorFaultKind
    value: float
    columns: IndexArray


def faults_of(scenario: ScenarioFile, node: NodeFile, labels: Sequence[str]) -> tuple[ColumnFault, ...]:
    """Return the faults of those sensors, `columns` being their places in `labels`."""
    found = []
    for fault in scenario.sensor_faults:
        spoiled = set(check_sensor(fault.sensor, node))
        columns = [index for index, label in enumerate(labels) if label in spoiled]
        if columns:
            end_s = math.inf if fault.last is None else fault.at + fault.last
            found.append(
                ColumnFault(
                    start_ms=fault.at * 1000.0,
                    end_ms=end_s * 1000.0,
                    kind=fault.fault,
                    value=0.0 if fault.value is None else fault.value,
                    columns=np.array(columns, dtype=np.int64),
                )
            )
    return tuple(found)
