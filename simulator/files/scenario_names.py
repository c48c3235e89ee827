"""Names in a scenario: the targets of its changes, and names that the node does not have, each reported at its line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from simulator.files.loading import at_key, items_of, resolved
from simulator.files.node import NodeFile
from simulator.files.sensing import SensorFaultKind, check_sensor, check_value
from simulator.files.workload import load_workload
from telemetry.documents import Lines
from telemetry.durations import format_duration, parse_duration_s
from telemetry.errors import ConfigError, Problem

WHAT = re.compile(r"([a-z]+)(\d*)\.([a-z_0-9]+)")
NAMED = "an entity and a quantity, such as psu0.joint_mohm"
DURATION_S = 60.0  # default of a scenario


class Quantity(StrEnum):
    """Quantities that a scenario can change, with units."""

    # of a supply
    OPEN_CIRCUIT_V = "open_circuit_v"
    PSU_MOHM = "psu_mohm"
    CABLE_MOHM = "cable_mohm"
    CONNECTOR_MOHM = "connector_mohm"
    JOINT_MOHM = "joint_mohm"
    JOINT_FLICKER = "joint_flicker"  # relative spread of a random telegraph, 0.1 to 10 Hz
    AGEING = "ageing"  # multiplies the ageing of the joint; 0: none
    IN_SERVICE = "in_service"  # 0: switched off or pulled out
    INPUT_RATIO = "input_ratio"  # mains voltage against its nominal
    # of a GPU
    INTERFACE_K_PER_W = "interface_k_per_w"
    PRESENT = "present"
    POWER_BRAKE = "power_brake"
    LOOSENESS = "looseness"  # 0: screwed down, 100: about to come off
    CONTACT_MOHM = "contact_mohm"  # between the rail and the module, on top of the part's own
    # of a GPU's power connector: what the path of a pin gained, on top of the node file's; an open pin has 1e9
    PIN1_MOHM = "pin1_mohm"
    PIN2_MOHM = "pin2_mohm"
    PIN3_MOHM = "pin3_mohm"
    PIN4_MOHM = "pin4_mohm"
    PIN5_MOHM = "pin5_mohm"
    PIN6_MOHM = "pin6_mohm"
    # of the node
    INLET_C = "inlet_c"
    OTHER_POWER_W = "other_power_w"
    FANS = "fans"  # share of the fans that turn
    POWERED = "powered"  # 0: off; back to 1: a cold start, which brings GPUs back
    DRIVER = "driver"  # 0: unloaded; back to 1: loaded anew, settings lost
    # of the load
    LEVEL = "level"
    HANG = "hang"  # 1: the collective never returns


# In the order of the pins.
PIN_QUANTITIES = (
    Quantity.PIN1_MOHM,
    Quantity.PIN2_MOHM,
    Quantity.PIN3_MOHM,
    Quantity.PIN4_MOHM,
    Quantity.PIN5_MOHM,
    Quantity.PIN6_MOHM,
)
# Which quantities each kind of thing has.
_HAS = {
    "supply": (
        Quantity.OPEN_CIRCUIT_V,
        Quantity.PSU_MOHM,
        Quantity.CABLE_MOHM,
        Quantity.CONNECTOR_MOHM,
        Quantity.JOINT_MOHM,
        Quantity.JOINT_FLICKER,
        Quantity.AGEING,
        Quantity.IN_SERVICE,
        Quantity.INPUT_RATIO,
    ),
    "gpu": (
        Quantity.INTERFACE_K_PER_W,
        Quantity.PRESENT,
        Quantity.POWER_BRAKE,
        Quantity.LOOSENESS,
        Quantity.CONTACT_MOHM,
        *PIN_QUANTITIES,
    ),
    "node": (Quantity.INLET_C, Quantity.OTHER_POWER_W, Quantity.FANS, Quantity.POWERED, Quantity.DRIVER),
    "load": (Quantity.LEVEL, Quantity.HANG),
}


# What the node file gives, so that a change can multiply it.
_OF_UNITS = (
    Quantity.OPEN_CIRCUIT_V,
    Quantity.PSU_MOHM,
    Quantity.CABLE_MOHM,
    Quantity.CONNECTOR_MOHM,
    Quantity.JOINT_MOHM,
)
_GIVEN = (*_OF_UNITS, Quantity.INTERFACE_K_PER_W, Quantity.CONTACT_MOHM, Quantity.OTHER_POWER_W)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Target of one change: a quantity of some entities of the node, by index."""

    quantity: Quantity
    indices: tuple[int, ...]


def find_target(what: str, node: NodeFile) -> Target:
    """Return what a name such as ``psu0.joint_mohm`` means; ValueError names what was expected."""
    match = WHAT.fullmatch(what)
    if match is None:
        raise ValueError(NAMED)
    name, number, quantity = match.groups()
    kind, indices = _entities(name, number, node)
    allowed = tuple(one for one in _HAS[kind] if node.connector is not None or one not in PIN_QUANTITIES)
    if quantity not in allowed:
        raise ValueError(f"a quantity of a {kind}: {', '.join(allowed)}")
    return Target(quantity=Quantity(quantity), indices=indices)


def own_values(what: str, node: NodeFile) -> dict[str, float]:
    """Return the node file's value for each thing that a name means, by the name of the single thing.

    Of a module's contact, which the file takes for good, that is the resistance of board and connector behind it.

    Raises
    ------
    ValueError
        The node file has no value for this quantity.
    """
    target = find_target(what, node)
    quantity = target.quantity
    if quantity in _OF_UNITS:
        names, own = supply_names(node), [getattr(unit, quantity) for unit in node.supply.units]
    elif quantity is Quantity.INTERFACE_K_PER_W:
        names, own = gpu_names(node), [node.gpu.heat.interface_k_per_w] * node.gpu_count
    elif quantity is Quantity.CONTACT_MOHM:
        names, own = gpu_names(node), [node.gpu.hazard.internal_mohm] * node.gpu_count
    elif quantity is Quantity.OTHER_POWER_W:
        names, own = ("node",), [node.other_power_w]
    else:
        raise ValueError(f"to in place of times, or one of {', '.join(_GIVEN)}")
    return {f"{names[index]}.{quantity}": own[index] for index in target.indices}


