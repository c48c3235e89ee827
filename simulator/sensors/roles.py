"""Roles of sensors in a node, and the quantities that each must measure."""

from enum import StrEnum

from simulator.files.sensing import BMC_LABELS
from simulator.files.sensor import SensorKind, load_sensor
from telemetry.errors import ConfigError, Problem


class Role(StrEnum):
    """Role of a kind of sensor."""

    DRIVER = "driver"
    RAIL = "rail"
    INLET = "inlet"
    BMC = "bmc"


REQUIRED = {
    Role.DRIVER: ("gpu_temp_c", "hbm_temp_c", "gpu_util_ratio", "mem_util_ratio"),
    Role.RAIL: ("voltage_v", "current_a"),
    Role.INLET: ("inlet_temp_c",),
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
