"""Instruments out of sensor kinds, and the quantities that a kind must measure in each role."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.sensing import BMC_LABELS
from simulator.files.sensor import Channel, SensorKind, load_sensor
from simulator.plant.chance import stream
from simulator.sensors.columns import Columns, columns_of, faults_of
from simulator.sensors.instrument import Instrument, UpdateLosses
from telemetry.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentBuilder:
    """Inputs of every instrument of a node."""

    node: NodeFile
    scenario: ScenarioFile
    seed: int

    def instruments(self, kind: SensorKind, channels: Sequence[tuple[str, Sequence[str]]]) -> tuple[Instrument, ...]:
        """Return the instruments of a kind, one per period, shortest first; `channels` are names with their sensors."""

        def period_s(named: tuple[str, Sequence[str]]) -> float:
            return kind.channels[named[0]].period or kind.period

        found = []
        for period, group in groupby(sorted(channels, key=period_s), key=period_s):
            members = [(kind.channels[name], labels) for name, labels in group]
            name = f"sensors/{kind.name}/{members[0][1][0]}"
            columns = columns_of(
                members, period_s=period, together=kind.phase == "together", chance=stream(self.seed, f"{name}/board")
            )
            found.append(self._instrument(kind, columns, name))
        return tuple(found)

    def board_power(self, kind: SensorKind) -> tuple[Instrument, Instrument | None]:
        """Return the power sensors of all boards, and the longer mean where the part shows one."""
        sensor = self.node.gpu.sensor
        labels = [f"gpu{index}.power_w" for index in range(self.node.gpu_count)]
        channel = Channel.model_validate(
            {"window": f"{sensor.window_ms}ms", "gain_error": sensor.gain_error, "quantum": sensor.quantum_w}
        )
        name = "sensors/power"
        columns = columns_of(
            [(channel, labels)], period_s=sensor.period_ms / 1000.0, together=False, chance=stream(self.seed, name)
        )
        power = self._instrument(kind, columns, name)
        if sensor.average_window_ms is None:
            return power, None
        window_ms = np.full(len(labels), sensor.average_window_ms)
        return power, self._instrument(kind, replace(columns, window_ms=window_ms), f"{name}/average")

    def _instrument(self, kind: SensorKind, columns: Columns, name: str) -> Instrument:
        skew = np.clip(stream(self.seed, f"sensors/{kind.name}/clock").standard_normal(), -2.0, 2.0)
        return Instrument(
            columns,
            losses=UpdateLosses(missing_share=kind.missing_share, stale_share=kind.stale_share),
            faults=faults_of(self.scenario, self.node, columns.labels),
            chance=stream(self.seed, name),
            skew_ms=round(float(kind.clock_skew * 1000.0 * skew)),
        )


class Role(StrEnum):
    """Role of a kind of sensor."""

    DRIVER = "driver"
    RAIL = "rail"
    INLET = "inlet"
    BMC = "bmc"
    PINS = "pins"


REQUIRED = {
    Role.DRIVER: ("gpu_temp_c", "hbm_temp_c", "gpu_util_ratio", "mem_util_ratio"),
    Role.RAIL: ("voltage_v", "current_a"),
    Role.INLET: ("inlet_temp_c",),
    Role.PINS: ("pin_voltage_v", "pin_current_a"),
    Role.BMC: tuple(BMC_LABELS),
}
_OPTIONAL = {Role.RAIL: ("joint_temp_c", "input_voltage_v", "power_w")}


def kind_for(role: Role, name_or_path: str) -> SensorKind:
    """Read the kind of sensor for a role, by name or by the path of a YAML file.

    Raises
    ------
    ConfigError
        There is none of that name, or it measures something else; every problem at once.
    """
    kind = load_sensor(name_or_path, option=f"sensors.{role}")
    required, optional = REQUIRED[role], _OPTIONAL.get(role, ())
    found = [f"no {name}" for name in required if name not in kind.channels]
    found += [f"got {name}" for name in kind.channels if name not in (*required, *optional)]
    periods_s = {kind.channels[name].period or kind.period for name in required if name in kind.channels}
    if role is not Role.DRIVER and len(periods_s) > 1:  # a driver renews each of its values by itself
        found.append("several periods")
    if found:
        expected = f"for the {role} {', '.join(required)} of one period"
        expected += f", perhaps {', '.join(optional)}" if optional else ""
        raise ConfigError(
            [Problem(where=name_or_path, line=None, key="channels", found=each, expected=expected) for each in found]
        )
    return kind