def gpu_names(node: NodeFile) -> tuple[str, ...]:
    """Return the names of the GPUs."""
    return tuple(f"gpu{index}" for index in range(node.gpu_count))


def supply_names(node: NodeFile) -> tuple[str, ...]:
    """Return the names of the supplies."""
    return tuple(unit.name for unit in node.supply.units)


def _entities(name: str, number: str, node: NodeFile) -> tuple[str, tuple[int, ...]]:
    supplies = supply_names(node)
    if not number:
        everything = {
            "gpus": ("gpu", tuple(range(node.gpu_count))),
            "supplies": ("supply", tuple(range(len(supplies)))),
            "bus": ("supply", node.wiring.supplies_of(0)),  # those that share a bus with the first
            "node": ("node", (0,)),
            "load": ("load", (0,)),
        }
        if name in everything:
            return everything[name]
    elif name == "gpu" and int(number) < node.gpu_count:
        return "gpu", (int(number),)
    elif f"{name}{number}" in supplies:
        return "supply", (supplies.index(f"{name}{number}"),)
    raise ValueError(f"one of gpu0 to gpu{node.gpu_count - 1}, gpus, {', '.join(supplies)}, supplies, bus, node, load")


def unknown_names(data: Any, node: NodeFile, *, path: Path, lines: Lines) -> list[Problem]:
    """Return the problems of names in a scenario that the node does not have, each with its line.

    The data need not fit the model of a scenario: what has another shape is left to the check of the whole.
    """
    problems = workload_problems(data, path=path, lines=lines)
    for section, check in (("changes", _of_change), ("sensor_faults", _of_sensor_fault), ("driver_faults", _of_call)):
        for index, item in items_of(data, section):
            problems += [
                refusal(path, lines, (section, index, key), found=item[key], expected=expected)
                for key, expected in check(item, node)
            ]
    names = {*gpu_names(node), *supply_names(node), "gpus", "supplies", "node"}
    return [*problems, *truth_problems(data, names, f"one of {', '.join(sorted(names))}", path=path, lines=lines)]


def _of_change(change: dict[str, Any], node: NodeFile) -> Iterator[tuple[str, str]]:
    what = change.get("what")
    if not isinstance(what, str) or WHAT.fullmatch(what) is None:
        return
    try:
        find_target(what, node)
    except ValueError as err:
        yield "what", str(err)
        return
    if "times" in change and "to" not in change:
        try:
            own_values(what, node)
        except ValueError as err:
            yield "times", str(err)


def _of_sensor_fault(fault: dict[str, Any], node: NodeFile) -> Iterator[tuple[str, str]]:
    sensor, kind, value = fault.get("sensor"), fault.get("fault"), fault.get("value")
    if isinstance(sensor, str):
        try:
            check_sensor(sensor, node)
        except ValueError as err:
            yield "sensor", str(err)
    if kind in list(SensorFaultKind) and isinstance(value, int | float | None):
        try:
            check_value(str(sensor), str(kind), value)
        except ValueError as err:
            yield "fault" if value is None else "value", str(err)


def _of_call(fault: dict[str, Any], node: NodeFile) -> Iterator[tuple[str, str]]:
    gpu = fault.get("gpu")
    if isinstance(gpu, int) and gpu >= node.gpu_count:
        yield "gpu", f"0 to {node.gpu_count - 1}"


def workload_problems(data: Any, *, path: Path, lines: Lines) -> list[Problem]:
    """Return what is wrong with the workloads that the jobs of a scenario name."""
    problems: list[Problem] = []
    for index, job in items_of(data, "jobs"):
        name, line = job.get("workload"), lines.get(("jobs", index, "workload"))
        if isinstance(name, str):
            try:
                load_workload(resolved(name, beside=path.parent), option=str(path))
            except ConfigError as err:
                problems += at_key(err, path=path, line=line, key=f"jobs[{index}].workload")
    return problems


def truth_problems(data: Any, names: set[str], wanted: str, *, path: Path, lines: Lines) -> list[Problem]:
    """Return the entities of a scenario's truth that are none of the names, and what begins after the end."""
    problems = []
    given = isinstance(data, dict) and "duration" in data
    duration_s = _seconds(data["duration"]) if given else DURATION_S
    for index, truth in items_of(data, "truth"):
        entities, onset_s = truth.get("entities"), _seconds(truth.get("onset"))
        for place, entity in enumerate(entities if isinstance(entities, list) else ()):
            if isinstance(entity, str) and entity not in names:
                where = ("truth", index, "entities", place)
                problems.append(refusal(path, lines, where, found=entity, expected=wanted))
        if duration_s is not None and onset_s is not None and onset_s > duration_s:
            expected = f"no later than the duration of the scenario, {format_duration(duration_s)}"
            problems.append(refusal(path, lines, ("truth", index, "onset"), found=truth["onset"], expected=expected))
    return problems


def refusal(path: Path, lines: Lines, place: tuple[str | int, ...], *, found: object, expected: str) -> Problem:
    """Return the problem that something which stands at a place cannot be."""
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    return Problem(where=str(path), line=lines.get(place), key=key, found=f"got {found!r}", expected=expected)


def _seconds(text: object) -> float | None:
    """Return a duration, None where it is none."""
    try:
        return parse_duration_s(text)
    except ValueError:
        return None
